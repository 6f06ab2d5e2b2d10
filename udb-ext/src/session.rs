//! One debugger, one recording: from the first packet until the pipe closes.
//!
//! An interrupt may come while nothing runs: gdb sends it as soon as the user asks, which can be just before the program resumes. So
//! one that has stopped no search stops the next, as gdb's own server does.

use std::io::{Read, Write};

use gdbstub::common::Signal;
use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{DisconnectReason, GdbStub, MultiThreadStopReason};
use replayer::Cancel;

use crate::connection::{Incoming, Pipe, spawn_reader};
use crate::open::Opened;
use crate::target::Debuggee;

/// Bounds one packet, and so how much memory or file one request fetches.
const PACKET_SIZE: usize = 0x1_0000;

/// Serves `opened` until gdb ends or detaches.
pub fn serve(opened: Opened, input: impl Read + Send + 'static, output: impl Write) -> anyhow::Result<()> {
    let cancel = Cancel::default();
    let mut debuggee = Debuggee::new(opened, cancel.clone());
    let stream = spawn_reader(input, cancel.clone());
    let stub = GdbStub::builder(Pipe::new(output)).packet_buffer_size(PACKET_SIZE).build()?;
    let mut machine = stub.run_state_machine(&mut debuggee)?;
    // A search was stopped by an interrupt that is still to come in its place among the packets.
    let mut spent = false;
    loop {
        machine = match machine {
            GdbStubStateMachine::Idle(mut idle) => match stream.incoming.recv() {
                Ok(Incoming::Interrupt) => {
                    if !std::mem::take(&mut spent) {
                        cancel.cancel();
                    }
                    idle.into()
                }
                Ok(incoming) => match tls_question(&incoming) {
                    Some(question) => {
                        let reply = debuggee.tls_address(question);
                        idle.borrow_conn().send(&reply)?;
                        idle.into()
                    }
                    None => taken(idle.into(), &mut debuggee, &incoming)?,
                },
                Err(_) => return Ok(()),
            },
            GdbStubStateMachine::Running(mut running) => {
                let reason = debuggee.run();
                if cancel.is_cancelled() && is_interrupt(&reason) {
                    cancel.reset();
                    spent = true;
                }
                if let Some(complaint) = &debuggee.complaint {
                    running.borrow_conn().say(&format!("udb: {complaint}\n"))?;
                }
                running.report_stop(&mut debuggee, reason)?
            }
            GdbStubStateMachine::CtrlCInterrupt(interrupt) => {
                // Interrupts never reach gdbstub; the reader takes them out.
                interrupt.interrupt_handled(&mut debuggee, None::<MultiThreadStopReason<u64>>)?
            }
            GdbStubStateMachine::Disconnected(disconnected) => match disconnected.get_reason() {
                DisconnectReason::Disconnect
                | DisconnectReason::Kill
                | DisconnectReason::TargetExited(_)
                | DisconnectReason::TargetTerminated(_) => return Ok(()),
            },
        };
    }
}

/// Where a thread-local variable is: gdbstub knows no such question. (Packets are not acknowledged: gdb turns that off first.)
fn tls_question(incoming: &Incoming) -> Option<&str> {
    incoming.body()?.strip_prefix("qGetTLSAddr:")
}

type Machine<'a, W> = GdbStubStateMachine<'a, Debuggee, Pipe<W>>;

/// Feeds a packet to the state machine: only its last byte can make it leave the idle state.
fn taken<'a, W: Write>(mut machine: Machine<'a, W>, debuggee: &mut Debuggee, incoming: &Incoming) -> anyhow::Result<Machine<'a, W>> {
    let Incoming::Bytes(bytes) = incoming else { return Ok(machine) };
    debuggee.note_conditions(incoming.body().unwrap_or_default());
    for &byte in bytes {
        machine = match machine {
            GdbStubStateMachine::Idle(idle) => idle.incoming_data(debuggee, byte)?,
            other => other,
        };
    }
    Ok(machine)
}

fn is_interrupt(reason: &MultiThreadStopReason<u64>) -> bool {
    matches!(reason, MultiThreadStopReason::SignalWithThread { signal: Signal::SIGINT, .. })
}

#[cfg(test)]
mod tests {
    use std::io::{self, Cursor};
    use std::thread;

    use super::*;
    use crate::fake;

    fn packet(body: &str) -> String {
        format!("${body}#{:02x}", body.bytes().fold(0u8, u8::wrapping_add))
    }

    /// A pipe that stays open.
    struct Open(Cursor<Vec<u8>>);

