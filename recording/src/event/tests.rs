//! The encoding against the byte table, and against bytes that are not events. Random logs are in `tests/events.rs`.

use super::*;
use crate::Registers;
use crate::wire::{DecodeError, Expected};

fn header(bbcount: u64) -> EventHeader {
    EventHeader {
        time: Time { bbcount, pc: 0x5618_d2d1_5c61 },
        state_hash: 0x1122_3344_5566_7788,
        timestamp: 99,
        thread: 7,
        flags: EventFlags::VDSO,
    }
}

const SYSCALL: Body<'_> = Body::Syscall(Syscall { number: 9, result: -12, args: [1, 2, 3, 4, 5, 6] });

/// One event of each kind, in a log of exactly their length.
fn one_of_each() -> Vec<u8> {
    let siginfo = [5; SIGINFO_BYTES];
    let bodies = [
        SYSCALL,
        Body::Nondet(Nondet {
            instruction: Instruction::Cpuid,
            registers: RegisterValues::new(&[(0, 10), (1, 11), (2, 12), (3, 13)]).unwrap(),
            rflags: 0x246,
        }),
        Body::ShmemFixup,
        Body::Signal(Signal { number: 10, action: SignalAction::Handler, siginfo: &siginfo, registers: Registers::default() }),
        Body::MemoryHash(MemoryHash { hash: 3, pages: 4, ranges: Ranges::default() }),
        Body::SitesAdded { pc: 0x1234 },
        Body::End(End { reason: EndReason::Unsupported, status: 0, message: "io_uring_setup" }),
    ];
    let mut log = vec![0; 4096];
    let mut at = 0;
    for (i, body) in bodies.iter().enumerate() {
        let mut builder = EventBuilder::begin(&mut log[at..], &header(i as u64), body).unwrap();
        match body.kind() {
            EventKind::Syscall | EventKind::ShmemFixup | EventKind::Signal => builder.push_write(0x7000, b"hello").unwrap(),
            EventKind::MemoryHash => builder.push_range(0x1000, 0x2000).unwrap(),
            _ => {}
        }
        at += builder.finish();
    }
    log.truncate(at);
    log
}

fn read_all(bytes: &[u8]) -> Result<usize, DecodeError> {
    Events::new(bytes).try_fold(0, |count, event| event?.check().map(|()| count + 1))
}

#[test]
fn a_system_call_lies_in_memory_as_documented() {
    let mut log = [0xee; 256];
    let mut builder = EventBuilder::begin(&mut log, &header(2822), &SYSCALL).unwrap();
    builder.push_write(0x7fff_0000, b"abc").unwrap();
    let len = builder.finish();
    assert_eq!(len, 136);
    #[rustfmt::skip]
    let expected = [
        136, 0, 0, 0, 0, 0, 0, 0,
        1, 0, 1, 0, 7, 0, 0, 0,
        99, 0, 0, 0, 0, 0, 0, 0,
        0x06, 0x0b, 0, 0, 0, 0, 0, 0,
        0x61, 0x5c, 0xd1, 0xd2, 0x18, 0x56, 0, 0,
        0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
        9, 0, 0, 0, 0, 0, 0, 0,
        0xf4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        1, 0, 0, 0, 0, 0, 0, 0,
        2, 0, 0, 0, 0, 0, 0, 0,
        3, 0, 0, 0, 0, 0, 0, 0,
        4, 0, 0, 0, 0, 0, 0, 0,
        5, 0, 0, 0, 0, 0, 0, 0,
        6, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0xff, 0x7f, 0, 0, 0, 0,
        3, 0, 0, 0, 0, 0, 0, 0,
        b'a', b'b', b'c', 0, 0, 0, 0, 0,
    ];
    assert_eq!(log[..len], expected);
    assert_eq!(log[len..len + 8], [0; 8], "E3");
    assert_eq!(log[len + 8], 0xee, "nothing further is touched");
}

#[test]
fn fixed_parts_are_as_long_as_documented() {
    let log = one_of_each();
    let sizes: Vec<u64> = Events::new(&log).map(|event| event.unwrap().size()).collect();
    let write = 16 + 8;
    assert_eq!(sizes, [112 + write, 96, 48 + write, 344 + write, 80, 56, 80]);
}

