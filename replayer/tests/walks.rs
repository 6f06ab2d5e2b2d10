//! Reverse is the inverse of forward: random walks meet the same state at the same time, whatever way they took. The crate `tests` walks over
//! recordings of real programs.

mod common;

use common::program::{self, Flaw};
use common::walk::{Move, walk};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_state_at_a_time_is_one(moves in prop::collection::vec(any::<u64>().prop_map(Move::of), 1..30)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made.undo");
        program::make(&path, Flaw::None);
        walk(common::open(&path).unwrap(), &moves);
    }
}
