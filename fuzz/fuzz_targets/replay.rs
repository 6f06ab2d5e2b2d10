//! Replay of forged events: whatever they say, there is an answer or an error, in bounded time. `replayer/tests/forged.rs` does a little of
//! the same with a stable compiler. `UNDO_REPLAY_GUEST` names the replay program (`target/stage/libexec/undo/replay-guest`).
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../replayer/tests/common/mod.rs"]
mod common;

fuzz_target!(|data: &[u8]| {
    common::forge::replay(data);
});
