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
    let incoming = spawn_reader(input, cancel.clone());
    let stub = GdbStub::builder(Pipe::new(output)).packet_buffer_size(PACKET_SIZE).build()?;
    let mut machine = stub.run_state_machine(&mut debuggee)?;
    // A search was stopped by an interrupt that is still to come in its place among the packets.
    let mut spent = false;
    loop {
        machine = match machine {
            GdbStubStateMachine::Idle(idle) => match incoming.recv() {
                Ok(Incoming::Interrupt) => {
                    if !std::mem::take(&mut spent) {
                        cancel.cancel();
                    }
                    idle.into()
                }
                Ok(Incoming::Byte(byte)) => idle.incoming_data(&mut debuggee, byte)?,
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

fn is_interrupt(reason: &MultiThreadStopReason<u64>) -> bool {
    matches!(reason, MultiThreadStopReason::SignalWithThread { signal: Signal::SIGINT, .. })
}
