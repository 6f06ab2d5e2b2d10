//! The writer's half, as it is built to run inside other programs, refers to no panic, and to nothing else that could end one.
use std::process::Command;

#[test]
fn the_built_writer_cannot_panic() {
    let target_dir = concat!(env!("CARGO_TARGET_TMPDIR"), "/no_panic");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--no-default-features", "--target", "x86_64-unknown-none"])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), "--target-dir", target_dir])
        .status()
        .unwrap();
    assert!(built.success());
    let library = format!("{target_dir}/x86_64-unknown-none/release/libshmem_log.rlib");
    let symbols = Command::new("nm").args(["--undefined-only", "--demangle", &library]).output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    assert!(symbols.contains("core::fmt::write"), "nm shows what the library refers to:\n{symbols}");
    let forbidden = ["panic", "unwrap_failed", "expect_failed", "slice_index", "alloc::", "unwind"];
    let found: Vec<_> = symbols.lines().filter(|line| forbidden.iter().any(|word| line.contains(word))).collect();
    assert!(found.is_empty(), "{found:#?}");
}
