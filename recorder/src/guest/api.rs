//! The C interface of `undolr.h`.
//!
//! Every function is a stub of a few instructions that makes a system call with a number the kernel does not have. While a
//! recording runs the stub is translated like any code of the guest, and the recorder's host answers the call, which is an event
//! like others. Otherwise the kernel says ENOSYS and the stub calls [`undo_api_native`]. Both end in [`perform`]. So no code of ours is
//! ever translated but these stubs, and they compute nothing.

use core::arch::global_asm;
use core::sync::atomic::Ordering;

use engine::sys::errno;
use engine::{Flow, arena, read_guest, reg, write_guest};
use recording::{Body, EndReason, Syscall};

use super::control::control;
use super::host::{Guest, Recorder};
use super::state::{self, EVENT_LOG_DEFAULT, EVENT_LOG_MAX, Path, State};
use super::{end, start};

const FIRST: u64 = 0x0e00_0000;

macro_rules! functions {
    ($($index:literal $constant:ident $name:literal)*) => {
        $(const $constant: u64 = $index;)*
        const COUNT: u64 = [$($index),*].len() as u64;
        $(global_asm!(
            concat!(".global ", $name), concat!(".type ", $name, ", @function"), concat!($name, ":"),
            "mov r10, rcx",
            concat!("mov eax, ", "0x0e000000 + ", $index),
            "syscall",
            "cmp rax, -38",
            "jne 2f",
            "mov rcx, r10",
            concat!("mov r8d, ", $index),
            "sub rsp, 8",
            "call undo_api_native",
            "add rsp, 8",
            "2: jmp undo_api_return",
            concat!(".size ", $name, ", . - ", $name),
        );)*
    };
}

functions! {
    1 STOP "undolr_stop"
    2 SAVE "undolr_save"
    3 SAVE_ASYNC "undolr_save_async"
    4 POLL_COMPLETE "undolr_poll_saving_complete"
    5 POLL_PROGRESS "undolr_poll_saving_progress"
    6 SELECT_DESCRIPTOR "undolr_get_select_descriptor"
    7 DISCARD "undolr_discard"
    8 SAVE_ON_TERMINATION "undolr_save_on_termination"
    9 SAVE_ON_TERMINATION_CANCEL "undolr_save_on_termination_cancel"
    10 EVENT_LOG_SIZE_GET "undolr_event_log_size_get"
    11 EVENT_LOG_SIZE_SET "undolr_event_log_size_set"
    12 INCLUDE_SYMBOL_FILES "undolr_include_symbol_files"
    13 SHMEM_LOG_FILENAME_SET "undolr_shmem_log_filename_set"
    14 SHMEM_LOG_FILENAME_GET "undolr_shmem_log_filename_get"
    15 SHMEM_LOG_SIZE_SET "undolr_shmem_log_size_set"
    16 SHMEM_LOG_SIZE_GET "undolr_shmem_log_size_get"
    17 RECORDING_STOP "undolr_recording_stop"
    18 RECORDING_STOP_AND_SAVE "undolr_recording_stop_and_save"
}

/// `undolr_start`, and its tolerant older name.
const START: u64 = 0;
const RECORDING_START: u64 = 19;
const NUMBERS: u64 = COUNT + 2;

