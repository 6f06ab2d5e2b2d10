//! A recording as gdbstub sees a program: one capability a file.
//!
//! Why several threads are announced where there is one: gdb then knows the thread by its real number, and two recordings of one run
//! are told apart in everything it prints.
//!
//! Errors come in two severities. What gdb can be told (unmapped memory, a refused write) is an error number in the reply; the session
//! goes on. Only a broken pipe ends it: a timeline that fails leaves its message in [`Debuggee::complaint`] and stops where it is.

mod auxv;
mod base;
mod breakpoints;
mod exec_file;
mod extended;
mod host_io;
mod monitor;
mod resume;
mod syscalls;

use std::fs::File;
use std::num::NonZeroUsize;

use gdbstub::common::Tid;
use gdbstub::target::Target;
use gdbstub::target::ext;
use replayer::{Cancel, Points, Time, Timeline, WatchKind, Watchpoint};

use crate::arch::X86_64;
use crate::correlate::Correlate;
use crate::files::RecordedFiles;
use crate::open::Opened;
use crate::tls;
use crate::wallclock::Wallclock;

pub use resume::Action;

/// Error numbers of the remote protocol.
mod errno {
    pub const EACCES: u8 = 13;
    pub const EFAULT: u8 = 14;
}

pub struct Debuggee {
    pub(crate) timeline: Box<dyn Timeline>,
    pub(crate) correlate: Box<dyn Correlate>,
    pub(crate) files: RecordedFiles,
    pub(crate) wallclock: Option<Wallclock>,
    pub(crate) cancel: Cancel,
    /// gdb's breakpoints and watchpoints.
    points: Points,
    /// Where `points` has its breakpoints from.
    placed: breakpoints::Placed,
    /// System calls at which to stop.
    caught: syscalls::Caught,
    /// Where thread-local variables are; looked for at the first question.
    tls: Option<Option<tls::Layout>>,
    /// The latest time ever reached: up to there, moving is quick.
    pub(crate) farthest: Time,
    /// Searched for by the next resumption in place of `points`.
    pub(crate) armed: Option<Points>,
    /// What gdb asked for and the session is about to run.
    action: Option<Action>,
    /// The last reply that was too long for the pipe.
    long_reply: Option<File>,
    /// Why the last movement failed.
    pub(crate) complaint: Option<String>,
}

impl Debuggee {
    pub fn new(opened: Opened, cancel: Cancel) -> Self {
        let files = RecordedFiles::new(opened.timeline.as_ref(), opened.origin);
        Debuggee {
            farthest: opened.timeline.now(),
            timeline: opened.timeline,
            correlate: opened.correlate,
            files,
            wallclock: opened.wallclock,
            cancel,
            points: Points::default(),
            placed: breakpoints::Placed::default(),
            caught: syscalls::Caught::None,
            tls: None,
            armed: None,
            action: None,
            long_reply: None,
            complaint: None,
        }
    }

    /// What a `qGetTLSAddr` packet asks for, in hexadecimal digits; an error number if it cannot be told.
    pub(crate) fn tls_address(&mut self, question: &str) -> String {
        let layout = *self.tls.get_or_insert_with(|| tls::layout(self.timeline.as_mut(), &mut self.files));
        // Thread, offset, link map.
        let mut numbers = question.split(',').skip(1).map(|digits| u64::from_str_radix(digits, 16).ok());
        let asked = numbers.next().flatten().zip(numbers.next().flatten());
        let found = layout.zip(asked).and_then(|(layout, (offset, map))| tls::address(self.timeline.as_mut(), &layout, map, offset));
        found.map_or_else(|| format!("E{:02x}", errno::EFAULT), |address| format!("{address:x}"))
    }

    /// The only thread's number: the process's.
    pub(crate) fn tid(&self) -> Tid {
        NonZeroUsize::new(self.timeline.pid().unsigned_abs() as usize).unwrap_or(NonZeroUsize::MIN)
    }
}

impl Target for Debuggee {
    type Arch = X86_64;
    type Error = std::convert::Infallible;

    fn base_ops(&mut self) -> ext::base::BaseOps<'_, X86_64, Self::Error> {
        ext::base::BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<ext::breakpoints::BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_catch_syscalls(&mut self) -> Option<ext::catch_syscalls::CatchSyscallsOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<ext::monitor_cmd::MonitorCmdOps<'_, Self>> {
        Some(self)
    }

    fn support_extended_mode(&mut self) -> Option<ext::extended_mode::ExtendedModeOps<'_, Self>> {
        Some(self)
    }

    fn support_exec_file(&mut self) -> Option<ext::exec_file::ExecFileOps<'_, Self>> {
        Some(self)
    }

    fn support_auxv(&mut self) -> Option<ext::auxv::AuxvOps<'_, Self>> {
        Some(self)
    }

    fn support_host_io(&mut self) -> Option<ext::host_io::HostIoOps<'_, Self>> {
        Some(self)
    }
}

/// Copies the part of `data` that a partial transfer asks for; how much that was.
fn window(data: &[u8], offset: u64, length: usize, buffer: &mut [u8]) -> usize {
    let start = usize::try_from(offset).map_or(data.len(), |offset| offset.min(data.len()));
    let count = length.min(buffer.len()).min(data.len() - start);
    buffer[..count].copy_from_slice(&data[start..start + count]);
    count
}

fn overlaps(point: &Watchpoint, address: u64, length: u64) -> bool {
    point.address < address.saturating_add(length) && address < point.address.saturating_add(point.length)
}

fn gdb_kind(kind: WatchKind) -> ext::breakpoints::WatchKind {
    match kind {
        WatchKind::Write => ext::breakpoints::WatchKind::Write,
        WatchKind::Read => ext::breakpoints::WatchKind::Read,
        WatchKind::Access => ext::breakpoints::WatchKind::ReadWrite,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_never_leaves_its_data() {
        let mut buffer = [0u8; 4];
        assert_eq!(window(b"abcdef", 4, 4, &mut buffer), 2);
        assert_eq!(&buffer[..2], b"ef");
        assert_eq!(window(b"abcdef", 6, 4, &mut buffer), 0);
        assert_eq!(window(b"abcdef", u64::MAX, 4, &mut buffer), 0);
        assert_eq!(window(b"abcdef", 0, 100, &mut buffer), 4);
        assert_eq!(window(b"abcdef", 0, 1, &mut buffer), 1);
    }
}
