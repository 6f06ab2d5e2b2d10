//! System calls of the guest: executed here, their outcome noted.
//!
//! The table in `crate::syscalls` says which memory a call touches. Pointers into shared mappings lead to the alias; where they
//! stand inside structures the mappings are opened while the call runs.

use alloc::format;
use alloc::vec::Vec;

use engine::sys::{self, SigAction, SigAltStack, raw};
use engine::{Flow, arena, read_guest, reg};
use recording::{Body, EndReason, EventBuilder, Full, Syscall};
use shmem_log::{Kind, LineTicks, Origin, WideToken, Writer};

use crate::syscalls::{Call, Class, Dir, GuestMemory, Place, RESIZES, Range, SIGMASK};

use super::freed::Freed;
use super::host::{Guest, Recorder, store};
use super::maps::{self, Map};
use super::shared::{SharedMap, SharedMaps};
use super::{api, borrowed, end, frames, signals, start};

/// Guest memory as the recorder reads it: shared mappings through their alias.
pub struct Memory<'a>(pub &'a SharedMaps);

impl GuestMemory for Memory<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        let mut done = 0;
        while done < buffer.len() {
            let at = address.wrapping_add(done as u64);
            let (readable, edge) = match self.0.find(at) {
                Some(map) => (map.to_alias(at), map.end),
                None => (at, self.0.next_start(at)),
            };
            let length = (buffer.len() - done).min((edge - at) as usize);
            if read_guest(readable, &mut buffer[done..done + length]) != length {
                return false;
            }
            done += length;
        }
        true
    }

    fn semaphores(&self, set: u64) -> u64 {
        /// `struct semid64_ds`: 104 bytes, sem_nsems at 80.
        const COUNT: usize = 10;
        const IPC_STAT: u64 = 2;
        let mut status = [0u64; 13];
        let args = [set, 0, IPC_STAT, status.as_mut_ptr() as u64, 0, 0];
        // SAFETY: semctl writes at most the structure.
        let result = unsafe { sys::syscall(u64::from(raw::__NR_semctl), args) };
        if result < 0 { 0 } else { status[COUNT] }
    }
}

/// A kernel access to shared memory, begun before the call.
struct KernelAccess {
    map: SharedMap,
    address: u64,
    length: u64,
    kind: Kind,
    token: WideToken,
    scratch: Vec<LineTicks>,
    /// What was there before the call.
    seen: Vec<u8>,
}

pub fn system_call(host: &mut Recorder, engine: &mut Guest, length: u64) -> Flow {
    let context = engine.context();
    let number = context.gpr[reg::RAX] & 0xffff_ffff;
    let gpr = &context.gpr;
    let args = [gpr[reg::RDI], gpr[reg::RSI], gpr[reg::RDX], gpr[reg::R10], gpr[8], gpr[9]];
    if api::is_number(number) {
        return api::while_recording(host, engine, number, &args, length);
    }
    if let Some(flow) = told_by_vdso(host, engine, number, &args, length) {
        return flow;
    }
    let call = Call::capture(number, &args, &Memory(&host.shared));
    let class = match call.class() {
        Ok(class) => class,
        Err(stop) => return end::stop_unsupported(host, engine, format_args!("{stop}")),
    };
    let mut turn = Turn { call: &call, number, args, length };
    match class {
        Class::Plain => turn.plain(host, engine),
        Class::Memory => turn.memory(host, engine),
        Class::Process => turn.process(host, engine),
        Class::Signal => turn.signal(host, engine),
        Class::Identity => turn.identity(host, engine),
        Class::Refuse(reason) => end::stop_unsupported(host, engine, format_args!("{reason}")),
    }
}

/// The functions of the vdso that tell the time.
fn told_by_vdso(host: &mut Recorder, engine: &mut Guest, number: u64, args: &[u64; 6], length: u64) -> Option<Flow> {
    let answer = host.vdso.answer(engine.context().rip, args, &host.shared)?;
    for &(address, ref bytes, length) in &answer.writes {
        // Where the guest may not write the kernel decides what happens.
        if engine.write_guest(address, &bytes[..length]) != length {
            return None;
        }
    }
    Some(note(host, engine, number, args, length, answer.result, &mut |builder| {
        let mut writes = answer.writes.iter().filter(|write| write.2 != 0);
        writes.try_for_each(|&(address, ref bytes, length)| builder.push_write(address, &bytes[..length]))
    }))
}