global_asm!(
    // A result of minus an errno becomes -1 with errno set, by the guest's own C library if it has one.
    ".weak __errno_location",
    "undo_api_return:",
    "test rax, rax",
    "jns 3f",
    "mov r11, [rip + __errno_location@GOTPCREL]",
    "test r11, r11",
    "jz 2f",
    "push rax",
    "call r11",
    "pop rcx",
    "neg ecx",
    "mov [rax], ecx",
    "2: mov rax, -1",
    "3: ret",
    ".global undolr_start",
    ".type undolr_start, @function",
    "undolr_start:",
    "mov eax, 0x0e000000",
    "syscall",
    "cmp rax, -38",
    "jne undo_api_return",
    "jmp undo_api_start_native",
    ".size undolr_start, . - undolr_start",
    ".global undolr_recording_start",
    ".type undolr_recording_start, @function",
    "undolr_recording_start:",
    "mov eax, 0x0e000013",
    "syscall",
    "cmp rax, -38",
    "jne undo_api_return",
    "jmp undo_api_start_native",
    ".size undolr_recording_start, . - undolr_recording_start",
    // Maps the area; then fills the context as it is to be when this function has returned 0, and starts on the engine's stack.
    ".global undo_api_start_native",
    ".hidden undo_api_start_native",
    "undo_api_start_native:",
    "push rdi",
    "call undo_api_prepare",
    "pop rdi",
    "test rax, rax",
    "js undo_api_return",
    "mov r11, {context}",
    "mov qword ptr [r11 + 0], 0",
    "mov qword ptr [r11 + 8], 0",
    "mov qword ptr [r11 + 16], 0",
    "mov [r11 + 24], rbx",
    "lea rax, [rsp + 8]",
    "mov [r11 + 32], rax",
    "mov [r11 + 40], rbp",
    "mov qword ptr [r11 + 48], 0",
    "mov qword ptr [r11 + 56], 0",
    "mov qword ptr [r11 + 64], 0",
    "mov qword ptr [r11 + 72], 0",
    "mov qword ptr [r11 + 80], 0",
    "mov qword ptr [r11 + 88], 0",
    "mov [r11 + 96], r12",
    "mov [r11 + 104], r13",
    "mov [r11 + 112], r14",
    "mov [r11 + 120], r15",
    "mov rax, [rsp]",
    "mov [r11 + 128], rax",
    "mov qword ptr [r11 + 136], 0x202",
    "mov r11, {stack}",
    "mov rsp, r11",
    "call undo_api_begin",
    "ud2",
    context = const arena::CONTEXT,
    stack = const arena::ENGINE_STACK_TOP,
);

/// What the stubs call when nothing is recorded; the result is theirs, or minus an errno.
#[unsafe(no_mangle)]
extern "C" fn undo_api_native(a: u64, b: u64, c: u64, d: u64, index: u32) -> i64 {
    let state = match state::get() {
        Ok(state) => state,
        Err(error) => return error,
    };
    perform(state, u64::from(index), &[a, b, c, d])
}

/// Before a start: maps the area and reports why it cannot start.
#[unsafe(no_mangle)]
extern "C" fn undo_api_prepare(error: *mut i32) -> i64 {
    let result = state::get().map(|state| state.recording);
    let failed = match result {
        Ok(false) => None,
        Ok(true) => Some(-i64::from(errno::EALREADY)),
        Err(error) => Some(error),
    };
    if !error.is_null() {
        write_guest(error as u64, &(if failed.is_some() { CANNOT_RECORD } else { 0 }).to_le_bytes());
    }
    failed.unwrap_or(0)
}

/// `undolr_error_CANNOT_RECORD`
const CANNOT_RECORD: i32 = 4;

/// Starts; comes back to the caller of `undolr_start` in translated code, or natively with an error.
#[unsafe(no_mangle)]
extern "C" fn undo_api_begin(error: *mut i32) -> ! {
    let failure = start::start();
    if !error.is_null() {
        write_guest(error as u64, &CANNOT_RECORD.to_le_bytes());
    }
    super::message::report(format_args!("recording cannot start: error {}", -failure));
    let context = arena::CONTEXT as *mut engine::Context;
    // SAFETY: the context holds the registers that the caller expects; gs is set or harmless to set.
    unsafe {
        engine::set_gs();
        (*context).gpr[reg::RAX] = u64::MAX;
        engine::leave(context)
    }
}

/// Whether a system call number is one of ours.
pub fn is_number(number: u64) -> bool {
    (FIRST..FIRST + NUMBERS).contains(&number)
}

