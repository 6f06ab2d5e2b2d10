//! The logs that a question is about.
use anyhow::{Context as _, Result, bail};
use correlator::{Discovery, Record, Symbols};
use shmem_log::{BlockBuffer, BlockInfo, Reader};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// One log, with the recordings beside it.
pub struct Log {
    pub name: String,
    pub uuid: String,
    pub reader: Reader,
    pub discovery: Discovery,
    pub symbols: Mutex<Symbols>,
}

/// One log, or all of a folder.
pub struct Logs(pub Vec<Arc<Log>>);

impl Logs {
    /// In a folder, what cannot be read is said and left out.
    pub fn open(path: &Path) -> Result<Logs> {
        if !path.is_dir() {
            return Ok(Logs(vec![Arc::new(Log::open(path)?)]));
        }
        let entries = std::fs::read_dir(path).with_context(|| format!("{}: cannot list", path.display()))?;
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "shmem"));
        paths.sort();
        let mut logs: Vec<Arc<Log>> = Vec::new();
        for path in paths {
            match Log::open(&path) {
                Ok(log) if logs.iter().any(|known| known.uuid == log.uuid) => {
                    eprintln!("shmem-inspect: warning: {}: a copy of a log of this folder, left out", path.display());
                }
                Ok(log) => logs.push(Arc::new(log)),
                Err(error) => eprintln!("shmem-inspect: warning: left out: {error:#}"),
            }
        }
        if logs.is_empty() {
            bail!("{}: no readable access log (.shmem) in this folder", path.display());
        }
        Ok(Logs(logs))
    }
}

impl Log {
    fn open(path: &Path) -> Result<Log> {
        let discovery = Discovery::from_file(path)?;
        let path = discovery.log.clone().context("there is no access log")?;
        let reader = Reader::open(&path)?;
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let uuid = reader.uuid().iter().map(|byte| format!("{byte:02x}")).collect();
        let symbols = Mutex::new(Symbols::new(&discovery));
        Ok(Log { name, uuid, reader, discovery, symbols })
    }

    /// Adds the accesses of a block to `records`. What cannot be read is said on standard error and left out.
    pub fn read(&self, info: &BlockInfo, buffer: &mut BlockBuffer, records: &mut Vec<Record>) {
        match self.reader.load(info, buffer) {
            Ok(Some(view)) => {
                for access in view.iter() {
                    match access {
                        Ok(access) => records.push(Record::from(&access)),
                        Err(error) => eprintln!("shmem-inspect: warning: skipped: {error}"),
                    }
                }
            }
            Ok(None) => eprintln!("shmem-inspect: warning: {}: block {} was overwritten meanwhile, left out", self.name, info.ticket),
            Err(error) => eprintln!("shmem-inspect: warning: skipped: {error}"),
        }
    }
}
