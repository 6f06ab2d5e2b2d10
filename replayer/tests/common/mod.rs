//! What the replayer's tests share: the replay program, built once, and small recordings made by hand.
#![allow(dead_code, reason = "each test program uses its own part of this")]
#![allow(clippy::option_env_unwrap, reason = "the fuzz target compiles without the variable, and never comes to where it is used")]

pub mod forge;
pub mod program;
#[path = "../../../recording/tests/common/raw.rs"]
pub mod raw;
pub mod walk;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use replayer::Replay;

/// Opens a recording with the replay program of this very source tree, unless the environment names another.
pub fn open(path: &Path) -> Result<Replay, replayer::Error> {
    static GUEST: OnceLock<()> = OnceLock::new();
    GUEST.get_or_init(|| {
        if std::env::var_os("UNDO_REPLAY_GUEST").is_none() {
            let guest = build_guest();
            // SAFETY: all tests come through here before they start threads that read the environment.
            unsafe { std::env::set_var("UNDO_REPLAY_GUEST", guest) };
        }
    });
    Replay::open(path)
}

/// As `cargo xtask build` does it. Test programs may run at once, and each may start what another builds: so the program is built beside
/// its place, and put there only where it differs.
fn build_guest() -> PathBuf {
    // Cargo gives this to tests only.
    let scratch = option_env!("CARGO_TARGET_TMPDIR").expect("UNDO_REPLAY_GUEST names the replay program");
    let dir = Path::new(scratch).join("guest");
    std::fs::create_dir_all(&dir).unwrap();
    let lock = std::fs::File::create(dir.join("lock")).unwrap();
    lock.lock().unwrap();
    let target = "x86_64-unknown-none";
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["rustc", "--quiet", "--lib", "--release", "--crate-type", "staticlib", "--target", target, "-p", "replay-guest"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("CARGO_TARGET_DIR", &dir)
        .status();
    assert!(built.unwrap().success(), "replay-guest does not build");
    let (program, linked) = (dir.join("replay-guest"), dir.join("replay-guest.new"));
    let status = Command::new("gcc")
        .args([
            "-static",
            "-no-pie",
            "-nostdlib",
            "-nostartfiles",
            "-Wl,-e,_start",
            "-Wl,-u,_start",
            "-Wl,--gc-sections",
            "-Wl,-z,noexecstack",
        ])
        .args(["-Wl,-Ttext-segment=0x6b0000000000", "-o"])
        .arg(&linked)
        .arg(dir.join(target).join("release/libreplay_guest.a"))
        .status();
    assert!(status.unwrap().success(), "replay-guest cannot be linked");
    if std::fs::read(&program).ok() != Some(std::fs::read(&linked).unwrap()) {
        std::fs::rename(&linked, &program).unwrap();
    }
    program
}
