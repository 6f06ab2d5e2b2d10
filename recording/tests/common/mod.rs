//! All that a recording holds, as plain values: the reference that files are written from and compared with.
#![allow(dead_code, reason = "each test program uses its own part")]

pub mod raw;

use recording::*;
use std::collections::BTreeMap;
use std::path::Path;

/// An event as plain values.
#[derive(Clone, Debug, PartialEq)]
pub struct PlainEvent {
    pub header: EventHeader,
    pub body: PlainBody,
    pub writes: Vec<(u64, Vec<u8>)>,
}

#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "tests hold few of them")]
pub enum PlainBody {
    Syscall(Syscall),
    Nondet(Nondet),
    ShmemFixup,
    Signal { number: u32, action: SignalAction, siginfo: [u8; SIGINFO_BYTES], registers: Registers },
    MemoryHash { hash: u64, pages: u64, ranges: Vec<(u64, u64)> },
    SitesAdded { pc: u64 },
    End { reason: EndReason, status: i32, message: String },
}

impl PlainBody {
    /// Whether events of this kind write memory.
    pub fn writes_memory(&self) -> bool {
        matches!(self, Self::Syscall(_) | Self::Nondet(_) | Self::ShmemFixup | Self::Signal { .. })
    }
}

impl PlainEvent {
    /// Appends the event to a log that starts at `region[0]` and is `used` bytes long.
    pub fn append(&self, region: &mut [u8], used: &mut usize) -> Result<(), Full> {
        let body = match &self.body {
            PlainBody::Syscall(syscall) => Body::Syscall(*syscall),
            PlainBody::Nondet(nondet) => Body::Nondet(*nondet),
            PlainBody::ShmemFixup => Body::ShmemFixup,
            PlainBody::Signal { number, action, siginfo, registers } => {
                Body::Signal(Signal { number: *number, action: *action, siginfo, registers: *registers })
            }
            PlainBody::MemoryHash { hash, pages, .. } => {
                Body::MemoryHash(MemoryHash { hash: *hash, pages: *pages, ranges: Ranges::default() })
            }
            PlainBody::SitesAdded { pc } => Body::SitesAdded { pc: *pc },
            PlainBody::End { reason, status, message } => Body::End(End { reason: *reason, status: *status, message }),
        };
        let mut builder = EventBuilder::begin(&mut region[*used..], &self.header, &body)?;
        if let PlainBody::MemoryHash { ranges, .. } = &self.body {
            for (addr, len) in ranges {
                builder.push_range(*addr, *len)?;
            }
        }
        for (addr, bytes) in &self.writes {
            builder.push_write_header(*addr, bytes.len() as u64)?.copy_from_slice(bytes);
        }
        *used += builder.finish();
        Ok(())
    }

    pub fn read(event: &EventRef<'_>) -> Result<Self, DecodeError> {
        let (body, writes) = event.body_and_writes()?;
        let body = match body {
            Body::Syscall(syscall) => PlainBody::Syscall(syscall),
            Body::Nondet(nondet) => PlainBody::Nondet(nondet),
            Body::ShmemFixup => PlainBody::ShmemFixup,
            Body::Signal(Signal { number, action, siginfo, registers }) => {
                PlainBody::Signal { number, action, siginfo: *siginfo, registers }
            }
            Body::MemoryHash(MemoryHash { hash, pages, ranges }) => PlainBody::MemoryHash { hash, pages, ranges: ranges.iter().collect() },
            Body::SitesAdded { pc } => PlainBody::SitesAdded { pc },
            Body::End(End { reason, status, message }) => PlainBody::End { reason, status, message: message.into() },
        };
        let writes = writes.map(|write| write.map(|write| (write.addr, write.bytes.to_vec()))).collect::<Result<_, _>>()?;
        Ok(Self { header: event.header(), body, writes })
    }
}

/// A log of these events.
pub fn log_of(events: &[PlainEvent]) -> Vec<u8> {
    let payload: usize = events.iter().flat_map(|event| &event.writes).map(|(_, bytes)| bytes.len() + 24).sum();
    let mut log = vec![0; payload + events.len() * 4096];
    let mut used = 0;
    for event in events {
        event.append(&mut log, &mut used).expect("the log has room");
    }
    log.truncate(used);
    log
}

