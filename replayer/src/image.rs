//! What a replay process is started with: the image file (plan and pages) and the events file, both in memory.
//!
//! Every mapping that has contents gets one piece of the image, as long as itself and with holes where its pages are zero; replay
//! processes map it privately, so all of them share what none has changed.

use std::ffi::CString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::arena;
use nix::sys::memfd::{MFdFlags, memfd_create};
use recording::{ChunkKind, FIRST_WITH_RUNNING_HASH, MappingFlags, Recording, Time};
use replay_guest::plan::{self, NO_IMAGE, Plan};

use crate::timeline::Error;

/// How far the stack may grow beyond what was mapped when recording started, as far as there is room: programs raise the limit of its size.
const STACK_BYTES: u64 = 1 << 30;
/// Kept free between the grown stack and what lies below it.
const STACK_GAP: u64 = 1 << 20;
const USER_END: u64 = 0x7fff_ffff_f000;
/// No recording starts in a program that has just set the trap flag, nor with what only the kernel can set: TF, VM, VIF, VIP, and all
/// that have no name.
const NEVER_AT_BEGIN: u64 = !0x25_7ed7;

pub fn memory_file(name: &str) -> Result<File, Error> {
    let name = CString::new(name).unwrap_or_default();
    let made = memfd_create(name.as_c_str(), MFdFlags::MFD_CLOEXEC);
    made.map(File::from).map_err(|error| Error::Process(format!("cannot make a file in memory: {error}")))
}

/// A section, which begins with that chunk, is well formed and yet cannot be.
fn bad(recording: &Recording, section: ChunkKind, what: impl std::fmt::Display) -> Error {
    let chunk = recording.chunk_at(section, 0);
    Error::Recording(format!("{}: section {}, from chunk {chunk} on: {what}", recording.path().display(), section.name()))
}

fn reading(error: recording::Error) -> Error {
    Error::Recording(error.to_string())
}

/// The event log in a file in memory.
pub fn events_file(recording: &Recording) -> Result<File, Error> {
    let file = memory_file("undo-events")?;
    recording.events_into(BufWriter::with_capacity(1 << 20, &file)).map_err(reading)?;
    Ok(file)
}

pub fn image_file(recording: &Recording, events_bytes: u64) -> Result<File, Error> {
    let mut plan = layout(recording)?;
    plan.head.events_bytes = events_bytes;
    plan.seal();
    let mut at = plan.head.plan_bytes;
    let mut contents = Vec::new();
    for mapping in &mut plan.mappings {
        mapping.image = at;
        at += mapping.end - mapping.start;
        contents.push(AtomicBool::new(false));
    }
    let file = memory_file("undo-image")?;
    file.set_len(at).map_err(|error| {
        let what = format_args!("mappings: expected no more than a file in memory can hold, found {at:#x} bytes: {error}");
        bad(recording, ChunkKind::Mappings, what)
    })?;
    fill(recording, &plan, &contents, &file)?;
    for (mapping, used) in plan.mappings.iter_mut().zip(&contents) {
        if !used.load(Ordering::Relaxed) {
            mapping.image = NO_IMAGE;
        }
    }
    (&file).write_all(&plan.encode()).map_err(|error| Error::Process(format!("cannot write the image: {error}")))?;
    Ok(file)
}

/// Writes the recorded pages into the image.
fn fill(recording: &Recording, plan: &Plan, contents: &[AtomicBool], file: &File) -> Result<(), Error> {
    let failure = Mutex::new(None);
    let fail = |error: Error| {
        if let Ok(mut failure) = failure.lock() {
            failure.get_or_insert(error);
        }
    };
    recording
        .for_each_page_run_parallel(|address, bytes| {
            let mut rest = bytes;
            let mut at = address;
            while !rest.is_empty() {
                let index = plan.mappings.partition_point(|mapping| mapping.end <= at);
                let Some(mapping) = plan.mappings.get(index).filter(|mapping| mapping.start <= at) else {
                    let what = format_args!("run address: expected a page of a mapping, found {at:#x}");
                    return fail(bad(recording, ChunkKind::Pages, what));
                };
                let (now, later) = rest.split_at(rest.len().min((mapping.end - at) as usize));
                if let Err(error) = file.write_all_at(now, mapping.image + (at - mapping.start)) {
                    return fail(Error::Process(format!("cannot write the image: {error}")));
                }
                contents[index].store(true, Ordering::Relaxed);
                at += now.len() as u64;
                rest = later;
            }
        })
        .map_err(reading)?;
    failure.into_inner().unwrap_or_default().map_or(Ok(()), Err)
}

