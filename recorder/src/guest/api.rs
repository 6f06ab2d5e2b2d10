//! The C interface of `undolr.h`.
//!
//! Every function is a stub of a few instructions that makes a system call with a number the kernel does not have. While a
//! recording runs the stub is translated like any code of the guest, and the recorder's host answers the call, which is an event
//! like others. Otherwise the kernel says ENOSYS and the stub calls [`undo_api_native`]. Both end in [`perform`]. So no code of ours is
//! ever translated but these stubs, and they compute nothing.

use core::arch::global_asm;

use engine::sys::{self, errno, raw};
use engine::{Flow, arena, read_guest, reg, write_guest};
use recording::{API_FIRST, Body, EndReason, Syscall, api_functions};

use super::control::control;
use super::failure::Errno;
use super::histories::Histories;
use super::host::{Guest, Recorder};
use super::state::{self, EVENT_LOG_DEFAULT, EVENT_LOG_MAX, Path, State};
use super::{end, start};

const FIRST: u64 = API_FIRST as u64;

macro_rules! functions {
    (starts { $($start:literal $start_constant:ident $start_name:literal)* } others { $($index:literal $constant:ident $name:literal)* }) => {
        $(const $start_constant: u64 = $start;)*
        $(const $constant: u64 = $index;)*
        const COUNT: u64 = [$($start,)* $($index),*].len() as u64;
        $(global_asm!(
            concat!(".global ", $start_name), concat!(".type ", $start_name, ", @function"), concat!($start_name, ":"),
            "mov eax, {number}",
            "syscall",
            "cmp rax, -38",
            "jne undo_api_return",
            "jmp undo_api_start_native",
            concat!(".size ", $start_name, ", . - ", $start_name),
            number = const API_FIRST + $start,
        );)*
        $(global_asm!(
            concat!(".global ", $name), concat!(".type ", $name, ", @function"), concat!($name, ":"),
            "mov r10, rcx",
            "mov eax, {number}",
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
            number = const API_FIRST + $index,
        );)*
    };
}

api_functions!(functions);

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
    perform(state, u64::from(index), &[a, b, c, d], &mut Outputs::default())
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
    if state::existing().is_some_and(|state| state.launched) {
        super::message::report(format_args!("recording cannot start: {}", Errno(-failure as i32)));
    }
    let context = arena::CONTEXT as *mut engine::Context;
    // SAFETY: the context holds the registers that the caller expects; gs is set or harmless to set. The return address is still there
    // below the stack pointer.
    unsafe {
        engine::set_gs();
        (*context).gpr[reg::RAX] = failure as u64;
        (*context).gpr[reg::RSP] -= 8;
        (*context).rip = (&raw const undo_api_return) as u64;
        engine::leave(context)
    }
}

unsafe extern "C" {
    static undo_api_return: u8;
    static mut undo_shmem_log_name: [u8; Path::MAX];
}

// The name as the program sees it: in its own memory, not in our area, which replay does not have. It changes only while nothing runs
// in translation.
global_asm!(".local undo_shmem_log_name", ".comm undo_shmem_log_name, {size}, 1", size = const Path::MAX);

/// Names the access log of the next recording.
pub fn set_access_log(state: &mut State, path: Path) {
    let name = path.with_zero();
    // SAFETY: see above; nobody holds a reference to it.
    unsafe { core::ptr::copy_nonoverlapping(name.as_ptr(), (&raw mut undo_shmem_log_name).cast(), name.len()) };
    state.access_log_path = path;
}

/// Whether a system call number is one of ours.
pub fn is_number(number: u64) -> bool {
    (FIRST..FIRST + COUNT).contains(&number)
}

/// What a function has written to the guest's memory.
#[derive(Default)]
struct Outputs {
    /// Address and length.
    list: [(u64, usize); 3],
    count: usize,
}

impl Outputs {
    /// Writes a result of the function. The error is EFAULT.
    fn put(&mut self, address: u64, bytes: &[u8]) -> Result<(), u32> {
        if write(address, bytes) != bytes.len() {
            return Err(errno::EFAULT);
        }
        if let Some(slot) = self.list.get_mut(self.count) {
            *slot = (address, bytes.len());
            self.count += 1;
        }
        Ok(())
    }

    fn iter(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        self.list[..self.count].iter().copied()
    }
}

fn result_of(done: Result<(), u32>) -> i64 {
    done.map_or_else(|error| -i64::from(error), |()| 0)
}

