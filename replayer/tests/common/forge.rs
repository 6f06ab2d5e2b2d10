//! Event logs and metadata that were changed by somebody who repaired all checksums and hashes: what reaches replay then.
//!
//! The fuzz target `replay` and the test `forged` share this.

use std::sync::LazyLock;

use replayer::{Cancel, Direction, Error, Points, Timeline};

use super::program::{self, Flaw};
use super::raw::{self, Chunk};

static CHUNKS: LazyLock<Vec<Chunk>> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("made.undo");
    program::make(&path, Flaw::None);
    raw::take_apart(&std::fs::read(path).expect("what was just written"))
});

/// Puts another payload in the place of the only chunk of this kind.
fn edit(chunks: &mut [Chunk], kind: u16, change: impl FnOnce(&mut Vec<u8>)) {
    change(&mut chunks.iter_mut().find(|chunk| chunk.kind == kind).expect("every recording has it").payload);
}

/// Replays the made recording with these edits, five bytes each: where in the metadata and the event log behind it, and what to combine
/// the byte there with. Anything may come of it but a replay that breaks. Whether it was taken for good.
pub fn replay(edits: &[u8]) -> bool {
    let mut chunks = CHUNKS.clone();
    let length = |kind: u16| CHUNKS.iter().find(|chunk| chunk.kind == kind).map_or(0, |chunk| chunk.payload.len());
    let (meta, log) = (length(raw::META), length(raw::EVENTS));
    for change in edits.chunks_exact(5) {
        let at = u32::from_le_bytes([change[0], change[1], change[2], change[3]]) as usize % (meta + log);
        let (kind, at) = if at < meta { (raw::META, at) } else { (raw::EVENTS, at - meta) };
        edit(&mut chunks, kind, |payload| payload[at] ^= change[4]);
    }
    let mut hash = 0;
    edit(&mut chunks, raw::EVENTS, |log| hash = raw::repair_events(log));
    edit(&mut chunks, raw::META, |meta| raw::repair_meta(meta, hash));
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
