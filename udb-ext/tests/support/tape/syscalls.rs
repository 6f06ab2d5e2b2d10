//! Names of the system calls that the test programs make.

pub const EXIT_GROUP: u64 = 231;

pub fn name(number: u64) -> String {
    let name = match number {
        0 => "read",
        1 => "write",
        3 => "close",
        5 => "fstat",
        9 => "mmap",
        10 => "mprotect",
        12 => "brk",
        13 => "rt_sigaction",
        14 => "rt_sigprocmask",
        39 => "getpid",
        186 => "gettid",
        EXIT_GROUP => "exit_group",
        234 => "tgkill",
        257 => "openat",
        262 => "newfstatat",
        318 => "getrandom",
        _ => return format!("syscall_{number}"),
    };
    name.to_owned()
}
