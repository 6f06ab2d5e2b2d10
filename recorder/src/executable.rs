//! What kind of program a file is, as far as it decides whether a preloaded library gets into it.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Why a program cannot be recorded by preloading a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("it is statically linked, so nothing can be preloaded; link it with libundolr and call undolr_start")]
    Static,
    #[error("it is not a 64-bit x86 program")]
    OtherMachine,
    #[error("it runs with another user's or group's rights (setuid, setgid)")]
    Privileged,
}

/// The file that exec finds and may run under this name; `None` if there is none.
pub fn find(name: &Path) -> Option<PathBuf> {
    if name.as_os_str().as_bytes().contains(&b'/') {
        return is_executable(name).then(|| name.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok()
}

/// Files that cannot be read, and those that are no ELF files (scripts), are left to exec.
pub fn check(path: &Path) -> Result<(), Unfit> {
    let Ok(mut file) = File::open(path) else { return Ok(()) };
    if let Ok(metadata) = file.metadata() {
        let user = metadata.mode() & 0o4000 != 0 && metadata.uid() != nix::unistd::getuid().as_raw();
        let group = metadata.mode() & 0o2010 == 0o2010 && metadata.gid() != nix::unistd::getgid().as_raw();
        if user || group {
            return Err(Unfit::Privileged);
        }
    }
    let mut bytes = Vec::new();
    // The program headers follow the ELF header.
    if file.by_ref().take(4096).read_to_end(&mut bytes).is_err() {
        return Ok(());
    }
    check_elf(&bytes)
}

/// Only asks for the machine: nothing has to be preloaded.
pub fn check_machine(path: &Path) -> Result<(), Unfit> {
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(4096).read_to_end(&mut bytes)) {
        Ok(_) => check_elf(&bytes).or_else(|unfit| if unfit == Unfit::Static { Ok(()) } else { Err(unfit) }),
        Err(_) => Ok(()),
    }
}

fn check_elf(bytes: &[u8]) -> Result<(), Unfit> {
    const X86_64: u64 = 62;
    const PROGRAM_HEADER: u64 = 56;
    const INTERPRETER: u64 = 3;
    if !bytes.starts_with(b"\x7fELF") {
        return Ok(());
    }
    // Anything beyond the bytes at hand counts as zero.
    let number = |at: u64, size: usize| {
        let field = usize::try_from(at).ok().and_then(|at| bytes.get(at..at.checked_add(size)?)).unwrap_or(&[]);
        field.iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte))
    };
    if number(4, 1) != 2 || number(18, 2) != X86_64 {
        return Err(Unfit::OtherMachine);
    }
    let (offset, count) = (number(32, 8), number(56, 2));
    let interpreted = (0..count).any(|index| number(offset.saturating_add(index * PROGRAM_HEADER), 4) == INTERPRETER);
    if interpreted { Ok(()) } else { Err(Unfit::Static) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(machine: u8, kinds: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..5].copy_from_slice(b"\x7fELF\x02");
        bytes[18] = machine;
        bytes[32] = 64;
        bytes[56] = kinds.len() as u8;
        for &kind in kinds {
            let mut header = vec![0; 56];
            header[0] = kind;
            bytes.extend(header);
        }
        bytes
    }

    #[test]
    fn programs_with_an_interpreter_are_fit() {
        assert_eq!(check_elf(&elf(62, &[6, 3, 1])), Ok(()));
        assert_eq!(check(Path::new("/proc/self/exe")), Ok(()));
    }

    #[test]
    fn others_are_named() {
        assert_eq!(check_elf(&elf(62, &[1, 1])), Err(Unfit::Static));
        assert_eq!(check_elf(&elf(183, &[3])), Err(Unfit::OtherMachine));
        let mut narrow = elf(62, &[3]);
        narrow[4] = 1;
        assert_eq!(check_elf(&narrow), Err(Unfit::OtherMachine));
    }

    #[test]
    fn what_is_no_elf_file_is_left_to_exec() {
        assert_eq!(check_elf(b"#!/bin/sh\n"), Ok(()));
        assert_eq!(check_elf(b""), Ok(()));
        assert_eq!(check(Path::new("/no/such/file")), Ok(()));
    }

    #[test]
    fn a_hostile_header_is_harmless() {
        let mut bytes = elf(62, &[1]);
        bytes[32..40].fill(0xff);
        bytes[56..58].fill(0xff);
        assert_eq!(check_elf(&bytes), Err(Unfit::Static));
        assert_eq!(check_elf(b"\x7fELF"), Err(Unfit::OtherMachine));
    }
}
