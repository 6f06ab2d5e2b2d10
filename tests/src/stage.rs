//! Where the programs under test are.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The tree that `make install` copies: `UNDO_STAGE`, or what the last build left in the workspace.
pub fn stage() -> &'static Path {
    static STAGE: OnceLock<PathBuf> = OnceLock::new();
    STAGE.get_or_init(|| match std::env::var_os("UNDO_STAGE") {
        Some(stage) => stage.into(),
        None => source().join("../target/stage"),
    })
}

/// A staged program. Panics with advice if it is not there: nothing can be tested without.
pub fn program(name: &str) -> PathBuf {
    let program = stage().join("bin").join(name);
    assert!(program.exists(), "{} is not there: run `cargo xtask build`, or set UNDO_STAGE", program.display());
    program
}

/// The directory of this crate.
pub fn source() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