/// Everything in a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    pub meta: Metadata,
    pub mappings: Vec<Mapping>,
    /// Pages that are not zero.
    pub pages: BTreeMap<u64, Vec<u8>>,
    /// Pages of file mappings that are not the file's.
    pub changed: BTreeMap<u64, Vec<u8>>,
    pub events: Vec<u8>,
    pub sites: Vec<u64>,
    pub files: Vec<(FileHead, Vec<u8>)>,
}

impl Contents {
    /// Writes a file, giving the writer neighbouring pages together and everything else in pieces of `piece` bytes.
    pub fn write(&self, piece: usize) -> Vec<u8> {
        let mut writer = FileWriter::new(Vec::new()).unwrap();
        writer.metadata(&self.meta).unwrap();
        for mapping in &self.mappings {
            writer.mapping(mapping).unwrap();
        }
        let mut run: (u64, Vec<u8>) = (0, Vec::new());
        for (addr, page) in &self.pages {
            if run.0 + run.1.len() as u64 != *addr {
                writer.pages(run.0, &run.1).unwrap();
                run = (*addr, Vec::new());
            }
            run.1.extend_from_slice(page);
        }
        writer.pages(run.0, &run.1).unwrap();
        for (addr, page) in &self.changed {
            writer.changed_pages(*addr, page).unwrap();
        }
        for bytes in self.events.chunks(piece) {
            writer.events(bytes).unwrap();
        }
        for site in &self.sites {
            writer.site(*site).unwrap();
        }
        for (head, contents) in &self.files {
            writer.file(head).unwrap();
            for bytes in contents.chunks(piece) {
                writer.file_data(bytes).unwrap();
            }
        }
        let (file, len) = writer.finish().unwrap();
        assert_eq!(file.len() as u64, len);
        file
    }

    /// Reads a file back, by all ways that there are.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let recording = Recording::open(path)?;
        let mut pages = BTreeMap::new();
        recording.for_each_page_run(|addr, bytes| {
            for (i, page) in bytes.chunks(PAGE_BYTES).enumerate() {
                let twice = pages.insert(addr + (i * PAGE_BYTES) as u64, page.to_vec());
                assert!(twice.is_none(), "a page came twice");
            }
        })?;
        let in_parallel = std::sync::Mutex::new(BTreeMap::new());
        recording.for_each_page_run_parallel(|addr, bytes| {
            for (i, page) in bytes.chunks(PAGE_BYTES).enumerate() {
                in_parallel.lock().unwrap().insert(addr + (i * PAGE_BYTES) as u64, page.to_vec());
            }
        })?;
        assert!(pages == in_parallel.into_inner().unwrap());
        let events = recording.events()?;
        let mut streamed = Vec::new();
        recording.events_into(&mut streamed)?;
        assert!(events == streamed && events.len() as u64 == recording.events_len());
        let mut files = Vec::new();
        for file in recording.files()? {
            let path = Path::new(std::str::from_utf8(&file.head.path).unwrap());
            let contents = recording.file_contents(path)?;
            assert_eq!(contents.len() as u64, file.len);
            files.push((file.head, contents));
        }
        assert_eq!(quick_metadata(path)?, *recording.meta());
        Ok(Self {
            meta: recording.meta().clone(),
            mappings: recording.mappings().to_vec(),
            pages,
            changed: BTreeMap::new(),
            events,
            sites: recording.sites()?,
            files,
        })
    }
}

/// A page that differs from others and compresses to little.
pub fn page(seed: u8) -> Vec<u8> {
    (0..PAGE_BYTES).map(|i| seed ^ (i / 256) as u8).collect()
}

/// Bytes that do not compress.
pub fn noise(len: usize, mut seed: u64) -> Vec<u8> {
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as u8
    };
    (0..len).map(|_| next()).collect()
}

