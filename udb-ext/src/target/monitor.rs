//! `monitor` commands: the way in for the Python side. One JSON object in, one JSON object out.

use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd};

use super::Debuggee;
use crate::commands;

impl MonitorCmd for Debuggee {
    fn handle_monitor_cmd(&mut self, command: &[u8], mut out: ConsoleOutput<'_>) -> Result<(), Self::Error> {
        out.write_raw(commands::answer(self, command).as_bytes());
        Ok(())
    }
}
