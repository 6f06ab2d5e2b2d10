//! Forged events: whatever they say, replay ends with an error or with an answer. The fuzz target `replay` goes on from here.

mod common;

use proptest::prelude::*;

#[test]
fn without_edits_all_is_well() {
    assert!(common::forge::replay(&[]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn forged_events_break_nothing(edits in prop::collection::vec((any::<u32>(), any::<u8>()), 1..4)) {
        let bytes: Vec<u8> = edits.iter().flat_map(|(at, with)| at.to_le_bytes().into_iter().chain([*with])).collect();
        common::forge::replay(&bytes);
    }
}
