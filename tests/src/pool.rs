//! Runs cases on a few threads and gathers what failed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Cases of one test that run at a time.
const THREADS: usize = 2;

/// Runs `check` on every case. Panics at the end with all failures, each under its case's name.
///
/// `UNDO_ONLY` in the environment restricts a run to cases whose names contain it.
pub fn run_all<T: Sync>(cases: &[T], name: impl Fn(&T) -> String + Sync, check: impl Fn(&T) -> Result<(), String> + Sync) {
    assert!(!cases.is_empty(), "there are no cases");
    let only = std::env::var("UNDO_ONLY").unwrap_or_default();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let name = name(case);
                    if !name.contains(&only) {
                        continue;
                    }
                    if let Err(failure) = check(case) {
                        failures.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((name, failure));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    failures.sort();
    if failures.is_empty() {
        return;
    }
    let list: Vec<String> = failures.iter().map(|(name, failure)| format!("-- {name}\n{failure}")).collect();
    panic!("{} of {} cases failed:\n{}", failures.len(), cases.len(), list.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cases_run() {
        let count = AtomicUsize::new(0);
        run_all(
            &[1, 2, 3, 4, 5],
            |case| case.to_string(),
            |_| {
                count.fetch_add(1, Ordering::Relaxed);
                Ok(())
            },
        );
        assert_eq!(count.into_inner(), 5);
    }

    #[test]
    #[should_panic(expected = "1 of 3 cases failed:\n-- 2\nbroken")]
    fn failures_are_named() {
        run_all(&[1, 2, 3], |case| case.to_string(), |&case| if case == 2 { Err("broken".into()) } else { Ok(()) });
    }
}
