//! The guest's view of signals, kept on its behalf: dispositions, mask, alternative stack, and what waits to be delivered.
//!
//! The kernel has the engine's handler for every signal that would run a handler of the guest or end the process, so that either happens
//! at a recorded time. Faults are never blocked really, because shared sites are found by them.

use engine::sys::{self, SigAction, SigAltStack, UContext, raw};
use engine::{FaultInfo, Flow, SignalContext};
use recording::{Body, EndReason, SIGINFO_BYTES, Signal, SignalAction};

use super::end;
use super::host::{Guest, Recorder};

pub const SIGNALS: usize = 65;
const QUEUE: usize = 64;
/// Where siginfo has the address of a fault, in words.
const SI_ADDR: usize = 2;

/// Signals that are never blocked really.
const FAULTS: u64 = bit(raw::SIGSEGV) | bit(raw::SIGBUS) | bit(raw::SIGFPE) | bit(raw::SIGILL) | bit(raw::SIGTRAP);

const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// What the kernel does with a signal that has no handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultAction {
    Terminate,
    Ignore,
    Stop,
}

pub fn default_action(signal: i32) -> DefaultAction {
    match signal as u32 {
        raw::SIGCHLD | raw::SIGURG | raw::SIGWINCH | raw::SIGCONT => DefaultAction::Ignore,
        raw::SIGSTOP | raw::SIGTSTP | raw::SIGTTIN | raw::SIGTTOU => DefaultAction::Stop,
        _ => DefaultAction::Terminate,
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Queued {
    pub signal: i32,
    pub info: [u64; 16],
}

#[derive(Debug)]
pub struct Signals {
    pub actions: [SigAction; SIGNALS],
    /// The guest's mask.
    pub mask: u64,
    pub stack: SigAltStack,
    queue: [Option<Queued>; QUEUE],
    /// The mask in whose place the next delivery starts: the signal came while a call had this one in force.
    call_mask: Option<u64>,
}

impl Signals {
    /// Reads the guest's dispositions, mask and stack from the kernel and puts ours in their place.
    pub fn take_over() -> Self {
        let mut signals = Self {
            actions: [SigAction::default(); SIGNALS],
            mask: 0,
            stack: engine::set_signal_stack(),
            queue: [None; QUEUE],
            call_mask: None,
        };
        sys::rt_sigprocmask(raw::SIG_SETMASK, None, Some(&mut signals.mask));
        for signal in 1..SIGNALS {
            // SAFETY: only reads the old action.
            unsafe { sys::rt_sigaction(signal as i32, core::ptr::null(), &raw mut signals.actions[signal]) };
        }
        for signal in 1..SIGNALS as i32 {
            signals.install(signal);
        }
        signals.set_mask(signals.mask);
        signals
    }

    /// Makes the kernel's disposition follow the guest's.
    fn install(&self, signal: i32) {
        let action = self.actions[signal as usize];
        let handler = action.handler;
        let fault = FAULTS & bit(signal as u32) != 0;
        if [raw::SIGKILL, raw::SIGSTOP].contains(&(signal as u32)) {
            return;
        }
        let wanted = fault || handler > 1 || (handler == 0 && default_action(signal) == DefaultAction::Terminate);
        if wanted {
            // Never SA_RESTART: an interrupted call comes back here, and is restarted by us after the guest's handler.
            let flags = action.flags & u64::from(raw::SA_NOCLDSTOP | raw::SA_NOCLDWAIT);
            engine::install_handler::<Recorder>(signal, flags, None);
        } else {
            self.give_back(signal);
        }
    }

    fn give_back(&self, signal: i32) {
        // SAFETY: this is the guest's own action.
        unsafe { sys::rt_sigaction(signal, &raw const self.actions[signal as usize], core::ptr::null_mut()) };
    }

    /// Puts the guest's own dispositions, mask and stack into the kernel.
    pub fn release(&self) {
        for signal in 1..SIGNALS as i32 {
            self.give_back(signal);
        }
        // SAFETY: the guest's own stack.
        unsafe { sys::syscall(u64::from(raw::__NR_sigaltstack), [(&raw const self.stack) as u64, 0, 0, 0, 0, 0]) };
        sys::rt_sigprocmask(raw::SIG_SETMASK, Some(&self.mask), None);
    }

    /// Takes over again after [`Self::release`].
    pub fn resume(&self) {
        engine::set_signal_stack();
        for signal in 1..SIGNALS as i32 {
            self.install(signal);
        }
        let real = self.mask & !FAULTS;
        sys::rt_sigprocmask(raw::SIG_SETMASK, Some(&real), None);
    }

    /// What waits is the parent's.
    pub fn forget_queue(&mut self) {
        self.queue = [None; QUEUE];
    }

    /// Hands what waits back to the kernel, which keeps it through an exec. The guest's mask must not be in place yet.
    pub fn return_queue(&mut self) {
        for queued in self.queue.iter_mut().filter_map(Option::take) {
            let args = [sys::getpid() as u64, sys::gettid() as u64, queued.signal as u64, queued.info.as_ptr() as u64, 0, 0];
            // SAFETY: rt_tgsigqueueinfo reads a siginfo, which `info` is.
            if unsafe { sys::syscall(u64::from(raw::__NR_rt_tgsigqueueinfo), args) } != 0 {
                sys::tgkill(sys::getpid(), sys::gettid(), queued.signal);
            }
        }
    }

    /// Makes only the kernel's default await `signal`, for dying by it.
    pub fn default(&self, signal: i32) {
        let action = SigAction::default();
        // SAFETY: the default action.
        unsafe { sys::rt_sigaction(signal, &raw const action, core::ptr::null_mut()) };
    }

    pub fn set_action(&mut self, signal: i32, action: SigAction) {
        self.actions[signal as usize] = action;
        self.install(signal);
    }

    pub fn set_mask(&mut self, mask: u64) {
        self.mask = mask & !(bit(raw::SIGKILL) | bit(raw::SIGSTOP));
        let real = self.mask & !FAULTS;
        sys::rt_sigprocmask(raw::SIG_SETMASK, Some(&real), None);
    }

    /// The set of signals that wait in our queue.
    pub fn queued(&self) -> u64 {
        self.queue.iter().flatten().fold(0, |set, queued| set | bit(queued.signal as u32))
    }

    /// Whether a program whose stack pointer is `sp` runs on its alternative stack.
    pub fn is_on_stack(&self, sp: u64) -> bool {
        let stack = &self.stack;
        stack.flags as u32 & raw::SS_AUTODISARM == 0 && sp > stack.sp && sp - stack.sp <= stack.size
    }

    /// The alternative stack as sigaltstack shows it.
    pub fn shown_stack(&self, sp: u64) -> SigAltStack {
        let state = match self.stack.size {
            0 => raw::SS_DISABLE,
            _ if self.is_on_stack(sp) => raw::SS_ONSTACK,
            _ => 0,
        };
        SigAltStack { flags: (state | self.stack.flags as u32 & raw::SS_AUTODISARM) as i32, ..self.stack }
    }

    /// What sigaltstack does. The error is an errno.
    pub fn change_stack(&mut self, asked: SigAltStack, sp: u64) -> Result<(), u32> {
        let mode = asked.flags as u32 & !raw::SS_AUTODISARM;
        if self.is_on_stack(sp) {
            return Err(sys::errno::EPERM);
        }
        self.stack = match mode {
            raw::SS_DISABLE => SigAltStack { sp: 0, size: 0, ..asked },
            0 | raw::SS_ONSTACK if asked.size < u64::from(raw::MINSIGSTKSZ) => return Err(sys::errno::ENOMEM),
            0 | raw::SS_ONSTACK => asked,
            _ => return Err(sys::errno::EINVAL),
        };
        Ok(())
    }

    pub fn is_blocked(&self, signal: i32) -> bool {
        self.mask & bit(signal as u32) != 0
    }

    /// Async-signal-safe. Of a standard signal one waits at a time, as in the kernel.
    fn push(&mut self, queued: Queued) {
        const REAL_TIME: i32 = 32;
        if queued.signal < REAL_TIME && self.queue.iter().flatten().any(|other| other.signal == queued.signal) {
            return;
        }
        if let Some(slot) = self.queue.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some(queued);
        }
    }

    /// The next queued signal that is not blocked.
    fn pop(&mut self) -> Option<Queued> {
        let mask = self.call_mask.unwrap_or(self.mask);
        let slot = self.queue.iter_mut().find(|slot| slot.is_some_and(|queued| mask & bit(queued.signal as u32) == 0))?;
        slot.take()
    }

    /// Makes the engine ask for what waits, if the mask lets it through now.
    pub fn remind(&self, engine: &mut Guest) {
        if self.call_mask.is_some() || self.queue.iter().flatten().any(|queued| !self.is_blocked(queued.signal)) {
            engine.context().attention = 1;
        }
    }

    /// A call that sleeps with a mask of its own was interrupted: the handlers run with that mask and return to the guest's.
    pub fn interrupted_with_mask(&mut self, mask: u64) {
        self.call_mask = self.queue.iter().any(Option::is_some).then_some(mask);
    }

    /// The mask that a handler entered now adds to.
    pub fn take_mask_in_force(&mut self) -> u64 {
        self.call_mask.take().unwrap_or(self.mask)
    }
}

impl Signals {
    /// Whether the call that was just interrupted is to be made again after the handler that waits now.
    pub fn restarts(&self, number: u32) -> bool {
        const NEVER: [u32; 17] = [
            raw::__NR_pause,
            raw::__NR_rt_sigsuspend,
            raw::__NR_rt_sigtimedwait,
            raw::__NR_nanosleep,
            raw::__NR_clock_nanosleep,
            raw::__NR_poll,
            raw::__NR_ppoll,
            raw::__NR_select,
            raw::__NR_pselect6,
            raw::__NR_epoll_wait,
            raw::__NR_epoll_pwait,
            raw::__NR_epoll_pwait2,
            raw::__NR_semop,
            raw::__NR_semtimedop,
            raw::__NR_msgrcv,
            raw::__NR_msgsnd,
            raw::__NR_io_getevents,
        ];
        let next = self.queue.iter().flatten().find(|queued| !self.is_blocked(queued.signal));
        !NEVER.contains(&number) && next.is_some_and(|queued| self.actions[queued.signal as usize].flags & u64::from(raw::SA_RESTART) != 0)
    }
}

/// Delivers what waits: enters handlers, ends the program, or nothing.
///
/// Like the kernel it makes the frames of all signals that can be delivered at once, so the handler entered last runs first.
pub fn deliver_pending(host: &mut Recorder, engine: &mut Guest) -> Flow {
    while let Some(queued) = host.signals.pop() {
        match deliver(host, engine, &queued, [0; 3]) {
            None | Some(Flow::Continue) => {}
            Some(flow) => return flow,
        }
    }
    host.signals.call_mask = None;
    Flow::Continue
}

/// A fault of the guest's own making.
pub fn fault(host: &mut Recorder, engine: &mut Guest, fault: &FaultInfo) -> Flow {
    let mut queued = Queued { signal: fault.signal, info: fault.info };
    if [raw::SIGFPE, raw::SIGILL].contains(&(fault.signal as u32)) {
        // The address of the instruction: the guest's, not that of its translation.
        queued.info[SI_ADDR] = engine.context().rip;
    }
    let action = host.signals.actions[fault.signal as usize];
    if action.handler <= 1 || host.signals.is_blocked(fault.signal) {
        terminate(host, engine, &queued);
    }
    deliver(host, engine, &queued, [fault.error, fault.trapno, fault.address]).unwrap_or(Flow::Continue)
}

/// `None`: the signal came to nothing.
fn deliver(host: &mut Recorder, engine: &mut Guest, queued: &Queued, fault: [u64; 3]) -> Option<Flow> {
    let action = host.signals.actions[queued.signal as usize];
    match action.handler {
        1 => None,
        0 if default_action(queued.signal) == DefaultAction::Terminate => terminate(host, engine, queued),
        0 => None,
        _ => super::frames::enter_handler(host, engine, queued, &action, fault).or_else(|| no_room(host, engine, queued.signal)),
    }
}

/// There is no memory for the frame of a handler: the kernel makes that a SIGSEGV, which may have a handler on another stack.
fn no_room(host: &mut Recorder, engine: &mut Guest, signal: i32) -> Option<Flow> {
    const SI_KERNEL: u64 = 0x80;
    let forced = raw::SIGSEGV as i32;
    let mut queued = Queued { signal: forced, info: [0; 16] };
    (queued.info[0], queued.info[1]) = (forced as u64, SI_KERNEL);
    let is_handled = host.signals.actions[forced as usize].handler > 1 && !host.signals.is_blocked(forced);
    if signal == forced || !is_handled {
        terminate(host, engine, &queued);
    }
    deliver(host, engine, &queued, [0; 3])
}

/// Ends the program as the signal does, its recording saved.
fn terminate(host: &mut Recorder, engine: &mut Guest, queued: &Queued) -> ! {
    let header = host.header(engine);
    let registers = host.registers(engine);
    let mut siginfo = [0u8; SIGINFO_BYTES];
    siginfo.copy_from_slice(queued.info.map(u64::to_le_bytes).as_flattened());
    let body = Body::Signal(Signal { number: queued.signal as u32, action: SignalAction::Terminate, siginfo: &siginfo, registers });
    host.event(&header, &body);
    end::finish(host, engine, EndReason::Signalled, queued.signal, format_args!(""));
    end::detach(host);
    end::dismiss_snapshot();
    host.signals.default(queued.signal);
    let none = !bit(queued.signal as u32);
    sys::rt_sigprocmask(raw::SIG_SETMASK, Some(&none), None);
    sys::tgkill(sys::getpid(), sys::gettid(), queued.signal);
    sys::exit_group(128 + queued.signal)
}

/// In signal context: notes the signal for delivery at the next exit, and keeps a call of the guest that is about to sleep from doing so.
pub fn on_signal(signal: &SignalContext, frame: &mut UContext) -> bool {
    let Some(state) = super::state::existing() else { return false };
    if !state.recording || state.engine.is_null() {
        return false;
    }
    // SAFETY: the engine lives as long as the process; the queue is only changed here (handlers mask all signals) and by `pop`,
    // which takes one slot at a time.
    let guest: &mut Guest = unsafe { &mut *state.engine };
    let queue = guest.host_even_if_taken();
    // SAFETY: as above.
    unsafe { (*queue).signals.push(Queued { signal: signal.signal, info: signal.info }) };
    super::frames::keep_awake(frame);
    true
}