/// Everything of the plan but where contents are.
fn layout(recording: &Recording) -> Result<Plan, Error> {
    let meta = recording.meta();
    let regions: Vec<(u64, u64)> =
        meta.reserved.iter().map(|area| (area.addr, area.len)).filter(|&(base, _)| !arena::contains(base)).collect();
    let mut plan = Plan { regions, sites: recording.sites().map_err(reading)?, xsave: meta.xsave.clone(), ..Plan::default() };
    for &(base, size) in &plan.regions {
        if base % 4096 != 0
            || size % 4096 != 0
            || size == 0
            || base.saturating_add(size) > USER_END
            || base + size > arena::BASE && base < arena::END
        {
            let what =
                format_args!("field reserved: expected whole pages outside the engine's own area, found {size:#x} bytes at {base:#x}");
            return Err(bad(recording, ChunkKind::Meta, what));
        }
    }
    let mut reached = 0;
    for (index, mapping) in recording.mappings().iter().enumerate() {
        if mapping.flags.contains(MappingFlags::VSYSCALL) || mapping.start >= USER_END {
            continue;
        }
        check_place(recording, mapping.start, mapping.end, reached)?;
        let entry = plan::Mapping {
            start: mapping.start,
            end: mapping.end,
            prot: u64::from(mapping.prot),
            flags: u64::from(mapping.flags.0),
            file_offset: mapping.file_offset,
            image: NO_IMAGE,
            origin: index as u64,
        };
        if mapping.flags.contains(MappingFlags::GROWS_DOWN) || mapping.flags.contains(MappingFlags::STACK) {
            let floor = plan.regions.iter().map(|&(base, size)| base + size).filter(|&end| end <= mapping.start).fold(reached, u64::max);
            let floor = if mapping.start >= arena::END { floor.max(arena::END) } else { floor };
            let start = mapping.start.saturating_sub(STACK_BYTES).max(floor.saturating_add(STACK_GAP));
            if start < mapping.start {
                plan.mappings.push(plan::Mapping { start, end: mapping.start, ..entry });
            }
        }
        plan.mappings.push(entry);
        reached = mapping.end;
    }
    let begin = Time { bbcount: 1, pc: meta.begin_registers.rip };
    if meta.begin != begin {
        return Err(bad(recording, ChunkKind::Meta, format_args!("field begin: expected {begin}, found {}", meta.begin)));
    }
    let flags = meta.begin_registers.rflags;
    if flags & NEVER_AT_BEGIN != 0 {
        let what = format_args!("field begin_registers: rflags: expected none of {NEVER_AT_BEGIN:#x}, found {flags:#x}");
        return Err(bad(recording, ChunkKind::Meta, what));
    }
    let head = &mut plan.head;
    head.controller_pid = u64::from(std::process::id());
    head.registers = meta.begin_registers;
    (head.brk_start, head.brk) = (meta.brk_start, meta.brk);
    head.registers_mask = if recording.version() < FIRST_WITH_RUNNING_HASH { u64::MAX } else { u64::from(u32::MAX) };
    Ok(plan)
}

fn check_place(recording: &Recording, start: u64, end: u64, reached: u64) -> Result<(), Error> {
    let overlaps = |low: u64, high: u64| start < high && low < end;
    let reserved = || recording.meta().reserved.iter().map(|area| (area.addr, area.addr.saturating_add(area.len)));
    let taken = reserved().chain([(arena::BASE, arena::END)]).find(|&(low, high)| overlaps(low, high));
    let expected = match taken {
        Some((low, high)) => format!("none in the engine's area {low:#x}-{high:#x}"),
        None if start < reached => format!("a start of at least {reached:#x}, where the one before ends"),
        None if end > USER_END => format!("an end of at most {USER_END:#x}"),
        None => return Ok(()),
    };
    Err(bad(recording, ChunkKind::Mappings, format_args!("mapping: expected {expected}, found {start:#x}-{end:#x}")))
}
