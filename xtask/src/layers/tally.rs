//! How many passed: read from what test programs print, and printed the same way by what tests without one ([`run_steps`]).

use std::io::Write;

use anyhow::Result;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: usize,
    pub failed: usize,
    /// Known to the test program, but not run.
    pub left_out: usize,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.left_out += other.left_out;
    }

    /// What a line `test result: ok. 3 passed; 0 failed; 1 ignored; …` or `3 passed, 0 failed` says; `None` for any other.
    pub fn parse(line: &str) -> Option<Tally> {
        let words: Vec<&str> = line.strip_prefix("test result: ").unwrap_or(line).split([' ', ';', ',']).collect();
        let count = |of: &str| words.windows(2).find(|pair| pair[1] == of).and_then(|pair| pair[0].parse().ok());
        let (passed, failed) = (count("passed")?, count("failed")?);
        let is_result = line.starts_with("test result: ") || line.starts_with(|first: char| first.is_ascii_digit());
        is_result.then(|| Tally { passed, failed, left_out: count("ignored").unwrap_or(0) })
    }
}

/// A step's name and what it does.
pub type Step<'a> = (&'a str, Box<dyn Fn() -> Result<()> + 'a>);

/// Runs every step even if one before it failed, so that one run shows all that is wrong. Each is named before it starts, so that the last
/// name printed is that of a step that hangs.
pub fn run_steps(kind: &str, steps: &[Step]) -> Result<()> {
    let mut tally = Tally::default();
    for (name, step) in steps {
        println!("{kind}: {name}");
        std::io::stdout().flush()?;
        match step() {
            Ok(()) => tally.passed += 1,
            Err(error) => {
                println!("{kind}: {name} FAILED: {error:#}");
                tally.failed += 1;
            }
        }
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    anyhow::ensure!(tally.failed == 0, "{kind} failed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!(Tally::parse(line), Some(Tally { passed: 12, failed: 3, left_out: 1 }));
        assert_eq!(Tally::parse("7 passed, 2 failed"), Some(Tally { passed: 7, failed: 2, left_out: 0 }));
        assert_eq!(Tally::parse("test passed ... ok"), None);
        assert_eq!(Tally::parse("of which 7 passed, 2 failed"), None);
    }

    #[test]
    fn a_failing_step_does_not_keep_the_next_from_running() {
        let ran = std::cell::Cell::new(0);
        let step = |fails: bool| {
            let ran = &ran;
            Box::new(move || {
                ran.set(ran.get() + 1);
                anyhow::ensure!(!fails, "it does");
                Ok(())
            })
        };
        assert!(run_steps("trial", &[("first", step(true)), ("second", step(false))]).is_err());
        assert_eq!(ran.get(), 2);
    }
}
