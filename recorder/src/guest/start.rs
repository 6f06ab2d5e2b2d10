//! How a recording starts: at `undolr_start`, and in a child that is recorded on its own.

use alloc::boxed::Box;
use alloc::vec::Vec;

use engine::sys::{self, raw};
use engine::{Engine, Flow, Options, arena, vector};
use recording::{Metadata, Time};

use super::access::{AccessLog, Identity};
use super::control::control;
use super::events::EventLog;
use super::failure::Errno;
use super::host::{Guest, Recorder};
use super::maps::{self, Map};
use super::message::Descriptor;
use super::shared::SharedMaps;
use super::signals::Signals;
use super::snapshot::{self, Start};
use super::state::{self, OnFork, State};
use super::vdso::Vdso;
use super::{end, memory_calls, own_memory};

/// A code region serves its modules from below, so that the heap behind an executable can grow.
const REGION_SIZE: u64 = 64 << 20;

/// Starts recording; the context holds the guest's registers. Called on the engine's stack; on success it never returns, on failure
/// it returns minus an errno.
pub fn start() -> i64 {
    let state = match state::get() {
        Ok(state) => state,
        Err(error) => return error,
    };
    match prepare(state) {
        Ok(engine) => engine.run(),
        Err(error) => error,
    }
}

fn prepare(state: &mut State) -> Result<Box<Guest>, i64> {
    let error = |errno: u32| -i64::from(errno);
    if threads() != 1 {
        return Err(error(sys::errno::EBUSY));
    }
    if core::mem::take(&mut state.ended) {
        end::dismiss_snapshot();
    }
    state.standard_error = Descriptor::of(2);
    map_control()?;
    let image = vector::save();
    let fs_base = fs_base();
    unregister_rseq(fs_base);
    let events = EventLog::create(state.event_log_bytes, &state.temporary_directory)?;
    let uuid = uuid();
    let own = maps::own();
    let vdso = Vdso::find(&own);
    let signals = Signals::take_over();
    let mut host = Recorder::new(events, SharedMaps::new(), None, signals, vdso, fs_base, uuid);
    host.image = own_memory::image(&own);
    if !state.engine.is_null() {
        // SAFETY: the engine of an earlier recording, which has ended: nothing of it runs any more.
        unsafe { &mut *state.engine }.release_regions();
    }
    let mut engine = Engine::new(host, Options { redirect_sites: true });
    if !engine.add_region(arena::FAR_CODE, arena::FAR_CODE_SIZE) {
        end::detach(engine.host());
        return Err(error(sys::errno::ENOMEM));
    }
    engine::set_gs();
    for (address, code) in engine.host().vdso.overlays().collect::<Vec<_>>() {
        engine.overlay(address, code);
    }
    let result = engine.with_host(|host, engine| begin(host, engine, state, &image, [0; 16]));
    if let Err(failure) = result {
        end::detach(engine.host());
        return Err(failure);
    }
    state.engine = &raw mut *engine;
    state.recording = true;
    Ok(engine)
}

