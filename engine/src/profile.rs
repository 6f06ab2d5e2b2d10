//! What a program's first steps show: each block runs [`HOT`] times on its own before a trace is made from it, and what followed its
//! last transfer decides where the trace goes. Code that runs once or twice, most of a start-up, is never made into traces.
//!
//! Only hints: a trace is right whatever they say.

use hashbrown::HashMap;

/// So many runs on its own, then a block becomes the head of a trace.
const HOT: u8 = 3;

/// Majority vote (Boyer and Moore) on what follows a transfer.
#[derive(Clone, Copy, Debug)]
struct Vote {
    target: u64,
    lead: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    runs: u8,
    /// Index of its translation.
    unit: Option<usize>,
}

#[derive(Debug, Default)]
pub struct Profile {
    blocks: HashMap<u64, Block>,
    votes: HashMap<u64, Vote>,
}

/// What to run at a place that has no trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Make a trace.
    Trace,
    /// Run the block with this translation.
    Unit(usize),
    /// Translate the block alone.
    Block,
}

impl Profile {
    /// The guest is about to run the block at `pc`.
    pub fn enter(&mut self, pc: u64) -> Advice {
        let block = self.blocks.entry(pc).or_default();
        if block.runs >= HOT {
            return Advice::Trace;
        }
        block.runs += 1;
        block.unit.map_or(Advice::Block, Advice::Unit)
    }

    /// The block at `pc` was translated.
    pub fn set_unit(&mut self, pc: u64, unit: usize) {
        self.blocks.entry(pc).or_default().unit = Some(unit);
    }

    /// The translation of the block at `pc` is no longer good, if it is this one.
    pub fn forget_unit(&mut self, pc: u64, unit: usize) {
        if let Some(block) = self.blocks.get_mut(&pc).filter(|block| block.unit == Some(unit)) {
            block.unit = None;
        }
    }

    /// No translation is good any more.
    pub fn forget_units(&mut self) {
        self.blocks.clear();
    }

    /// The transfer at `pc` led to `target`.
    pub fn saw(&mut self, pc: u64, target: u64) {
        let vote = self.votes.entry(pc).or_insert(Vote { target, lead: 0 });
        if vote.target == target {
            vote.lead = vote.lead.saturating_add(1);
        } else if vote.lead <= 1 {
            *vote = Vote { target, lead: 1 };
        } else {
            vote.lead -= 1;
        }
    }

    /// Where the transfer at `pc` usually leads, if it has run.
    pub fn usual(&self, pc: u64) -> Option<u64> {
        self.votes.get(&pc).map(|vote| vote.target)
    }

    /// Where the transfer at `pc` has nearly always led.
    pub fn only(&self, pc: u64) -> Option<u64> {
        self.votes.get(&pc).filter(|vote| vote.lead >= 2).map(|vote| vote.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_becomes_hot() {
        let mut profile = Profile::default();
        assert_eq!(profile.enter(1), Advice::Block);
        profile.set_unit(1, 7);
        for _ in 1..HOT {
            assert_eq!(profile.enter(1), Advice::Unit(7));
        }
        assert_eq!(profile.enter(1), Advice::Trace);
    }

    #[test]
    fn the_majority_wins_and_a_changed_pointer_is_followed() {
        let mut profile = Profile::default();
        assert_eq!(profile.usual(9), None);
        for target in [1, 2, 2, 2] {
            profile.saw(9, target);
        }
        assert_eq!((profile.usual(9), profile.only(9)), (Some(2), Some(2)));
        profile.saw(9, 3);
        profile.saw(9, 4);
        assert_eq!((profile.usual(9), profile.only(9)), (Some(2), None));
    }
}
