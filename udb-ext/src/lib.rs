//! `udb`: a debugger for recordings. Stock gdb in front, one `udb-server` per recording behind it.
//!
//! ```text
//!   udb ──exec──► gdb ──pipe──► udb-server ──► timeline (replayer)
//!                  │  Python:                └► correlator
//!                  │  ugo, uinfo, ublame …
//!                  └──pipe──► udb-server …      (the other recordings, when first visited)
//! ```

mod arch;
mod commands;
mod connection;
mod correlate;
mod correlated;
#[cfg(test)]
mod fake;
mod files;
mod launcher;
mod open;
mod session;
mod target;
mod terminal;
mod tls;
mod wallclock;

pub use correlate::{Access, AccessKind, Blame, Correlate, NoLog, Query, Recording};
pub use launcher::launch;
pub use open::{Opened, Origin, open};
pub use session::serve;
pub use terminal::leave_terminal;
pub use wallclock::Wallclock;
