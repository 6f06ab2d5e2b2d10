//! What is written is what is read, for every shape of record.
mod common;
use common::*;
use shmem_log::*;

#[test]
fn every_shape_of_record_comes_back() {
    let test = TestLog::new();
    let log = test.join(1 << 20);
    let mut w = writer(&log, 12);
    let o = object(&log);
    let read = w.register_site(0x1000, Kind::Read, 4).unwrap();
    let write = w.register_site(0x1004, Kind::Write, 8).unwrap();
    let rmw = w.register_site(0x1008, Kind::ReadWrite, 2).unwrap();
    let wide = w.register_site(0x100c, Kind::Write, 32).unwrap();

    let t = w.begin(Kind::Read, o, 100, 4);
    w.commit(t, read, 5, 0xdead_beef);
    let t = w.begin(Kind::Write, o, 104, 8);
    w.commit(t, write, 6, u64::MAX);
    let t = w.begin(Kind::ReadWrite, o, 110, 2);
    w.commit_rw(t, rmw, 6, 1, 2);
    // Across two lines, though short.
    let t = w.begin(Kind::Write, o, 60, 8);
    w.commit(t, write, 7, 0x0807_0605_0403_0201);
    let t = w.begin(Kind::Write, o, 128, 32);
    w.commit_bytes(t, Origin::Site(wide), 1 << 40, &[], &[7; 32]);
    // A system call that was shorter than it might have been, and longer than a piece.
    let bytes: Vec<u8> = (0..3000u32).map(|i| (i % 251) as u8).collect();
    let mut scratch = vec![LineTicks::default(); Writer::lines(1000, 100_000)];
    let t = w.begin_wide(Kind::Write, o, 1000, 100_000, &mut scratch);
    let origin = Origin::Pc { pc: 0x2000, by_kernel: true };
    w.commit_wide(t, &mut scratch, origin, (1 << 40) + 1, &[], &bytes);
    // Both values, wide.
    let t = w.begin(Kind::ReadWrite, o, 0x3000, 64);
    w.commit_bytes(t, Origin::Pc { pc: 0x2004, by_kernel: false }, (1 << 40) + 2, &[1; 64], &[2; 64]);
    // Neither of these happened.
    let t = w.begin(Kind::Read, o, 8, 8);
    w.abandon(t);
    let t = w.begin(Kind::Read, o, 8, 0);
    w.commit(t, read, (1 << 40) + 2, 0);
    w.finish();

    let reader = test.read();
    let seen = all(&reader, |a| (a.pc, a.bbcount, a.kind, a.offset, a.len, a.seen().to_vec(), a.written().to_vec()));
    let short = |v: u64, n: usize| v.to_le_bytes()[..n].to_vec();
    assert_eq!(seen[0], (0x1000, 5, Kind::Read, 100, 4, short(0xdead_beef, 4), vec![]));
    assert_eq!(seen[1], (0x1004, 6, Kind::Write, 104, 8, vec![], vec![255; 8]));
    assert_eq!(seen[2], (0x1008, 6, Kind::ReadWrite, 110, 2, vec![1, 0], vec![2, 0]));
    assert_eq!(seen[3], (0x1004, 7, Kind::Write, 60, 8, vec![], vec![1, 2, 3, 4, 5, 6, 7, 8]));
    assert_eq!(seen[4], (0x100c, 1 << 40, Kind::Write, 128, 32, vec![], vec![7; 32]));
    let pieces: Vec<_> = seen[5..8].to_vec();
    assert_eq!(pieces.iter().map(|p| (p.3, p.4)).collect::<Vec<_>>(), [(1000, 24), (1024, 1024), (2048, 1024)]);
    let joined: Vec<u8> = seen[5..9].iter().flat_map(|p| p.6.clone()).collect();
    assert_eq!(joined, bytes);
    assert_eq!(seen[9].5, [1; 64]);
    assert_eq!(seen[9].6, [2; 64]);
    assert_eq!(seen.len(), 10);
    let rest = all(&reader, |a| (a.sequence, a.piece, a.total_len, a.by_kernel, a.lines().count()));
    assert_eq!(rest[5], (5, Piece::First, 3000, true, 1));
    assert_eq!(rest[6], (6, Piece::Middle, 3000, true, 16));
    assert_eq!(rest[8], (8, Piece::Last, 3000, true, 15));
    assert_eq!(rest[3], (3, Piece::Whole, 8, false, 2));
    let counts = reader.total_counts();
    assert_eq!((counts.committed, counts.lost, counts.unfinished, counts.dropped), (10, 0, 0, 0));
    assert_read_singly(&reader);
}

