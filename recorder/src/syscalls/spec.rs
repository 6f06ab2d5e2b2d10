//! The vocabulary of the table: what a row says about a system call.
//!
//! A row is data. It names the arguments that are pointers, and for each the direction, the size, the results on which the
//! kernel touches it and the flag it depends on. Only `walk` and `nested` give these words a meaning; a new system call
//! needs a row, and code only if its structure has a shape that no other call has.

/// What the host does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Executed as it is; its outputs are logged.
    Plain,
    /// Changes or inspects the address space: the host must translate it, for it keeps three views of shared mappings.
    Memory,
    /// Makes, replaces or ends a process or thread.
    Process,
    /// Handlers, alternative stacks and the signal mask, which the host keeps on the guest's behalf.
    Signal,
    /// Registers something about the thread that the engine shares with the guest (`gs`, robust list, rseq, limits).
    Identity,
    /// Cannot be recorded: recording stops and says why.
    Refuse(&'static str),
}

/// Facts about a call beside its memory; a set of the constants below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags(pub u16);

/// Nothing special.
pub const NONE: Flags = Flags(0);
/// May sleep without limit, so a signal can interrupt it.
pub const BLOCKS: Flags = Flags(1);
/// Installs a signal mask while it sleeps and puts the old one back.
pub const SIGMASK: Flags = Flags(2);
/// Makes file descriptors: a number in the result, or in an output.
pub const NEW_FD: Flags = Flags(4);
/// Closes or replaces descriptors by number: the host protects its own.
pub const FD_TABLE: Flags = Flags(8);
/// The kernel keeps the address and may use it after the call has returned.
pub const KEEPS: Flags = Flags(16);
/// Changes the size or content of files without a mapping: shared mappings of them change too.
pub const RESIZES: Flags = Flags(32);

impl Flags {
    /// Whether every fact of `other` holds here.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of facts.
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// What the kernel does at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dir {
    /// Reads it.
    In,
    /// Writes it.
    Out,
    /// Reads and writes it.
    InOut,
    /// Needs it mapped but moves no bytes: a futex woken by address.
    Address,
}

impl Dir {
    pub(super) const fn reads(self) -> bool {
        matches!(self, Dir::In | Dir::InOut)
    }

    pub(super) const fn writes(self) -> bool {
        matches!(self, Dir::Out | Dir::InOut)
    }
}

