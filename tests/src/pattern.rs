//! What a program prints, in a form that leaves out what differs from run to run.

/// Whether a line has the form of a pattern, in which `…` stands for any text.
pub fn like(pattern: &str, line: &str) -> bool {
    match pattern.split_once('…') {
        None => pattern == line,
        Some((start, rest)) => line
            .strip_prefix(start)
            .is_some_and(|tail| (0..=tail.len()).filter(|&index| tail.is_char_boundary(index)).any(|index| like(rest, &tail[index..]))),
    }
}