/// A call of an API function by a guest that is being recorded.
pub fn while_recording(host: &mut Recorder, engine: &mut Guest, number: u64, args: &[u64; 6], length: u64) -> Flow {
    let index = number - FIRST;
    let header = host.header(engine);
    let Ok(state) = state::get() else { return Flow::Leave };
    let context_pointer = arena::CONTROL;
    // What each call may write: at most three ints and a pointer, found by comparing.
    let outputs = [args[0], args[1], args[2], args[3]];
    let stops = [STOP, RECORDING_STOP, RECORDING_STOP_AND_SAVE].contains(&index);
    let result = match index {
        START => already(args[0]),
        RECORDING_START => 0,
        SAVE => match path(args[0]) {
            Some(path) => {
                end::note(host, engine, EndReason::Saved, 0, format_args!(""));
                -i64::from(end::save(&path))
            }
            None => -i64::from(errno::EINVAL),
        },
        STOP => {
            if args[0] != 0 {
                write_guest(args[0], &context_pointer.to_le_bytes());
            }
            0
        }
        RECORDING_STOP | RECORDING_STOP_AND_SAVE => 0,
        _ => perform(state, index, args),
    };
    let body = Body::Syscall(Syscall { number: number as u32, result, args: *args });
    let fits = host.events.append(&header, &body, |builder| {
        for address in outputs {
            let mut bytes = [0u8; 8];
            if is_output(index) && address > 4096 && read_guest(address, &mut bytes) == 8 {
                builder.push_write(address, &bytes)?;
            }
        }
        Ok(())
    });
    let full = fits.is_err().then(|| host.log_full(engine));
    let context = engine.context();
    context.gpr[reg::RAX] = result as u64;
    context.rip += length;
    context.gpr[reg::RCX] = context.rip;
    context.gpr[reg::R11] = context.rflags;
    if let Some(flow) = full {
        return flow;
    }
    if !stops {
        return Flow::Continue;
    }
    state.save_path = Path::empty();
    engine.count_transfer();
    end::finish(host, engine, EndReason::StoppedByApi, 0, format_args!(""));
    if index == RECORDING_STOP_AND_SAVE
        && let Some(path) = path(args[0])
    {
        let error = end::save(&path);
        engine.context().gpr[reg::RAX] = (-i64::from(error)) as u64;
    }
    end::detach(host);
    if index == STOP && args[0] != 0 {
        state.stopped = true;
    } else {
        end::dismiss_snapshot();
    }
    Flow::Leave
}

fn is_output(index: u64) -> bool {
    ![SAVE, SAVE_ASYNC, SAVE_ON_TERMINATION, SHMEM_LOG_FILENAME_SET, RECORDING_STOP_AND_SAVE].contains(&index)
}

fn already(error: u64) -> i64 {
    if error != 0 {
        write_guest(error, &CANNOT_RECORD.to_le_bytes());
    }
    -i64::from(errno::EALREADY)
}

