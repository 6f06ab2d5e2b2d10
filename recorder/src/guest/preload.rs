//! How `live-record` gets into a program: this library is preloaded, and its constructor starts recording if the environment says so.
//!
//! The environment names the process that is meant, so that wrappers and children run natively; our variables and our entry in
//! LD_PRELOAD are taken out before the program sees them.

use core::arch::global_asm;
use core::ffi::{CStr, c_char};

use super::start;
use super::state::{self, OnFork, Path, SaveOn, State};
use crate::launch::{self, Variable};
use engine::sys;

global_asm!(
    ".pushsection .init_array, \"aw\"",
    ".p2align 3",
    ".quad undo_preload_constructor",
    ".popsection",
    // (argc, argv, envp)
    "undo_preload_constructor:",
    "sub rsp, 8",
    "mov rdi, rdx",
    "call undo_preload_wanted",
    "add rsp, 8",
    "test eax, eax",
    "jz 2f",
    "xor edi, edi",
    "jmp undo_api_start_native",
    "2: ret",
);

/// Reads our variables, removes them, and says whether to start.
#[unsafe(no_mangle)]
unsafe extern "C" fn undo_preload_wanted(environment: *mut *mut c_char) -> bool {
    if environment.is_null() {
        return false;
    }
    // SAFETY: the loader passes the process's environment, a null-terminated array.
    let entries = unsafe {
        let mut length = 0;
        while !(*environment.add(length)).is_null() {
            length += 1;
        }
        core::slice::from_raw_parts_mut(environment, length + 1)
    };
    let text = |entry: *mut c_char| {
        // SAFETY: entries of the environment are strings.
        unsafe { CStr::from_ptr(entry) }.to_bytes()
    };
    let settings =
        || entries.iter().filter(|entry| !entry.is_null()).filter_map(|&entry| text(entry).strip_prefix(launch::PREFIX.as_bytes()));
    if settings().next().is_none() {
        return false;
    }
    let record_on = settings().find_map(|setting| split(setting).filter(|(name, _)| *name == Some(Variable::RecordOn)));
    if record_on.is_some_and(|(_, name)| !is_program(name)) {
        // Another program is meant, which this one may start: whatever says so stays.
        return false;
    }
    let Ok(state) = state::get() else { return false };
    state.launched = true;
    let mut wanted = record_on.is_some();
    let mut kept = 0;
    for index in 0..entries.len() {
        let entry = entries[index];
        if !entry.is_null() {
            if let Some(setting) = text(entry).strip_prefix(launch::PREFIX.as_bytes()) {
                wanted |= apply(state, setting);
                continue;
            }
            if let Some(list) = text(entry).strip_prefix(b"LD_PRELOAD=") {
                // Ours is the first.
                let ours = list.split(|&byte| byte == b':').next().unwrap_or(list);
                state.library = Path::new(ours).unwrap_or(Path::empty());
                match list.iter().position(|&byte| byte == b':') {
                    None => continue,
                    // SAFETY: rewrites the entry in place with a shorter string: the rest of the list.
                    Some(colon) => unsafe {
                        let to = entry.add("LD_PRELOAD=".len());
                        core::ptr::copy(to.add(colon + 1), to, list.len() - colon);
                    },
                }
            }
        }
        entries[kept] = entry;
        kept += 1;
    }
    state.save_path = state.own_path();
    wanted
}

/// Whether this process runs the program of that name: its file's, with or without the directory, or a script's. Allocates nothing:
/// in a process that is not meant our area stays unmapped.
fn is_program(name: &[u8]) -> bool {
    let mut executable = [0u8; Path::MAX];
    let args = [c"/proc/self/exe".as_ptr() as u64, executable.as_mut_ptr() as u64, Path::MAX as u64, 0, 0, 0];
    // SAFETY: readlink writes at most so many bytes.
    let length = unsafe { sys::syscall(u64::from(sys::raw::__NR_readlink), args) };
    let executable = &executable[..length.max(0) as usize];
    // The kernel keeps so much of a command's name.
    let mut command = [0u8; 16];
    sys::prctl(PR_GET_NAME, command.as_mut_ptr() as u64);
    let command = command.split(|&byte| byte == 0).next().unwrap_or(&[]);
    name == executable || name == start::name_of(executable) || command == &name[..name.len().min(15)]
}

const PR_GET_NAME: u32 = 16;

/// NAME=VALUE
fn split(setting: &[u8]) -> Option<(Option<Variable>, &[u8])> {
    let equals = setting.iter().position(|&byte| byte == b'=')?;
    Some((Variable::from_name(&setting[..equals]), &setting[equals + 1..]))
}

/// Takes over one setting; `true` if it says that this process is the one.
fn apply(state: &mut State, setting: &[u8]) -> bool {
    let Some((variable, value)) = split(setting) else { return false };
    let number = core::str::from_utf8(value).ok().and_then(|text| text.parse::<u64>().ok());
    let path = || Path::new(value).unwrap_or(Path::empty());
    match variable {
        Some(Variable::Pid) => return number == Some(sys::getpid() as u64),
        Some(Variable::File) => state.family_path = path(),
        Some(Variable::First) => state.first = number.unwrap_or(0),
        Some(Variable::Executed) => state.executed = number.unwrap_or(0),
        Some(Variable::TemporaryDirectory) => state.temporary_directory = path(),
        Some(Variable::ShmemLog) => super::api::set_access_log(state, path()),
        Some(Variable::ShmemLogSize) => state.access_log_bytes = number.unwrap_or(0),
        Some(Variable::EventLogSize) => {
            state.event_log_bytes = number.filter(|&bytes| bytes != 0).unwrap_or(state.event_log_bytes).min(state::EVENT_LOG_MAX)
        }
        Some(Variable::OnFork) => {
            state.on_fork = match value {
                b"child" => OnFork::Child,
                b"both" => OnFork::Both,
                _ => OnFork::Parent,
            }
        }
        Some(Variable::Quiet) => state.quiet = number == Some(1),
        Some(Variable::SaveOnError) if number == Some(1) => state.save_on = SaveOn::Error,
        Some(Variable::SaveOnSignal) if number == Some(1) => state.save_on = SaveOn::Signal,
        _ => {}
    }
    false
}
