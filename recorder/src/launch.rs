//! What `live-record` tells the library that it preloads, by environment variables: both sides use these names.

/// All of them begin so.
pub const PREFIX: &str = "UNDO_LIVE_RECORD_";

/// The command name of the process that holds a running recording's start state; its parent is the recorded process.
pub const SNAPSHOT_NAME: &core::ffi::CStr = c"undo-snapshot";

macro_rules! variables {
    ($($(#[$doc:meta])* $variant:ident = $name:literal)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Variable {
            $($(#[$doc])* $variant,)*
        }

        impl Variable {
            /// The name behind [`PREFIX`].
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            pub fn from_name(name: &[u8]) -> Option<Self> {
                [$(Self::$variant),*].into_iter().find(|variable| variable.name().as_bytes() == name)
            }
        }
    };
}

variables! {
    /// The process that is to be recorded.
    Pid = "PID"
    /// Where the recording goes, absolute.
    File = "FILE"
    /// The access log, absolute.
    ShmemLog = "SHMEM_LOG"
    /// Bytes.
    ShmemLogSize = "SHMEM_LOG_SIZE"
    /// Bytes.
    EventLogSize = "EVENT_LOG_SIZE"
    /// `parent`, `child` or `both`.
    OnFork = "ON_FORK"
    /// Instead of [`Variable::Pid`]: the name of the program that is to be recorded, whatever process executes it.
    RecordOn = "RECORD_ON"
    /// The process that `live-record` became; others are recorded in files with their process id in the name.
    First = "FIRST"
    /// How many recorded programs the process has executed before.
    Executed = "EXECUTED"
    /// A directory for the event log: it is kept in a file there instead of in memory.
    TemporaryDirectory = "TMPDIR_ROOT"
    /// 1: no messages.
    Quiet = "QUIET"
    /// 1: save only if the program fails.
    SaveOnError = "SAVE_ON_ERROR"
    /// 1: save only if the program is ended by a signal.
    SaveOnSignal = "SAVE_ON_SIGNAL"
}
