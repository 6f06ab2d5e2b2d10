//! A small program in machine code with a recording of it, made without a recorder, so that every time in it is known.

use std::path::Path;

use recording::{
    Body, CpuidLeaf, End, EndReason, EventBuilder, EventHeader, FileWriter, Instruction, Mapping, MappingFlags, MemoryHash, MemoryHasher,
    Metadata, Nondet, PAGE_BYTES, Ranges, RegisterValues, Registers, RunningHash, Signal, SignalAction, Syscall, Time,
};

pub const CODE: u64 = 0x40_0000;
pub const DATA: u64 = 0x50_0000;
pub const SHARED: u64 = 0x60_0000;
pub const STACK: u64 = 0x7000_0000;
pub const STACK_TOP: u64 = STACK + 0x4000;
/// How often the program's first loop runs.
pub const LOOPS: u64 = 1000;
/// The same where the replay is to take long enough for checkpoints.
pub const LONG: u64 = 30_000_000;

/// Machine code with named places.
#[derive(Default)]
pub struct Assembler {
    pub bytes: Vec<u8>,
}

impl Assembler {
    pub fn here(&self) -> u64 {
        CODE + self.bytes.len() as u64
    }

    pub fn raw(&mut self, bytes: &[u8]) -> u64 {
        let at = self.here();
        self.bytes.extend_from_slice(bytes);
        at
    }

    /// `mov reg32, value`
    pub fn set(&mut self, register: u8, value: u32) -> u64 {
        let at = self.raw(&[0xb8 + register]);
        self.raw(&value.to_le_bytes());
        at
    }

    /// `mov [address], rcx` (register 1) or rax (0), 64 bits, absolute.
    pub fn store(&mut self, register: u8, address: u64) -> u64 {
        let at = self.raw(&[0x48, 0x89, 0x04 | register << 3, 0x25]);
        self.raw(&(address as u32).to_le_bytes());
        at
    }

    /// `mov rax, [address]`
    pub fn load(&mut self, address: u64) -> u64 {
        let at = self.raw(&[0x48, 0x8b, 0x04, 0x25]);
        self.raw(&(address as u32).to_le_bytes());
        at
    }

    /// A jump with an 8-bit distance to a place behind us.
    pub fn back(&mut self, opcode: u8, target: u64) -> u64 {
        let at = self.here();
        self.raw(&[opcode, (target as i64 - (at as i64 + 2)) as u8]);
        at
    }

    /// `call target`
    pub fn call(&mut self, target: u64) -> u64 {
        let at = self.here();
        self.raw(&[0xe8]);
        self.raw(&((target as i64 - (at as i64 + 5)) as i32).to_le_bytes());
        at
    }
}

/// The events of a recording in the making.
#[derive(Default)]
pub struct Log {
    pub bytes: Vec<u8>,
    pub running: RunningHash,
}

impl Log {
    pub fn add(&mut self, bbcount: u64, pc: u64, body: &Body<'_>, writes: &[(u64, &[u8])], ranges: &[(u64, u64)]) {
        let start = self.bytes.len();
        self.bytes.resize(start + 16384, 0);
        let header = EventHeader::new(Time { bbcount, pc }, self.running.note(0));
        let mut builder = EventBuilder::begin(&mut self.bytes[start..], &header, body).unwrap();
        for (address, bytes) in writes {
            builder.push_write(*address, bytes).unwrap();
        }
        for (address, length) in ranges {
            builder.push_range(*address, *length).unwrap();
        }
        let length = builder.finish();
        self.bytes.truncate(start + length);
        self.running.add(&self.bytes[start..]);
    }

    pub fn syscall(&mut self, bbcount: u64, pc: u64, number: u32, args: [u64; 6], result: i64, writes: &[(u64, &[u8])]) {
        self.add(bbcount, pc, &Body::Syscall(Syscall { number, result, args }), writes, &[]);
    }
}

