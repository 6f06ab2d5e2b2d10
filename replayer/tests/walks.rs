//! Reverse is the inverse of forward: random walks meet the same state at the same time, whatever way they took.
//!
//! `UNDO_RECORDINGS` may name recordings (separated by colons) to walk over besides the one made by hand.

mod common;

use std::path::{Path, PathBuf};

use common::program::{self, Flaw};
use common::walk::{Move, Walker};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use replayer::Direction;
use replayer::Timeline;

fn moves(length: usize) -> impl Strategy<Value = Vec<Move>> {
    let direction = || prop_oneof![Just(Direction::Forward), Just(Direction::Backward)];
    let one = prop_oneof![
        4 => direction().prop_map(Move::Step),
        3 => any::<u16>().prop_map(Move::Seek),
        2 => any::<u16>().prop_map(Move::Return),
        2 => any::<u16>().prop_map(Move::Event),
        2 => (direction(), any::<u16>()).prop_map(|(direction, pick)| Move::Breakpoint(direction, pick)),
        1 => (direction(), any::<u16>()).prop_map(|(direction, pick)| Move::Watch(direction, pick)),
    ];
    prop::collection::vec(one, 1..length)
}

fn walk(path: &Path, moves: &[Move]) {
    let mut walker = Walker::new(common::open(path).unwrap());
    walker.look();
    for step in moves {
        walker.go(step);
    }
    let begin = walker.replay.begin();
    walker.replay.seek(begin.bbcount, Some(begin.pc)).unwrap();
    walker.look();
    assert!(walker.compared > 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_state_at_a_time_is_one(moves in moves(30)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made.undo");
        program::make(&path, Flaw::None);
        walk(&path, &moves);
    }
}

#[test]
fn real_recordings_are_walked() {
    let Some(list) = std::env::var_os("UNDO_RECORDINGS") else { return };
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for path in std::env::split_paths(&list) {
        let path: PathBuf = path;
        for _ in 0..10 {
            let moves = moves(25).new_tree(&mut runner).unwrap().current();
            eprintln!("{}: {moves:?}", path.display());
            walk(&path, &moves);
        }
    }
}
