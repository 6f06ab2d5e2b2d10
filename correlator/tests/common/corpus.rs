//! Broken logs, each with a name: cut ones, ones with a field that makes no sense, and ones with random damage.
//!
//! Made of a good log in which all tables are in use. Also used by the tests of `sql`.
#[path = "../../../tests/src/random.rs"]
mod random;

use random::Random;
use shmem_log::Reader;
use shmem_log::layout::*;
use std::path::Path;

pub struct Broken {
    pub name: String,
    pub bytes: Vec<u8>,
    /// A field is broken, and nothing else: whatever is still read is as it was.
    pub rest_is_right: bool,
}

/// All of them; `random` tells how many with random damage.
pub fn broken_logs(good: &Path, random: usize) -> Vec<Broken> {
    let bytes = std::fs::read(good).unwrap();
    let reader = Reader::open(good).unwrap();
    let mut all = Vec::new();
    cut(&bytes, reader.layout(), &mut all);
    for (name, offset, patch) in fields(&reader) {
        let mut bytes = bytes.clone();
        bytes[offset as usize..][..patch.len()].copy_from_slice(&patch);
        all.push(Broken { name, bytes, rest_is_right: true });
    }
    damaged(&bytes, random, &mut all);
    all
}

fn cut(bytes: &[u8], layout: &Layout, all: &mut Vec<Broken>) {
    let sections = layout.sections.iter().flat_map(|section| [section.offset, section.offset + 8]);
    for len in [0, 1, 7, 8, 4095, 4096, bytes.len() as u64 - 1].into_iter().chain(sections).filter(|len| *len < bytes.len() as u64) {
        all.push(Broken { name: format!("cut to {len} bytes"), bytes: bytes[..len as usize].to_vec(), rest_is_right: true });
    }
    let mut longer = bytes.to_vec();
    longer.resize(bytes.len() + 4096, 0);
    all.push(Broken { name: "longer than it says".into(), bytes: longer, rest_is_right: true });
}

/// Name, place, and what to put there.
fn fields(reader: &Reader) -> Vec<(String, u64, Vec<u8>)> {
    let layout = reader.layout();
    let mut all: Vec<(String, u64, Vec<u8>)> = Vec::new();
    let mut add = |name: &str, offset: u64, bytes: &[u8]| all.push((name.to_owned(), offset, bytes.to_vec()));
    add("magic", HDR_MAGIC, b"ELF");
    add("version", HDR_VERSION, &[0xee]);
    add("file size", HDR_FILE_SIZE, &[1]);
    add("clock", HDR_KINDS, &[9]);
    add("slot size", HDR_UNITS, &[64]);
    add("flags", HDR_FLAGS, &[1]);
    add("UUID", HDR_UUID, &[1, 2, 3]);
    for section in 0..7 {
        add(&format!("offset of section {section}"), HDR_SECTIONS + section * 16, &[255; 8]);
        add(&format!("number of section {section}"), HDR_SECTIONS + section * 16 + 8, &[255; 8]);
    }
    add("cursor", HDR_CURSOR, &[255; 8]);
    add("cursor at 0", HDR_CURSOR, &[0; 8]);
    add("recordings cursor", HDR_RECORDINGS_CURSOR, &[255; 8]);
    add("mappings cursor", HDR_MAPPINGS_CURSOR, &[255; 8]);
    add("sites cursor", HDR_SITES_CURSOR, &[255; 8]);
    let recording = layout.recordings().offset;
    add("state of a recording", recording + REC_STATE, &[7]);
    add("recording never written", recording + REC_STATE, &[0]);
    add("length of an executable", recording + REC_LENGTHS, &[255, 255]);
    add("length of a recording's name", recording + REC_LENGTHS + 4, &[255, 255]);
    add("end mark", recording + REC_ENDED, &[7]);
    let object = layout.objects().offset + (u64::from(reader.objects()[0].index.get()) - 1) * OBJECT_BYTES;
    add("state of an object", object + OBJ_STATE, &[7]);
    add("key of an object", object + OBJ_KEY, &[7]);
    add("no key of an object", object + OBJ_KEY, &[0; 8]);
    add("length of an object's name", object + OBJ_NAME_LEN, &[255]);
    let mapping = layout.mappings().offset;
    add("state of a mapping", mapping + MAP_STATE, &[9]);
    add("recording of a mapping", mapping + MAP_WHO, &[9]);
    add("object of a mapping", mapping + MAP_WHO + 4, &[99, 1]);
    let site = layout.sites().offset;
    add("kind of a site", site + SITE_META + 4, &[9]);
    add("length of a site", site + SITE_META, &[9]);
    add("no site", site + SITE_META, &[0; 8]);
    let header = layout.block_headers().offset;
    add("ticket of a block", header + BLK_STATE + 3, &[99]);
    add("another block's ticket", header + BLK_STATE + 2, &[8]);
    add("recording of a block", header + BLK_STATE, &[STATE_RELEASED as u8 | 3 << 2]);
    add("use of a block", header + BLK_USED, &[255, 255]);
    add("slots of a block", header + BLK_USED, &[5]);
    add("records of a block", header + BLK_USED + 4, &[5]);
    let block = layout.blocks().offset;
    add("site of a record", block + SLOT_COMMIT, &[255, 255, 255, 0x3f]);
    add("record not committed", block + SLOT_COMMIT, &[0; 8]);
    add("object of a record", block + SLOT_WHERE + 6, &[0xee; 2]);
    add("place of a record", block + SLOT_WHERE, &[255; 6]);
    all
}

fn damaged(bytes: &[u8], count: usize, all: &mut Vec<Broken>) {
    let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let mut random = Random::new(2);
    for number in 0..count {
        let mut bad = bytes.to_vec();
        for _ in 0..1 + random.below(16) {
            let at = if random.below(4) == 0 { random.below(bad.len()) } else { used[random.below(used.len())] };
            bad[at] = random.bits() as u8;
        }
        all.push(Broken { name: format!("random damage {number}"), bytes: bad, rest_is_right: false });
    }
}
