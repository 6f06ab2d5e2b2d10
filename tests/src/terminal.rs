//! A program on a terminal of its own.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use nix::pty::openpty;
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};

/// Whether the terminal shows what is typed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Echo {
    On,
    Off,
}

/// Starts the command in a session whose terminal is a new one, and gives the other end of that. It is at its end when the last process on
/// the terminal is gone.
pub fn spawn(mut command: Command, echo: Echo) -> (Child, File) {
    let pty = openpty(None, None).unwrap();
    let slave = File::from(pty.slave);
    if echo == Echo::Off {
        let mut settings = tcgetattr(&slave).unwrap();
        settings.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(&slave, SetArg::TCSANOW, &settings).unwrap();
    }
    command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
    // SAFETY: only async-signal-safe calls between fork and exec: setsid and an ioctl.
    unsafe {
        command.pre_exec(|| {
            nix::unistd::setsid()?;
            // SAFETY: the descriptor is open, and the request takes no pointer.
            if nix::libc::ioctl(0, nix::libc::TIOCSCTTY, 0) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
    (command.spawn().unwrap(), pty.master.into())
}