    impl Read for Open {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            loop {
                let count = self.0.read(buffer)?;
                if count > 0 {
                    return Ok(count);
                }
                thread::park();
            }
        }
    }

    /// The bodies of the replies to these packets, run-lengths expanded.
    fn replies(packets: &[&str]) -> Vec<String> {
        let mut input = packet("qSupported:multiprocess+;swbreak+;hwbreak+;vContSupported+") + &packet("QStartNoAckMode") + "+";
        packets.iter().for_each(|body| input += &if *body == "\x03" { "\x03".into() } else { packet(body) });
        input += &packet("D");
        let mut output = Vec::new();
        serve(fake::opened(), Open(Cursor::new(input.into_bytes())), &mut output).unwrap();
        let text = String::from_utf8(output).unwrap();
        let mut bodies: Vec<String> = text.split('$').skip(3).map(|part| expanded(part.split('#').next().unwrap())).collect();
        assert_eq!(bodies.pop().as_deref(), Some("OK"));
        bodies
    }

    /// `x*y` stands for x and y - 29 more of it.
    fn expanded(body: &str) -> String {
        let mut text = String::new();
        let mut letters = body.chars();
        while let Some(letter) = letters.next() {
            if letter == '*' {
                let more = letters.next().unwrap() as usize - 29;
                let last = text.chars().last().unwrap();
                text.extend(std::iter::repeat_n(last, more));
            } else {
                text.push(letter);
            }
        }
        text
    }

    #[test]
    fn both_ends_of_history_are_replay_log_stops() {
        let stops = replies(&["vCont;c:p1.-1", "bc", "bs", "vCont;s:p1.1;c:p1.-1"]);
        assert_eq!(
            stops,
            [
                "T05thread:p01.01;replaylog:end;",
                "T05thread:p01.01;replaylog:begin;",
                "T05thread:p01.01;replaylog:begin;",
                "T05thread:p01.01;"
            ]
        );
    }

    #[test]
    fn breakpoints_and_watchpoints_are_told_apart() {
        let pc = format!("{:x}", fake::pc(3));
        let stops = replies(&[&format!("Z0,{pc},1"), "vCont;c:p1.-1", &format!("z0,{pc},1"), &format!("Z1,{pc},1"), "vCont;c:p1.-1", "bc"]);
        assert_eq!(stops[..4], ["OK", "T05thread:p01.01;swbreak:;", "OK", "OK"]);
        assert_eq!(stops[4..], ["T05thread:p01.01;replaylog:end;", "T05thread:p01.01;hwbreak:;"]);
        let watched = replies(&[&format!("Z2,{:x},1", fake::COUNTER), "vCont;c:p1.-1", "vCont;s:p1.1;c:p1.-1", "bs"]);
        let stop = format!("T05thread:p01.01;watch:{:x};", fake::COUNTER);
        assert_eq!(watched[1..].iter().filter(|reply| **reply == stop).count(), 3, "{watched:?}");
    }

    #[test]
    fn a_breakpoint_takes_the_conditions_of_its_last_packet() {
        let pc = format!("{:x}", fake::pc(3));
        // In the fake, a condition holds unless it begins with 0.
        let (never, maybe) = (format!("Z0,{pc},1;X1,00"), format!("Z0,{pc},1;X1,00X1,01"));
        let to_the_end = |packets: &[&str]| {
            let packets = [packets, &["vCont;c:p1.-1"]].concat();
            replies(&packets).pop().unwrap().ends_with("replaylog:end;")
        };
        assert!(to_the_end(&[&never]) && !to_the_end(&[&maybe]));
        assert!(to_the_end(&[&maybe, &never]) && !to_the_end(&[&never, &format!("Z0,{pc},1")]));
        assert!(to_the_end(&[&never, &maybe, &format!("z0,{pc},1")]), "one removal is enough");
        assert!(!to_the_end(&[&never, &format!("Z1,{pc},1")]), "another breakpoint there has none");
    }

    #[test]
    fn an_interrupt_just_before_a_search_stops_it() {
        assert_eq!(replies(&["\x03", "vCont;c:p1.-1", "vCont;c:p1.-1"]), ["T02thread:p01.01;", "T05thread:p01.01;replaylog:end;"]);
    }

    #[test]
    fn history_is_not_written() {
        let refused = replies(&["M1000,1:00", "X1000,1:a"]);
        assert_eq!(refused, ["E0d", "E0d"]);
    }

    #[test]
    fn memory_is_read_as_far_as_it_is_mapped() {
        let end = fake::MEMORY + fake::MEMORY_SIZE;
        assert_eq!(replies(&[&format!("m{:x},4", end - 2), &format!("m{end:x},4"), "m0,1"]), ["0000", "E0e", "E0e"]);
    }

    #[test]
    fn files_come_from_the_recording() {
        let name: String = "/recorded/program".bytes().map(|byte| format!("{byte:02x}")).collect();
        let gone: String = "/proc/2/maps".bytes().map(|byte| format!("{byte:02x}")).collect();
        let answers = replies(&[
            &format!("vFile:open:{name},0,0"),
            "vFile:pread:3,10,0",
            "vFile:close:3",
            "vFile:pread:3,10,0",
            &format!("vFile:open:{name},1,0"),
            &format!("vFile:open:{gone},0,0"),
        ]);
        assert_eq!(answers, ["F03", "F08;contents", "F0", "F-1,09", "F-1,1e", "F-1,02"]);
    }
}
