//! Real recordings with something wrong in them, through `undo-replay`: each is refused or diverges, with a message that says where.
//! `UNDO_FLIPS` says how many bits are flipped in each recording.

#[path = "../../recording/tests/common/raw.rs"]
#[allow(dead_code, reason = "the format's own tests use more of it")]
mod raw;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use raw::{Chunk, boundaries, put_together, take_apart};
use recording::Events;
use tests::random::Random;
use tests::run::run;
use tests::{Ended, compile, pool, stage};

/// Programs whose recordings hold every kind of event.
const PROGRAMS: [&str; 3] = ["signals/timer_checked.c", "shared/synchronised.c", "system/times.c"];

struct Sample {
    name: &'static str,
    file: Vec<u8>,
}

impl Sample {
    fn chunks(&self) -> Vec<Chunk> {
        take_apart(&self.file)
    }

    fn events(&self) -> Vec<u8> {
        self.chunks().iter().filter(|chunk| chunk.kind == raw::EVENTS).flat_map(|chunk| chunk.payload.clone()).collect()
    }

    /// The file with another event log of the same length, all checksums right.
    fn with_events(&self, events: &[u8]) -> Vec<u8> {
        let mut chunks = self.chunks();
        let mut rest = events;
        for chunk in chunks.iter_mut().filter(|chunk| chunk.kind == raw::EVENTS) {
            let (piece, later) = rest.split_at(chunk.payload.len());
            chunk.payload = piece.to_vec();
            rest = later;
        }
        put_together(&chunks)
    }
}

static SAMPLES: LazyLock<Vec<Sample>> = LazyLock::new(|| PROGRAMS.iter().map(|name| record(name)).collect());

/// A recording of the program, uncompressed.
fn record(name: &'static str) -> Sample {
    let directory = tempfile::tempdir().unwrap();
    let program =
        compile::compile(&stage::source().join("programs").join(name), &["-O1", "-mavx2", "-pthread", "-lm"], directory.path()).unwrap();
    let recording = directory.path().join("recording.undo");
    let argv: [OsString; 9] = [
        stage::program("live-record").into(),
        "-q".into(),
        "--on-fork".into(),
        "both".into(),
        "--shmem-log".into(),
        directory.path().join("log.shmem").into(),
        "-o".into(),
        recording.clone().into(),
        program.into(),
    ];
    let outcome = run(&argv, directory.path(), b"").unwrap();
    assert_eq!(outcome.ended, Ended::Exit(0), "{name}: {}", String::from_utf8_lossy(&outcome.stderr));
    Sample { name, file: put_together(&take_apart(&fs::read(recording).unwrap())) }
}

/// What `undo-replay` says of a file: exit status and text. Panics if it dies or hangs, or if the replay itself breaks.
fn judge(command: &str, file: &[u8]) -> (i32, String) {
    let directory = tempfile::tempdir().unwrap();
    let path: PathBuf = directory.path().join("broken.undo");
    fs::write(&path, file).unwrap();
    let argv = [stage::program("undo-replay").into_os_string(), command.into(), path.into()];
    let outcome = run(&argv, directory.path(), b"").unwrap();
    let said = String::from_utf8_lossy(&[outcome.stdout, outcome.stderr].concat()).into_owned();
    let Ended::Exit(status) = outcome.ended else { panic!("{command}: {:?}: {said}", outcome.ended) };
    for sign in ["panicked", "killed by", "exited with status", "inside the replay itself"] {
        assert!(status < 2 || !said.contains(sign), "{command}: {said}");
    }
    assert!(status <= 2 && !said.is_empty(), "{command}: status {status}: {said}");
    (status, said)
}

/// Why a file was not refused as it should be, if so.
fn should_be_refused(command: &str, file: &[u8], parts: &[&str]) -> Result<(), String> {
    let (status, said) = judge(command, file);
    let missing: Vec<_> = parts.iter().filter(|part| !said.contains(**part)).collect();
    if status == 2 && said.contains("broken.undo: ") && missing.is_empty() {
        return Ok(());
    }
    Err(format!("{command} ends with {status}, not saying {missing:?}: {said}"))
}

