//! Event logs that were changed by somebody who repaired all checksums and hashes: what reaches replay then.
//!
//! The fuzz target `replay` and the test `forged` share this.

use std::sync::LazyLock;

use recording::{Events, RunningHash};
use replayer::{Cancel, Direction, Error, Points, Timeline};

use super::program::{self, Flaw};
use super::raw::{self, Chunk};

static CHUNKS: LazyLock<Vec<Chunk>> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("made.undo");
    program::make(&path, Flaw::None);
    raw::take_apart(&std::fs::read(path).expect("what was just written"))
});

/// Makes every event vouch for those before it again, as far as they are events.
fn repair(log: &mut [u8]) {
    const STATE_HASH: usize = 40;
    let (mut running, mut at) = (RunningHash::new(), 0);
    while let Some(event) = Events::new(&log[at..]).next().and_then(Result::ok) {
        let (size, hash) = (event.size() as usize, running.note(event.state_hash()));
        log[at + STATE_HASH..at + STATE_HASH + 8].copy_from_slice(&hash.to_le_bytes());
        running.add(&log[at..at + size]);
        at += size;
    }
}

/// Replays the made recording with these edits, five bytes each: where in the event log, and what to combine the byte there with.
/// Anything may come of it but a replay that breaks. Whether it was taken for good.
pub fn replay(edits: &[u8]) -> bool {
    let mut chunks = CHUNKS.clone();
    let log = &mut chunks.iter_mut().find(|chunk| chunk.kind == raw::EVENTS).expect("every recording has events").payload;
    for edit in edits.chunks_exact(5) {
        let at = u32::from_le_bytes([edit[0], edit[1], edit[2], edit[3]]) as usize % log.len();
        log[at] ^= edit[4];
    }
    repair(log);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), raw::put_together(&chunks)).expect("room");
    let outcome = super::open(file.path()).and_then(|mut replay| {
        replay.verify(|_| {})?;
        let end = replay.end();
        replay.seek(end.bbcount, Some(end.pc))?;
        replay.step(Direction::Backward)?;
        replay.resume(Direction::Backward, &Points::default(), &Cancel::default())
    });
    match outcome {
        Ok(_) => true,
        Err(Error::Process(what)) => panic!("the replay broke: {what}"),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}
