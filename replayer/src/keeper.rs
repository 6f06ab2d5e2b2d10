//! The thread that starts replay processes.
//!
//! The kernel kills a replay process when the *thread* that started it ends (PR_SET_PDEATHSIG), and the caller's thread may end
//! before its timelines do. So one thread of this process starts them all and never ends.

use std::io;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};

type Request = (Command, Sender<io::Result<i32>>);

/// Starts `command` and returns its process id; the caller waits for the process.
pub fn spawn(command: Command) -> io::Result<i32> {
    static KEEPER: OnceLock<Mutex<Sender<Request>>> = OnceLock::new();
    let keeper = KEEPER.get_or_init(|| {
        let (requests, waiting) = channel::<Request>();
        // A thread that cannot be started leaves a closed channel, which is answered below.
        let _ = std::thread::Builder::new().name("replay-keeper".into()).spawn(move || {
            for (mut command, answer) in waiting {
                let _ = answer.send(command.spawn().map(|child| child.id() as i32));
            }
        });
        Mutex::new(requests)
    });
    let (answer, answered) = channel();
    let gone = || io::Error::other("the thread that starts replay processes is gone");
    let Ok(sender) = keeper.lock() else { return Err(gone()) };
    sender.send((command, answer)).map_err(|_| gone())?;
    drop(sender);
    answered.recv().map_err(|_| gone())?
}