/// A small recording in which no field has its default value and no section is empty.
///
/// Frozen: `golden/v1.undo` holds it. What later versions add is added by their own samples.
pub fn sample() -> Contents {
    let registers = |seed: u64| Registers {
        gpr: std::array::from_fn(|i| seed + i as u64),
        rip: 0x5618_d2d1_5c61,
        rflags: 0x246,
        fs_base: 0x7f12_3456_7740,
        gs_base: seed,
    };
    let time = |bbcount| Time { bbcount, pc: 0x5618_d2d1_5c61 };
    let meta = Metadata {
        uuid: std::array::from_fn(|i| i as u8 + 1),
        log_uuid: std::array::from_fn(|i| i as u8 + 100),
        log_path: b"/tmp/log-4711.shmem".to_vec(),
        log_index: Some(3),
        pid: 4711,
        ppid: 4710,
        parent_uuid: [9; 16],
        name: b"consumer".to_vec(),
        executable: b"/usr/bin/consumer".to_vec(),
        args: vec![b"consumer".to_vec(), b"".to_vec(), b"--count=3 \xff".to_vec()],
        working_directory: b"/home/user".to_vec(),
        start_wallclock_ns: 1_700_000_000_123_456_789,
        end_wallclock_ns: 1_700_000_001_123_456_789,
        start_timestamp: 1_000_000,
        end_timestamp: 3_000_000_000,
        begin: time(1),
        end: time(2822),
        begin_registers: registers(10),
        end_registers: registers(70),
        xsave: page(3)[..832].to_vec(),
        xcr0: 0x2e7,
        cpuid: vec![
            CpuidLeaf { leaf: 1, subleaf: 0, mask: [0, 0, !0, !0], value: [0, 0, 0x7ed8_320b, 0x178b_fbff] },
            CpuidLeaf { leaf: 7, subleaf: 1, mask: [!0, 0, 0, 0], value: [0x20, 0, 0, 0] },
        ],
        reserved: vec![Area { addr: 0x1000_0000_0000, len: 1 << 36 }, Area { addr: 0x5618_0000_0000, len: 1 << 26 }],
        end_reason: EndReason::Signalled,
        end_status: 6,
        end_message: "killed by SIGABRT".into(),
        auxv: (0..64).collect(),
        brk_start: 0x5618_e000_0000,
        brk: 0x5618_e002_1000,
        flags: 5,
        recorder: "live-record 0.1.0".into(),
        // Came later, without a new version.
        events_hash: None,
    };
    let mapping = |start: u64, pages: u64, prot, flags, name: &str| Mapping {
        start,
        end: start + pages * PAGE_BYTES as u64,
        prot,
        flags,
        file_offset: 0x3000,
        dev: 0xfe01,
        ino: 1234,
        name: name.into(),
    };
    let mappings = vec![
        mapping(0x5618_d2d1_5000, 2, 5, MappingFlags::NONE, "/usr/bin/consumer"),
        mapping(0x5618_e000_0000, 33, 3, MappingFlags::HEAP, "[heap]"),
        mapping(0x7f12_0000_0000, 1, 3, MappingFlags::SHARED, "/dev/shm/ring"),
        mapping(0x7ffc_0000_0000, 34, 3, MappingFlags::STACK | MappingFlags::GROWS_DOWN, "[stack]"),
        mapping(0x7ffd_0000_0000, 1, 1, MappingFlags::VVAR, ""),
    ];
    let pages = [0x5618_d2d1_5000, 0x5618_d2d1_6000, 0x5618_e000_0000, 0x7ffc_0001_0000]
        .iter()
        .zip(1..)
        .map(|(addr, seed)| (*addr, page(seed)))
        .collect();
    let header = |bbcount, flags| EventHeader {
        time: time(bbcount),
        state_hash: state_hash(&registers(bbcount)),
        timestamp: 1_000_000 + bbcount,
        thread: 0,
        flags,
    };
    let event = |bbcount, body, writes| PlainEvent { header: header(bbcount, EventFlags::NONE), body, writes };
    let mut hasher = MemoryHasher::new();
    hasher.add_range(0x5618_e000_0000, &page(3)).unwrap();
    let events = [
        event(
            7,
            PlainBody::Syscall(Syscall { number: 0, result: 11, args: [3, 0x7ffc_0001_0000, 4096, 0, 0, 0] }),
            vec![(0x7ffc_0001_0000, b"hello world".to_vec())],
        ),
        PlainEvent {
            header: header(8, EventFlags::VDSO),
            body: PlainBody::Syscall(Syscall { number: 228, result: 0, args: [1, 0x7ffc_0001_0100, 0, 0, 0, 0] }),
            writes: vec![(0x7ffc_0001_0100, vec![7; 16])],
        },
        event(
            9,
            PlainBody::Nondet(Nondet {
                instruction: Instruction::Rdtsc,
                registers: RegisterValues::new(&[(0, 0x1234_5678), (1, 0x9a)]).unwrap(),
                rflags: 0x246,
            }),
            vec![],
        ),
        event(10, PlainBody::SitesAdded { pc: 0x5618_d2d1_5c61 }, vec![]),
        event(10, PlainBody::ShmemFixup, vec![(0x7f12_0000_0010, vec![42, 0, 0, 0])]),
        event(
            11,
            PlainBody::Signal { number: 10, action: SignalAction::Handler, siginfo: [3; SIGINFO_BYTES], registers: registers(12) },
            vec![(0x7ffc_0001_0200, noise(300, 5))],
        ),
        event(
            12,
            PlainBody::MemoryHash { hash: hasher.finish(), pages: hasher.pages(), ranges: vec![(0x5618_e000_0000, 33 << 12)] },
            vec![],
        ),
        event(2822, PlainBody::End { reason: EndReason::Signalled, status: 6, message: "killed by SIGABRT".into() }, vec![]),
    ];
    let file = |path: &str, contents: Vec<u8>| {
        let head = FileHead { path: path.into(), mode: 0o100755, size: contents.len() as u64, build_id: vec![0xab; 20] };
        (head, contents)
    };
    Contents {
        meta,
        mappings,
        pages,
        changed: BTreeMap::new(),
        events: log_of(&events),
        sites: vec![0x5618_d2d1_5c61, 0x5618_d2d1_5d00],
        files: vec![file("/usr/bin/consumer", noise(5000, 1)), file("/lib/empty.so", Vec::new()), file("/lib/libc.so.6", page(9))],
    }
}

