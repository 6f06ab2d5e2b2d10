//! What `live-record` tells the library that it preloads, by environment variables: both sides use these names.

/// All of them begin so.
pub const PREFIX: &str = "UNDO_LIVE_RECORD_";

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
    /// 1: no messages.
    Quiet = "QUIET"
    /// 1: save only if the program fails.
    SaveOnError = "SAVE_ON_ERROR"
}
