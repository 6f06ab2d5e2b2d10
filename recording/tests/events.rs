//! Random logs against plain values, and random damage.

mod common;

use common::{PlainBody, PlainEvent, log_of};
use proptest::prelude::*;
use recording::*;

fn registers() -> impl Strategy<Value = Registers> {
    (any::<[u64; 16]>(), any::<[u64; 4]>()).prop_map(|(gpr, [rip, rflags, fs_base, gs_base])| Registers {
        gpr,
        rip,
        rflags,
        fs_base,
        gs_base,
    })
}

fn register_values() -> impl Strategy<Value = RegisterValues> {
    prop::collection::btree_map(0..16u8, any::<u64>(), 0..=RegisterValues::MAX)
        .prop_map(|pairs| RegisterValues::new(&pairs.into_iter().collect::<Vec<_>>()).unwrap())
}

fn body() -> impl Strategy<Value = PlainBody> {
    prop_oneof![
        (any::<u32>(), any::<i64>(), any::<[u64; 6]>()).prop_map(|(number, result, args)| PlainBody::Syscall(Syscall {
            number,
            result,
            args
        })),
        (prop::sample::select(Instruction::ALL), register_values(), any::<u64>())
            .prop_map(|(instruction, registers, rflags)| PlainBody::Nondet(Nondet { instruction, registers, rflags })),
        Just(PlainBody::ShmemFixup),
        (any::<u32>(), prop::sample::select(SignalAction::ALL), any::<[u8; SIGINFO_BYTES]>(), registers())
            .prop_map(|(number, action, siginfo, registers)| PlainBody::Signal { number, action, siginfo, registers }),
        (any::<u64>(), any::<u64>(), prop::collection::vec(any::<(u64, u64)>(), 0..5))
            .prop_map(|(hash, pages, ranges)| PlainBody::MemoryHash { hash, pages, ranges }),
        any::<u64>().prop_map(|pc| PlainBody::SitesAdded { pc }),
        (prop::sample::select(EndReason::ALL), any::<i32>(), any::<String>()).prop_map(|(reason, status, message)| PlainBody::End {
            reason,
            status,
            message
        }),
    ]
}

fn event() -> impl Strategy<Value = PlainEvent> {
    let header = (any::<[u64; 4]>(), any::<u32>(), any::<u16>()).prop_map(|([bbcount, pc, state_hash, timestamp], thread, flags)| {
        EventHeader { time: Time { bbcount, pc }, state_hash, timestamp, thread, flags: EventFlags(flags) }
    });
    let write = (0..u64::MAX / 2, prop::collection::vec(any::<u8>(), 0..40));
    (header, body(), prop::collection::vec(write, 0..4)).prop_map(|(header, body, writes)| {
        let writes = if body.writes_memory() { writes } else { Vec::new() };
        PlainEvent { header, body, writes }
    })
}

proptest! {
    #[test]
    fn what_was_appended_is_read(events in prop::collection::vec(event(), 0..12)) {
        let log = log_of(&events);
        let mut read = Vec::new();
        for event in Events::new(&log) {
            let event = event.unwrap();
            prop_assert_eq!(event.offset() % 8, 0);
            prop_assert!(event.check().is_ok());
            read.push(PlainEvent::read(&event).unwrap());
        }
        prop_assert_eq!(read, events);
    }

    #[test]
    fn a_region_shows_whole_events_only(events in prop::collection::vec(event(), 1..6), room in 0..2000usize, junk in any::<u8>()) {
        // As if an earlier, abandoned use had left its traces everywhere.
        let mut region = vec![junk; room];
        if let Some(first) = region.first_chunk_mut::<8>() {
            *first = [0; 8];
        }
        let mut used = 0;
        let mut kept = Vec::new();
        for event in &events {
            let before = used;
            match event.append(&mut region, &mut used) {
                Ok(()) => kept.push(event.clone()),
                Err(full) => {
                    prop_assert_eq!(used, before);
                    prop_assert!(full.needed_bytes > full.available_bytes);
                }
            }
            let read: Vec<_> = Events::in_region(&region).map(|event| PlainEvent::read(&event.unwrap()).unwrap()).collect();
            prop_assert_eq!(&read, &kept);
        }
    }

    #[test]
    fn damage_is_an_error_or_a_value_but_never_a_panic(
        events in prop::collection::vec(event(), 1..4),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut log = log_of(&events);
        for (at, value) in damage {
            let at = at.index(log.len());
            log[at] = value;
        }
        log.truncate(cut.index(log.len() + 1));
        for event in Events::new(&log) {
            let Ok(event) = event else { break };
            prop_assert_eq!(event.check().is_ok(), PlainEvent::read(&event).is_ok());
        }
        let _ = check_events(&log);
    }

    #[test]
    fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let events: Vec<_> = Events::new(&bytes).collect();
        prop_assert!(events.len() <= bytes.len() / EVENT_HEADER_BYTES + 1);
    }
}

#[test]
fn a_log_is_checked_as_a_whole() {
    let event = |bbcount, body| PlainEvent { header: EventHeader::new(Time { bbcount, pc: 1 }, 1), body, writes: vec![] };
    let end = |bbcount| event(bbcount, PlainBody::End { reason: EndReason::Exited, status: 0, message: String::new() });
    let site = |bbcount| event(bbcount, PlainBody::SitesAdded { pc: 1 });
    let check = |events: &[PlainEvent]| check_events(&log_of(events)).map_err(|error| (error.offset, error.field));
    assert_eq!(check(&[site(1), site(1), end(2)]), Ok(3));
    assert_eq!(check(&[]), Err((0, "END")));
    assert_eq!(check(&[site(1)]), Err((56, "END")));
    assert_eq!(check(&[site(2), site(1), end(2)]), Err((56, "bbcount")));
    assert_eq!(check(&[end(1), site(1)]), Err((64, "kind")));
}

#[test]
fn a_big_write_goes_into_the_region_directly() {
    let len = 100 << 20;
    let mut region = vec![0; len + 4096];
    let body = Body::Syscall(Syscall { number: 9, result: 0x7f00_0000_0000, args: [0; 6] });
    let header = EventHeader::new(Time { bbcount: 1, pc: 2 }, 3);
    let mut builder = EventBuilder::begin(&mut region, &header, &body).unwrap();
    let slot = builder.push_write_header(0x7f00_0000_0000, len as u64 - 3).unwrap();
    assert_eq!(slot.len(), len - 3);
    slot.fill(0x5a);
    let slot_addr = slot.as_ptr().addr();
    let size = builder.finish();
    assert_eq!(size, 112 + 16 + len);
    assert_eq!(slot_addr, region.as_ptr().addr() + 112 + 16);
    let event = EventRef::parse(&region, 0).unwrap();
    let (_, mut writes) = event.body_and_writes().unwrap();
    let write = writes.next().unwrap().unwrap();
    assert!(write.bytes.len() == len - 3 && write.bytes.iter().all(|byte| *byte == 0x5a));
    assert!(writes.next().is_none());
}
