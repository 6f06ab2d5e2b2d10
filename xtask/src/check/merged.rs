//! No file of text holds what git leaves where two changes met.

use anyhow::{Result, ensure};

use crate::workspace::{Workspace, files, read};

pub fn check(workspace: &Workspace) -> Result<()> {
    let mut found = Vec::new();
    for file in files(&workspace.root, &["rs", "py", "c", "h", "S", "sh", "md", "toml", "txt", "json"])? {
        if let Some(line) = unmerged_line(&read(&file)?) {
            found.push(format!("{}:{line}", file.strip_prefix(&workspace.root)?.display()));
        }
    }
    ensure!(found.is_empty(), "conflicts at {}", found.join(", "));
    Ok(())
}

/// The number of the first line that begins or ends a conflict.
fn unmerged_line(text: &str) -> Option<usize> {
    let is_mark = |line: &str| ["<", ">"].iter().any(|mark| line.starts_with(&format!("{} ", mark.repeat(7))));
    text.lines().position(is_mark).map(|index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_are_found() {
        assert_eq!(unmerged_line(&format!("one\n{} HEAD\ntwo\n", "<".repeat(7))), Some(2));
        assert_eq!(unmerged_line("a << b\n=======\n>>> quoted\n"), None);
    }
}