#[test]
fn the_registries_come_back() {
    let test = TestLog::new();
    let log = test.join(0);
    let w = writer(&log, 3);
    let recording = w.recording().unwrap();
    let o = object(&log);
    assert_eq!(object(&log), o, "the same device and inode");
    let other = log.register_object(&ObjectInfo { dev: 1, ino: 78, name: b"", size: 1 }).unwrap();
    assert_ne!(other, o);
    log.set_object_size(o, 2 << 20);
    log.set_object_size(o, 3);
    let info = MappingInfo { recording, object: o, address: 0x7000, length: 0x2000, offset: 0x1000, from_bbcount: 4 };
    let mapping = log.register_mapping(&info).unwrap();
    log.register_mapping(&MappingInfo { address: 0x9000, ..info }).unwrap();
    log.end_mapping(mapping, 99);
    log.set_recording_ended(recording, &RecordingEnd { bbcount: 1234, wallclock_ns: 5 });

    let reader = test.read();
    assert_eq!(reader.uuid(), log.uuid());
    let [r] = reader.recordings() else { panic!() };
    assert_eq!((r.uuid, r.pid, r.start_time), ([3; 16], 3, 1003));
    assert_eq!((r.executable.to_str(), r.name.as_str()), (Some("/usr/bin/program"), "program"));
    assert_eq!(r.ended, Some(RecordingEnd { bbcount: 1234, wallclock_ns: 5 }));
    let found = reader.object(o).unwrap();
    assert_eq!((found.dev, found.ino, found.size, found.name.as_str()), (1, 77, 2 << 20, "/memfd:test"));
    assert_eq!(reader.objects().len(), 2);
    let [first, second] = reader.mappings() else { panic!() };
    assert_eq!((first.address, first.length, first.offset, first.from_bbcount), (0x7000, 0x2000, 0x1000, 4));
    assert_eq!((first.to_bbcount, second.to_bbcount), (Some(99), None));
}

#[test]
fn a_full_log_keeps_the_youngest_and_counts_the_rest() {
    let test = TestLog::new();
    let log = test.join(layout::MIN_SIZE);
    let mut w = writer(&log, 1);
    let o = object(&log);
    let site = w.register_site(1, Kind::Write, 8).unwrap();
    let total = 100_000;
    for i in 0..total {
        let t = w.begin(Kind::Write, o, i * 8 % 4096, 8);
        w.commit(t, site, i, i);
    }
    let reader = test.read();
    let values = all(&reader, |a| number(a.value()));
    let first = total - values.len() as u64;
    assert!(values.iter().copied().eq(first..total), "a gap, or another order");
    let counts = reader.total_counts();
    assert_eq!((counts.committed, counts.lost), (values.len() as u64, first));
    assert!(values.len() >= 10 * 500, "{} records kept in 256 KiB", values.len());
    // Backwards the same.
    let mut cursor = reader.cursor();
    cursor.seek_end();
    let mut back = Vec::new();
    while let Some(access) = cursor.previous().unwrap() {
        back.push(number(access.value()));
    }
    back.reverse();
    assert_eq!(back, values);
    // And from the middle.
    let positions = all(&reader, |a| a.position);
    cursor.seek(positions[777]).unwrap();
    assert_eq!(cursor.next().unwrap().unwrap().position, positions[777]);
    assert_eq!(cursor.previous().unwrap().unwrap().position, positions[777]);
    assert_eq!(cursor.previous().unwrap().unwrap().position, positions[776]);
}

#[test]
fn an_access_of_an_absurd_length_is_dropped_and_counted() {
    let test = TestLog::new();
    let log = test.join(layout::MIN_SIZE);
    let (mut w, o) = (writer(&log, 1), object(&log));
    let origin = Origin::Pc { pc: 1, by_kernel: true };
    for (offset, len) in [(2, u64::MAX), (0, u64::MAX), (layout::OFFSET_MASK, 1 << 63), (1, 1 << 48)] {
        let t = w.begin(Kind::Write, o, offset, len);
        w.commit_bytes(t, origin, 1, &[], &[1; 5000]);
        let mut scratch = [LineTicks::default(); 4];
        let t = w.begin_wide(Kind::Write, o, offset, len, &mut scratch);
        w.commit_wide(t, &mut scratch, origin, 1, &[], &[1; 5000]);
    }
    let counts = test.read().total_counts();
    assert_eq!((counts.appended, counts.dropped), (0, 8));
}
