//! `monitor` commands: the way in for the Python side. One JSON object in, one JSON object out.
//!
//! gdb takes console output one character at a time, so a long reply is left in a memory file and only its name goes over the pipe. gdb
//! and the server are always on one machine: gdb started the server.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;

use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::Debuggee;
use crate::commands;

/// Longer replies go into a memory file, bytes.
const LONG: usize = 8192;

impl MonitorCmd for Debuggee {
    fn handle_monitor_cmd(&mut self, command: &[u8], mut out: ConsoleOutput<'_>) -> Result<(), Self::Error> {
        let reply = commands::answer(self, command);
        self.long_reply = None;
        if reply.len() > LONG
            && let Some(file) = memory_file(&reply)
        {
            let name = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
            out.write_raw(format!("{{\"file\":\"{name}\"}}").as_bytes());
            // Open until the next request: by then it has been read.
            self.long_reply = Some(file);
        } else {
            out.write_raw(reply.as_bytes());
        }
        Ok(())
    }
}

fn memory_file(text: &str) -> Option<File> {
    let mut file = File::from(memfd_create(c"reply", MFdFlags::MFD_CLOEXEC).ok()?);
    file.write_all(text.as_bytes()).ok()?;
    Some(file)
}