/// What version 2 added: a file's pages that are taken from the file, but for one that was changed and one that became zero.
///
/// Frozen: `golden/v2.undo` holds it.
pub fn sample_2() -> Contents {
    let mut contents = sample();
    let library = noise(5 * PAGE_BYTES + 100, 77);
    contents.mappings.push(Mapping {
        start: 0x7f30_0000_0000,
        end: 0x7f30_0000_7000,
        prot: 5,
        flags: MappingFlags::FROM_FILE,
        file_offset: PAGE_BYTES as u64,
        dev: 0xfe01,
        ino: 5678,
        name: b"/lib/libm.so.6".to_vec(),
    });
    contents.changed = [(0x7f30_0000_1000, page(200)), (0x7f30_0000_2000, vec![0; PAGE_BYTES])].into();
    let head = FileHead { path: b"/lib/libm.so.6".to_vec(), mode: 0o100644, size: library.len() as u64, build_id: vec![0xcd; 20] };
    contents.files.push((head, library));
    contents
}

/// [`sample_2`] as it is read: no difference between pages by where they came from.
pub fn sample_2_read() -> Contents {
    let mut contents = sample_2();
    let (_, library) = contents.files.last().cloned().unwrap();
    let mut image = library[PAGE_BYTES..].to_vec();
    image.resize(image.len().next_multiple_of(PAGE_BYTES), 0);
    for (page, addr) in image.chunks(PAGE_BYTES).zip((0x7f30_0000_0000u64..).step_by(PAGE_BYTES)) {
        contents.pages.insert(addr, page.to_vec());
    }
    let changed = std::mem::take(&mut contents.changed);
    contents.pages.extend(changed);
    contents
}
