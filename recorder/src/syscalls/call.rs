//! One system call on its way through the recorder.

use core::fmt;

use linux_raw_sys::general::{__NR_getsockopt, __NR_setsockopt};

use super::commands::{ioctl, socket};
use super::nested::{MESSAGE_HEADER_STEP, message_room};
use super::spec::{Class, Effects, Flags, MemArg, NONE, Otherwise, Size, Spec};
use super::table::lookup;
use super::walk::{GuestMemory, Item, Phase, Place, Range, read_u32, walk};

/// How many messages of a `recvmmsg` have their own entry in `Before`; a larger batch is described a little too widely.
pub(super) const MESSAGES: usize = 64;

/// No socket address is longer (`struct sockaddr_storage`).
pub(super) const SOCKET_ADDRESS_MAX: u32 = 128;

/// What the call will overwrite and the walk after it needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    /// The room that a value-result length stated.
    pub room: u32,
    /// The room for the sender's address in each message.
    pub names: [u8; MESSAGES],
}

/// A system call with its arguments, captured before it is executed.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    nr: u64,
    pub(super) args: [u64; 6],
    pub(super) before: Before,
    pub(super) effects: &'static [MemArg],
    spec: Option<&'static Spec>,
    /// An error: why it must not be recorded, if that is known.
    class: Result<Class, Option<&'static str>>,
    flags: Flags,
}

/// A pointer that the kernel will follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Where the pointer itself stands.
    pub place: Place,
    /// The pointer's value, and how far the kernel may go from there.
    pub range: Range,
    pub dir: super::spec::Dir,
}

/// Why a call cannot be recorded. Displays as the sentence for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    pub nr: u64,
    /// The call's name, where the number has one.
    pub name: Option<&'static str>,
    /// The command of a multiplexed call.
    pub command: Option<u64>,
    /// `None`: the table does not know what it does.
    pub reason: Option<&'static str>,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) => write!(f, "system call {name}")?,
            None => write!(f, "system call number {}", self.nr)?,
        }
        if let Some(command) = self.command {
            write!(f, " with command {command:#x}")?;
        }
        match self.reason {
            Some(reason) => write!(f, " cannot be recorded: {reason}"),
            None => f.write_str(" is not known"),
        }
    }
}

fn is_socket_option(spec: &Spec) -> bool {
    spec.nr == __NR_getsockopt || spec.nr == __NR_setsockopt
}

impl Call {
    /// Looks the call up and notes what must be noted before it runs.
    pub fn capture(nr: u64, args: &[u64; 6], mem: &impl GuestMemory) -> Call {
        let mut call = Call {
            nr,
            args: *args,
            before: Before { room: 0, names: [0; MESSAGES] },
            effects: &[],
            spec: lookup(nr),
            class: Err(None),
            flags: NONE,
        };
        if let Some(spec) = call.spec {
            call.resolve(spec);
        }
        for arg in call.effects {
            match arg.size {
                Size::Deref(length) => {
                    call.before.room = read_u32(mem, args[length as usize]).unwrap_or(0);
                }
                Size::Message if arg.dir.writes() => {
                    call.before.names[0] = message_room(mem, args[arg.arg as usize]);
                }
                Size::Messages(count) if arg.dir.writes() => {
                    let count = args[count as usize].min(MESSAGES as u64) as usize;
                    let mut at = args[arg.arg as usize];
                    for room in &mut call.before.names[..count] {
                        *room = message_room(mem, at);
                        at = at.wrapping_add(MESSAGE_HEADER_STEP);
                    }
                }
                _ => {}
            }
        }
        call
    }

    /// Fills in class, flags and effects.
    fn resolve(&mut self, spec: &'static Spec) {
        self.flags = spec.flags;
        let mut class = spec.class;
        match spec.effects {
            Effects::Args(args) => self.effects = args,
            Effects::ByCommand(set) => {
                let number = set.number(&self.args);
                if let Some(command) = set.find(number) {
                    self.effects = command.args;
                    self.flags = self.flags.and(command.flags);
                    class = command.class.unwrap_or(class);
                } else {
                    match set.otherwise {
                        Otherwise::NoMemory => {}
                        Otherwise::Unknown => return,
                        Otherwise::IoctlNumber => match ioctl::encoded(number) {
                            Ok(args) => self.effects = args,
                            Err(reason) => {
                                self.class = Err(reason);
                                return;
                            }
                        },
                    }
                }
            }
        }
        self.class = match class {
            Class::Refuse(reason) => Err(Some(reason)),
            class => match self.refused_option(spec) {
                Some(reason) => Err(Some(reason)),
                None => Ok(class),
            },
        };
    }

    fn refused_option(&self, spec: &Spec) -> Option<&'static str> {
        if is_socket_option(spec) { socket::refused(self.args[1], self.args[2]) } else { None }
    }

    /// The same call by another row.
    #[cfg(test)]
    pub(super) fn with_effects(&self, effects: &'static [MemArg]) -> Call {
        Call { effects, ..*self }
    }

    /// The number it was captured with.
    pub fn nr(&self) -> u64 {
        self.nr
    }

    /// The arguments it was captured with.
    pub fn args(&self) -> &[u64; 6] {
        &self.args
    }

    /// The call's name, or `unknown`.
    pub fn name(&self) -> &'static str {
        self.spec.map_or("unknown", |spec| spec.name)
    }

    /// Who must handle it; never `Class::Refuse`, for that comes as a `Stop`.
    pub fn class(&self) -> Result<Class, Stop> {
        self.class.map_err(|reason| Stop {
            nr: self.nr,
            name: self.spec.map(|spec| spec.name),
            command: self.spec.and_then(|spec| match spec.effects {
                Effects::ByCommand(set) => Some(set.number(&self.args).into()),
                Effects::Args(_) => is_socket_option(spec).then_some(self.args[2]),
            }),
            reason,
        })
    }

    /// Facts about the call and its command.
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// Reports every pointer that the kernel will follow, nested ones included. To be called before the call is executed.
    /// A pointer may be reported more than once, with different lengths or directions.
    pub fn for_each_pointer(&self, mem: &impl GuestMemory, f: &mut impl FnMut(Pointer)) {
        walk(self, Phase::Before, mem, &mut |item: Item| {
            f(Pointer { place: item.place, range: item.range, dir: item.dir });
        });
    }

    /// Reports the memory that the kernel read, as far as its result tells. To be called after the call.
    pub fn for_each_input(&self, result: i64, mem: &impl GuestMemory, f: &mut impl FnMut(Range)) {
        walk(self, Phase::Inputs(result), mem, &mut |item: Item| f(item.range));
    }

    /// Reports the memory that the kernel wrote. To be called after the call, while the memory is as the kernel left it.
    /// Ranges may overlap. After an error they end where memory stops being readable.
    pub fn for_each_output(&self, result: i64, mem: &impl GuestMemory, f: &mut impl FnMut(Range)) {
        walk(self, Phase::Outputs(result), mem, &mut |item: Item| f(item.range));
    }
}