/// Notes a call and leaves the guest behind it.
fn note(host: &mut Recorder, engine: &mut Guest, number: u64, args: &[u64; 6], length: u64, result: i64, writes: Writes) -> Flow {
    let header = host.header(engine);
    let body = Body::Syscall(Syscall { number: number as u32, result, args: *args });
    let fits = host.events.append(&header, &body, writes).is_ok();
    let flow = if fits { Flow::Continue } else { host.log_full(engine) };
    let context = engine.context();
    context.gpr[reg::RAX] = result as u64;
    context.rip += length;
    context.gpr[reg::RCX] = context.rip;
    context.gpr[reg::R11] = context.rflags;
    host.signals.remind(engine);
    flow
}

/// One call on its way.
pub struct Turn<'a> {
    call: &'a Call,
    pub number: u64,
    pub args: [u64; 6],
    length: u64,
}

type Writes<'a> = &'a mut dyn FnMut(&mut EventBuilder) -> Result<(), Full>;

impl Turn<'_> {
    /// Notes the call and leaves the guest behind it.
    pub fn done(&self, host: &mut Recorder, engine: &mut Guest, result: i64, writes: Writes) -> Flow {
        note(host, engine, self.number, &self.args, self.length, result, writes)
    }

    pub fn done_simply(&self, host: &mut Recorder, engine: &mut Guest, result: i64) -> Flow {
        self.done(host, engine, result, &mut |_| Ok(()))
    }

    /// Executes the call as it is and notes its outputs.
    fn plain(&mut self, host: &mut Recorder, engine: &mut Guest) -> Flow {
        let frees = self.call.flags().has(RESIZES) && !host.shared.is_empty();
        let freed = if frees { self.frees_of_file(host, engine) } else { Freed::default() };
        let (result, outputs) = self.execute(host, engine);
        self.freed(host, engine, freed, result == 0);
        if self.number as u32 == raw::__NR_shmctl && result >= 0 {
            self.hide_aliases(host, engine, result);
        }
        if result == frames::RESTART || (result == -i64::from(sys::errno::EINTR) && host.signals.restarts(self.number as u32)) {
            // Nothing happened: the handler runs first, and returns to the call.
            return Flow::NotMade;
        }
        if result >= 0 && self.opens_for_writing() && is_memory_of_process(result) {
            // Made again when the guest goes on.
            sys::close(result as i32);
            return end::stop_unsupported(host, engine, format_args!("writing to the memory of a process through /proc"));
        }
        self.done(host, engine, result, &mut |builder| push_outputs(builder, &outputs))
    }

    fn opens_for_writing(&self) -> bool {
        let accesses = |flags: u64| flags as u32 & raw::O_ACCMODE != raw::O_RDONLY;
        match self.number as u32 {
            raw::__NR_open => accesses(self.args[1]),
            raw::__NR_openat => accesses(self.args[2]),
            raw::__NR_openat2 | raw::__NR_creat => true,
            _ => false,
        }
    }

    /// The kernel counts our aliases of a System V segment among its attachments.
    fn hide_aliases(&self, host: &Recorder, engine: &mut Guest, result: i64) {
        const IPC_STAT: u64 = 2;
        const SHM_STAT: u64 = 13;
        const SHM_STAT_ANY: u64 = 15;
        /// In `struct shmid64_ds`.
        const ATTACHMENTS: u64 = 88;
        let [id, command, status, ..] = self.args;
        let id = match command {
            IPC_STAT => id & 0xffff_ffff,
            SHM_STAT | SHM_STAT_ANY => result as u64,
            _ => return,
        };
        let at = status.wrapping_add(ATTACHMENTS);
        let mut count = [0u8; 8];
        if host.shared.find(at).is_some() || read_guest(at, &mut count) != count.len() {
            return;
        }
        // Such a mapping's inode is the segment's number.
        let is_alias = |map: &&Map| arena::contains(map.start) && map.inode == id && map.name.starts_with(b"/SYSV");
        let aliases = maps::own().iter().filter(is_alias).count() as u64;
        engine.write_guest(at, &u64::from_le_bytes(count).saturating_sub(aliases).to_le_bytes());
    }

    /// Runs the call with shared memory in reach of the kernel; logs the kernel's accesses to it.
    fn execute(&mut self, host: &mut Recorder, engine: &mut Guest) -> (i64, Vec<(u64, u64, u64)>) {
        let mut actual = self.args;
        let mut nested = false;
        let mut accesses = Vec::new();
        if !host.shared.is_empty() {
            let shared = &host.shared;
            let log = &mut host.log;
            if let Some(log) = log {
                log.note_time(engine.bbcount());
            }
            self.call.for_each_pointer(&Memory(shared), &mut |pointer| {
                let Some(map) = shared.find(pointer.range.addr) else {
                    nested |= shared.overlaps(pointer.range.addr, pointer.range.addr.saturating_add(pointer.range.len));
                    return;
                };
                match pointer.place {
                    Place::Arg(index) if pointer.range.addr.saturating_add(pointer.range.len) <= map.end => {
                        actual[index as usize] = map.to_alias(pointer.range.addr);
                    }
                    _ => nested = true,
                }
                let kind = match pointer.dir {
                    Dir::In => Kind::Read,
                    Dir::Out => Kind::Write,
                    Dir::InOut => Kind::ReadWrite,
                    Dir::Address => return,
                };
                let length = pointer.range.len.min(map.end - pointer.range.addr);
                if accesses.iter().any(|access: &KernelAccess| access.address == pointer.range.addr && access.kind == kind) {
                    return;
                }
                if let (Some(object), Some(log)) = (map.object, log.as_mut()) {
                    let offset = map.to_object(pointer.range.addr);
                    let mut scratch = Vec::new();
                    scratch.resize(Writer::lines(offset, length), LineTicks::default());
                    let token = log.begin_wide(kind, object, offset, length, &mut scratch);
                    let mut seen = alloc::vec![0; if kind.reads() { length as usize } else { 0 }];
                    read_guest(map.to_alias(pointer.range.addr), &mut seen);
                    accesses.push(KernelAccess { map: *map, address: pointer.range.addr, length, kind, token, scratch, seen });
                }
            });
        }
        if nested {
            host.shared.release();
            actual = self.args;
        }
        let mut result = frames::interruptible(self.number, &actual);
        if let (true, Some(mask)) = (result == -i64::from(sys::errno::EINTR), self.sleep_mask(&host.shared)) {
            host.signals.interrupted_with_mask(mask);
        }
        if result == -i64::from(sys::errno::EFAULT) && engine.open_code(0, u64::MAX) {
            result = frames::interruptible(self.number, &actual);
        }
        if nested {
            host.shared.close();
        }
        let mut outputs = Vec::new();
        self.call.for_each_output(result, &Memory(&host.shared), &mut |range: Range| {
            let readable = host.shared.find(range.addr).map_or(range.addr, |map| map.to_alias(range.addr));
            outputs.push((range.addr, readable, range.len));
        });
        self.finish_accesses(host, engine, result, accesses, &outputs);
        (result, outputs)
    }

    /// The signal mask that is in force while this call sleeps, if it brings one.
    fn sleep_mask(&self, shared: &SharedMaps) -> Option<u64> {
        if !self.call.flags().has(SIGMASK) {
            return None;
        }
        let word = |address: u64| {
            let mut bytes = [0; 8];
            (address != 0 && Memory(shared).read(address, &mut bytes)).then(|| u64::from_le_bytes(bytes))
        };
        match self.number as u32 {
            raw::__NR_rt_sigsuspend => word(self.args[0]),
            raw::__NR_ppoll => word(self.args[3]),
            raw::__NR_epoll_pwait | raw::__NR_epoll_pwait2 => word(self.args[4]),
            raw::__NR_pselect6 => word(word(self.args[5])?),
            _ => None,
        }
    }

    fn finish_accesses(
        &self,
        host: &mut Recorder,
        engine: &mut Guest,
        result: i64,
        accesses: Vec<KernelAccess>,
        outputs: &[(u64, u64, u64)],
    ) {
        for &(address, readable, length) in outputs {
            if let Some(map) = host.shared.find(address).copied() {
                // What the kernel wrote is known from now on.
                let length = length.min(map.end - address);
                let mut bytes = alloc::vec![0; length as usize];
                read_guest(readable, &mut bytes);
                store(map.to_known(address), &bytes);
            }
        }
        let (pc, bbcount) = (engine.context().rip, engine.bbcount());
        for mut access in accesses {
            let Some(log) = &mut host.log else { continue };
            // How much of it the kernel really touched.
            let mut moved = 0;
            let mut count = |range: Range| {
                // Parts of a structure count up to their end.
                let end = access.address + access.length;
                if range.addr < end && access.address < range.addr + range.len {
                    moved = moved.max((range.addr + range.len).min(end) - access.address);
                }
            };
            if access.kind.writes() {
                self.call.for_each_output(result, &Memory(&host.shared), &mut count);
            } else {
                self.call.for_each_input(result, &Memory(&host.shared), &mut count);
            }
            if moved == 0 {
                log.abandon_wide(access.token);
                continue;
            }
            let mut bytes = alloc::vec![0; moved as usize];
            read_guest(access.map.to_alias(access.address), &mut bytes);
            let seen = &access.seen[..access.seen.len().min(bytes.len())];
            log.commit_wide(access.token, &mut access.scratch, Origin::Pc { pc, by_kernel: true }, bbcount, seen, &bytes);
        }
    }

    pub fn name(&self) -> &'static str {
        self.call.name()
    }

    /// Executes the call with the guest's own arguments.
    pub fn native(&self) -> i64 {
        // SAFETY: the guest asked for it, and the caller has made sure that nothing of ours is touched.
        unsafe { sys::syscall(self.number, self.args) }
    }

    fn process(&mut self, host: &mut Recorder, engine: &mut Guest) -> Flow {
        match self.number as u32 {
            raw::__NR_exit | raw::__NR_exit_group => {
                let status = self.args[0] as i32 & 0xff;
                if host.events.is_muted() {
                    borrowed::publish(host, engine);
                }
                end::finish(host, engine, EndReason::Exited, status, format_args!(""));
                // The kernel walks the list of robust mutexes, which may lie in shared memory.
                host.shared.release();
                end::dismiss_snapshot();
                sys::exit_group(status)
            }
            // The C library falls back to clone.
            raw::__NR_clone3 => self.done_simply(host, engine, -i64::from(sys::errno::ENOSYS)),
            raw::__NR_fork => self.fork(host, engine, u64::from(raw::SIGCHLD), 0),
            raw::__NR_vfork => self.vfork(host, engine, u64::from(raw::CLONE_VFORK | raw::SIGCHLD), 0),
            raw::__NR_clone => {
                let [flags, stack, ..] = self.args;
                let (shares, sleeps) = (flags & u64::from(raw::CLONE_VM) != 0, flags & u64::from(raw::CLONE_VFORK) != 0);
                match (shares, sleeps) {
                    (true, false) => end::stop_unsupported(host, engine, format_args!("a second thread")),
                    (true, true) => self.vfork(host, engine, flags & !u64::from(raw::CLONE_VM), stack),
                    (false, _) => self.fork(host, engine, flags, stack),
                }
            }
            raw::__NR_execve | raw::__NR_execveat => self.execute_program(host, engine),
            _ => self.plain(host, engine),
        }
    }

    /// Makes a child that natively would borrow this process's memory; see `borrowed`.
    fn vfork(&mut self, host: &mut Recorder, engine: &mut Guest, flags: u64, stack: u64) -> Flow {
        if host.events.is_muted() {
            return self.fork(host, engine, flags, stack);
        }
        borrowed::prepare();
        let result = self.clone(flags);
        // What the kernel told this process stands in memory that the child's copy does not have.
        let identifier = self.identifier(flags, result);
        let mut told = [0; 4];
        identifier.inspect(|&(address, _)| _ = read_guest(address, &mut told));
        if result != 0 && borrowed::is_space_changed() {
            end::stop_unsupported(host, engine, format_args!("a vforked child that changes its parent's address space"));
            borrowed::follow_space(host, engine);
            borrowed::take_over(host, engine);
            identifier.inspect(|&(address, _)| _ = engine.write_guest(address, &told));
            self.leave_behind(engine, result);
            return Flow::Leave;
        }
        if result != 0 {
            let mut changed = borrowed::take_over(host, engine);
            identifier.inspect(|&(address, _)| _ = engine.write_guest(address, &told));
            changed.extend(identifier);
            let changed: Vec<_> = changed.into_iter().map(|(address, length)| (address, address, length)).collect();
            let flow = self.done(host, engine, result, &mut |builder| push_outputs(builder, &changed));
            return end::after_fork(host, engine, result, flow);
        }
        host.events.mute();
        host.log = None;
        self.enter_child(host, engine, stack);
        Flow::Continue
    }

    /// Where clone tells a parent its child's number, or a descriptor for it, besides the result.
    fn identifier(&self, flags: u64, result: i64) -> Option<(u64, u64)> {
        let tells = flags & u64::from(raw::CLONE_PARENT_SETTID | raw::CLONE_PIDFD) != 0;
        (tells && result > 0).then_some((self.args[2], 4))
    }

    /// The system call itself. The child goes on here, on its copy of the engine's stack.
    fn clone(&self, flags: u64) -> i64 {
        let mut actual = self.args;
        actual[0] = flags;
        actual[1] = 0;
        // SAFETY: without CLONE_VM the child has memory of its own.
        unsafe { sys::syscall(u64::from(raw::__NR_clone), actual) }
    }

    /// The guest's registers and signals in a child: what waits here is its parent's.
    fn enter_child(&self, host: &mut Recorder, engine: &mut Guest, stack: u64) {
        host.signals.forget_queue();
        self.leave_behind(engine, 0);
        if stack != 0 {
            engine.context().gpr[reg::RSP] = stack;
        }
    }

    /// Leaves the guest behind the call, of which no event tells.
    pub fn leave_behind(&self, engine: &mut Guest, result: i64) {
        let context = engine.context();
        context.gpr[reg::RAX] = result as u64;
        context.rip += self.length;
        context.gpr[reg::RCX] = context.rip;
        context.gpr[reg::R11] = context.rflags;
    }

    /// Makes a child process. It shares nothing with this one that could change our memory.
    fn fork(&mut self, host: &mut Recorder, engine: &mut Guest, flags: u64, stack: u64) -> Flow {
        let result = self.clone(flags);
        if result != 0 {
            let identifier = self.identifier(flags, result);
            let flow = self.done(host, engine, result, &mut |builder| match identifier {
                Some((address, length)) => push_outputs(builder, &[(address, address, length)]),
                None => Ok(()),
            });
            return end::after_fork(host, engine, result, flow);
        }
        self.enter_child(host, engine, stack);
        if host.events.is_muted() {
            end::detach(host);
            return Flow::Leave;
        }
        start::in_child(host, engine)
    }

    fn signal(&mut self, host: &mut Recorder, engine: &mut Guest) -> Flow {
        let [first, second, third, ..] = self.args;
        match self.number as u32 {
            raw::__NR_rt_sigaction => {
                let signal = first as usize;
                if signal == 0 || signal >= signals::SIGNALS || self.args[3] != 8 {
                    return self.done_simply(host, engine, -i64::from(sys::errno::EINVAL));
                }
                let old = host.signals.actions[signal];
                if second != 0 {
                    let forbidden = [raw::SIGKILL, raw::SIGSTOP].contains(&(signal as u32));
                    let mut words = [0u8; 32];
                    if forbidden || !host.kernel_get(engine, second, &mut words) {
                        let error = if forbidden { sys::errno::EINVAL } else { sys::errno::EFAULT };
                        return self.done_simply(host, engine, -i64::from(error));
                    }
                    let word = |index: usize| super::access::word(&words[8 * index..8 * index + 8]);
                    host.signals
                        .set_action(signal as i32, SigAction { handler: word(0), flags: word(1), restorer: word(2), mask: word(3) });
                }
                let words = [old.handler, old.flags, old.restorer, old.mask].map(u64::to_le_bytes);
                self.with_output(host, engine, third, words.as_flattened())
            }
            raw::__NR_rt_sigprocmask => {
                let old = host.signals.mask;
                if self.args[3] != 8 {
                    return self.done_simply(host, engine, -i64::from(sys::errno::EINVAL));
                }
                if second != 0 {
                    let mut bytes = [0u8; 8];
                    if !host.kernel_get(engine, second, &mut bytes) {
                        return self.done_simply(host, engine, -i64::from(sys::errno::EFAULT));
                    }
                    let set = u64::from_le_bytes(bytes);
                    let mask = match first as u32 {
                        raw::SIG_BLOCK => old | set,
                        raw::SIG_UNBLOCK => old & !set,
                        raw::SIG_SETMASK => set,
                        _ => return self.done_simply(host, engine, -i64::from(sys::errno::EINVAL)),
                    };
                    host.signals.set_mask(mask);
                }
                self.with_output(host, engine, third, &old.to_le_bytes())
            }
            raw::__NR_rt_sigpending => {
                let mut set = [0u8; 8];
                if second > set.len() as u64 {
                    return self.done_simply(host, engine, -i64::from(sys::errno::EINVAL));
                }
                // SAFETY: the kernel writes at most eight bytes, to `set`.
                unsafe { sys::syscall(self.number, [(&raw mut set) as u64, second, 0, 0, 0, 0]) };
                let pending = (u64::from_le_bytes(set) | host.signals.queued()) & host.signals.mask;
                self.with_output(host, engine, first, &pending.to_le_bytes()[..second as usize])
            }
            raw::__NR_sigaltstack => {
                let sp = engine.context().gpr[reg::RSP];
                let shown = host.signals.shown_stack(sp);
                if first != 0 {
                    let mut bytes = [0u8; 24];
                    if !host.kernel_get(engine, first, &mut bytes) {
                        return self.done_simply(host, engine, -i64::from(sys::errno::EFAULT));
                    }
                    let word = |index: usize| super::access::word(&bytes[8 * index..8 * index + 8]);
                    let asked = SigAltStack { sp: word(0), flags: word(1) as i32, size: word(2) };
                    if let Err(error) = host.signals.change_stack(asked, sp) {
                        return self.done_simply(host, engine, -i64::from(error));
                    }
                }
                let words = [shown.sp, u64::from(shown.flags as u32), shown.size].map(u64::to_le_bytes);
                self.with_output(host, engine, second, words.as_flattened())
            }
            raw::__NR_rt_sigreturn => frames::sigreturn(host, engine, &self.args),
            _ => self.plain(host, engine),
        }
    }

    /// A call of ours that succeeds and writes `bytes` to `address` unless that is null.
    fn with_output(&self, host: &mut Recorder, engine: &mut Guest, address: u64, bytes: &[u8]) -> Flow {
        if address == 0 {
            return self.done_simply(host, engine, 0);
        }
        if !host.kernel_put(engine, address, bytes) {
            return self.done_simply(host, engine, -i64::from(sys::errno::EFAULT));
        }
        self.done(host, engine, 0, &mut |builder| builder.push_write(address, bytes))
    }

    fn identity(&mut self, host: &mut Recorder, engine: &mut Guest) -> Flow {
        match (self.number as u32, self.args[0] as u32) {
            // Registered again it would change the guest's memory behind our back.
            (raw::__NR_rseq, _) => self.done_simply(host, engine, -i64::from(sys::errno::ENOSYS)),
            (raw::__NR_arch_prctl, sys::ARCH_SET_FS) => {
                let result = self.native();
                let flow = self.done_simply(host, engine, result);
                if result == 0 {
                    host.fs_base = self.args[1];
                }
                flow
            }
            (raw::__NR_arch_prctl, sys::ARCH_SET_GS) => end::stop_unsupported(host, engine, format_args!("arch_prctl(ARCH_SET_GS)")),
            (raw::__NR_arch_prctl, sys::ARCH_GET_GS) => self.with_output(host, engine, self.args[1], &[0; 8]),
            (raw::__NR_set_robust_list, _) => {
                let result = self.native();
                if result == 0 {
                    host.shared.robust.registered(self.args[0]);
                }
                self.done_simply(host, engine, result)
            }
            (raw::__NR_get_robust_list, _) => {
                host.shared.robust.release();
                let flow = self.plain(host, engine);
                host.shared.robust.resume();
                flow
            }
            _ => self.plain(host, engine),
        }
    }
}

/// Whether a descriptor is a file `/proc/PID/mem`.
fn is_memory_of_process(fd: i64) -> bool {
    const PROC: u64 = 0x9fa0;
    let mut status = [0u64; 15];
    // SAFETY: struct statfs is 120 bytes.
    let result = unsafe { sys::syscall(u64::from(raw::__NR_fstatfs), [fd as u64, status.as_mut_ptr() as u64, 0, 0, 0, 0]) };
    if result != 0 || status[0] != PROC {
        return false;
    }
    let mut link = format!("/proc/self/fd/{fd}").into_bytes();
    link.push(0);
    start::read_link(&link).ends_with(b"/mem")
}

fn push_outputs(builder: &mut EventBuilder, outputs: &[(u64, u64, u64)]) -> Result<(), Full> {
    for &(address, readable, length) in outputs {
        let slot = builder.push_write_header(address, length)?;
        let got = read_guest(readable, slot);
        slot[got..].fill(0);
    }
    Ok(())
}