/// What a fresh start and a forked child have in common: log, shared mappings, snapshot.
fn begin(host: &mut Recorder, engine: &mut Guest, state: &mut State, image: &[u8], parent_uuid: [u8; 16]) -> Result<(), i64> {
    let registers = {
        let context = engine.context();
        (context.gpr, context.rip, context.rflags)
    };
    let now = sys::clock_gettime(raw::CLOCK_REALTIME);
    let start_wallclock_ns = now[0] * 1_000_000_000 + now[1];
    let executable = read_link(b"/proc/self/exe\0");
    let name = name_of(&executable).to_vec();
    // What is closed to the guest's instructions is not closed to the guest.
    let own = host.shared.as_guest_sees(maps::own());
    let first_time = host.shared.is_empty();
    let identity = Identity { uuid: host.uuid, executable: &executable, name: &name, start_wallclock_ns };
    host.log = match host.log.take() {
        Some(log) if log.is_lost() => None,
        Some(log) => AccessLog::register(log.log(), &identity),
        None if !state.access_log_path.is_empty() => AccessLog::open(&state.access_log_path, state.access_log_bytes, &identity),
        None => None,
    };
    if first_time {
        for map in own.iter().filter(|map| SharedMaps::is_candidate(map) && !arena::contains(map.start)) {
            memory_calls::adopt(host, 1, map);
        }
        for map in &own {
            host.code.set(map.start, map.end, map.prot);
        }
    } else {
        host.shared.forget();
        readopt(host, &own);
    }
    host.shared.robust.begin();
    let log = host.log.as_ref();
    let metadata = Metadata {
        uuid: host.uuid,
        log_uuid: log.map_or([0; 16], |log| log.log().uuid()),
        log_path: state.access_log_path.as_bytes().to_vec(),
        log_index: log.map(|log| log.recording().get()),
        pid: sys::getpid() as u32,
        ppid: sys::getppid() as u32,
        parent_uuid,
        name,
        executable,
        args: maps::read_file(b"/proc/self/cmdline\0")
            .unwrap_or_default()
            .split(|&byte| byte == 0)
            .filter(|arg| !arg.is_empty())
            .map(<[u8]>::to_vec)
            .collect(),
        working_directory: read_link(b"/proc/self/cwd\0"),
        start_wallclock_ns,
        // SAFETY: rdtsc has no preconditions.
        start_timestamp: unsafe { core::arch::x86_64::_rdtsc() },
        begin: Time { bbcount: 1, pc: registers.1 },
        begin_registers: recording::Registers {
            gpr: registers.0,
            rip: registers.1,
            rflags: registers.2,
            fs_base: host.fs_base,
            gs_base: 0,
        },
        xsave: image.to_vec(),
        xcr0: vector::xcr0(),
        cpuid: snapshot::cpuid(),
        auxv: maps::read_file(b"/proc/self/auxv\0").unwrap_or_default(),
        brk: brk(),
        recorder: concat!("undolr ", env!("CARGO_PKG_VERSION")).into(),
        ..Metadata::default()
    };
    let regions: Vec<u64> = engine.regions().map(|(base, _)| base).collect();
    // What of our own areas lies among the guest's mappings.
    let own_starts = own.iter().map(|map| map.start).filter(|start| regions.contains(start)).collect();
    let start = Start { maps: own, metadata, own: own_starts };
    control().include_symbol_files = state.include_symbol_files;
    control().set_path_if_killed(Some(&state.save_path).filter(|path| !path.is_empty()));
    snapshot::make(host, start)
}

/// After a fork, in the child: it is recorded on its own, or goes on natively.
pub fn in_child(host: &mut Recorder, engine: &mut Guest) -> Flow {
    let natively = |host: &mut Recorder| {
        end::detach(host);
        Flow::Leave
    };
    let Some(state) = state::existing() else { return natively(host) };
    if state.on_fork == OnFork::Parent {
        return natively(host);
    }
    let parent_uuid = host.uuid;
    let started = (|| {
        map_control()?;
        host.events = EventLog::create(state.event_log_bytes, &state.temporary_directory)?;
        host.uuid = uuid();
        engine.restart_count_behind_call();
        engine.forget_shared_pcs();
        engine.open_code(0, u64::MAX);
        let image = vector::save();
        state.executed = 0;
        state.save_path = state.own_path();
        begin(host, engine, state, &image, parent_uuid)
    })();
    match started {
        Ok(()) => Flow::Continue,
        Err(error) => {
            super::message::report(format_args!("child process {} is not recorded: {}", sys::getpid(), Errno(-error as i32)));
            natively(host)
        }
    }
}

/// In a child the mappings are taken over already, but its recording does not know them.
fn readopt(host: &mut Recorder, own: &[Map]) {
    let Some(log) = &mut host.log else { return };
    for map in host.shared.iter_mut().filter(|map| map.object.is_some()) {
        let name = own.iter().find(|candidate| candidate.start == map.start).map_or(&[] as &[u8], |candidate| &candidate.name);
        log.add_mapping(map, name, 1);
    }
}

