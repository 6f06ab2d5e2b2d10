//! All processes that come from this one, to kill them.

use std::fs;

use anyhow::{Context, Result};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid};

/// From now on a process whose parent dies becomes a child of this one, if it descends from it.
pub fn adopt_orphans() -> Result<()> {
    set_child_subreaper(true).context("cannot become the parent of orphans")
}

/// Kills all descendants, and those that they start meanwhile.
pub fn kill_descendants() -> Result<()> {
    loop {
        let family = descendants()?;
        if family.is_empty() {
            return Ok(());
        }
        for pid in family {
            // It may be gone by now.
            let _ = kill(pid, Signal::SIGKILL);
        }
        std::thread::yield_now();
    }
}

/// Those that still run: a zombie, which only its parent can remove, holds nothing.
fn descendants() -> Result<Vec<Pid>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").context("cannot list /proc")? {
        let Ok(pid) = entry?.file_name().to_string_lossy().parse::<i32>() else { continue };
        if let Some((state, parent)) = fs::read_to_string(format!("/proc/{pid}/stat")).ok().as_deref().and_then(parse_stat) {
            parents.push((pid, parent, state));
        }
    }
    let mut family = vec![getpid().as_raw()];
    let mut next = 0;
    while let Some(&of) = family.get(next) {
        family.extend(parents.iter().filter(|(_, parent, _)| *parent == of).map(|(pid, ..)| *pid));
        next += 1;
    }
    let runs = |pid: &i32| parents.iter().any(|(known, _, state)| known == pid && !['Z', 'X'].contains(state));
    Ok(family.into_iter().skip(1).filter(runs).map(Pid::from_raw).collect())
}

/// State and parent, from `17 (name) S 1 …`. The name may hold anything.
fn parse_stat(stat: &str) -> Option<(char, i32)> {
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_processes_may_hold_parentheses() {
        assert_eq!(parse_stat("17 (a) R (b) S 4 17 17 0"), Some(('S', 4)));
        assert_eq!(parse_stat(""), None);
    }
}
