//! One debugger, one recording: from the first packet until the pipe closes.

use std::io::{Read, Write};

use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{DisconnectReason, GdbStub};
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
    loop {
        machine = match machine {
            GdbStubStateMachine::Idle(idle) => match incoming.recv() {
                // Nothing runs: the interrupt came too late for the search that it was meant for, which has stopped by itself.
                Ok(Incoming::Interrupt) => {
                    cancel.reset();
                    idle.into()
                }
                Ok(Incoming::Byte(byte)) => idle.incoming_data(&mut debuggee, byte)?,
                Err(_) => return Ok(()),
            },
            GdbStubStateMachine::Running(mut running) => {
                let reason = debuggee.run();
                if let Some(complaint) = &debuggee.complaint {
                    running.borrow_conn().say(&format!("udb: {complaint}\n"))?;
                }
                running.report_stop(&mut debuggee, reason)?
            }
            GdbStubStateMachine::CtrlCInterrupt(interrupt) => {
                // Interrupts never reach gdbstub; the reader takes them out.
                interrupt.interrupt_handled(&mut debuggee, None::<gdbstub::stub::MultiThreadStopReason<u64>>)?
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