/// A place for code within reach of `near`: below the lowest mapping of the cluster that it belongs to.
pub fn place_region(near: u64) -> Option<(u64, u64)> {
    const REACH: u64 = 1 << 30;
    const MARGIN: u64 = 64 << 20;
    let maps = maps::own();
    let wanted = REGION_SIZE + 2 * MARGIN;
    let mut best = None;
    let mut low = 0x1_0000_u64;
    for map in &maps {
        if map.start > near {
            break;
        }
        let gap = map.start.saturating_sub(low);
        if gap >= wanted && near - map.start < REACH {
            best = Some((map.start - MARGIN - REGION_SIZE) & !0xfff);
        }
        low = map.end;
    }
    // Below the lowest module (a program linked at a fixed low address): above it instead.
    if best.is_none() {
        let mut end = 0;
        for map in &maps {
            if end > near && map.start.saturating_sub(end) > 2 * REACH && end - near < REACH {
                best = Some((end + REACH) & !0xfff);
                break;
            }
            end = map.end;
        }
    }
    best.map(|base| (base, REGION_SIZE))
}

/// Empty control pages.
pub fn map_control() -> Result<(), i64> {
    let flags = raw::MAP_SHARED | raw::MAP_ANONYMOUS | raw::MAP_NORESERVE | raw::MAP_FIXED;
    let got = sys::mmap(arena::CONTROL, arena::CONTROL_SIZE, raw::PROT_READ | raw::PROT_WRITE, flags, -1, 0);
    if got != arena::CONTROL as i64 {
        return Err(got);
    }
    let _ = control();
    Ok(())
}

fn fs_base() -> u64 {
    let mut base = 0u64;
    sys::arch_prctl(sys::ARCH_GET_FS, (&raw mut base) as u64);
    base
}

fn brk() -> u64 {
    // SAFETY: brk(0) only asks.
    unsafe { sys::syscall(u64::from(raw::__NR_brk), [0; 6]) as u64 }
}

/// glibc registers a restartable-sequence area in the thread's control block; the kernel would write to it at any time. The kernel
/// refuses any other address, so the right one is found by trying.
fn unregister_rseq(fs_base: u64) {
    const SIGNATURE: u64 = 0x5305_3053;
    const UNREGISTER: u64 = 1;
    // glibc's own place first: a little above the thread pointer.
    let offsets = || (0..4096u64).step_by(32);
    for length in [32u64, 28, 20] {
        for area in offsets().map(|offset| fs_base + offset).chain(offsets().map(|offset| fs_base.wrapping_sub(32 + offset))) {
            // SAFETY: takes a registration away, or fails.
            let result = unsafe { sys::syscall(u64::from(raw::__NR_rseq), [area & !31, length, UNREGISTER, SIGNATURE, 0, 0]) };
            if result == 0 {
                return;
            }
        }
    }
}

/// How many threads this process has.
fn threads() -> u64 {
    let Some(status) = maps::read_file(b"/proc/self/status\0") else { return 1 };
    let line = status.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"Threads:\t"));
    line.and_then(|line| core::str::from_utf8(line).ok()?.trim().parse().ok()).unwrap_or(1)
}

fn uuid() -> [u8; 16] {
    let mut bytes = [0u8; 16];
    // SAFETY: getrandom fills at most 16 bytes.
    unsafe { sys::syscall(u64::from(raw::__NR_getrandom), [bytes.as_mut_ptr() as u64, 16, 0, 0, 0, 0]) };
    // Version 4, variant 1.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

pub fn read_link(path: &[u8]) -> Vec<u8> {
    let mut target = alloc::vec![0u8; 4096];
    let args = [path.as_ptr() as u64, target.as_mut_ptr() as u64, 4096, 0, 0, 0];
    // SAFETY: readlink writes at most 4096 bytes.
    let length = unsafe { sys::syscall(u64::from(raw::__NR_readlink), args) };
    target.truncate(length.max(0) as usize);
    target
}

pub fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}
