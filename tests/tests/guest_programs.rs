//! The guest programs, group by group, natively, recorded and replayed.

use tests::corpus::{check_group, check_group_as_family};

#[test]
fn instructions() {
    check_group("instructions");
}

#[test]
fn library() {
    check_group("library");
}

#[test]
fn memory() {
    check_group("memory");
}

#[test]
fn shared() {
    check_group("shared");
}

#[test]
fn signals() {
    check_group("signals");
}

#[test]
fn processes() {
    check_group("processes");
}

#[test]
fn system() {
    check_group("system");
}

#[test]
fn refused() {
    check_group("refused");
}

#[test]
fn families_that_share_memory() {
    check_group_as_family("shared");
}

#[test]
fn families() {
    check_group_as_family("processes");
}

#[test]
fn families_with_signals() {
    check_group_as_family("signals");
}
