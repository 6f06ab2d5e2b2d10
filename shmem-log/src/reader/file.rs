//! Reading parts of the file: by `pread` into our own memory.
//!
//! Not by a mapping: whoever truncates the file under a mapping kills the process that touches it (SIGBUS), and a log may come
//! from anywhere. The kernel's copy costs 0.1 ns a byte, and everything after it borrows from that one copy.
use super::error::{Damage, ReadError};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// Opening a FIFO must not wait for its other end.
const O_NONBLOCK: i32 = 0o4000;

#[derive(Debug)]
pub(super) struct LogFile {
    pub path: Arc<Path>,
    file: File,
    /// What the file's size was when it was opened, and must be.
    pub size: u64,
}

impl LogFile {
    pub fn open(path: &Path) -> Result<LogFile, ReadError> {
        let path: Arc<Path> = path.into();
        let io = |what| {
            let path = path.clone();
            move |source| ReadError::Io { path, what, source }
        };
        let file = File::options().read(true).custom_flags(O_NONBLOCK).open(&path).map_err(io("open"))?;
        let metadata = file.metadata().map_err(io("size"))?;
        if !metadata.is_file() {
            return Err(ReadError::NotAFile { path });
        }
        Ok(LogFile { file, size: metadata.len(), path })
    }

    /// Fills `buffer` from byte `offset` on; `what` names the part in errors.
    pub fn read(&self, what: &'static str, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.file.read_exact_at(buffer, offset).map_err(|source| {
            if source.kind() == io::ErrorKind::UnexpectedEof {
                let found = self.file.metadata().map_or(0, |metadata| metadata.len());
                return ReadError::Truncated { path: self.path.clone(), what, offset, expected: self.size, found };
            }
            ReadError::Io { path: self.path.clone(), what, source }
        })
    }

    pub fn read_word(&self, what: &'static str, offset: u64) -> Result<u64, ReadError> {
        let mut bytes = [0; 8];
        self.read(what, offset, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Calls `each` with the offset and two copies of each of a table's first `count` entries, read one after the other: what the words of
    /// the first say to be complete is so in the second. Within one read nothing tells which byte was copied first.
    pub fn entries(
        &self,
        what: &'static str,
        offset: u64,
        entry_bytes: u64,
        count: u64,
        mut each: impl FnMut(u64, [&[u8]; 2]) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        const CHUNK_BYTES: u64 = 256 << 10;
        let per_chunk = CHUNK_BYTES / entry_bytes;
        let mut copies = [(); 2].map(|()| vec![0; (entry_bytes * per_chunk.min(count)) as usize]);
        let mut done = 0;
        while done < count {
            let now = per_chunk.min(count - done);
            let start = offset + done * entry_bytes;
            for copy in &mut copies {
                self.read(what, start, &mut copy[..(now * entry_bytes) as usize])?;
            }
            let [first, second] = copies.each_ref().map(|copy| copy[..(now * entry_bytes) as usize].chunks_exact(entry_bytes as usize));
            for (index, (first, second)) in first.zip(second).enumerate() {
                each(start + index as u64 * entry_bytes, [first, second])?;
            }
            done += now;
        }
        Ok(())
    }

    pub fn damaged(&self, damage: Damage) -> ReadError {
        ReadError::Damaged { path: self.path.clone(), damage }
    }
}

/// The little-endian word at byte `at`, which must be inside.
#[inline(always)]
pub(super) fn word(bytes: &[u8], at: u64) -> u64 {
    let at = at as usize;
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
