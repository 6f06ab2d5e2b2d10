//! The kernel itself is the oracle: calls run for real with buffers between guard bytes, and what changed is compared with
//! what the table says. Rules that cannot be provoked here are checked on made-up memory.

mod files;
mod machine;
mod network;
mod oracle;
mod processes;
mod rules;

use std::collections::{BTreeMap, BTreeSet};

use super::spec::{Effects, MemArg};
use super::{all, lookup};
use oracle::Oracle;

/// A named list of calls to try.
type Scenario = (&'static str, fn(&mut Oracle));

fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    [files::SCENARIOS, machine::SCENARIOS, network::SCENARIOS, processes::SCENARIOS].into_iter().flatten()
}

/// Calls with outputs that no scenario makes, and why.
const NOT_TRIED: &[(&str, &str)] = &[
    ("adjtimex", "may need privilege to read; clock_adjtime stands for it"),
    ("lookup_dcookie", "no longer in the kernel"),
    ("ustat", "newfstatat stands for the device number it takes"),
];

/// Outputs that a call which succeeds may leave as they were, so that the oracle cannot tell.
const NOT_PROVED: &[((&str, u8), &str)] = &[
    (("getgroups", 1), "a process need not have groups"),
    (("modify_ldt", 1), "the table of segments is empty"),
    (("syslog", 1), "the kernel's log may be empty"),
    (("io_pgetevents", 3), "no event is left for it; io_getevents gets one"),
    (("keyctl", 1), "a kernel may know no capability"),
    (("lsm_list_modules", 0), "a kernel may have no security module"),
];

fn has_outputs(args: &[MemArg]) -> bool {
    args.iter().any(|arg| arg.dir.writes())
}

#[test]
fn every_number_up_to_the_last_known_is_described_or_does_not_exist() {
    let holes = (0..super::NUMBERS as u64).filter(|&nr| lookup(nr).is_none());
    // The kernel left 337 to 423 free, so that all architectures could go on from 424 together.
    assert!(holes.eq(337..424));
    assert!(lookup(super::NUMBERS as u64).is_none());
    assert!(lookup(u64::MAX).is_none());
    for (name, number) in [("read", 0), ("epoll_pwait", 281), ("futex_waitv", 449), ("file_setattr", 469)] {
        assert_eq!(lookup(number).map(|spec| spec.name), Some(name));
    }
    assert_eq!(all().count(), super::NUMBERS - (424 - 337));
}

#[test]
fn every_argument_index_is_below_six() {
    let check = |name: &str, args: &[MemArg]| assert!(args.iter().all(|arg| arg.arg < 6), "{name}");
    for spec in all() {
        match spec.effects {
            Effects::Args(args) => check(spec.name, args),
            Effects::ByCommand(set) => set.commands.iter().for_each(|command| check(spec.name, command.args)),
        }
    }
}

#[test]
fn every_call_with_outputs_is_tried_or_excused_and_no_output_can_get_lost() {
    let mut tried = BTreeSet::new();
    let mut noticed = BTreeMap::new();
    for (_, scenario) in scenarios() {
        let mut oracle = Oracle::new();
        scenario(&mut oracle);
        tried.extend(oracle.tried());
        for (output, proof) in oracle.noticed() {
            *noticed.entry(*output).or_insert(false) |= proof;
        }
    }
    let missing: Vec<_> = all()
        .filter(|spec| match spec.effects {
            Effects::Args(args) => has_outputs(args),
            Effects::ByCommand(set) => set.commands.iter().any(|command| has_outputs(command.args)),
        })
        .map(|spec| spec.name)
        .filter(|name| !tried.contains(name) && NOT_TRIED.iter().all(|(excused, _)| excused != name))
        .collect();
    assert!(missing.is_empty(), "no scenario makes these calls: {missing:?}");
    let unproved = noticed.iter().filter(|(output, proof)| !**proof && NOT_PROVED.iter().all(|(excused, _)| excused != *output));
    let unproved: Vec<_> = unproved.map(|(output, _)| output).collect();
    assert!(unproved.is_empty(), "the rows of these calls could lose an output unnoticed: {unproved:?}");
}
