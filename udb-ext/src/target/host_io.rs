//! File access for gdb: what the recording holds comes from there, everything else from this machine, read only.

use gdbstub::target::ext::host_io::{
    FsKind, HostIo, HostIoClose, HostIoCloseOps, HostIoErrno, HostIoError, HostIoFstat, HostIoFstatOps, HostIoOpen, HostIoOpenFlags,
    HostIoOpenMode, HostIoOpenOps, HostIoPread, HostIoPreadOps, HostIoReadlink, HostIoReadlinkOps, HostIoResult, HostIoSetfs,
    HostIoSetfsOps, HostIoStat,
};

use super::{Debuggee, window};

impl HostIo for Debuggee {
    fn support_open(&mut self) -> Option<HostIoOpenOps<'_, Self>> {
        Some(self)
    }

    fn support_close(&mut self) -> Option<HostIoCloseOps<'_, Self>> {
        Some(self)
    }

    fn support_pread(&mut self) -> Option<HostIoPreadOps<'_, Self>> {
        Some(self)
    }

    fn support_fstat(&mut self) -> Option<HostIoFstatOps<'_, Self>> {
        Some(self)
    }

    fn support_readlink(&mut self) -> Option<HostIoReadlinkOps<'_, Self>> {
        Some(self)
    }

    fn support_setfs(&mut self) -> Option<HostIoSetfsOps<'_, Self>> {
        Some(self)
    }
}

impl HostIoOpen for Debuggee {
    fn open(&mut self, name: &[u8], flags: HostIoOpenFlags, _mode: HostIoOpenMode) -> HostIoResult<u32, Self> {
        let writing = HostIoOpenFlags::O_WRONLY | HostIoOpenFlags::O_RDWR | HostIoOpenFlags::O_CREAT | HostIoOpenFlags::O_TRUNC;
        if flags.intersects(writing) {
            return Err(HostIoError::Errno(HostIoErrno::EROFS));
        }
        let name = std::str::from_utf8(name).map_err(|_| HostIoError::Errno(HostIoErrno::ENOENT))?;
        Ok(self.files.open(name, self.timeline.as_mut())?)
    }
}

impl HostIoClose for Debuggee {
    fn close(&mut self, descriptor: u32) -> HostIoResult<(), Self> {
        if self.files.close(descriptor) { Ok(()) } else { Err(HostIoError::Errno(HostIoErrno::EBADF)) }
    }
}

impl HostIoPread for Debuggee {
    fn pread(&mut self, descriptor: u32, count: usize, offset: u64, buffer: &mut [u8]) -> HostIoResult<usize, Self> {
        // The packet's escapes may double what is sent; gdb bounds the packet, not us.
        let data = self.files.contents(descriptor).ok_or(HostIoError::Errno(HostIoErrno::EBADF))?;
        Ok(window(data, offset, count, buffer))
    }
}

impl HostIoFstat for Debuggee {
    fn fstat(&mut self, descriptor: u32) -> HostIoResult<HostIoStat, Self> {
        let size = self.files.contents(descriptor).ok_or(HostIoError::Errno(HostIoErrno::EBADF))?.len() as u64;
        Ok(HostIoStat {
            st_dev: 0,
            st_ino: 0,
            st_mode: HostIoOpenMode::S_IFREG | HostIoOpenMode::S_IRUSR | HostIoOpenMode::S_IRGRP | HostIoOpenMode::S_IROTH,
            st_nlink: 1,
            st_uid: 0,
            st_gid: 0,
            st_rdev: 0,
            st_size: size,
            st_blksize: 4096,
            st_blocks: size.div_ceil(512),
            st_atime: 0,
            st_mtime: 0,
            st_ctime: 0,
        })
    }
}

impl HostIoReadlink for Debuggee {
    fn readlink(&mut self, name: &[u8], buffer: &mut [u8]) -> HostIoResult<usize, Self> {
        let name = std::str::from_utf8(name).map_err(|_| HostIoError::Errno(HostIoErrno::ENOENT))?;
        let link = self.files.link(name, self.timeline.as_ref())?;
        Ok(window(&link, 0, usize::MAX, buffer))
    }
}

impl HostIoSetfs for Debuggee {
    fn setfs(&mut self, _fs: FsKind) -> HostIoResult<(), Self> {
        Ok(())
    }
}
