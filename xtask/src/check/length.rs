//! A source file of more than 800 lines has more than one job.

use anyhow::{Result, ensure};

use crate::workspace::{Workspace, files, read};

const LONGEST: usize = 800;

pub fn check(workspace: &Workspace) -> Result<()> {
    let mut long = Vec::new();
    for file in files(&workspace.root, &["rs", "py", "c", "h", "S", "sh"])? {
        let lines = read(&file)?.lines().count();
        if lines > LONGEST {
            long.push(format!("{} ({lines} lines)", file.strip_prefix(&workspace.root)?.display()));
        }
    }
    ensure!(long.is_empty(), "longer than {LONGEST} lines: {}", long.join(", "));
    Ok(())
}
