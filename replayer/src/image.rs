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
use recording::{FIRST_WITH_RUNNING_HASH, MappingFlags, Metadata, Recording};
use replay_guest::plan::{self, NO_IMAGE, Plan};

use crate::timeline::Error;

/// How far the stack may grow beyond what was mapped when recording started: the usual limit of its size.
const STACK_BYTES: u64 = 8 << 20;
/// Kept free between the grown stack and what lies below it.
const STACK_GAP: u64 = 1 << 20;
const USER_END: u64 = 0x7fff_ffff_f000;

pub fn memory_file(name: &str) -> Result<File, Error> {
    let name = CString::new(name).unwrap_or_default();
    let made = memfd_create(name.as_c_str(), MFdFlags::MFD_CLOEXEC);
    made.map(File::from).map_err(|error| Error::Process(format!("cannot make a file in memory: {error}")))
}

fn bad(recording: &Recording, what: impl std::fmt::Display) -> Error {
    Error::Recording(format!("{}: {what}", recording.path().display()))
}

fn reading(error: recording::Error) -> Error {
    Error::Recording(error.to_string())
}

/// The event log in a file in memory. `end` is appended: what stands in for a missing last event.
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
    file.set_len(at).map_err(|error| bad(recording, format_args!("an image of {at:#x} bytes: {error}")))?;
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
                    return fail(bad(recording, format_args!("section PAGES: page {at:#x} lies in no mapping")));
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
            return Err(bad(recording, format_args!("the engine's area {base:#x} + {size:#x} cannot be")));
        }
    }
    let mut reached = 0;
    for (index, mapping) in recording.mappings().iter().enumerate() {
        if mapping.flags.contains(MappingFlags::VSYSCALL) || mapping.start >= USER_END {
            continue;
        }
        check_place(recording, meta, mapping.start, mapping.end, reached)?;
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
    let head = &mut plan.head;
    head.controller_pid = u64::from(std::process::id());
    head.bbcount = 1;
    head.registers = meta.begin_registers;
    (head.brk_start, head.brk) = (meta.brk_start, meta.brk);
    head.registers_mask = if recording.version() < FIRST_WITH_RUNNING_HASH { u64::MAX } else { u64::from(u32::MAX) };
    Ok(plan)
}

fn check_place(recording: &Recording, meta: &Metadata, start: u64, end: u64, reached: u64) -> Result<(), Error> {
    let overlaps = |low: u64, high: u64| start < high && low < end;
    let taken = meta.reserved.iter().any(|area| overlaps(area.addr, area.addr + area.len));
    if start < reached || end > USER_END || overlaps(arena::BASE, arena::END) || taken {
        return Err(bad(recording, format_args!("section MAPPINGS: a mapping at {start:#x}-{end:#x} cannot be rebuilt")));
    }
    Ok(())
}
