//! Creating and joining: races, what is in the way, and what must not change in the process that does it.
mod common;
use common::process::{Random, Shared, spawn, wait_ok};
use common::*;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use shmem_log::*;
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::sync::atomic::Ordering;

/// EEXIST, as the kernel counts.
const EEXIST: i32 = 17;

#[test]
fn processes_that_create_one_log_at_once_get_one_log() {
    const PROCESSES: u64 = 4;
    for round in 0..50 {
        let test = TestLog::new();
        let path = test.c_path();
        // Ready, start, created, then each one's half of the UUID.
        let shared = Shared::new(16);
        let children: Vec<_> = (0..PROCESSES)
            .map(|n| {
                spawn(|| {
                    shared.word(0).fetch_add(1, Ordering::AcqRel);
                    shared.wait(1, |go| go == 1);
                    let log = Log::create_or_join(&path, layout::MIN_SIZE, None).unwrap();
                    shared.word(2).fetch_add(u64::from(log.was_created()), Ordering::AcqRel);
                    let uuid = u64::from_le_bytes(log.uuid()[..8].try_into().unwrap());
                    shared.set(4 + n as usize, uuid);
                    writer(&log, n as u32 + 1);
                })
            })
            .collect();
        shared.wait(0, |ready| ready == PROCESSES);
        shared.set(1, 1);
        children.into_iter().for_each(wait_ok);
        let uuids: HashSet<_> = (0..PROCESSES).map(|n| shared.wait(4 + n as usize, |_| true)).collect();
        assert_eq!(uuids.len(), 1, "round {round}");
        assert_eq!(shared.wait(2, |_| true), 1, "round {round}: one of them created it");
        assert_eq!(test.read().recordings().len(), PROCESSES as usize);
        let files: Vec<_> = fs::read_dir(test.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(files, ["test.shmem"], "nothing temporary stays");
    }
}

/// Whenever a creator dies, the name is free or a whole log.
#[test]
fn a_creator_that_is_killed_leaves_a_log_or_none() {
    let mut random = Random(7);
    let (mut found, mut made) = (0, 0);
    for round in 0..200 {
        let test = TestLog::new();
        let path = test.c_path();
        let shared = Shared::new(8);
        let creator = spawn(|| {
            shared.set(0, 1);
            Log::create_or_join(&path, layout::MIN_SIZE, None).unwrap();
            shared.set(1, 1);
            shared.wait(2, |_| false);
        });
        shared.wait(0, |ready| ready == 1);
        // Creating takes some hundred thousand cycles; a few rounds wait for its end.
        match random.below(4) {
            0 => _ = shared.wait(1, |done| done == 1),
            _ => (0..random.below(200_000)).for_each(|_| std::hint::spin_loop()),
        }
        kill(creator, Signal::SIGKILL).unwrap();
        waitpid(creator, None).unwrap();
        let log = test.join(layout::MIN_SIZE);
        found += u64::from(!log.was_created());
        made += u64::from(log.was_created());
        writer(&log, 1);
        assert_eq!((test.read().uuid(), test.read().recordings().len()), (log.uuid(), 1), "round {round}");
        // SAFETY: nothing uses it.
        unsafe { log.unmap() };
    }
    println!("{made} logs made anew, {found} found");
    assert!(found > 0);
}

#[test]
fn a_log_is_private_sparse_and_of_the_asked_size() {
    let test = TestLog::new();
    let log = test.join((1 << 30) - 5);
    let mut w = writer(&log, 1);
    let o = object(&log);
    let site = w.register_site(1, Kind::Write, 8).unwrap();
    for i in 0..1000 {
        let t = w.begin(Kind::Write, o, i * 64, 8);
        w.commit(t, site, i, i);
    }
    w.finish();
    let metadata = fs::metadata(&test.path).unwrap();
    assert_eq!(metadata.len(), 1 << 30);
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert!(metadata.blocks() * 512 < 1 << 20, "{} bytes on disk", metadata.blocks() * 512);
    assert_eq!(all(&test.read(), |a| a.bbcount).len(), 1000);
}

#[test]
fn an_existing_log_is_joined_whatever_size_is_asked() {
    let test = TestLog::new();
    let first = test.join(1 << 20);
    let mut w = writer(&first, 1);
    let site = w.register_site(1, Kind::Read, 1).unwrap();
    let t = w.begin(Kind::Read, object(&first), 0, 1);
    w.commit(t, site, 1, 7);
    w.finish();
    let second = test.join(8 << 20);
    assert!(!second.was_created());
    assert_eq!((second.size(), second.uuid()), (1 << 20, first.uuid()));
    assert_ne!(second.base(), first.base());
    assert_eq!(all(&test.read(), |a| a.value().to_vec()), [[7]]);
}

#[test]
fn what_is_no_log_is_an_error_and_stays_untouched() {
    let test = TestLog::new();
    let fail = |what: &str| Log::create_or_join(&test.c_path(), 0, None).map(|_| ()).expect_err(what);
    fs::write(&test.path, b"").unwrap();
    assert_eq!(fail("empty"), OpenError::NotALogSize { size: 0 });
    let text = vec![b'x'; 1 << 20];
    fs::write(&test.path, &text).unwrap();
    let OpenError::NotALog(error) = fail("text") else { panic!() };
    assert_eq!((error.field, error.expected, error.found), ("magic", layout::MAGIC, 0x7878_7878_7878_7878));
    assert_eq!(fs::read(&test.path).unwrap(), text);
    fs::remove_file(&test.path).unwrap();
    // A newer version of ours.
    let log = test.join(1 << 20);
    let file = fs::File::options().write(true).open(&test.path).unwrap();
    file.write_all_at(&[layout::VERSION as u8 + 1], layout::HDR_VERSION).unwrap();
    let OpenError::NotALog(error) = fail("newer") else { panic!() };
    assert_eq!(error.offset, layout::HDR_VERSION);
    assert_eq!((error.expected as u32, error.found as u32), (layout::VERSION, layout::VERSION + 1));
    // SAFETY: nothing uses it.
    unsafe { log.unmap() };
    fs::remove_file(&test.path).unwrap();
    fs::create_dir(&test.path).unwrap();
    assert!(matches!(fail("directory"), OpenError::System { call: "open", .. }));
    fs::remove_dir(&test.path).unwrap();
    nix::unistd::mkfifo(&test.path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(matches!(fail("fifo"), OpenError::NotAFile { .. }));
}

#[test]
fn sizes_out_of_range_are_refused() {
    let test = TestLog::new();
    for size in [1, layout::MIN_SIZE - 4096, layout::MAX_SIZE + 1, u64::MAX] {
        let error = Log::create_or_join(&test.c_path(), size, None).unwrap_err();
        assert!(matches!(error, OpenError::Size { min: layout::MIN_SIZE, max: layout::MAX_SIZE, .. }), "{error}");
        assert!(!test.path.exists());
    }
}

#[test]
fn it_maps_where_it_is_told_or_not_at_all() {
    const AT: usize = 0x6f12_3000_0000;
    let test = TestLog::new();
    let log = Log::create_or_join(&test.c_path(), 1 << 20, Some(AT)).unwrap();
    assert_eq!(log.base(), AT);
    assert!(log.contains(AT) && log.contains(AT + (1 << 20) - 1) && !log.contains(AT - 1) && !log.contains(AT + (1 << 20)));
    let again = Log::create_or_join(&test.c_path(), 1 << 20, Some(AT)).unwrap_err();
    assert_eq!(again, OpenError::System { call: "mmap", errno: EEXIST });
}

#[test]
fn no_descriptor_stays_open() {
    let test = TestLog::new();
    // In a child of one thread, so that nobody else opens anything.
    let dir = |path: &str| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    let path = test.c_path();
    wait_ok(spawn(|| {
        let before = dir("/proc/self/fd");
        Log::create_or_join(&path, 1 << 20, None).unwrap();
        Log::create_or_join(&path, 1 << 20, None).unwrap();
        assert_eq!(dir("/proc/self/fd"), before);
    }));
}

#[test]
fn a_full_registry_refuses_and_counts() {
    let test = TestLog::new();
    let log = test.join(layout::MIN_SIZE);
    let count = log.layout().recordings().count;
    for n in 0..count {
        log.register_recording(&info(n as u32)).unwrap();
    }
    for _ in 0..3 {
        let full = log.register_recording(&info(0)).unwrap_err();
        assert_eq!(full, RegistryFull { registry: "recordings", capacity: count });
    }
    for ino in 0..log.layout().objects().count {
        log.register_object(&ObjectInfo { dev: 1, ino, name: b"", size: 0 }).unwrap();
    }
    assert!(log.register_object(&ObjectInfo { dev: 2, ino: 1, name: b"", size: 0 }).is_err());
    log.register_object(&ObjectInfo { dev: 1, ino: 3, name: b"", size: 0 }).unwrap();
    let sites = log.layout().sites().count;
    for pc in 0..sites {
        log.register_site(pc, Kind::Read, 1).unwrap();
    }
    assert_eq!(log.register_site(0, Kind::Read, 1).unwrap_err().registry, "sites");
    let reader = test.read();
    assert_eq!(reader.refused(), [3, 1, 0, 1]);
    assert_eq!(reader.recordings().len() as u64, count);
    assert_eq!(reader.sites().count() as u64, sites);
}