/// The places and times that tests speak of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Places {
    /// The store in the loop, executed [`LOOPS`] times; its first time is in bbcount 1.
    pub store: u64,
    pub branch: u64,
    /// The getpid call, in bbcount `LOOPS + 1`.
    pub getpid: u64,
    pub after_getpid: u64,
    /// The load from shared memory that meets an update.
    pub shared_load: u64,
    pub rdtsc: u64,
    /// Called once; stores at DATA + 24.
    pub function: u64,
    pub copy: u64,
    /// Where a signal arrives, and its handler.
    pub interrupted: u64,
    pub handler: u64,
    pub exit: u64,
    pub end_bbcount: u64,
}

pub struct Made {
    pub places: Places,
    pub begin: Time,
    pub end: Time,
}

/// What is to be wrong with the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flaw {
    #[default]
    None,
    WrongArgument,
    WrongHash,
    WrongTime,
    /// Nothing, but the loop runs [`LONG`] times.
    Long,
    /// Nothing, but a signal ends the program instead of its exit.
    Killed,
    /// Nothing, but the program jumps to address 0 instead of its exit, and a signal ends it there.
    NullCall,
    /// It was made on a processor with a feature that none has.
    OtherProcessor,
}

impl Flaw {
    const fn ending(self) -> (EndReason, i32) {
        match self {
            Flaw::Killed => (EndReason::Signalled, 6),
            Flaw::NullCall => (EndReason::Signalled, 11),
            _ => (EndReason::Exited, 0),
        }
    }

    const fn loops(self) -> u64 {
        if matches!(self, Flaw::Long) { LONG } else { LOOPS }
    }
}

pub const SYS_GETPID: u32 = 39;
pub const SYS_MMAP: u32 = 9;
pub const MAPPED: u64 = 0x7100_0000;
pub const PID: i64 = 4242;
pub const TICKS: u64 = 0x1122_3344_5566_7788;
pub const COPIED: &[u8; 16] = b"sixteen bytes...";

