//! The writer's half, as it is built to run inside other programs: it refers to no panic, and to nothing else that could end one; an append
//! makes no system call, takes no lock, and neither calls nor repeats anything outside its slow path.
use std::path::Path;
use std::process::Command;

/// What an append may call: the next block, accesses that are no short records, and the pause after a contended locked one.
const SLOW_PATH: [&str; 4] = ["Writer::begin_lines", "Writer::commit_slow", "Appender<M>::next_block", "writer::pause"];
const FORBIDDEN: [&str; 6] = ["panic", "unwrap_failed", "expect_failed", "slice_index", "alloc::", "unwind"];

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn build() -> String {
    let target_dir = concat!(env!("CARGO_TARGET_TMPDIR"), "/no_panic");
    run(Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--no-default-features", "--target", "x86_64-unknown-none"])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), "--target-dir", target_dir]));
    format!("{target_dir}/x86_64-unknown-none/release")
}

fn assert_refers_to_no_panic(file: &str, must_show: &str) {
    let symbols = run(Command::new("nm").args(["--undefined-only", "--demangle", file]));
    assert!(symbols.contains(must_show), "nm shows what {file} refers to:\n{symbols}");
    let found: Vec<_> = symbols.lines().filter(|line| FORBIDDEN.iter().any(|word| line.contains(word))).collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// The functions of a file: name, and instructions with their addresses; a call's target stands as a relocation behind it.
fn functions(file: &str) -> Vec<(String, Vec<String>)> {
    let listing = run(Command::new("objdump").args(["--disassemble", "--reloc", "--demangle", "--no-show-raw-insn", file]));
    let mut functions: Vec<(String, Vec<String>)> = Vec::new();
    for line in listing.lines() {
        if let Some((_, name)) = line.strip_suffix(">:").and_then(|line| line.split_once(" <")) {
            functions.push((name.to_owned(), Vec::new()));
        } else if let (Some(last), true) = (functions.last_mut(), line.starts_with(' ') || line.starts_with('\t')) {
            last.1.push(line.trim().to_owned());
        }
    }
    functions
}

/// An instruction of a function: its address, what it is, and whether it calls something.
struct Instruction<'a> {
    at: u64,
    text: &'a str,
    calls: bool,
}

fn instructions(lines: &[String]) -> Vec<Instruction<'_>> {
    let mut all: Vec<Instruction> = Vec::new();
    for line in lines {
        let (at, text) = line.split_once(":\t").or_else(|| line.split_once(": ")).unwrap();
        if text.starts_with("R_X86_64") {
            all.last_mut().unwrap().calls = true;
        } else {
            all.push(Instruction { at: u64::from_str_radix(at.trim(), 16).unwrap(), text, calls: false });
        }
    }
    all
}

/// Whether one can come to an instruction twice, other than behind a call.
fn has_loop(code: &[Instruction]) -> bool {
    let next = |index: usize| -> Vec<usize> {
        let Instruction { text, calls, .. } = &code[index];
        if *calls || text.starts_with("ret") {
            return Vec::new();
        }
        let target = text.strip_prefix('j').map(|jump| u64::from_str_radix(jump.split_whitespace().nth(1).unwrap(), 16).unwrap());
        let target = target.map(|target| code.iter().position(|instruction| instruction.at == target).unwrap());
        let through = (!text.starts_with("jmp") && index + 1 < code.len()).then_some(index + 1);
        target.into_iter().chain(through).collect()
    };
    // Instructions that all ways out of them are known to end, and those on the way to the one looked at.
    let (mut ends, mut way) = (vec![false; code.len()], vec![0]);
    while let Some(&last) = way.last() {
        match next(last).into_iter().find(|index| !ends[*index]) {
            Some(index) if way.contains(&index) => return true,
            Some(index) => way.push(index),
            None => {
                ends[last] = true;
                way.pop();
            }
        }
    }
    false
}

#[test]
fn the_built_writer_cannot_panic() {
    let library = format!("{}/libshmem_log.rlib", build());
    assert_refers_to_no_panic(&library, "core::fmt::write");
    let functions = functions(&library);
    let writer: Vec<_> = functions.iter().filter(|(name, _)| name.contains("::writer::") && !name.contains("register_site")).collect();
    assert!(writer.len() >= 5, "{:?}", functions.iter().map(|(name, _)| name).collect::<Vec<_>>());
    // What an append needs of the kernel, storage for a block, `Appender` asks for when it takes the block.
    for (name, lines) in writer {
        assert!(!lines.iter().any(|line| line.contains("syscall")), "{name} makes a system call");
    }
}

#[test]
fn an_append_neither_calls_nor_repeats_nor_waits() {
    let built = build();
    let probe = Path::new(&built).join("probe.o");
    let probe = probe.to_str().unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    run(Command::new(rustc)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["--edition", "2024", "--crate-type", "lib", "--emit", "obj", "--target", "x86_64-unknown-none"])
        .args(["-C", "opt-level=3", "-C", "panic=abort", "-L", &format!("dependency={built}/deps")])
        .args(["--extern", &format!("shmem_log={built}/libshmem_log.rlib"), "-o", probe, "tests/no_panic/probe.rs"]));
    assert_refers_to_no_panic(probe, "next_block");
    let functions = functions(probe);
    for name in ["probe_read", "probe_write", "probe_locked"] {
        let (_, lines) = functions.iter().find(|(found, _)| found == name).unwrap();
        let (listing, code) = (lines.join("\n"), instructions(lines));
        // The clock's ticks and the access itself.
        let locked: Vec<_> = code.iter().filter(|instruction| instruction.text.contains("lock ")).collect();
        assert!(!locked.is_empty() && locked.iter().all(|instruction| instruction.text.starts_with("lock xadd")), "{listing}");
        assert!(!code.iter().any(|instruction| instruction.text.contains("syscall")), "{listing}");
        assert!(!has_loop(&code), "{listing}");
        let targets: Vec<_> = lines.iter().filter(|line| line.contains("R_X86_64")).collect();
        assert!(targets.iter().all(|line| SLOW_PATH.iter().any(|slow| line.contains(slow))), "{targets:#?}");
        let calls = code.iter().filter(|instruction| instruction.text.starts_with("call")).count();
        assert!(calls > 0 && calls <= targets.len(), "{listing}");
    }
}
