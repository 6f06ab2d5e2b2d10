//! What is run: one row for each program. The sources lie in `xtask/bench/record`.

/// How a workload is started. Names are files in `xtask/bench/record`.
#[derive(Clone, Copy)]
pub enum Program {
    /// Compiled by `gcc -O2 -pthread`.
    C(&'static str),
    /// The same with an argument.
    CWith(&'static str, &'static str),
    Python(&'static str),
    /// A script for sqlite3, on a database in memory.
    Sqlite(&'static str),
    /// `gzip -6` of a text made for it.
    Gzip,
    /// A command of the system.
    Command(&'static str),
}

/// What is taken from its runs. Keys are those of the JSON output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Time recorded / time native, one of those whose geometric mean is `slowdown_geomean`.
    Slowdown,
    /// The program prints a number, in the unit that ends the key: recorded less native.
    Extra(&'static str),
    /// Two processes on cores 0 and 1 print a number of nanoseconds: recorded / native of a pair of runs. Pairs during which the two were
    /// threads of one core do not count.
    TwoCores(&'static str),
    /// Milliseconds of the whole recorded run; the largest of those with the same key counts.
    WholeMs(&'static str),
}

pub struct Workload {
    pub name: &'static str,
    pub program: Program,
    pub measure: Measure,
    /// Options for live-record. `LOG` stands for a file of the run's own.
    pub options: &'static [&'static str],
    /// Most that the figure may be, where there is such an aim.
    pub target: Option<f64>,
}

const fn call(argument: &'static str, key: &'static str) -> Workload {
    Workload { name: key, program: Program::CWith("calls.c", argument), measure: Measure::Extra(key), options: &[], target: None }
}

const fn slowdown(name: &'static str, program: Program) -> Workload {
    Workload { name, program, measure: Measure::Slowdown, options: &[], target: None }
}

/// A log that is overwritten many times. Filling one for the first time costs a new page of the file for every 128 records besides, and
/// what that takes depends on the file system, its disk and where the machine has its memory from.
const OVERWRITTEN: &[&str] = &["--shmem-log", "LOG", "--shmem-log-size", "1M"];
const RING: &[&str] = &["--shmem-log", "LOG", "--shmem-log-size", "16M", "--on-fork", "both"];

/// Aim for the geometric mean of all slowdowns.
pub const GEOMEAN_TARGET: f64 = 1.5;

pub const WORKLOADS: &[Workload] = &[
    slowdown("sieve", Program::C("sieve.c")),
    slowdown("matrix", Program::C("matrix.c")),
    slowdown("strings", Program::C("strings.c")),
    slowdown("chase", Program::C("chase.c")),
    slowdown("libc", Program::C("libc.c")),
    slowdown("fib", Program::C("fib.c")),
    slowdown("vm", Program::C("vm.c")),
    slowdown("python-loop", Program::Python("loop.py")),
    slowdown("python-objects", Program::Python("objects.py")),
    slowdown("sqlite", Program::Sqlite("sqlite.sql")),
    slowdown("gzip", Program::Gzip),
    Workload {
        name: "syscall",
        program: Program::C("syscall.c"),
        measure: Measure::Extra("syscall_extra_ns"),
        options: &[],
        target: Some(400.0),
    },
    call("read", "read_extra_ns"),
    call("write", "write_extra_ns"),
    call("futex", "futex_extra_ns"),
    call("clock", "clock_gettime_extra_ns"),
    call("rdtsc", "rdtsc_extra_ns"),
    Workload {
        name: "sparse",
        program: Program::C("sparse.c"),
        measure: Measure::Extra("sparse_map_extra_kib"),
        options: &["--shmem-log", "LOG", "--on-fork", "both"],
        target: None,
    },
    Workload { name: "empty", program: Program::C("empty.c"), measure: Measure::WholeMs("startup_ms"), options: &[], target: Some(60.0) },
    Workload { name: "true", program: Program::Command("true"), measure: Measure::WholeMs("startup_ms"), options: &[], target: Some(60.0) },
    Workload {
        name: "shared",
        program: Program::C("shared.c"),
        measure: Measure::Extra("shared_access_ns"),
        options: OVERWRITTEN,
        target: Some(30.0),
    },
    Workload {
        name: "shared-first-lap",
        program: Program::C("shared.c"),
        measure: Measure::Extra("shared_access_first_lap_ns"),
        options: &["--shmem-log", "LOG"],
        target: None,
    },
    Workload {
        name: "ring",
        program: Program::C("ring.c"),
        measure: Measure::TwoCores("shm_ring_slowdown"),
        options: RING,
        target: Some(4.0),
    },
    Workload {
        name: "ring-bare",
        program: Program::C("ring_bare.c"),
        measure: Measure::TwoCores("shm_bare_ring_slowdown"),
        options: RING,
        target: None,
    },
];
