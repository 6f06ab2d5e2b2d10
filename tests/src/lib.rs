//! The oracle: a program must do the same whether it runs natively or is recorded, and its recording must replay.
//!
//! ```text
//!   programs/GROUP/*.c ── gcc, each variant ──┐
//!                                             ├─► Program ── natively ──► Outcome ─┐
//!   programs of the system (a table) ─────────┘      │                             ├─ equal?
//!                                                    └── live-record ──► Outcome ──┘
//!                                                             └─► .undo ── undo-replay verify
//! ```
//!
//! An [`Outcome`] is all that the world sees of a program: output, errors, how it ended, the files it left. To add a program is to add a
//! file under `programs/` ([`corpus`] says what its head may ask for) or a row to a table in `tests/`.
//!
//! Invariants
//! I1. Both runs get the same input, environment and working directory, and start in an empty one: what differs is the program's doing.
//! I2. Nothing waits by sleeping. A program that does not end is killed after [`run::WATCHDOG`], with what it started, and fails.
//! I3. A program that does natively something else than its table says fails as well: a broken test program proves nothing.

pub mod accesses;
pub mod compile;
pub mod corpus;
pub mod debug;
mod diff;
mod directory;
pub mod example;
pub mod lockstep;
pub mod oracle;
pub mod pattern;
pub mod pool;
pub mod random;
pub mod random_program;
pub mod run;
pub mod server;
pub mod stage;
pub mod terminal;

pub use oracle::{Program, check};
pub use run::{Ended, Outcome};