/// How much memory an argument stands for. Indices are argument numbers, 0 to 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// A structure.
    Fixed(u32),
    /// `len` bytes at `offset` of a structure.
    Part { offset: u32, len: u32 },
    /// As many bytes as argument `.0` says.
    Arg(u8),
    /// The same and a header of `.1` bytes.
    ArgPlus(u8, u32),
    /// An array of argument `.0` items of `.1` bytes.
    ArgTimes(u8, u32),
    /// A bit mask of (argument `.0`) - 1 bits in whole 64-bit words (NUMA node masks).
    Bits(u8),
    /// A bit mask of argument `.0` bits in whole 64-bit words (`fd_set`).
    FdSet(u8),
    /// One byte for each page of a range that is argument `.0` long.
    Pages(u8),
    /// As many bytes as the result says, never more than argument `.0`.
    Ret(u8),
    /// The same and a header of `.1` bytes.
    RetPlus(u8, u32),
    /// The result counts items of `.1` bytes, never more than argument `.0` of them.
    RetTimes(u8, u32),
    /// Value-result: a `u32` at argument `.0` gives room before the call and need after it.
    Deref(u8),
    /// The `u32` at `offset` of what argument `arg` points to.
    Field { arg: u8, offset: u32 },
    /// A structure that states its own size in a `u32` at `offset`; at least `min`, at most argument `cap` if below 6.
    SelfSized { offset: u32, min: u32, cap: u8 },
    /// `header` bytes and items of `item` bytes: the number of `width` bytes at `room` says how many fit, the one at `count`
    /// how many there are.
    Flexible { header: u32, count: u32, room: u32, width: u8, item: u32 },
    /// A string with its terminator, at most `.0` bytes.
    CString(u32),
    /// The data of `capget` and `capset`, by the version in the header at argument 0.
    Capabilities,
    /// The values of a whole semaphore set, whose size only the kernel knows.
    SemaphoreValues,
    /// The size that an ioctl number carries.
    Encoded,
    /// `struct iovec[argument .0]`, filled or emptied as far as the result says.
    Iovecs(u8),
    /// `struct iovec[argument .0]`, all of it.
    AllIovecs(u8),
    /// `struct msghdr`.
    Message,
    /// `struct mmsghdr[argument .0]`; the result counts messages.
    Messages(u8),
    /// The `msg_len` of each `struct mmsghdr` that was sent.
    SentLengths(u8),
    /// The `revents` of `struct pollfd[argument .0]`.
    Revents(u8),
    /// `struct futex_waitv[argument .0]`.
    FutexWaiters(u8),
    /// Two `struct futex_waitv`.
    FutexPair,
    /// A null-terminated array of strings.
    Strings,
    /// The pointer-and-size pair that `pselect6` takes for its signal mask.
    SigsetPair,
    /// `struct sock_fprog`: a filter program.
    Filter,
    /// A socket option of argument `.0` bytes, which may be a filter program.
    SocketOption(u8),
    /// `struct clone_args` of argument `.0` bytes.
    CloneArgs(u8),
    /// `struct xattr_args` of argument `.0` bytes, with a pointer to the value.
    XattrArgs(u8),
    /// `struct ifconf`.
    InterfaceList,
}

/// The results on which the kernel has touched the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// The call succeeded.
    Success,
    /// The result is above zero.
    Positive,
    /// It succeeded or a signal interrupted it.
    SuccessOrInterrupt,
    /// It succeeded or failed with this error.
    SuccessOr(u32),
    /// It failed with this error.
    Error(u32),
    /// Whatever the result.
    Always,
    /// Unless the error is one that mostly comes before any memory is looked at. Meant for inputs.
    Reached,
}

/// A condition on another argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    Any,
    /// Some bit of the mask is set.
    Set {
        arg: u8,
        mask: u64,
    },
    /// No bit of the mask is set.
    Clear {
        arg: u8,
        mask: u64,
    },
    Equal {
        arg: u8,
        value: u64,
    },
}

/// One pointer argument.
#[derive(Clone, Copy, Debug)]
pub struct MemArg {
    pub arg: u8,
    pub dir: Dir,
    pub size: Size,
    pub on: On,
    pub only: Only,
}

pub(super) const fn input(arg: u8, size: Size) -> MemArg {
    MemArg { arg, dir: Dir::In, size, on: On::Reached, only: Only::Any }
}

pub(super) const fn out(arg: u8, size: Size) -> MemArg {
    MemArg { arg, dir: Dir::Out, size, on: On::Success, only: Only::Any }
}

pub(super) const fn inout(arg: u8, size: Size) -> MemArg {
    MemArg { arg, dir: Dir::InOut, size, on: On::Success, only: Only::Any }
}

pub(super) const fn address(arg: u8) -> MemArg {
    MemArg { arg, dir: Dir::Address, size: Size::Fixed(4), on: On::Reached, only: Only::Any }
}

/// A path or another string of at most a page.
pub(super) const fn path(arg: u8) -> MemArg {
    input(arg, Size::CString(4096))
}

impl MemArg {
    pub(super) const fn on(mut self, on: On) -> MemArg {
        self.on = on;
        self
    }

    pub(super) const fn always(self) -> MemArg {
        self.on(On::Always)
    }

    pub(super) const fn only(mut self, only: Only) -> MemArg {
        self.only = only;
        self
    }

    pub(super) const fn if_set(self, arg: u8, mask: u64) -> MemArg {
        self.only(Only::Set { arg, mask })
    }