/// Writes the recording to `path`.
pub fn make(path: &Path, flaw: Flaw) -> Made {
    let mut asm = Assembler::default();
    let mut places = Places::default();
    asm.set(1, flaw.loops() as u32);
    let top = asm.here();
    places.store = asm.store(1, DATA);
    asm.raw(&[0xff, 0xc9]); // dec ecx
    places.branch = asm.back(0x75, top); // jnz
    // The registers that getpid's event shows are zero but for rax.
    asm.set(0, SYS_GETPID);
    places.getpid = asm.raw(&[0x0f, 0x05]);
    places.after_getpid = asm.store(0, DATA + 8);
    places.shared_load = asm.load(SHARED + 0x10);
    asm.store(0, DATA + 16);
    places.rdtsc = asm.raw(&[0x0f, 0x31]);
    // A jump over the function.
    let jump = asm.raw(&[0xeb, 0]);
    places.function = asm.store(0, DATA + 24);
    asm.raw(&[0xc3]);
    let behind = asm.here();
    let distance = (behind - (jump + 2)) as u8;
    let at = (jump + 1 - CODE) as usize;
    asm.bytes[at] = distance;
    asm.call(places.function);
    asm.raw(&[0x48, 0xc7, 0xc6]); // mov rsi, MAPPED
    asm.raw(&(MAPPED as u32).to_le_bytes());
    asm.raw(&[0x48, 0xc7, 0xc7]); // mov rdi, DATA + 64
    asm.raw(&(DATA as u32 + 64).to_le_bytes());
    // mmap(0, 4096, READ, PRIVATE, 3, 0): args in rdi rsi rdx r10 r8 r9.
    asm.raw(&[0x56, 0x57]); // push rsi; push rdi
    asm.raw(&[0x31, 0xff]); // xor edi, edi
    asm.set(6, 4096);
    asm.set(2, 1);
    asm.raw(&[0x41, 0xba, 2, 0, 0, 0]); // mov r10d, 2
    asm.raw(&[0x41, 0xb8, 3, 0, 0, 0]); // mov r8d, 3
    asm.set(0, SYS_MMAP);
    let mmap = asm.raw(&[0x0f, 0x05]);
    asm.raw(&[0x5f, 0x5e]); // pop rdi; pop rsi
    asm.set(1, 16);
    places.copy = asm.raw(&[0xf3, 0xa4]); // rep movsb
    places.interrupted = asm.raw(&[0x90]);
    asm.set(0, 231);
    asm.raw(&[0x31, 0xff]);
    places.exit = asm.raw(if flaw == Flaw::NullCall { &[0xff, 0xe7] } else { &[0x0f, 0x05] }); // jmp rdi, or syscall
    places.handler = asm.store(0, DATA + 32);
    asm.set(0, 15);
    let sigreturn = asm.raw(&[0x0f, 0x05]);

    let mut log = Log::default();
    let mut bb = flaw.loops() + 1;
    let args = if flaw == Flaw::WrongArgument { [1, 0, 0, 0, 0, 0] } else { [0; 6] };
    let time = if flaw == Flaw::WrongTime { bb - 1 } else { bb };
    log.syscall(time, places.getpid, SYS_GETPID, args, PID, &[]);
    bb += 1;
    log.add(bb, places.shared_load, &Body::ShmemFixup, &[(SHARED + 0x10, &7u64.to_le_bytes())], &[]);
    let registers = RegisterValues::new(&[(0, TICKS & 0xffff_ffff), (2, TICKS >> 32)]).unwrap();
    log.add(bb, places.rdtsc, &Body::Nondet(Nondet { instruction: Instruction::Rdtsc, registers, rflags: 0x246 }), &[], &[]);
    bb += 3; // jmp, call, ret
    log.syscall(bb, mmap, SYS_MMAP, [0, 4096, 1, 2, 3, 0], MAPPED as i64, &[(MAPPED, COPIED)]);
    bb += 1;
    signal(&mut log, bb, &places);
    bb += 1;
    // rt_sigreturn restores what the frame says: only rip and rsp matter here.
    log.syscall(bb, sigreturn, 15, [10, STACK_TOP - 0x400, STACK_TOP - 0x600, 2, 3, 0], 0, &[]);
    bb += 1;
    let mut hasher = MemoryHasher::new();
    hasher.add_page(DATA, &final_data());
    let hash = if flaw == Flaw::WrongHash { 1 } else { hasher.finish() };
    log.add(bb, places.exit, &Body::MemoryHash(MemoryHash { hash, pages: 1, ranges: Ranges::default() }), &[], &[(DATA, 4096)]);
    let (reason, status) = flaw.ending();
    let begin = Time { bbcount: 1, pc: CODE };
    let end = if flaw == Flaw::NullCall { Time { bbcount: bb + 1, pc: 0 } } else { Time { bbcount: bb, pc: places.exit } };
    if reason == EndReason::Signalled {
        let registers = Registers { rip: end.pc, ..Registers::default() };
        let body = Signal { number: status as u32, action: SignalAction::Terminate, siginfo: &[0; 128], registers };
        log.add(end.bbcount, end.pc, &Body::Signal(body), &[], &[]);
    }
    log.add(end.bbcount, end.pc, &Body::End(End { reason, status, message: "" }), &[], &[]);
    places.end_bbcount = end.bbcount;

    write(path, &asm.bytes, &log, &places, end, flaw);
    Made { places, begin, end }
}

