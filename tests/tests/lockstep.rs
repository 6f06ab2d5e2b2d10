//! Random programs, natively and replayed, in step: see `tests::lockstep`. `UNDO_SEEDS=FROM-TO` tries others than the usual few.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

use tempfile::TempDir;

use tests::lockstep::{Plan, compare};
use tests::{compile, pool, random_program, stage};

#[test]
fn native_and_translated_execution_agree_in_every_step() {
    stage_replay_guest();
    let seeds = std::env::var("UNDO_SEEDS").unwrap_or_else(|_| "101-104".into());
    let (from, to) = seeds.split_once('-').expect("UNDO_SEEDS is FROM-TO");
    let seeds: Vec<u64> = (from.parse().unwrap()..=to.parse().unwrap()).collect();
    pool::run_all(&seeds, |seed| format!("seed {seed}"), |&seed| check_seed(seed));
}

fn stage_replay_guest() {
    static ONCE: Once = Once::new();
    // SAFETY: the first thing that any test here does, and nothing here reads the environment before.
    ONCE.call_once(|| unsafe { std::env::set_var("UNDO_REPLAY_GUEST", stage::stage().join("libexec/undo/replay-guest")) });
}

/// A program that is recorded, and where its symbols are.
struct Recorded {
    directory: TempDir,
    program: PathBuf,
    recording: PathBuf,
    symbols: HashMap<String, u64>,
}

impl Recorded {
    fn new(source_text: &str) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let source = directory.path().join("program.c");
        fs::write(&source, source_text).map_err(|error| error.to_string())?;
        let program = compile::compile(&source, &["-O1", "-fno-pie", "-no-pie"], directory.path())?;
        let recording = directory.path().join("recording.undo");
        let done = Command::new(stage::program("live-record"))
            .args(["-q", "-o"])
            .arg(&recording)
            .arg(&program)
            .current_dir(directory.path())
            .output()
            .map_err(|error| error.to_string())?;
        if !done.status.success() {
            return Err(format!("live-record: {}", String::from_utf8_lossy(&done.stderr)));
        }
        let symbols = symbols(&program)?;
        Ok(Self { directory, program, recording, symbols })
    }

    fn symbol(&self, name: &str) -> Result<u64, String> {
        self.symbols.get(name).copied().ok_or_else(|| format!("the program has no {name}"))
    }

    fn compare(&self, plan: &Plan) -> Result<Result<(), String>, String> {
        compare(&self.program, self.directory.path(), &self.recording, plan).map_err(|error| format!("{error:#}"))
    }
}

fn check_seed(seed: u64) -> Result<(), String> {
    let recorded = Recorded::new(&random_program::source(seed, false))?;
    let plan = Plan {
        from: recorded.symbol("block0")?,
        changed: Vec::new(),
        memory: vec![(recorded.symbol("own")?, 2048), (recorded.symbol("state")?, 128)],
        steps: 1000,
        stride: 1009,
        strides: 10,
    };
    recorded.compare(&plan)?
}

/// Each instruction with a name, and what a wrong rule could make of it: which byte of it becomes what.
const WRONG_RULES: [(&str, &str, u64, u8); 8] = [
    ("another_operation", "add %rcx, %rax", 1, 0x29),
    ("another_width", "mov %ecx, %edx", 0, 0x88),
    ("another_displacement", "lea 8(%rcx), %rdx", 3, 0x10),
    ("another_condition", "test %rcx, %rcx; 1: jne 2f; inc %rax; 2:", 3, 0x74),
    ("only_flags", "cmp %rcx, %rax", 1, 0x85),
    ("another_store", "mov %rcx, buffer(%rip)", 1, 0x8d),
    ("another_sign", "movzbl %cl, %edx", 1, 0xbe),
    ("no_transfer", "jmp 3f; 3:", 0, 0x0c),
];

/// The validator itself: what a wrong rule would do is found, at the instruction that it is wrong for.
#[test]
fn an_instruction_that_does_something_else_is_found() {
    stage_replay_guest();
    let cleared = ["rbx", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];
    let lines = cleared.iter().map(|register| format!("push %{register}; xor %{register}, %{register}"));
    let lines = lines
        .chain(["mov $0x1122334455667788, %rax; mov $0x99aabbccddeeff83, %rcx; mov %rcx, %rdx".into(), "begin:".into()])
        .chain(WRONG_RULES.iter().map(|(name, text, ..)| format!("{name}: {text}")))
        .chain(["nop; nop; nop".into()])
        .chain(cleared.iter().rev().map(|register| format!("pop %{register}")));
    let code: String = lines.map(|line| format!("\"{}\\n\"\n", line.replace('%', "%%"))).collect();
    let source = format!(
        "unsigned long buffer;\nint main(void) {{ __asm__ volatile(\n{code}: : : \"rax\", \"rcx\", \"rdx\", \"memory\", \"cc\"); return 0; }}\n"
    );
    let recorded = Recorded::new(&source).unwrap();
    let begin = recorded.symbol("begin").unwrap();
    let plan =
        |changed| Plan { from: begin, changed, memory: vec![(recorded.symbol("buffer").unwrap(), 8)], steps: 12, stride: 1, strides: 12 };
    assert_eq!(recorded.compare(&plan(Vec::new())).unwrap(), Ok(()));
    for (name, text, byte, becomes) in WRONG_RULES {
        let address = recorded.symbol(name).unwrap();
        let said = recorded.compare(&plan(vec![(address + byte, becomes)])).unwrap().expect_err(text);
        assert!(said.contains(&format!("{address:#x}: ")) || name == "another_condition", "{name}: {said}");
    }
}

fn symbols(program: &Path) -> Result<HashMap<String, u64>, String> {
    let output = Command::new("nm").arg(program).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let parse = |line: &str| {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        Some((words.nth(1)?.to_owned(), address))
    };
    Ok(text.lines().filter_map(parse).collect())
}
