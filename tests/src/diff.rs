//! Says how two outcomes differ, in a few lines.

use crate::directory::{Entry, Tree};
use crate::run::Outcome;

/// Lines shown of one text.
const SHOWN: usize = 8;
const WIDTH: usize = 200;

/// `None` if they are equal.
pub fn differences(native: &Outcome, recorded: &Outcome) -> Option<String> {
    let mut said = Vec::new();
    if native.ended != recorded.ended {
        said.push(format!("ended: natively {:?}, recorded {:?}", native.ended, recorded.ended));
    }
    said.extend(text_difference("stdout", &native.stdout, &recorded.stdout));
    said.extend(text_difference("stderr", &native.stderr, &recorded.stderr));
    said.extend(tree_difference(&native.files, &recorded.files));
    (!said.is_empty()).then(|| said.join("\n"))
}

pub fn text_difference(what: &str, native: &[u8], recorded: &[u8]) -> Option<String> {
    if native == recorded {
        return None;
    }
    let (native, recorded) = (lines(native), lines(recorded));
    let same = native.iter().zip(&recorded).take_while(|(a, b)| a == b).count();
    let mut said = format!("{what} differs from line {} on:", same + 1);
    for (sign, text) in [('-', &native), ('+', &recorded)] {
        for line in text.iter().skip(same).take(SHOWN) {
            said += &format!("\n  {sign} {line}");
        }
        let rest = text.len().saturating_sub(same + SHOWN);
        if rest > 0 {
            said += &format!("\n  {sign} … {rest} more lines");
        }
    }
    Some(said)
}

fn lines(text: &[u8]) -> Vec<String> {
    text.split_inclusive(|&byte| byte == b'\n').map(|line| line[..line.len().min(WIDTH)].escape_ascii().to_string()).collect()
}

fn tree_difference(native: &Tree, recorded: &Tree) -> Vec<String> {
    let mut said = Vec::new();
    for name in native.keys().chain(recorded.keys().filter(|name| !native.contains_key(*name))) {
        match (native.get(name), recorded.get(name)) {
            (a, b) if a == b => {}
            (Some(Entry::File { bytes: a, mode }), Some(Entry::File { bytes: b, mode: other })) => {
                said.extend(text_difference(&name.display().to_string(), a, b));
                if mode != other {
                    said.push(format!("{}: mode natively {mode:o}, recorded {other:o}", name.display()));
                }
            }
            (Some(_), Some(_)) => said.push(format!("{}: another kind of file", name.display())),
            (Some(_), None) => said.push(format!("{}: only there natively", name.display())),
            (None, _) => said.push(format!("{}: only there recorded", name.display())),
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Ended;

    fn outcome(stdout: &str, ended: Ended) -> Outcome {
        Outcome { ended, stdout: stdout.into(), stderr: Vec::new(), files: Tree::new() }
    }

    #[test]
    fn equal_outcomes_do_not_differ() {
        assert_eq!(differences(&outcome("a\n", Ended::Exit(0)), &outcome("a\n", Ended::Exit(0))), None);
    }

    #[test]
    fn each_part_is_compared() {
        let native = outcome("a\nb\n", Ended::Exit(0));
        let text = differences(&native, &outcome("a\nc\n", Ended::Signal(11))).unwrap();
        assert_eq!(text, "ended: natively Exit(0), recorded Signal(11)\nstdout differs from line 2 on:\n  - b\\n\n  + c\\n");
        let mut other = native.clone();
        other.stderr = b"oops".to_vec();
        assert!(differences(&native, &other).is_some());
        let mut other = native.clone();
        other.files.insert("new".into(), Entry::Directory);
        assert_eq!(differences(&native, &other).unwrap(), "new: only there recorded");
    }
}