    pub(super) const fn if_clear(self, arg: u8, mask: u64) -> MemArg {
        self.only(Only::Clear { arg, mask })
    }

    pub(super) const fn if_equal(self, arg: u8, value: u64) -> MemArg {
        self.only(Only::Equal { arg, value })
    }
}

/// What a call does to memory: the same always, or by a command number among its arguments.
#[derive(Clone, Copy, Debug)]
pub enum Effects {
    Args(&'static [MemArg]),
    ByCommand(&'static CommandSet),
}

/// The commands of a multiplexed call, in ascending order.
#[derive(Debug)]
pub struct CommandSet {
    /// The argument that holds the command, and how to get it out of that.
    pub arg: u8,
    pub shift: u8,
    pub mask: u32,
    pub commands: &'static [Command],
    pub otherwise: Otherwise,
}

/// One command of a multiplexed call.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    pub value: u32,
    /// `None`: the class of the call itself.
    pub class: Option<Class>,
    pub flags: Flags,
    pub args: &'static [MemArg],
}

/// What a command means that is not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// Nothing is known about it.
    Unknown,
    /// The kernel takes no pointer for any other command.
    NoMemory,
    /// An ioctl number says direction and size itself, if its driver is not among those that hide pointers.
    IoctlNumber,
}

/// One row of the table.
#[derive(Debug)]
pub struct Spec {
    pub nr: u32,
    pub name: &'static str,
    pub class: Class,
    pub flags: Flags,
    pub effects: Effects,
}

/// A row: number constant, class, flags, pointer arguments.
macro_rules! row {
    ($nr:ident, $class:expr, $flags:expr, [$($arg:expr),* $(,)?]) => {
        $crate::syscalls::spec::Spec {
            nr: $nr,
            name: $crate::syscalls::spec::strip_prefix(stringify!($nr)),
            class: $class,
            flags: $flags,
            effects: $crate::syscalls::spec::Effects::Args(&[$($arg),*]),
        }
    };
    ($nr:ident, $class:expr, $flags:expr, by $set:expr) => {
        $crate::syscalls::spec::Spec {
            nr: $nr,
            name: $crate::syscalls::spec::strip_prefix(stringify!($nr)),
            class: $class,
            flags: $flags,
            effects: $crate::syscalls::spec::Effects::ByCommand(&$set),
        }
    };
}
pub(super) use row;

/// A command of the call's own class.
pub(super) const fn command(value: u32, args: &'static [MemArg]) -> Command {
    Command { value, class: None, flags: NONE, args }
}

/// A command that must stop recording.
pub(super) const fn refuse(value: u32, reason: &'static str) -> Command {
    Command { value, class: Some(Class::Refuse(reason)), flags: NONE, args: &[] }
}

impl Command {
    pub(super) const fn class(mut self, class: Class) -> Command {
        self.class = Some(class);
        self
    }

    pub(super) const fn flags(mut self, flags: Flags) -> Command {
        self.flags = flags;
        self
    }
}

/// `__NR_read` → `read`.
pub(super) const fn strip_prefix(constant: &'static str) -> &'static str {
    constant.split_at("__NR_".len()).1
}

impl CommandSet {
    /// Refuses to compile a list that a binary search would get lost in.
    pub(super) const fn checked(self) -> CommandSet {
        let mut i = 1;
        while i < self.commands.len() {
            assert!(self.commands[i - 1].value < self.commands[i].value, "commands must ascend");
            i += 1;
        }
        self
    }

    /// The command number that the arguments hold.
    pub fn number(&self, args: &[u64; 6]) -> u32 {
        (args[self.arg as usize] as u32 >> self.shift) & self.mask
    }

    /// The listed command with this number.
    pub fn find(&self, number: u32) -> Option<&'static Command> {
        let found = self.commands.binary_search_by_key(&number, |c| c.value).ok()?;
        self.commands.get(found)
    }
}
