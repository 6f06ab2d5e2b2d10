//! Files taken apart into chunks and put together again, straight from the byte table of `docs/undo-format.md` and without any code of
//! the crate: whole files with one thing wrong in them, all their checksums right.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

pub const FILE_HEADER: usize = 24;
pub const CHUNK_HEADER: usize = 40;

pub const META: u16 = 1;
pub const MAPPINGS: u16 = 2;
pub const PAGES: u16 = 3;
pub const EVENTS: u16 = 4;
pub const SITES: u16 = 5;
pub const FILE: u16 = 6;
pub const FILE_DATA: u16 = 7;
pub const END: u16 = 255;

/// The tag of META's field `events_hash`.
pub const EVENTS_HASH: u16 = 32;

/// A chunk; the fields that are derived from others can be given another value.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Chunk {
    pub kind: u16,
    pub flags: u32,
    /// Uncompressed.
    pub payload: Vec<u8>,
    pub raw_len: Option<u32>,
    pub stored_len: Option<u32>,
    pub index: Option<u32>,
    pub compression: u16,
}

impl Chunk {
    pub fn new(kind: u16, payload: Vec<u8>) -> Self {
        Self { kind, flags: 1, payload, ..Self::default() }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Where each chunk starts, and the file's end.
pub fn boundaries(file: &[u8]) -> Vec<usize> {
    let mut offsets = vec![FILE_HEADER];
    let mut at = FILE_HEADER;
    while at < file.len() {
        at += CHUNK_HEADER + (u32_at(file, at + 16) as usize).next_multiple_of(8);
        offsets.push(at);
    }
    offsets
}

/// The chunks of a good file, the end chunk not among them.
pub fn take_apart(file: &[u8]) -> Vec<Chunk> {
    let offsets = boundaries(file);
    let chunk = |at: usize| {
        let kind = u16::from_le_bytes([file[at + 4], file[at + 5]]);
        let (compression, raw_len, stored_len, flags) = (file[at + 6], u32_at(file, at + 12), u32_at(file, at + 16), u32_at(file, at + 20));
        let stored = &file[at + CHUNK_HEADER..at + CHUNK_HEADER + stored_len as usize];
        let payload = match compression {
            0 => stored.to_vec(),
            _ => lz4_flex::block::decompress(stored, raw_len as usize).unwrap(),
        };
        Chunk { kind, flags, payload, ..Chunk::default() }
    };
    offsets[..offsets.len() - 2].iter().map(|at| chunk(*at)).collect()
}

/// Appends one chunk.
pub fn put(chunk: &Chunk, index: usize, file: &mut Vec<u8>) -> [u8; CHUNK_HEADER] {
    let mut header = [0; CHUNK_HEADER];
    header[0..4].copy_from_slice(b"CHNK");
    header[4..6].copy_from_slice(&chunk.kind.to_le_bytes());
    header[6..8].copy_from_slice(&chunk.compression.to_le_bytes());
    header[8..12].copy_from_slice(&chunk.index.unwrap_or(index as u32).to_le_bytes());
    let len = chunk.payload.len() as u32;
    header[12..16].copy_from_slice(&chunk.raw_len.unwrap_or(len).to_le_bytes());
    header[16..20].copy_from_slice(&chunk.stored_len.unwrap_or(len).to_le_bytes());
    header[20..24].copy_from_slice(&chunk.flags.to_le_bytes());
    header[24..32].copy_from_slice(&xxh3_64(&chunk.payload).to_le_bytes());
    let checksum = xxh3_64(&header[..32]);
    header[32..40].copy_from_slice(&checksum.to_le_bytes());
    file.extend_from_slice(&header);
    file.extend_from_slice(&chunk.payload);
    file.resize(file.len().next_multiple_of(8), 0);
    header
}

/// A file of these chunks and an end chunk that agrees with them.
pub fn put_together(chunks: &[Chunk]) -> Vec<u8> {
    let mut file = file_header(3);
    let mut headers = file.clone();
    for (index, chunk) in chunks.iter().enumerate() {
        headers.extend_from_slice(&put(chunk, index, &mut file));
    }
    let mut end = (chunks.len() as u64).to_le_bytes().to_vec();
    end.extend_from_slice(&(file.len() as u64).to_le_bytes());
    end.extend_from_slice(&xxh3_64(&headers).to_le_bytes());
    put(&Chunk::new(END, end), chunks.len(), &mut file);
    file
}

pub fn file_header(version: u32) -> Vec<u8> {
    let mut header = b"\x89UNDO\r\n\x1a".to_vec();
    header.extend_from_slice(&version.to_le_bytes());
    header.extend_from_slice(&[0; 4]);
    let checksum = xxh3_64(&header);
    header.extend_from_slice(&checksum.to_le_bytes());
    header
}

/// Where the field with this tag starts in a tagged record, and its length with header and padding; `None`: there is none.
pub fn find_field(record: &[u8], tag: u16) -> Option<(usize, usize)> {
    let mut at = 0;
    while at + 8 <= record.len() {
        let len = 8 + (u32_at(record, at + 4) as usize).next_multiple_of(8);
        if u16::from_le_bytes([record[at], record[at + 1]]) == tag {
            return Some((at, len));
        }
        at += len;
    }
    None
}

/// As [`find_field`], of a field that is there.
pub fn field(record: &[u8], tag: u16) -> (usize, usize) {
    find_field(record, tag).unwrap()
}

/// Makes every event vouch for those before it again, as far as they are events. Gives what META is to say of them.
pub fn repair_events(log: &mut [u8]) -> u64 {
    const STATE_HASH: usize = 40;
    let (mut running, mut at) = (0, 0);
    while at + 48 <= log.len() {
        let size = u64::from_le_bytes(log[at..at + 8].try_into().unwrap());
        let Some(end) = usize::try_from(size).ok().filter(|size| *size >= 48).and_then(|size| at.checked_add(size)) else { break };
        let Some(event) = log.get_mut(at..end) else { break };
        event[STATE_HASH + 4..STATE_HASH + 8].copy_from_slice(&((running >> 32) as u32).to_le_bytes());
        running = xxh3_64_with_seed(event, running);
        at = end;
    }
    running
}

/// Puts the hash of the events into the metadata, if there is a place for it.
pub fn repair_meta(meta: &mut [u8], hash: u64) {
    if let Some(value) = find_field(meta, EVENTS_HASH).and_then(|(at, _)| meta.get_mut(at + 8..at + 16)) {
        value.copy_from_slice(&hash.to_le_bytes());
    }
}
