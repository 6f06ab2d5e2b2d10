//! Where a thread-local variable is: gdb asks with `qGetTLSAddr`, which names a module by its link map.
//!
//! On the machine itself gdb has the C library's `libthread_db` for this. That library works by descriptions which the C library carries
//! for it (`_thread_db_…`: width, count and offset of each field it needs); here they are read from the recorded memory.

use std::collections::HashMap;

use object::{Object, ObjectSymbol};
use replayer::Timeline;

use crate::files::RecordedFiles;

/// A slot whose variables have not been made yet, and so have no address of their own.
const UNALLOCATED: u64 = u64::MAX;
/// Values of `l_tls_offset` for modules outside the static block.
const NOT_STATIC: [u64; 2] = [0, u64::MAX];

/// Where a field lies in its structure, and its size: bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    offset: u64,
    size: u64,
}

/// What the C library says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    module: Field,
    static_offset: Field,
    /// In a thread's descriptor: its vector of modules.
    vector: Field,
    /// One element of that vector.
    slot: Field,
    /// In such an element.
    pointer: Field,
}

/// The address of the variable at `offset` in the module whose link map is at `link_map`.
pub fn address(timeline: &mut dyn Timeline, layout: &Layout, link_map: u64, offset: u64) -> Option<u64> {
    let thread = timeline.registers().ok()?.fs_base;
    let module = word(timeline, link_map.checked_add(layout.module.offset)?)?;
    if module == 0 {
        return None;
    }
    let vector = word(timeline, thread.checked_add(layout.vector.offset)?)?;
    // The element before the first one tells how many there are.
    let count = word(timeline, vector.checked_sub(layout.slot.size)?)?;
    let block = if module <= count {
        word(timeline, vector.checked_add(module.checked_mul(layout.slot.size)?)?.checked_add(layout.pointer.offset)?)?
    } else {
        UNALLOCATED
    };
    if block != UNALLOCATED {
        return block.checked_add(offset);
    }
    let below = word(timeline, link_map.checked_add(layout.static_offset.offset)?)?;
    (!NOT_STATIC.contains(&below)).then(|| thread.wrapping_sub(below).wrapping_add(offset))
}

/// The descriptions in the recorded program's C library; `None` for one that carries none.
pub fn layout(timeline: &mut dyn Timeline, files: &mut RecordedFiles) -> Option<Layout> {
    let mappings = timeline.mappings().ok()?;
    let is_library = |name: &str| name.rsplit('/').next().is_some_and(|base| base.starts_with("libc") || base.starts_with("libpthread"));
    mappings.iter().filter(|mapping| mapping.offset == 0 && is_library(&mapping.name)).find_map(|mapping| {
        let contents = files.read(&mapping.name, timeline).ok()?;
        let symbols = descriptions(&contents)?;
        let mut field = |name: &str| {
            let at = mapping.start.checked_add(*symbols.get(name)?)?;
            let bits = half_word(timeline, at)?;
            Some(Field { offset: half_word(timeline, at + 8)?, size: bits / 8 })
        };
        Some(Layout {
            module: field("link_map_l_tls_modid")?,
            static_offset: field("link_map_l_tls_offset")?,
            vector: field("pthread_dtvp")?,
            slot: field("dtv_dtv")?,
            pointer: field("dtv_t_pointer_val")?,
        })
    })
}

/// Offsets of the descriptions from where the library is loaded.
fn descriptions(library: &[u8]) -> Option<HashMap<String, u64>> {
    let file = object::File::parse(library).ok()?;
    let named = |symbol: object::Symbol<'_, '_>| Some((symbol.name().ok()?.strip_prefix("_thread_db_")?.to_owned(), symbol.address()));
    let found: HashMap<String, u64> = file.dynamic_symbols().chain(file.symbols()).filter_map(named).collect();
    (!found.is_empty()).then_some(found)
}

fn word(timeline: &mut dyn Timeline, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    (timeline.read_memory(address, &mut bytes).ok()? == bytes.len()).then(|| u64::from_le_bytes(bytes))
}

fn half_word(timeline: &mut dyn Timeline, address: u64) -> Option<u64> {
    let mut bytes = [0; 4];
    (timeline.read_memory(address, &mut bytes).ok()? == bytes.len()).then(|| u32::from_le_bytes(bytes).into())
}
