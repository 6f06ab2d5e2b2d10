//! Random histories written by the real writer, of which the test knows what the log may not: the order in which memory was touched.
#![allow(dead_code, unused_imports)]
mod naive;

use correlator::{BlameOptions, Correlator, Kind, ObjectIndex, Record, RecordingIndex, Time};
pub use naive::*;
use proptest::prelude::*;
use shmem_log::{Log, MappingInfo, ObjectInfo, Origin, RecordingInfo, SiteIndex, Token, Writer};
use std::collections::HashMap;
use std::ffi::CString;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub const OBJECT_BYTES: u64 = 256;

/// One step of a history: a recording begins, makes, or ends an access; each recording has one under way at a time.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub recording: usize,
    pub object: usize,
    pub offset: u64,
    pub len: u64,
    pub kind: Kind,
    pub value: u8,
    /// How far the bbcount moves on before it.
    pub blocks: u64,
    /// Do all three at once.
    pub whole: bool,
    pub by_kernel: bool,
}

pub fn step(recordings: usize) -> impl Strategy<Value = Step> {
    let kind = prop_oneof![3 => Just(Kind::Read), 3 => Just(Kind::Write), 1 => Just(Kind::ReadWrite)];
    let len = prop_oneof![8 => prop_oneof![Just(1u64), Just(2), Just(4), Just(8)], 1 => 1u64..100];
    let place = (0..2usize, prop_oneof![4 => 0u64..24, 1 => 56u64..72, 1 => 0..OBJECT_BYTES], len);
    (0..recordings, place, kind, 0u8..4, 0u64..3, prop::bool::weighted(0.6), prop::bool::weighted(0.05)).prop_map(
        |(recording, (object, offset, len), kind, value, blocks, whole, by_kernel)| {
            let len = len.min(OBJECT_BYTES - offset);
            Step { recording, object, offset, len, kind, value, blocks, whole, by_kernel }
        },
    )
}

/// A history, and questions about it, of which each kind of question has its own.
#[derive(Clone, Debug)]
pub struct Trial<Q> {
    recordings: usize,
    steps: Vec<Step>,
    pub questions: Vec<Q>,
    /// After so many steps the log is looked at, so that its index has several segments, as that of a log that is followed, or a long one.
    part: usize,
}

/// `question` gets the number of recordings.
pub fn trial<Q: fmt::Debug, S: Strategy<Value = Q>>(question: fn(usize) -> S) -> impl Strategy<Value = Trial<Q>> {
    let parts = move |recordings| {
        let (steps, questions) = (prop::collection::vec(step(recordings), 1..400), prop::collection::vec(question(recordings), 40));
        (Just(recordings), steps, questions, 50..400usize)
    };
    (2..5usize).prop_flat_map(parts).prop_map(|(recordings, steps, questions, part)| Trial { recordings, steps, questions, part })
}

impl<Q> Trial<Q> {
    pub fn run(&self) -> (History, Correlator) {
        let mut history = History::new(self.recordings, 2 << 20);
        let mut correlator = history.open();
        for part in self.steps.chunks(self.part) {
            history.run(part);
            history.finish();
            correlator.refresh().unwrap();
        }
        (history, correlator)
    }
}

struct Pending {
    token: Token,
    step: Step,
    site: Option<SiteIndex>,
    pc: u64,
    /// Once made: what it saw and left, and when.
    made: Option<(Vec<u8>, Vec<u8>, u64)>,
}

struct Process {
    writer: Writer,
    bbcount: u64,
    pc: u64,
    pending: Option<Pending>,
    sites: HashMap<(u64, Kind, u64), SiteIndex>,
}

/// A log, and the true order of its accesses.
pub struct History {
    pub dir: tempfile::TempDir,
    pub path: PathBuf,
    pub objects: Vec<ObjectIndex>,
    pub recordings: Vec<RecordingIndex>,
    /// By recording and time: the moment at which the memory was touched.
    pub truth: HashMap<(RecordingIndex, Time, u64), u64>,
    log: Log,
    processes: Vec<Process>,
    memory: Vec<Vec<u8>>,
    clock: u64,
}

pub fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// All that led to a value, and of it the youngest.
pub fn limited(limit: usize) -> BlameOptions {
    BlameOptions { limit, ..BlameOptions::default() }
}

pub const WRITERS: BlameOptions = BlameOptions { writers_only: true, limit: usize::MAX };

/// Where a recording has the objects mapped: everywhere else.
pub fn address(recording: usize, object: usize) -> u64 {
    0x7f00_0000_0000 + recording as u64 * 0x100_0000 + object as u64 * 0x1_0000
}

