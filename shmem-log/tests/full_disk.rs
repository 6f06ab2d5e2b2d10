//! A log on a full disk: nothing of it kills the process, what finds no room is counted, and logging goes on when there is room again.
mod common;
use common::process::spawn;
use common::*;
use nix::libc;
use nix::sys::wait::{WaitStatus, waitpid};
use shmem_log::*;
use std::fs;
use std::io::Write;
use std::path::Path;

/// The child's answer where this user may not mount.
const NOT_ALLOWED: i32 = 77;

/// A file system of 3 MiB at `dir`, for this process and its children alone. False if that is not allowed.
fn mount_small(dir: &Path) -> bool {
    let call = |result: i32| result == 0;
    let text = |text: &str| std::ffi::CString::new(text).unwrap();
    let (none, target, kind, options) = (text("none"), text(dir.to_str().unwrap()), text("tmpfs"), text("size=3m"));
    let (root, private) = (text("/"), (libc::MS_REC | libc::MS_PRIVATE));
    // SAFETY: plain system calls on strings that live as long as they take; this process has no other thread.
    unsafe {
        let apart = call(libc::unshare(libc::CLONE_NEWNS)) || call(libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS));
        apart
            && call(libc::mount(none.as_ptr(), root.as_ptr(), std::ptr::null(), private, std::ptr::null()))
            && call(libc::mount(none.as_ptr(), target.as_ptr(), kind.as_ptr(), 0, options.as_ptr().cast()))
    }
}

fn fill(path: &Path) {
    let mut file = fs::File::create(path).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
}

fn append(w: &mut Writer, o: ObjectIndex, n: u64) {
    let t = w.begin(Kind::Write, o, n * 64 % (1 << 20), 8);
    w.commit_bytes(t, Origin::Pc { pc: 1, by_kernel: false }, n, &[], &n.to_le_bytes());
}

fn on_a_full_disk(test: &TestLog) {
    let filler = test.dir.path().join("filler");
    let log = test.join(1 << 20);
    let (mut w, o) = (writer(&log, 1), object(&log));
    append(&mut w, o, 0);
    // Of this one not even a header of a block has storage.
    let empty = test.dir.path().join("empty.shmem");
    let empty = Log::create_or_join(&std::ffi::CString::new(empty.to_str().unwrap()).unwrap(), 1 << 20, None).unwrap();
    let (mut outside, its_object) = (writer(&empty, 1), object(&empty));
    fill(&filler);

    // What fits into the few blocks that have storage, with all clocks. Each failed try draws a ticket, in all more than a lap of them.
    let tries = 100_000;
    assert!(log.layout().blocks().count < 70);
    (1..tries).for_each(|n| append(&mut w, o, n));
    (0..tries).for_each(|n| append(&mut outside, its_object, n));
    assert_eq!(outside.dropped(), tries);
    let logged = tries - w.dropped();
    assert!(logged >= 200 && logged < tries / 2, "{logged} records found room");
    let full = |what: &str, refused: bool| assert!(refused, "{what} found room");
    full("a recording", (0..8).any(|pid| log.register_recording(&info(pid)).is_err()));
    full("a site", (0..1000).any(|pc| log.register_site(pc, Kind::Read, 1).is_err()));
    full("an object", (0..16).any(|ino| log.register_object(&ObjectInfo { dev: 9, ino, name: b"", size: 0 }).is_err()));
    let recording = w.recording().unwrap();
    let mapping = MappingInfo { recording, object: o, address: 0, length: 1, offset: 0, from_bbcount: 1 };
    full("a mapping", (0..100).any(|_| log.register_mapping(&mapping).is_err()));
    let counts = test.read().total_counts();
    assert_eq!((counts.appended, counts.dropped), (logged, tries - logged));
    assert!(test.read().refused().iter().all(|refused| *refused > 0));

    fs::remove_file(&filler).unwrap();
    (tries..2 * tries).for_each(|n| append(&mut w, o, n));
    w.finish();
    let counts = test.read().total_counts();
    assert_eq!(counts.appended + counts.dropped, 2 * tries);
    assert!(counts.dropped < tries + 2048, "{counts:?}");
    assert!(log.register_site(1, Kind::Read, 1).is_ok());

    // Nor can one be made there.
    fill(&filler);
    let other = test.dir.path().join("other.shmem");
    let other = std::ffi::CString::new(other.to_str().unwrap()).unwrap();
    assert!(matches!(Log::create_or_join(&other, 1 << 20, None), Err(OpenError::System { .. })));
    assert_eq!(fs::read_dir(test.dir.path()).unwrap().count(), 3, "nothing temporary stays");
}

#[test]
fn nobody_dies_of_a_full_disk() {
    let test = TestLog::new();
    let child = spawn(|| {
        if !mount_small(test.dir.path()) {
            // SAFETY: ends this child.
            unsafe { libc::_exit(NOT_ALLOWED) };
        }
        on_a_full_disk(&test);
    });
    match waitpid(child, None).unwrap() {
        WaitStatus::Exited(_, NOT_ALLOWED) => println!("left out: no file system may be mounted here"),
        status => assert_eq!(status, WaitStatus::Exited(child, 0)),
    }
}