/// The functions that do the same whether or not a recording runs.
fn perform(state: &mut State, index: u64, args: &[u64]) -> i64 {
    let error = |errno: u32| -i64::from(errno);
    let put =
        |address: u64, bytes: &[u8]| if address != 0 && write_guest(address, bytes) == bytes.len() { 0 } else { error(errno::EFAULT) };
    let configurable = !state.recording;
    match index {
        STOP | SAVE | RECORDING_STOP | RECORDING_STOP_AND_SAVE => error(errno::EINVAL),
        SAVE_ON_TERMINATION => match path(args[0]) {
            Some(path) if state.recording => {
                state.save_path = path;
                let bytes = path.with_zero();
                // For the snapshot, should this process be killed.
                control().path[..bytes.len()].copy_from_slice(bytes);
                0
            }
            _ => error(errno::EINVAL),
        },
        SAVE_ON_TERMINATION_CANCEL => {
            if !state.recording {
                return error(errno::EINVAL);
            }
            state.save_path = Path::empty();
            control().path[0] = 0;
            0
        }
        SAVE_ASYNC => match path(args[1]) {
            Some(path) if state.stopped && args[0] == arena::CONTROL => {
                state.save_number = end::post_save(&path);
                0
            }
            _ => error(errno::EINVAL),
        },
        POLL_COMPLETE | POLL_PROGRESS => {
            if !state.stopped || args[0] != arena::CONTROL || state.save_number == 0 {
                return error(errno::EINVAL);
            }
            let control = control();
            let complete = control.done.load(Ordering::Acquire) == state.save_number;
            put(args[1], &i32::from(complete).to_le_bytes());
            let result_at = if index == POLL_PROGRESS { args[3] } else { args[2] };
            if index == POLL_PROGRESS {
                put(args[2], &(control.progress.load(Ordering::Relaxed) as i32).to_le_bytes());
            }
            if complete {
                let result = control.result.load(Ordering::Relaxed);
                put(result_at, &(if result == 0 { 0i32 } else { -1 }).to_le_bytes());
            }
            0
        }
        SELECT_DESCRIPTOR => error(errno::EOPNOTSUPP),
        DISCARD => {
            if !state.stopped || args[0] != arena::CONTROL {
                return error(errno::EINVAL);
            }
            state.stopped = false;
            end::dismiss_snapshot();
            0
        }
        EVENT_LOG_SIZE_GET => put(args[0], &state.event_log_bytes.to_le_bytes()),
        EVENT_LOG_SIZE_SET => {
            let bytes = args[0] as i64;
            if !configurable || bytes < 0 || bytes as u64 > EVENT_LOG_MAX {
                return error(errno::EINVAL);
            }
            state.event_log_bytes = if bytes == 0 { EVENT_LOG_DEFAULT } else { (bytes as u64 + 4095) & !4095 };
            0
        }
        INCLUDE_SYMBOL_FILES => {
            state.include_symbol_files = args[0] as i32 != 0;
            0
        }
        SHMEM_LOG_FILENAME_SET => {
            if !configurable {
                return error(errno::EINVAL);
            }
            if args[0] == 0 {
                state.access_log_path = Path::empty();
                return 0;
            }
            match raw_path(args[0]) {
                Some(path) if path.as_bytes().ends_with(b".shmem") => {
                    state.access_log_path = path;
                    0
                }
                _ => error(errno::EINVAL),
            }
        }
        SHMEM_LOG_FILENAME_GET => {
            let pointer = if state.access_log_path.is_empty() { 0 } else { state.access_log_path.as_bytes().as_ptr() as u64 };
            put(args[0], &pointer.to_le_bytes())
        }
        SHMEM_LOG_SIZE_SET => {
            if !configurable {
                return error(errno::EINVAL);
            }
            state.access_log_bytes = args[0].saturating_add(4095) & !4095;
            0
        }
        SHMEM_LOG_SIZE_GET => put(args[0], &state.access_log_bytes.to_le_bytes()),
        _ => error(errno::EINVAL),
    }
}

/// A path in guest memory, as it is. Never looks at a page behind its end: outside a recording nobody catches the fault.
fn raw_path(address: u64) -> Option<Path> {
    let mut bytes = [0u8; Path::MAX];
    let mut filled = 0;
    while address != 0 && filled < bytes.len() {
        let at = address + filled as u64;
        let to_page_end = 4096 - (at % 4096) as usize;
        let piece = to_page_end.min(bytes.len() - filled);
        let got = read_guest(at, &mut bytes[filled..filled + piece]);
        if let Some(end) = bytes[filled..filled + got].iter().position(|&byte| byte == 0) {
            return Path::new(&bytes[..filled + end]);
        }
        if got < piece {
            break;
        }
        filled += piece;
    }
    None
}

/// A path in guest memory, made absolute.
fn path(address: u64) -> Option<Path> {
    raw_path(address)?.absolute()
}

/// The texts of `undolr_error_t`, by value.
const ERRORS: [&core::ffi::CStr; 8] = [
    c"no error",
    c"the Yama security module forbids attaching",
    c"cannot attach",
    c"cannot find the recording library",
    c"the process cannot be recorded",
    c"no information about the threads",
    c"the process uses memory protection keys",
    c"the process uses restartable sequences",
];

/// Pure, so it may run in either way.
#[unsafe(no_mangle)]
extern "C" fn undolr_error_string(error: u32) -> *const core::ffi::c_char {
    ERRORS.get(error as usize).map_or(c"<unknown error>", |text| text).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn undolr_get_version_string() -> *const core::ffi::c_char {
    VERSION.as_ptr().cast()
}

const VERSION: &str = concat!("undolr ", env!("CARGO_PKG_VERSION"), "\0");
