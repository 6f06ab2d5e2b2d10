//! The pipe to gdb, read by a thread of its own so that a Ctrl-C is seen while a search runs.
//!
//! Invariants:
//! I1. Everything gdb sends reaches the session in order. An interrupt (a lone 0x03 between packets) travels in that order as
//!     [`Incoming::Interrupt`], and besides sets the [`Cancel`] at once, because the session may be busy searching.
//! I2. When gdb is gone the cancel is set too and the channel closes, so that nothing outlives the debugger. A timeline that does not
//!     let go within [`GRACE`] is cut off with the process.

use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use gdbstub::conn::Connection;
use replayer::Cancel;

/// How long after gdb's end the server may take to finish what it is doing.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A whole packet, `$` to checksum, or a byte between packets.
    Bytes(Vec<u8>),
    Interrupt,
}

impl Incoming {
    /// A packet's text.
    pub fn body(&self) -> Option<&str> {
        let Incoming::Bytes(bytes) = self else { return None };
        let body = bytes.strip_prefix(b"$")?;
        std::str::from_utf8(body.get(..body.len().checked_sub(3)?)?).ok()
    }
}

/// Finds packets and interrupts in the stream: a 0x03 inside a packet is data.
#[derive(Debug, Default)]
struct Framing {
    state: State,
    packet: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Between,
    InPacket,
    Checksum {
        left: u8,
    },
}

impl Framing {
    fn take(&mut self, byte: u8) -> Option<Incoming> {
        self.state = match (self.state, byte) {
            (State::Between, 0x03) => return Some(Incoming::Interrupt),
            // Asks for the last packet again, which in a pipe means: hurry up.
            (State::Between, b'-') => return None,
            (State::Between, b'$') => State::InPacket,
            (State::InPacket, b'#') => State::Checksum { left: 2 },
            (State::Checksum { left: 1 }, _) => State::Between,
            (State::Checksum { left }, _) => State::Checksum { left: left - 1 },
            (state, _) => state,
        };
        self.packet.push(byte);
        (self.state == State::Between).then(|| Incoming::Bytes(std::mem::take(&mut self.packet)))
    }
}

/// What gdb sends. Dropping it tells the reader that the session is over.
pub struct Stream {
    pub incoming: Receiver<Incoming>,
    _session: Sender<()>,
}

/// Reads `input` until its end on a thread.
pub fn spawn_reader(mut input: impl Read + Send + 'static, cancel: Cancel) -> Stream {
    let (sender, incoming) = channel();
    let (session, session_over) = channel();
    thread::spawn(move || {
        read_all(&mut input, &sender, &cancel);
        cancel.cancel();
        drop(sender);
        if session_over.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
            std::process::exit(1);
        }
    });
    Stream { incoming, _session: session }
}

fn read_all(input: &mut impl Read, sender: &Sender<Incoming>, cancel: &Cancel) {
    let mut framing = Framing::default();
    let mut buffer = [0u8; 4096];
    loop {
        let count = match input.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        for &byte in &buffer[..count] {
            let Some(incoming) = framing.take(byte) else { continue };
            if incoming == Incoming::Interrupt {
                cancel.cancel();
            }
            if sender.send(incoming).is_err() {
                return;
            }
        }
    }
}

/// The way to gdb: a buffer, flushed where gdbstub ends a packet.
pub struct Pipe<W> {
    output: W,
    buffer: Vec<u8>,
}

impl<W: Write> Pipe<W> {
    pub fn new(output: W) -> Self {
        Pipe { output, buffer: Vec::with_capacity(4096) }
    }

    /// Text for the user, in a console packet: gdb takes those only while the program runs.
    pub fn say(&mut self, text: &str) -> io::Result<()> {
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        self.send(&format!("O{hex}"))
    }

    /// A packet of our own.
    pub fn send(&mut self, body: &str) -> io::Result<()> {
        let checksum = body.bytes().fold(0u8, u8::wrapping_add);
        write!(self.buffer, "${body}#{checksum:02x}")?;
        self.flush()
    }
}

impl<W: Write> Connection for Pipe<W> {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.buffer.push(byte);
        Ok(())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.write_all(&self.buffer)?;
        self.buffer.clear();
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interrupts_in(stream: &[u8]) -> usize {
        let mut framing = Framing::default();
        stream.iter().filter(|&&byte| framing.take(byte) == Some(Incoming::Interrupt)).count()
    }

    #[test]
    fn only_a_lone_three_is_an_interrupt() {
        assert_eq!(interrupts_in(b"+\x03"), 1);
        assert_eq!(interrupts_in(b"$vCont;c#a8\x03"), 1);
        assert_eq!(interrupts_in(b"$X1,3:\x03\x03#00+"), 0);
        assert_eq!(interrupts_in(b"\x03$g#67\x03"), 2);
    }

    #[test]
    fn impatience_is_ignored() {
        let mut framing = Framing::default();
        let taken: Vec<_> = b"-$-#2d-".iter().filter_map(|&byte| framing.take(byte)).collect();
        assert_eq!(taken, [Incoming::Bytes(b"$-#2d".into())]);
    }

    #[test]
    fn an_interrupt_cancels_and_keeps_its_place() {
        let (sender, receiver) = channel();
        let cancel = Cancel::default();
        read_all(&mut &b"a\x03b"[..], &sender, &cancel);
        drop(sender);
        assert!(cancel.is_cancelled());
        let all: Vec<_> = receiver.iter().collect();
        assert_eq!(all, [Incoming::Bytes(b"a".into()), Incoming::Interrupt, Incoming::Bytes(b"b".into())]);
    }

    #[test]
    fn packets_come_whole() {
        let (sender, receiver) = channel();
        read_all(&mut &b"+$g#67$qX:1#00$#00"[..], &sender, &Cancel::default());
        drop(sender);
        let bodies: Vec<_> = receiver.iter().map(|incoming| incoming.body().map(str::to_owned)).collect();
        assert_eq!(bodies, [None, Some("g".into()), Some("qX:1".into()), Some(String::new())]);
    }

    #[test]
    fn console_text_is_a_well_formed_packet() {
        let mut pipe = Pipe::new(Vec::new());
        pipe.say("hi\n").unwrap();
        assert_eq!(pipe.output, b"$O68690a#bd");
    }
}
