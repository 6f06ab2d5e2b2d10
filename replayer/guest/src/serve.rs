//! Answering the controlling process while the guest stands still.

use alloc::format;
use alloc::string::String;
use alloc::vec;

use core::sync::atomic::Ordering;

use engine::sys::{self, raw};
use recording::Time;

use crate::control::{Command, DATA_BYTES, Reason, SLOTS, value};
use crate::drive::Then;
use crate::host::{Guest, ReplayHost};
use crate::space::Map;
use crate::watch::Points;
use crate::{start, validate};

impl ReplayHost {
    /// Ends the replay here: says what differs at the next event, and from now on only answers questions.
    pub fn diverge(&mut self, engine: &mut Guest, what: String) -> ! {
        self.report(engine, Reason::Diverged, 0);
        self.slot.set_data(format!("event {}: {what}", self.log.consumed()).as_bytes());
        loop {
            self.serve_until_run(engine);
            self.refuse("the replay has diverged and cannot go on");
        }
    }

    /// Answers until something is to be run, and begins that.
    pub fn serve(&mut self, engine: &mut Guest) -> Then {
        let command = self.serve_until_run(engine);
        let time = (self.slot.arg(0) != 0).then(|| Time { bbcount: self.slot.arg(0), pc: self.slot.arg(1) });
        match command {
            Command::Run => self.begin_run(engine, time, self.slot.arg(2), self.slot.arg(3)),
            _ => self.begin_steps(engine, time),
        }
    }

    fn reply(&self) {
        let head = self.slot.head();
        head.reply.store(head.request.load(Ordering::Relaxed), Ordering::Release);
        sys::futex_wake(&head.reply);
    }

    fn refuse(&self, why: &str) {
        self.slot.set_status(1);
        self.slot.set_data(why.as_bytes());
    }

    /// Sends the reply to the last command and carries out all that run nothing. Returns the first that does.
    fn serve_until_run(&mut self, engine: &mut Guest) -> Command {
        loop {
            self.reply();
            let head = self.slot.head();
            let done = head.reply.load(Ordering::Relaxed);
            while head.request.load(Ordering::Acquire) == done {
                sys::futex_wait(&head.request, done, 0);
            }
            self.slot.set_status(0);
            match self.slot.command() {
                Some(command @ (Command::Run | Command::Step)) => return command,
                Some(command) => self.answer(engine, command),
                None => self.refuse("unknown command"),
            }
        }
    }

    fn answer(&mut self, engine: &mut Guest, command: Command) {
        let slot = self.slot;
        match command {
            Command::SetPoints => {
                let mut data = vec![0; slot.data_length()];
                slot.copy_data(&mut data);
                match Points::decode(&data) {
                    Some(points) => self.points = points,
                    None => self.refuse("breakpoints and watchpoints that cannot be read"),
                }
            }
            Command::Read => {
                let mut data = vec![0; (slot.arg(1) as usize).min(DATA_BYTES)];
                let got = self.vm.read(slot.arg(0), &mut data);
                slot.set_data(&data[..got]);
            }
            Command::Registers => {
                let registers = self.registers(engine.context());
                let rest = [registers.rip, registers.rflags, registers.fs_base, registers.gs_base];
                let words: alloc::vec::Vec<u8> = registers.gpr.iter().chain(&rest).flat_map(|word| word.to_le_bytes()).collect();
                slot.set_data(&words);
            }
            Command::Xsave => slot.set_data(&engine::vector::save()),
            Command::Mappings => {
                let maps = self.vm.space.maps();
                let first = (slot.arg(0) as usize).min(maps.len());
                let most = DATA_BYTES / size_of::<Map>();
                let words = maps[first..]
                    .iter()
                    .take(most)
                    .flat_map(|map| [map.start, map.end, u64::from(map.prot) | u64::from(map.shared) << 32, map.offset, map.origin]);
                let bytes: alloc::vec::Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
                slot.set_data(&bytes);
                slot.set_value(value::FIRST, maps.len() as u64);
            }
            Command::Fork => self.fork(),
            Command::Hash => slot.set_value(value::FIRST, validate::hash_all(&self.vm, slot)),
            Command::SharedStatus => {
                let (address, length) = (slot.arg(0), slot.arg(1));
                let shared = self.vm.space.find(address).is_some_and(|map| map.shared != 0);
                let (status, time) = self.accesses.status(address, length.clamp(1, 1 << 20));
                slot.set_value(value::FIRST, if shared { u64::from(status as u32) } else { 0 });
                slot.set_value(value::SECOND, time.bbcount);
                slot.set_value(value::THIRD, time.pc);
            }
            Command::Run | Command::Step => {}
        }
    }

    /// Makes a copy of this process that serves another slot.
    fn fork(&mut self) {
        let index = self.slot.arg(0) as usize;
        if index >= SLOTS {
            self.refuse("no such slot");
            return;
        }
        // All replay processes are children of the controlling process.
        let flags = u64::from(raw::CLONE_PARENT) | u64::from(raw::SIGCHLD);
        // SAFETY: a plain fork; the child goes on with a copy of everything but the control pages.
        let pid = unsafe { sys::syscall(u64::from(raw::__NR_clone), [flags, 0, 0, 0, 0, 0]) };
        if pid < 0 {
            self.slot.set_value(value::FIRST, (-pid) as u64);
            self.refuse("cannot fork");
            return;
        }
        if pid > 0 {
            self.slot.set_value(value::FIRST, pid as u64);
            return;
        }
        start::die_with(self.controller);
        // SAFETY: the control pages are mapped, the index is in range.
        self.slot = unsafe { start::slot(index) };
        self.slot.set_status(0);
        for index in 0..16 {
            self.slot.set_value(index, 0);
        }
    }
}
