//! A server under test: started, waited for by what it says, asked to end.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::run::{Ended, WATCHDOG, ended, set_environment};

/// Whom a server runs as that refuses to be root: Debian's user for nobody in particular.
pub const NOBODY: u32 = 65534;

pub struct Server {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Server {
    /// Starts `argv` in `directory`, as [`NOBODY`] if asked and we are root. Its standard error is read line by line.
    pub fn start(argv: &[OsString], directory: &Path, as_nobody: bool) -> Result<Server> {
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        set_environment(&mut command, directory);
        if as_nobody && nix::unistd::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let mut child = command.spawn().with_context(|| format!("cannot run {}", argv[0].display()))?;
        let errors = BufReader::new(child.stderr.take().context("its standard error is piped")?);
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            errors.split(b'\n').map_while(Result::ok).try_for_each(|line| sender.send(String::from_utf8_lossy(&line).into_owned()))
        });
        Ok(Server { child, lines, said: Vec::new() })
    }

    /// Waits until the server says a line that contains `text`.
    pub fn wait_for(&mut self, text: &str) -> Result<()> {
        loop {
            let Ok(line) = self.lines.recv_timeout(WATCHDOG) else {
                bail!("the server did not say {text:?}, but:\n{}", self.said.join("\n"));
            };
            let found = line.contains(text);
            self.said.push(line);
            if found {
                return Ok(());
            }
        }
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(self.pid(), signal)?)
    }

    /// Waits for the server and all that holds its standard error to end: how it ended, and all that it said.
    pub fn finish(mut self) -> Result<(Ended, Vec<String>)> {
        loop {
            match self.lines.recv_timeout(WATCHDOG) {
                Ok(line) => self.said.push(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => bail!("the server does not end; it said:\n{}", self.said.join("\n")),
            }
        }
        let ended = ended(self.child.wait()?);
        Ok((ended, std::mem::take(&mut self.said)))
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }
}

/// Whatever went wrong: nothing stays behind.
impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = killpg(self.pid(), Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}