#[test]
fn nothing_is_in_the_log_before_finish() {
    let mut dirty = [0xee; 512];
    let _ = EventBuilder::begin(&mut dirty, &header(1), &SYSCALL).unwrap();
    assert_eq!(Events::in_region(&dirty).count(), 0);
    let mut log = [0; 512];
    let first = EventBuilder::begin(&mut log, &header(1), &SYSCALL).unwrap().finish();
    let mut dropped = EventBuilder::begin(&mut log[first..], &header(2), &SYSCALL).unwrap();
    dropped.push_write(1, &[0xff; 64]).unwrap();
    let _ = dropped;
    assert_eq!(Events::in_region(&log).count(), 1);
    // A shorter one in its place is not followed by what is left of it.
    let second = EventBuilder::begin(&mut log[first..], &header(2), &Body::ShmemFixup).unwrap().finish();
    let mut events = Events::in_region(&log);
    assert_eq!(events.by_ref().map(|event| event.unwrap().time().bbcount).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(events.offset(), (first + second) as u64);
}

#[test]
fn a_full_log_is_reported_and_left_alone() {
    for room in 0..136 {
        let mut log = vec![0; room];
        let result = EventBuilder::begin(&mut log, &header(1), &SYSCALL).and_then(|mut builder| builder.push_write(0, b"abc"));
        let full = result.unwrap_err();
        assert_eq!(full.available_bytes, room as u64);
        assert!(full.needed_bytes > room as u64 && full.needed_bytes <= 136, "{full}");
        assert_eq!(Events::in_region(&log).count(), 0);
    }
    let mut log = [0; 136];
    let mut builder = EventBuilder::begin(&mut log, &header(1), &SYSCALL).unwrap();
    assert!(builder.push_write_header(0, u64::MAX).is_err());
    assert!(builder.push_write_header(0, u64::MAX - 200).is_err());
    assert!(builder.push_write_header(0, 9).is_err());
    builder.push_write(0, b"abc").unwrap();
    assert_eq!(builder.finish(), 136);
    assert_eq!(read_all(&log), Ok(1));
}

#[test]
fn truncation_anywhere_but_between_events_is_noticed() {
    let log = one_of_each();
    let mut boundaries: Vec<u64> = Events::new(&log).map(|event| event.unwrap().offset()).collect();
    boundaries.push(log.len() as u64);
    for len in 0..=log.len() {
        let result = read_all(&log[..len]);
        assert_eq!(result.is_ok(), boundaries.contains(&(len as u64)), "{len}: {result:?}");
    }
}

#[test]
fn wrong_values_name_their_field() {
    let log = one_of_each();
    let starts: Vec<usize> = Events::new(&log).map(|event| event.unwrap().offset() as usize).collect();
    let [syscall, nondet, _, signal, hash, sites, end] = starts[..] else { unreachable!() };
    let cases: &[(usize, &[u8], &str)] = &[
        (syscall, &[0; 8], "size"),
        (syscall, &47u64.to_le_bytes(), "size"),
        (syscall, &57u64.to_le_bytes(), "size"),
        (syscall, &(1u64 << 63).to_le_bytes(), "size"),
        (syscall + 7, &[1], "size"),
        (syscall + 8, &[0, 0], "kind"),
        (syscall + 8, &[16, 0], "kind"),
        (syscall + 8, &[0xff, 0xff], "kind"),
        (syscall + 52, &[1], "reserved"),
        (syscall + 112 + 8, &[255; 8], "write length"),
        (syscall + 112 + 8, &[9], "written bytes"),
        (syscall + 112 + 15, &[1], "written bytes"),
        (syscall + 112 + 16 + 5, &[1], "padding"),
        (nondet + 48, &[0], "instruction"),
        (nondet + 48, &[9], "instruction"),
        (nondet + 50, &[9], "reserved"),
        (nondet + 52, &[0x1f], "gpr mask"),
        (nondet + 54, &[1], "gpr mask"),
        (nondet + 52, &[7], "write length"),
        (signal + 52, &[0], "signal action"),
        (signal + 52, &[5], "signal action"),
        (hash, &[72], "ranges"),
        (sites, &[48], "site pc"),
        (end + 48, &[0], "end reason"),
        (end + 48, &[8], "end reason"),
        (end + 56, &[255; 8], "message"),
        (end + 56, &[17], "message"),
        (end + 56, &[13], "padding"),
        (end + 56, &[3], "padding"),
        (end + 64, &[0xff], "message"),
    ];
    for (at, bytes, field) in cases {
        let mut broken = log.clone();
        broken[*at..*at + bytes.len()].copy_from_slice(bytes);
        let error = read_all(&broken).expect_err(field);
        assert!(error.field == *field, "at {at}: {error}, not {field}");
    }
}

#[test]
fn an_error_ends_the_iteration() {
    let mut log = one_of_each();
    log[0] = 1;
    let mut events = Events::new(&log);
    let error = events.next().unwrap().unwrap_err();
    assert_eq!(error, DecodeError { offset: 0, field: "size", expected: Expected::AtLeast(48), found: 1 });
    assert!(events.next().is_none());
}

#[test]
fn reading_goes_on_from_an_offset() {
    let log = one_of_each();
    let third = Events::new(&log).nth(2).unwrap().unwrap().offset();
    let mut events = Events::new(&log).starting_at(third).unwrap();
    assert_eq!(events.next().unwrap().unwrap().kind(), Some(EventKind::ShmemFixup));
    assert_eq!(events.count(), 4);
    assert!(Events::new(&log).starting_at(3).is_err());
    assert!(Events::new(&log).starting_at(log.len() as u64 + 8).is_err());
    assert_eq!(Events::new(&log).starting_at(log.len() as u64).unwrap().count(), 0);
}

#[test]
fn register_values_are_few_and_ascending() {
    assert!(RegisterValues::new(&[(0, 1), (2, 3)]).is_some());
    assert!(RegisterValues::new(&[(2, 1), (0, 3)]).is_none());
    assert!(RegisterValues::new(&[(2, 1), (2, 3)]).is_none());
    assert!(RegisterValues::new(&[(16, 1)]).is_none());
    assert!(RegisterValues::new(&[(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]).is_none());
    let mut registers = Registers::default();
    RegisterValues::new(&[(0, 1), (15, 2)]).unwrap().apply(&mut registers);
    assert_eq!((registers.gpr[0], registers.gpr[15]), (1, 2));
}

#[test]
fn numbers_and_names_are_distinct() {
    let mut names: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.name()).collect();
    names.extend(Instruction::ALL.iter().map(|instruction| instruction.name()));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    for kind in EventKind::ALL {
        assert_eq!(EventKind::from_raw(kind.raw()), Some(*kind));
    }
}
