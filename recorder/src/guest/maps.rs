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

/// `_IOWR('f', 17, struct procmap_query)`
const PROCMAP_QUERY: u64 = 3 << 30 | (size_of::<raw::procmap_query>() as u64) << 16 | (b'f' as u64) << 8 | 17;

/// The mapping around `address`.
pub fn find(address: u64) -> Option<Map> {
    let fd = sys::open(b"/proc/self/maps\0", raw::O_RDONLY | raw::O_CLOEXEC, 0);
    if fd < 0 {
        return None;
    }
    let answer = query(fd, address);
    sys::close(fd as i32);
    match answer {
        Ok(map) => Some(map),
        Err(error) if error == -i64::from(sys::errno::ENOENT) => None,
        // Kernels before 6.11 only have the whole list.
        Err(_) => own().into_iter().find(|map| (map.start..map.end).contains(&address)),
    }
}

fn query(fd: i64, address: u64) -> Result<Map, i64> {
    let mut name = [0u8; 4096];
    let mut query = raw::procmap_query {
        size: size_of::<raw::procmap_query>() as u64,
        query_flags: 0,
        query_addr: address,
        vma_start: 0,
        vma_end: 0,
        vma_flags: 0,
        vma_page_size: 0,
        vma_offset: 0,
        inode: 0,
        dev_major: 0,
        dev_minor: 0,
        vma_name_size: name.len() as u32,
        build_id_size: 0,
        vma_name_addr: name.as_mut_ptr() as u64,
        build_id_addr: 0,
    };
    // SAFETY: the kernel writes to the structure and at most `vma_name_size` bytes of the name.
    let result = unsafe { sys::syscall(u64::from(raw::__NR_ioctl), [fd as u64, PROCMAP_QUERY, (&raw mut query) as u64, 0, 0, 0]) };
    if result < 0 {
        return Err(result);
    }
    let length = (query.vma_name_size as usize).saturating_sub(1).min(name.len());
    Ok(Map {
        start: query.vma_start,
        end: query.vma_end,
        // The first flags are the rights, in the order of PROT_READ, PROT_WRITE and PROT_EXEC.
        prot: query.vma_flags as u32 & 7,
        shared: query.vma_flags & raw::procmap_query_flags::PROCMAP_QUERY_VMA_SHARED as u64 != 0,
        offset: query.vma_offset,
        device: device_number(u64::from(query.dev_major), u64::from(query.dev_minor)),
        inode: query.inode,
        name: name[..length].to_vec(),
    })
}

/// The kernel's encoding of st_dev.
fn device_number(major: u64, minor: u64) -> u64 {
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & !0xff) << 12)
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
        device: device_number(major, minor),
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
