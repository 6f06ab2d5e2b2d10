//! The Python side's own tests, for all of it that does not need gdb.

use std::path::Path;
use std::process::Command;

#[test]
fn python_modules() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("python3")
        .args(["-B", "-m", "unittest", "discover", "-s"])
        .arg(crate_folder.join("tests/python"))
        .env("PYTHONPATH", crate_folder.join("python"))
        .output()
        .expect("python3 is needed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// One module imports gdb; the rest can be tested without it.
#[test]
fn only_one_module_imports_gdb() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/undo");
    let folders = [package.clone(), package.join("commands")];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let importing: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "py"))
        .filter(|path| {
            std::fs::read_to_string(path).unwrap().lines().any(|line| line.trim() == "import gdb" || line.starts_with("from gdb "))
        })
        .collect();
    assert_eq!(importing, [package.join("gdbapi.py")]);
}
