//! What went wrong, for people: the step of a save that failed, and the kernel's error numbers as text.

use core::fmt;

use engine::sys::errno::{self as numbers};

/// What a save does with its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Create = 1,
    Write = 2,
    /// Giving the whole file its name.
    Name = 3,
}

/// Why a save failed. Fits into a word that two processes share; 0 is success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    pub step: Option<Step>,
    pub errno: i32,
}

impl Failure {
    pub const fn at(step: Step, errno: i32) -> Self {
        Self { step: Some(step), errno }
    }

    /// The process that writes is gone.
    pub const fn gone() -> Self {
        Self { step: None, errno: numbers::ESRCH as i32 }
    }

    pub const fn to_word(self) -> u32 {
        let step = match self.step {
            Some(step) => step as u32,
            None => 0,
        };
        step << 16 | self.errno as u32 & 0xffff
    }

    /// `None` for success.
    pub const fn from_word(word: u32) -> Option<Self> {
        let step = match word >> 16 {
            1 => Some(Step::Create),
            2 => Some(Step::Write),
            3 => Some(Step::Name),
            _ => None,
        };
        if word == 0 { None } else { Some(Self { step, errno: (word & 0xffff) as i32 }) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        let what = match self.step {
            Some(Step::Create) => "the file cannot be created",
            Some(Step::Write) => "the file cannot be written",
            Some(Step::Name) => "the written file cannot be given its name",
            None => return write!(to, "the process that was to write it has ended"),
        };
        write!(to, "{what}: {}", Errno(self.errno))
    }
}

/// An error number that reads as the C library would tell it.
#[derive(Clone, Copy, Debug)]
pub struct Errno(pub i32);

impl fmt::Display for Errno {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        let text = match self.0 as u32 {
            numbers::EPERM => "Operation not permitted",
            numbers::ENOENT => "No such file or directory",
            numbers::ESRCH => "No such process",
            numbers::EINTR => "Interrupted system call",
            numbers::EIO => "Input/output error",
            numbers::ENXIO => "No such device or address",
            numbers::E2BIG => "Argument list too long",
            numbers::ENOEXEC => "Exec format error",
            numbers::EBADF => "Bad file descriptor",
            numbers::EAGAIN => "Resource temporarily unavailable",
            numbers::ENOMEM => "Cannot allocate memory",
            numbers::EACCES => "Permission denied",
            numbers::EFAULT => "Bad address",
            numbers::EBUSY => "Device or resource busy",
            numbers::EEXIST => "File exists",
            numbers::EXDEV => "Invalid cross-device link",
            numbers::ENODEV => "No such device",
            numbers::ENOTDIR => "Not a directory",
            numbers::EISDIR => "Is a directory",
            numbers::EINVAL => "Invalid argument",
            numbers::ENFILE => "Too many open files in system",
            numbers::EMFILE => "Too many open files",
            numbers::ETXTBSY => "Text file busy",
            numbers::EFBIG => "File too large",
            numbers::ENOSPC => "No space left on device",
            numbers::EROFS => "Read-only file system",
            numbers::EMLINK => "Too many links",
            numbers::ENAMETOOLONG => "File name too long",
            numbers::ENOSYS => "Function not implemented",
            numbers::ELOOP => "Too many levels of symbolic links",
            numbers::EOVERFLOW => "Value too large for defined data type",
            numbers::EOPNOTSUPP => "Operation not supported",
            numbers::ECANCELED => "Operation canceled",
            numbers::EDQUOT => "Disk quota exceeded",
            numbers::ESTALE => "Stale file handle",
            number => return write!(to, "error {number}"),
        };
        to.write_str(text)
    }
}