/// Flips as many bits in each sample as the environment says, one at a time, in bytes that `bytes` gives.
fn for_each_flip(bytes: impl Fn(&Sample) -> Vec<u8>, check: impl Fn(&Sample, Vec<u8>) -> Result<(), String> + Sync) {
    let count = std::env::var("UNDO_FLIPS").ok().and_then(|count| count.parse().ok()).unwrap_or(25);
    let samples: Vec<_> = SAMPLES.iter().map(|sample| (sample, bytes(sample))).collect();
    let mut random = Random::new(1);
    let flips: Vec<_> = samples
        .iter()
        .flat_map(|(sample, bytes)| (0..count).map(|_| (*sample, bytes, random.below(bytes.len()), random.below(8))).collect::<Vec<_>>())
        .collect();
    pool::run_all(
        &flips,
        |(sample, _, at, bit)| format!("{}: bit {bit} of byte {at:#x}", sample.name),
        |(sample, bytes, at, bit)| {
            let mut flipped = (*bytes).clone();
            flipped[*at] ^= 1 << bit;
            check(sample, flipped)
        },
    );
}

#[test]
fn samples_are_good() {
    for sample in SAMPLES.iter() {
        assert_eq!(judge("verify", &sample.file).0, 0, "{}", sample.name);
        assert_eq!(judge("verify", &sample.with_events(&sample.events())).0, 0, "{}", sample.name);
    }
    let log = SAMPLES.iter().flat_map(Sample::events).collect::<Vec<u8>>();
    let mut kinds: Vec<_> = Events::new(&log).map(|event| event.unwrap().kind().unwrap().name()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in ["END", "MEMORY_HASH", "SHMEM_FIXUP", "SIGNAL", "SYSCALL"] {
        assert!(kinds.contains(&kind), "no {kind} among {kinds:?}");
    }
}

#[test]
fn a_flipped_bit_in_the_file_is_refused() {
    for_each_flip(|sample| sample.file.clone(), |_, file| should_be_refused("verify", &file, &["expected", "found"]));
}

#[test]
fn a_flipped_bit_in_an_event_is_refused_though_the_checksums_are_right() {
    for_each_flip(Sample::events, |sample, events| {
        should_be_refused("verify", &sample.with_events(&events), &["section EVENTS, chunk ", "expected ", "found "])
    });
}

#[test]
fn every_bit_of_the_last_event_is_vouched_for() {
    let sample = &SAMPLES[0];
    let events = sample.events();
    let size = Events::new(&events).map_while(Result::ok).last().map_or(0, |event| event.size() as usize);
    let end = Events::new(&events).map_while(Result::ok).map(|event| event.size() as usize).sum::<usize>();
    let bits: Vec<(usize, usize)> = (end - size..end).flat_map(|at| (0..8).step_by(3).map(move |bit| (at, bit))).collect();
    pool::run_all(
        &bits,
        |(at, bit)| format!("bit {bit} of byte {at:#x}, the last event begins at {:#x}", end - size),
        |&(at, bit)| {
            let mut flipped = events.clone();
            flipped[at] ^= 1 << bit;
            should_be_refused("verify", &sample.with_events(&flipped), &["expected", "found"])
        },
    );
}

/// The running hash is repaired as well, so that it is replay which meets the flip. It need not notice what no instruction and no hash
/// looks at, but nothing may break.
#[test]
fn replay_survives_a_forged_event() {
    let noticed = std::sync::atomic::AtomicUsize::new(0);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    for_each_flip(Sample::events, |sample, mut events| {
        let hash = raw::repair_events(&mut events);
        let mut chunks = take_apart(&sample.with_events(&events));
        raw::repair_meta(&mut chunks[0].payload, hash);
        let (status, said) = judge("verify", &put_together(&chunks));
        assert_eq!(status == 0, said.contains("identical"), "{said}");
        noticed.fetch_add(usize::from(status != 0), relaxed);
        Ok(())
    });
    assert!(noticed.into_inner() > 0, "no flip was noticed");
}

#[test]
fn truncation_at_every_chunk_is_refused() {
    let sample = &SAMPLES[0];
    let mut cuts: Vec<usize> = boundaries(&sample.file).into_iter().flat_map(|start| [start, start + 41]).collect();
    cuts.retain(|cut| *cut < sample.file.len());
    pool::run_all(
        &cuts,
        |cut| format!("cut at {cut:#x}"),
        |&cut| {
            let command = ["info", "verify", "events"][cut % 3];
            should_be_refused(command, &sample.file[..cut], &["truncated: ", "chunk", "expected ", "found "])
        },
    );
}

/// A change to the first chunk of a kind, and what the message must say.
type Change = (&'static str, u16, fn(&mut Chunk), &'static [&'static str]);

#[test]
fn broken_chunks_are_named() {
    let changes: &[Change] = &[
        ("a length beyond all bounds", raw::PAGES, |c| c.raw_len = Some(u32::MAX), &["chunk", "PAGES", "raw length", "found 0xffffffff"]),
        ("a stored length beyond the file", raw::EVENTS, |c| c.stored_len = Some(1 << 20), &["expected", "found"]),
        ("another index", raw::SITES, |c| c.index = Some(7), &["chunk", "index", "expected", "found"]),
        ("a missing section", raw::PAGES, |c| c.kind = raw::EVENTS, &["chunk", "expected PAGES", "found"]),
        ("an event beyond the log", raw::EVENTS, |c| c.payload[7] = 1, &["section EVENTS", "size", "expected", "found"]),
        ("a mapping that ends before it starts", raw::MAPPINGS, |c| c.payload[15] = 0xff, &["section MAPPINGS"]),
        ("a mapping in the engine's place", raw::MAPPINGS, |c| c.payload[..16].copy_from_slice(&engine_place()), &["section MAPPINGS"]),
        ("a page run without end", raw::PAGES, |c| c.payload[15] = 0x7f, &["section PAGES", "run contents", "expected", "found"]),
        ("a page outside all mappings", raw::PAGES, |c| c.payload[..8].copy_from_slice(&4096u64.to_le_bytes()), &["section PAGES"]),
        ("a site that is not whole", raw::SITES, |c| c.payload.push(0), &["section SITES", "expected", "found"]),
        ("metadata that is no record", raw::META, |c| c.payload.truncate(9), &["META"]),
    ];
    let sample = &SAMPLES[1];
    pool::run_all(
        changes,
        |change| change.0.to_owned(),
        |(_, kind, change, parts)| {
            let mut chunks = sample.chunks();
            change(chunks.iter_mut().find(|chunk| chunk.kind == *kind).unwrap());
            should_be_refused("verify", &put_together(&chunks), &[*parts, &["chunk ", "expected ", "found "]].concat())
        },
    );
}

fn engine_place() -> [u8; 16] {
    let base = 0x6a00_0000_0000_u64;
    let mut range = [0; 16];
    range[..8].copy_from_slice(&base.to_le_bytes());
    range[8..].copy_from_slice(&(base + 4096).to_le_bytes());
    range
}

#[test]
fn another_version_and_another_kind_of_file_are_named() {
    let newer: Vec<u8> = raw::file_header(99).into_iter().chain(SAMPLES[0].file[raw::FILE_HEADER..].iter().copied()).collect();
    should_be_refused("info", &newer, &["format version", "found 99"]).unwrap();
    should_be_refused("verify", &newer, &["format version", "found 99"]).unwrap();
    should_be_refused("events", b"\x7fELF", &["not a recording"]).unwrap();
    should_be_refused("verify", b"", &["not a recording"]).unwrap();
    let argv: [OsString; 3] = [stage::program("undo-replay").into(), "info".into(), "/nowhere/at/all.undo".into()];
    let outcome = run(&argv, tempfile::tempdir().unwrap().path(), b"").unwrap();
    assert_eq!(outcome.ended, Ended::Exit(2));
}

/// Without its pages a program cannot run: replay says so at the first instruction that needs one.
#[test]
fn missing_pages_show() {
    for sample in SAMPLES.iter() {
        let mut chunks = sample.chunks();
        chunks.iter_mut().filter(|chunk| chunk.kind == raw::PAGES).for_each(|chunk| chunk.payload.clear());
        let (status, said) = judge("verify", &put_together(&chunks));
        assert_eq!((status, said.contains("diverged at ")), (1, true), "{}: {said}", sample.name);
    }
}
