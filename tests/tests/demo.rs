//! What the README promises first: `make demo` records the example until it fails and walks from the failed assertion, over the access
//! log, to the function in the other process that made the bad value.

use std::process::{Command, Stdio};

#[test]
fn the_demo_ends_at_the_cause() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let output = Command::new("make").arg("demo").current_dir(root).stdin(Stdio::null()).output().expect("make runs");
    let transcript = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{transcript}\n{complaint}");
    // Each stage of the walk, in order.
    let stages = [
        "(udb) ugo end",
        "Have reached end of recorded history",
        "assert(value >= 0 && value < 100);",
        "(udb) print value\n$1 = 100",
        "(udb) reverse-continue",
        "int value = shmem_data_array[index];",
        "(udb) ublame &shmem_data_array[index]",
        "Num    PID  Time in recording",
        "write",
        "*     1",
        "read",
        "(udb) ugo inferior 2",
        "shmem_data_array[index] = new_value;",
        "(udb) print new_value\n$2 = 100",
        "int new_value = random_in_range(0, 100);",
        "random_in_range (lowest=0, highest=100)",
    ];
    let mut rest: &str = &transcript;
    for stage in stages {
        let at = rest.find(stage).unwrap_or_else(|| panic!("no {stage:?} in what follows:\n{rest}\n---\n{transcript}"));
        rest = &rest[at + stage.len()..];
    }
}
