//! From a program counter to function, file and line, by the files that a recording holds.
//!
//! Lazily: a recording is opened when the first of its program counters is asked for, a file of it likewise. What cannot be told (no
//! recording, no such file in it, no debug information) is left out; it is no error, since it only adorns.
use gimli::{Dwarf, EndianArcSlice, RunTimeEndian, SectionId};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use recording::{Mapping, Recording};
use rustc_hash::FxHashMap;
use shmem_log::RecordingIndex;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::discovery::Discovery;

/// Where in a program a program counter is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// The program or library, and the offset in it.
    pub module: String,
    pub offset: u64,
}

impl fmt::Display for Place {
    /// `consumer_run at shmem_producer_consumer.c:96`, with as much of it as is known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        match &self.function {
            Some(function) => write!(f, "{function}")?,
            None => write!(f, "{}+{:#x}", base(&self.module), self.offset)?,
        }
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, " at {}:{line}", base(file)),
            _ if self.function.is_some() => write!(f, " in {}", base(&self.module)),
            _ => Ok(()),
        }
    }
}

struct Module {
    context: Option<addr2line::Context<EndianArcSlice<RunTimeEndian>>>,
    /// Address, bytes (0 if that is not known) and name of the functions, sorted.
    functions: Vec<(u64, u64, String)>,
    /// (offset in the file, bytes, address).
    segments: Vec<(u64, u64, u64)>,
}

struct Program {
    recording: Recording,
    mappings: Vec<Mapping>,
    modules: FxHashMap<Vec<u8>, Option<Module>>,
}

/// Looks program counters up in the recordings beside a log.
#[derive(Default)]
pub struct Symbols {
    paths: FxHashMap<RecordingIndex, PathBuf>,
    programs: FxHashMap<RecordingIndex, Option<Program>>,
    known: FxHashMap<(RecordingIndex, u64), Option<Place>>,
}

impl Symbols {
    pub fn new(discovery: &Discovery) -> Symbols {
        let paths = discovery.recordings.iter().filter_map(|found| Some((found.index, found.path.clone()?)));
        Symbols { paths: paths.collect(), ..Symbols::default() }
    }

    /// Whether there is any recording to look into.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Where a program counter of a recording is, if that can be told.
    pub fn place(&mut self, recording: RecordingIndex, pc: u64) -> Option<Place> {
        if let Some(known) = self.known.get(&(recording, pc)) {
            return known.clone();
        }
        let paths = &self.paths;
        let program = self.programs.entry(recording).or_insert_with(|| {
            let recording = Recording::open(paths.get(&recording)?).ok()?;
            Some(Program { mappings: recording.mappings().to_vec(), recording, modules: FxHashMap::default() })
        });
        let place = program.as_mut().and_then(|program| program.place(pc));
        self.known.insert((recording, pc), place.clone());
        place
    }
}

impl Program {
    fn place(&mut self, pc: u64) -> Option<Place> {
        let mapping = self.mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&pc))?;
        let offset = pc - mapping.start + mapping.file_offset;
        let recording = &self.recording;
        let load = || Module::parse(&recording.file_contents(std::ffi::OsStr::from_bytes(&mapping.name)).ok()?);
        let module = self.modules.entry(mapping.name.clone()).or_insert_with(load);
        let name = String::from_utf8_lossy(&mapping.name).into_owned();
        let mut place = Place { function: None, file: None, line: None, module: name, offset };
        if let Some(module) = module {
            module.fill(&mut place, offset);
        }
        Some(place)
    }
}

impl Module {
    fn parse(bytes: &[u8]) -> Option<Module> {
        let file = object::File::parse(bytes).ok()?;
        let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let section = |id: SectionId| {
            let data = file.section_by_name(id.name()).and_then(|section| section.data().ok()).unwrap_or(&[]);
            Ok::<_, gimli::Error>(EndianArcSlice::new(Arc::from(data), endian))
        };
        let context = Dwarf::load(section).ok().and_then(|dwarf| addr2line::Context::from_dwarf(dwarf).ok());
        let is_function = |symbol: &object::Symbol<'_, '_>| symbol.is_definition() && symbol.kind() == object::SymbolKind::Text;
        let named = file.symbols().chain(file.dynamic_symbols()).filter(is_function);
        let mut functions: Vec<(u64, u64, String)> =
            named.filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned()))).collect();
        functions.sort_unstable();
        let segments = file.segments().map(|segment| (segment.file_range().0, segment.file_range().1, segment.address())).collect();
        Some(Module { context, functions, segments })
    }

    fn fill(&self, place: &mut Place, offset: u64) {
        let inside = |(start, len, _): &&(u64, u64, u64)| offset.wrapping_sub(*start) < *len;
        let Some((start, _, base)) = self.segments.iter().find(inside) else { return };
        let address = base.wrapping_add(offset - start);
        if let Some(context) = &self.context {
            if let Ok(Some(location)) = context.find_location(address) {
                place.file = location.file.map(str::to_owned);
                place.line = location.line;
            }
            if let Ok(mut frames) = context.find_frames(address).skip_all_loads()
                && let Ok(Some(frame)) = frames.next()
            {
                place.function = frame.function.and_then(|name| name.demangle().ok().map(|name| name.into_owned()));
            }
        }
        if place.function.is_none() {
            let behind = self.functions.partition_point(|(start, ..)| *start <= address);
            // Behind its end may be a function that has no name here, such as an internal one of a stripped library.
            let nearest = self.functions[..behind].last().filter(|(start, size, _)| *size == 0 || address - start < *size);
            place.function = nearest.map(|(.., name)| demangled(name));
        }
    }
}

fn demangled(name: &str) -> String {
    addr2line::demangle_auto(name.into(), None).into_owned()
}
