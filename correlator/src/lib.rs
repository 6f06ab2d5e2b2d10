//! Which process made this value? The index and the queries over an access log, and the files that belong to it.
//!
//! ```text
//!   one .undo or .shmem ─► Discovery ─► the log, its recordings, their numbers as inferiors
//!                                │
//!        Correlator::open ◄──────┘
//!            │  Source (the log's bytes) · Index (per object, cache line and recording, where its accesses are)
//!            └► blame · access_before / after · value_at · readers_of · unrecorded_writers · races · hot_lines · shared_status
//! ```
//!
//! Where to read on: `docs/correlation.md` defines each query; how two accesses are ordered is in `docs/log-ordering.md`.
#![forbid(unsafe_code)]

mod blame;
mod correlator;
mod discovery;
mod error;
mod index;
mod merge;
mod queries;
mod query;
mod record;
mod scan;
mod source;
mod status;
mod symbols;
mod values;

pub use blame::{Blame, BlameOptions, Cut, Reason, Row};
pub use correlator::{Correlator, Options, Progress, Skipped};
pub use discovery::{Discovery, FoundRecording, Warning};
pub use error::Error;
pub use query::{Filter, Moment, Query, Target};
pub use record::{LineSpan, Record, RecordOrder, order};
pub use recording::Time;
pub use scan::{HotLine, Race, Share, Unrecorded};
pub use shmem_log::{Kind, ObjectIndex, Position, Reader, RecordingIndex};
pub use status::SharedStatus;
pub use symbols::{Place, Symbols};
