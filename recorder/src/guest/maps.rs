//! The kernel's list of our mappings.

use alloc::vec::Vec;

use engine::sys::{self, raw};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    pub start: u64,
    pub end: u64,
    /// PROT_READ 1, PROT_WRITE 2, PROT_EXEC 4.
    pub prot: u32,
    pub shared: bool,
    pub offset: u64,
    /// Device as in `struct stat`.
    pub device: u64,
    pub inode: u64,
    pub name: Vec<u8>,
}

/// Reads a whole file of unknown size.
pub fn read_file(path: &[u8]) -> Option<Vec<u8>> {
    let fd = sys::open(path, raw::O_RDONLY | raw::O_CLOEXEC, 0);
    if fd < 0 {
        return None;
    }
    let mut bytes = Vec::new();
    let mut filled = 0;
    loop {
        if bytes.len() - filled < 4096 {
            bytes.resize((bytes.len() * 2).max(16 << 10), 0);
        }
        match sys::read(fd as i32, &mut bytes[filled..]) {
            got if got > 0 => filled += got as usize,
            _ => break,
        }
    }
    sys::close(fd as i32);
    bytes.truncate(filled);
    Some(bytes)
}

/// The mappings of this process, ours included, ascending.
pub fn own() -> Vec<Map> {
    let text = read_file(b"/proc/self/maps\0").unwrap_or_default();
    text.split(|&byte| byte == b'\n').filter_map(parse).collect()
}

fn parse(line: &[u8]) -> Option<Map> {
    let mut fields = line.splitn(6, |&byte| byte == b' ');
    let range = fields.next()?;
    let perms = fields.next()?;
    let offset = hex(fields.next()?)?;
    let device = fields.next()?;
    let inode = decimal(fields.next()?)?;
    let name = fields.next().unwrap_or(b"");
    let dash = range.iter().position(|&byte| byte == b'-')?;
    let colon = device.iter().position(|&byte| byte == b':')?;
    let (major, minor) = (hex(&device[..colon])?, hex(&device[colon + 1..])?);
    let has = |letter: u8| perms.contains(&letter);
    Some(Map {
        start: hex(&range[..dash])?,
        end: hex(&range[dash + 1..])?,
        prot: u32::from(has(b'r')) * raw::PROT_READ + u32::from(has(b'w')) * raw::PROT_WRITE + u32::from(has(b'x')) * raw::PROT_EXEC,
        shared: has(b's'),
        offset,
        // The kernel's encoding of st_dev.
        device: (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & !0xff) << 12),
        inode,
        name: name.iter().skip_while(|&&byte| byte == b' ').copied().collect(),
    })
}

fn hex(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(core::str::from_utf8(text).ok()?, 16).ok()
}

fn decimal(text: &[u8]) -> Option<u64> {
    core::str::from_utf8(text).ok()?.parse().ok()
}
