//! What a directory holds: names, kinds, permissions, contents.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    Directory,
    File { mode: u32, bytes: Vec<u8> },
    Link(PathBuf),
    Other,
}

pub type Tree = BTreeMap<PathBuf, Entry>;

pub fn read_tree(root: &Path) -> Result<Tree> {
    let mut tree = Tree::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).with_context(|| format!("cannot list {}", directory.display()))? {
            let path = entry?.path();
            // What another process removes meanwhile was not there.
            let Ok(metadata) = path.symlink_metadata() else { continue };
            let entry = if metadata.is_dir() {
                pending.push(path.clone());
                Entry::Directory
            } else if metadata.is_file() {
                Entry::File { mode: metadata.permissions().mode() & 0o7777, bytes: fs::read(&path).unwrap_or_default() }
            } else if metadata.is_symlink() {
                Entry::Link(fs::read_link(&path)?)
            } else {
                Entry::Other
            };
            tree.insert(path.strip_prefix(root)?.to_owned(), entry);
        }
    }
    Ok(tree)
}

/// An empty directory of that name, whatever was there before.
pub fn make_empty(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory).with_context(|| format!("cannot remove {}", directory.display()))?;
    }
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))
}