/// A handler's frame: where it returns to (never used), then the ucontext.
fn signal(log: &mut Log, bbcount: u64, places: &Places) {
    let mut frame = vec![0u8; 8 + 304];
    let put = |frame: &mut Vec<u8>, at: usize, value: u64| frame[8 + at..16 + at].copy_from_slice(&value.to_le_bytes());
    put(&mut frame, 40 + 8 * 15, STACK_TOP); // rsp
    put(&mut frame, 40 + 8 * 16, places.interrupted); // rip
    put(&mut frame, 40 + 136, 0x246);
    let sp = STACK_TOP - 0x608;
    let mut registers = Registers { rip: places.handler, rflags: 0x202, ..Registers::default() };
    registers.gpr[4] = sp + 8; // as after the return address was popped
    registers.gpr[7] = 10;
    registers.gpr[6] = STACK_TOP - 0x400;
    registers.gpr[2] = STACK_TOP - 0x600;
    registers.gpr[0] = 0x5159;
    registers.gpr[10] = 2;
    registers.gpr[8] = 3;
    let body = Body::Signal(Signal { number: 10, action: SignalAction::Handler, siginfo: &[0; 128], registers });
    log.add(bbcount, places.interrupted, &body, &[(sp, &frame)], &[]);
}

fn final_data() -> [u8; PAGE_BYTES] {
    let mut page = [0u8; PAGE_BYTES];
    let mut put = |at: usize, value: u64| page[at..at + 8].copy_from_slice(&value.to_le_bytes());
    put(0, 1);
    put(8, PID as u64);
    put(16, 7);
    put(24, TICKS & 0xffff_ffff);
    put(32, 0x5159);
    page[64..80].copy_from_slice(COPIED);
    page
}

/// Bit 10 of this register means nothing on any processor.
fn no_such_feature() -> CpuidLeaf {
    CpuidLeaf { leaf: 1, subleaf: 0, mask: [0, 0, 0, !0], value: [0, 0, 0, 1 << 10 | 1 << 26] }
}

fn write(path: &Path, code: &[u8], log: &Log, places: &Places, end: Time, flaw: Flaw) {
    let mut registers = Registers { rip: CODE, rflags: 0x202, ..Registers::default() };
    registers.gpr[4] = STACK_TOP;
    let mut xsave = vec![0u8; 576];
    xsave[24..28].copy_from_slice(&0x1f80u32.to_le_bytes());
    let meta = Metadata {
        uuid: [7; 16],
        pid: PID as u32,
        executable: b"/made/by/hand".to_vec(),
        begin: Time { bbcount: 1, pc: CODE },
        end,
        begin_registers: registers,
        xsave,
        xcr0: 7,
        cpuid: if flaw == Flaw::OtherProcessor { vec![no_such_feature()] } else { Vec::new() },
        end_reason: flaw.ending().0,
        end_status: flaw.ending().1,
        events_hash: Some(log.running.value()),
        ..Metadata::default()
    };
    let mut writer = FileWriter::new(Vec::new()).unwrap();
    writer.metadata(&meta).unwrap();
    let mapping = |start: u64, pages: u64, prot: u32, flags: MappingFlags, name: &[u8]| Mapping {
        start,
        end: start + pages * 4096,
        prot,
        flags,
        name: name.to_vec(),
        ..Mapping::default()
    };
    writer.mapping(&mapping(CODE, 1, 5, MappingFlags::NONE, b"/made/by/hand")).unwrap();
    writer.mapping(&mapping(DATA, 1, 3, MappingFlags::NONE, b"")).unwrap();
    writer.mapping(&mapping(SHARED, 1, 3, MappingFlags::SHARED, b"/dev/shm/made")).unwrap();
    writer.mapping(&mapping(STACK, 4, 3, MappingFlags::STACK | MappingFlags::GROWS_DOWN, b"[stack]")).unwrap();
    let mut page = [0u8; PAGE_BYTES];
    page[..code.len()].copy_from_slice(code);
    writer.pages(CODE, &page).unwrap();
    writer.events(&log.bytes).unwrap();
    writer.site(places.shared_load).unwrap();
    let (bytes, _) = writer.finish().unwrap();
    std::fs::write(path, bytes).unwrap();
}