impl History {
    pub fn new(recordings: usize, size: u64) -> History {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("test.shmem");
        let log = Log::create_or_join(&c_path(&path), size, None).unwrap();
        let objects: Vec<_> = (0..2u64)
            .map(|ino| log.register_object(&ObjectInfo { dev: 1, ino: 70 + ino, name: b"/memfd:test", size: OBJECT_BYTES }).unwrap())
            .collect();
        let mut indices = Vec::new();
        let mut processes = Vec::new();
        for number in 0..recordings {
            let pid = 100 + number as u32;
            let recording = log
                .register_recording(&RecordingInfo {
                    uuid: [pid as u8; 16],
                    pid,
                    start_time: 1,
                    start_wallclock_ns: 1_700_000_000_000_000_000,
                    executable: b"/usr/bin/program",
                    name: b"program",
                })
                .unwrap();
            for (index, object) in objects.iter().enumerate() {
                let address = address(number, index);
                let info = MappingInfo { recording, object: *object, address, length: 4096, offset: 0, from_bbcount: 1 };
                log.register_mapping(&info).unwrap();
            }
            indices.push(recording);
            let writer = Writer::new(&log, recording).unwrap();
            processes.push(Process { writer, bbcount: 1, pc: 0x1000, pending: None, sites: HashMap::new() });
        }
        let memory = vec![vec![0; OBJECT_BYTES as usize]; 2];
        History { dir, path, objects, recordings: indices, truth: HashMap::new(), log, processes, memory, clock: 0 }
    }

    pub fn run(&mut self, steps: &[Step]) {
        for step in steps {
            self.step(step);
        }
        for recording in 0..self.processes.len() {
            self.complete(recording);
        }
    }

    /// Gives the blocks back.
    pub fn finish(&mut self) {
        self.processes.iter_mut().for_each(|process| process.writer.finish());
    }

    fn step(&mut self, step: &Step) {
        let process = &mut self.processes[step.recording];
        match &process.pending {
            Some(pending) if pending.made.is_none() => self.make(step.recording),
            Some(_) => self.commit(step.recording),
            None => {
                // The same instruction may run twice in different blocks only.
                process.bbcount += step.blocks;
                process.pc = if step.blocks > 0 { 0x1000 + u64::from(step.value) } else { process.pc + 16 };
                let pc = process.pc;
                let key = (pc, step.kind, step.len);
                let mut site = process.sites.get(&key).copied();
                if site.is_none() && !step.by_kernel {
                    // In a small log the registry fills up; then accesses are logged by their pc.
                    site = process.writer.register_site(pc, step.kind, step.len as u32).ok();
                    process.sites.extend(site.map(|site| (key, site)));
                }
                let site = site.filter(|_| !step.by_kernel);
                let token = process.writer.begin(step.kind, self.objects[step.object], step.offset, step.len);
                process.pending = Some(Pending { token, step: *step, site, pc, made: None });
                if step.whole {
                    self.complete(step.recording);
                }
            }
        }
    }

    fn complete(&mut self, recording: usize) {
        if self.processes[recording].pending.as_ref().is_some_and(|pending| pending.made.is_none()) {
            self.make(recording);
        }
        if self.processes[recording].pending.is_some() {
            self.commit(recording);
        }
    }

    fn make(&mut self, recording: usize) {
        let Some(pending) = &mut self.processes[recording].pending else { return };
        let step = pending.step;
        let bytes = &mut self.memory[step.object][step.offset as usize..(step.offset + step.len) as usize];
        let seen = bytes.to_vec();
        if step.kind.writes() {
            bytes.fill(step.value);
        }
        pending.made = Some((seen, bytes.to_vec(), self.clock));
        self.clock += 1;
    }

    fn commit(&mut self, recording: usize) {
        let process = &mut self.processes[recording];
        let Some(Pending { token, step, site, pc, made: Some((seen, written, when)) }) = process.pending.take() else { return };
        let origin = site.map_or(Origin::Pc { pc, by_kernel: step.by_kernel }, Origin::Site);
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
        match (site, step.kind) {
            (Some(site), Kind::Read) if step.len <= 8 => process.writer.commit(token, site, process.bbcount, number(&seen)),
            (Some(site), Kind::Write) if step.len <= 8 => process.writer.commit(token, site, process.bbcount, number(&written)),
            (Some(site), Kind::ReadWrite) if step.len <= 8 => {
                process.writer.commit_rw(token, site, process.bbcount, number(&seen), number(&written));
            }
            _ => process.writer.commit_bytes(token, origin, process.bbcount, &seen, &written),
        }
        let time = Time { bbcount: process.bbcount, pc };
        self.truth.insert((self.recordings[recording], time, step.offset), when);
    }

    pub fn when(&self, record: &Record) -> u64 {
        self.truth[&(record.recording, record.time, record.offset)]
    }

    /// A write that nobody logs.
    pub fn poke(&mut self, object: usize, offset: usize, value: u8) {
        self.memory[object][offset] = value;
    }

    /// The true contents now.
    pub fn memory(&self, object: usize) -> &[u8] {
        &self.memory[object]
    }

    pub fn open(&self) -> Correlator {
        Correlator::open(&self.path).unwrap()
    }
}