/// A call of an API function by a guest that is being recorded.
pub fn while_recording(host: &mut Recorder, engine: &mut Guest, number: u64, args: &[u64; 6], length: u64) -> Flow {
    let index = number - FIRST;
    let header = host.header(engine);
    let Ok(state) = state::get() else { return Flow::Leave };
    let mut outputs = Outputs::default();
    let mut stops = false;
    let mut keeps = false;
    let result = match index {
        START if args[0] == 0 => -i64::from(errno::EALREADY),
        START => {
            outputs.put(args[0], &CANNOT_RECORD.to_le_bytes()).map_or_else(|error| -i64::from(error), |()| -i64::from(errno::EALREADY))
        }
        RECORDING_START if args[0] == 0 => 0,
        RECORDING_START => result_of(outputs.put(args[0], &0i32.to_le_bytes())),
        SAVE => match path(args[0]) {
            Some(path) => {
                end::note(host, engine, EndReason::Saved, 0, format_args!(""));
                -i64::from(end::save(control(), &path))
            }
            None => -i64::from(errno::EINVAL),
        },
        STOP if args[0] != 0 => {
            let told = state.histories.next().and_then(|handle| outputs.put(args[0], &handle.to_le_bytes()));
            (stops, keeps) = (told.is_ok(), told.is_ok());
            result_of(told)
        }
        RECORDING_STOP_AND_SAVE if path(args[0]).is_none() => -i64::from(errno::EINVAL),
        STOP | RECORDING_STOP | RECORDING_STOP_AND_SAVE => {
            stops = true;
            0
        }
        _ => perform(state, index, args, &mut outputs),
    };
    let body = Body::Syscall(Syscall { number: number as u32, result, args: *args });
    let fits = host.events.append(&header, &body, |builder| {
        for (address, length) in outputs.iter() {
            let mut bytes = [0u8; 8];
            read_guest(address, &mut bytes[..length]);
            builder.push_write(address, &bytes[..length])?;
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
    control().set_path_if_killed(None);
    engine.count_transfer();
    end::finish(host, engine, EndReason::StoppedByApi, 0, format_args!(""));
    if index == RECORDING_STOP_AND_SAVE
        && let Some(path) = path(args[0])
    {
        let error = end::save(control(), &path);
        engine.context().gpr[reg::RAX] = (-i64::from(error)) as u64;
    }
    end::detach(host);
    if !keeps || state.histories.keep().is_err() {
        end::dismiss_snapshot();
    }
    Flow::Leave
}

/// The functions that do the same whether or not a recording runs.
fn perform(state: &mut State, index: u64, args: &[u64], outputs: &mut Outputs) -> i64 {
    result_of(try_perform(state, index, args, outputs))
}

fn try_perform(state: &mut State, index: u64, args: &[u64], outputs: &mut Outputs) -> Result<(), u32> {
    let configurable = if state.recording { Err(errno::EINVAL) } else { Ok(()) };
    let running = if state.recording { Ok(()) } else { Err(errno::EINVAL) };
    match index {
        STOP | RECORDING_STOP | SAVE | RECORDING_STOP_AND_SAVE => after_the_end(state, index, args, outputs),
        SAVE_ON_TERMINATION => {
            running?;
            let path = path(args[0]).ok_or(errno::EINVAL)?;
            state.save_path = path;
            control().set_path_if_killed(Some(&path));
            Ok(())
        }
        SAVE_ON_TERMINATION_CANCEL => {
            running?;
            state.save_path = Path::empty();
            control().set_path_if_killed(None);
            Ok(())
        }
        SAVE_ASYNC => {
            let path = path(args[1]).ok_or(errno::EINVAL)?;
            state.histories.save(args[0], &path)
        }
        POLL_COMPLETE | POLL_PROGRESS => poll(&mut state.histories, index, args, outputs),
        SELECT_DESCRIPTOR => {
            let descriptor = state.histories.descriptor(args[0])?;
            outputs.put(args[1], &descriptor.to_le_bytes())
        }
        DISCARD => state.histories.discard(args[0]),
        EVENT_LOG_SIZE_GET => outputs.put(args[0], &state.event_log_bytes.to_le_bytes()),
        EVENT_LOG_SIZE_SET => {
            configurable?;
            state.event_log_bytes = match args[0] as i64 {
                0 => EVENT_LOG_DEFAULT,
                bytes @ 1.. if bytes as u64 <= EVENT_LOG_MAX => (bytes as u64 + 4095) & !4095,
                _ => return Err(errno::EINVAL),
            };
            Ok(())
        }
        INCLUDE_SYMBOL_FILES => {
            state.include_symbol_files = args[0] as i32 != 0;
            if state.recording {
                control().include_symbol_files = state.include_symbol_files;
            }
            Ok(())
        }
        SHMEM_LOG_FILENAME_SET => {
            configurable?;
            let path = match args[0] {
                0 => Path::empty(),
                name => raw_path(name).filter(|path| path.as_bytes().ends_with(b".shmem")).ok_or(errno::EINVAL)?,
            };
            set_access_log(state, path);
            Ok(())
        }
        SHMEM_LOG_FILENAME_GET => {
            let pointer = if state.access_log_path.is_empty() { 0 } else { (&raw const undo_shmem_log_name) as u64 };
            outputs.put(args[0], &pointer.to_le_bytes())
        }
        SHMEM_LOG_SIZE_SET => {
            configurable?;
            state.access_log_bytes = args[0].saturating_add(4095) & !4095;
            Ok(())
        }
        SHMEM_LOG_SIZE_GET => outputs.put(args[0], &state.access_log_bytes.to_le_bytes()),
        _ => Err(errno::EINVAL),
    }
}

/// A recording that has ended by itself (something could not be recorded, the event log was full) is still there to be saved and stopped.
fn after_the_end(state: &mut State, index: u64, args: &[u64], outputs: &mut Outputs) -> Result<(), u32> {
    if !state.ended {
        return Err(errno::EINVAL);
    }
    if index == SAVE || index == RECORDING_STOP_AND_SAVE {
        let path = path(args[0]).ok_or(errno::EINVAL)?;
        let error = end::save(control(), &path) as u32;
        if error != 0 {
            return Err(error);
        }
    }
    if index == SAVE {
        return Ok(());
    }
    let keeps = index == STOP && args[0] != 0;
    if keeps {
        outputs.put(args[0], &state.histories.next()?.to_le_bytes())?;
    }
    state.ended = false;
    control().set_path_if_killed(None);
    if !keeps || state.histories.keep().is_err() {
        control().dismiss();
    }
    Ok(())
}

fn poll(histories: &mut Histories, index: u64, args: &[u64], outputs: &mut Outputs) -> Result<(), u32> {
    let progress = histories.progress(args[0])?;
    outputs.put(args[1], &i32::from(progress.result.is_some()).to_le_bytes())?;
    let result_at = if index == POLL_PROGRESS { args[3] } else { args[2] };
    if index == POLL_PROGRESS {
        outputs.put(args[2], &progress.percent.to_le_bytes())?;
    }
    match progress.result {
        Some(in_place) => outputs.put(result_at, &(if in_place { 0i32 } else { -1 }).to_le_bytes()),
        None => Ok(()),
    }
}

/// A path in guest memory, as it is.
fn raw_path(address: u64) -> Option<Path> {
    let mut bytes = [0u8; Path::MAX];
    let mut filled = 0;
    while address != 0 && filled < bytes.len() {
        let at = address + filled as u64;
        let to_page_end = 4096 - (at % 4096) as usize;
        let piece = to_page_end.min(bytes.len() - filled);
        let got = read(at, &mut bytes[filled..filled + piece]);
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

/// Copies from the guest's memory as far as there is any.
fn read(address: u64, bytes: &mut [u8]) -> usize {
    if state::existing().is_some_and(|state| state.recording) {
        return read_guest(address, bytes);
    }
    by_kernel(raw::__NR_process_vm_readv, address, bytes.as_mut_ptr() as u64, bytes.len())
}

/// Copies to the guest's memory as far as there is any.
fn write(address: u64, bytes: &[u8]) -> usize {
    if state::existing().is_some_and(|state| state.recording) {
        return write_guest(address, bytes);
    }
    by_kernel(raw::__NR_process_vm_writev, address, bytes.as_ptr() as u64, bytes.len())
}

/// Outside a recording nobody catches a fault of ours; the kernel copies as far as it can.
fn by_kernel(number: u32, address: u64, buffer: u64, length: usize) -> usize {
    let (ours, theirs) = ([buffer, length as u64], [address, length as u64]);
    let args = [sys::getpid() as u64, ours.as_ptr() as u64, 1, theirs.as_ptr() as u64, 1, 0];
    // SAFETY: copies within this process, between the caller's buffer and memory that the guest names.
    let copied = unsafe { sys::syscall(u64::from(number), args) };
    if [errno::EPERM, errno::ENOSYS].iter().any(|error| copied == -i64::from(*error)) {
        let (from, to) = if number == raw::__NR_process_vm_readv { (address, buffer) } else { (buffer, address) };
        return through_pipe(from, to, length);
    }
    copied.max(0) as usize
}

/// The same where a filter forbids that call, as in some containers. At most a pipe's room: 64 KiB.
fn through_pipe(from: u64, to: u64, length: usize) -> usize {
    let mut ends = [0i32; 2];
    // SAFETY: stores two numbers there.
    if unsafe { sys::syscall(u64::from(raw::__NR_pipe2), [ends.as_mut_ptr() as u64, u64::from(raw::O_NONBLOCK), 0, 0, 0, 0]) } < 0 {
        return 0;
    }
    let [read_end, write_end] = ends.map(|end| end as u64);
    // SAFETY: as by `process_vm_readv`.
    let written = unsafe { sys::syscall(u64::from(raw::__NR_write), [write_end, from, length as u64, 0, 0, 0]) };
    // SAFETY: likewise.
    let copied = unsafe { sys::syscall(u64::from(raw::__NR_read), [read_end, to, written.max(0) as u64, 0, 0, 0]) };
    for end in [read_end, write_end] {
        // SAFETY: ours alone.
        unsafe { sys::syscall(u64::from(raw::__NR_close), [end, 0, 0, 0, 0, 0]) };
    }
    copied.max(0) as usize
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
