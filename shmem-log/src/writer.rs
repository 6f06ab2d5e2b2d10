//! The writer's public face: `begin`, the access, `commit`.
//!
//! ```text
//!   begin ── next slot's first word · clock(s) before ── the caller touches the memory ── commit ── clock(s) after · record
//! ```
//!
//! I1. Accesses are logged one at a time: a `begin` is followed by its `commit` or by `abandon` before the next `begin`.
//! I2. The fast path, a read or write of at most 8 bytes within a line, has no call and no loop; every 512 slots a block is
//! claimed, without waiting; while a log is filled for the first time that takes one `madvise` in place of the block's page faults,
//! and always one for each page of block headers.
//! I3. What cannot be logged is counted as dropped, and the program goes on.
use crate::clock::{self, Touch};
use crate::layout::*;
use crate::log::{Log, Mapped};
use crate::memory::Memory;
use crate::ring::{Appender, Begun};
use crate::slot::{Commit, LongHead, LongShape, lines};
use crate::types::{Kind, ObjectIndex, Origin, RecordingIndex, SiteIndex};
use core::mem::offset_of;

/// Longest access that [`Writer::begin`] takes, bytes; [`Writer::begin_wide`] takes any.
pub const MAX_BEGIN_BYTES: u64 = PAGE_BYTES;
const SCRATCH_LINES: usize = (MAX_BEGIN_BYTES / LINE_BYTES) as usize + 1;
/// Time stamp counter ticks between two notes of the time: about a millisecond.
const NOTE_TICKS: u64 = 1 << 21;

/// The interval of an access on the clock of one line, from its start on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineTicks {
    start: u64,
    end: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Within one line.
    Line,
    /// Several lines; what they saw is in the scratch space.
    Lines,
    /// Not logged: no block was to be had, or it is too long.
    Dropped,
    /// Of no bytes.
    Nothing,
}

/// An access that has begun.
#[derive(Debug)]
#[must_use = "an access that has begun is to be committed or abandoned"]
pub struct Token {
    begun: Begun,
    len: u64,
    kind: Kind,
    touch: Touch,
    form: Form,
}

/// A long access that has begun; its line ticks are in the caller's scratch space.
#[derive(Debug)]
#[must_use = "an access that has begun is to be committed or abandoned"]
pub struct WideToken {
    place: u64,
    len: u64,
    kind: Kind,
    form: Form,
}

/// Logs the accesses of one recording.
///
/// One thread at a time uses it. Dropping it does nothing: a forked child, which inherits a copy, must not end its parent's
/// writer. Call [`Writer::finish`] at the end.
///
/// Emitted machine code appends through the fields at `layout::WRITER_*`; while it runs nobody else may use the writer.
#[repr(C)]
pub struct Writer {
    core: Appender<Mapped>,
    log: Log,
    noted_ticks: u64,
    noted_cursor: usize,
    scratch: [LineTicks; SCRATCH_LINES],
}

const _: () = {
    assert!(offset_of!(Writer, core) == 0);
    assert!(offset_of!(Appender<Mapped>, cursor) == WRITER_CURSOR);
    assert!(offset_of!(Appender<Mapped>, limit) == WRITER_LIMIT);
    assert!(offset_of!(Appender<Mapped>, bb_base) == WRITER_BB_BASE);
    assert!(offset_of!(Appender<Mapped>, extra_slots) == WRITER_EXTRA_SLOTS);
    assert!(offset_of!(Appender<Mapped>, clocks) == WRITER_CLOCKS);
    assert!(offset_of!(Appender<Mapped>, clock_shift) == WRITER_CLOCK_SHIFT);
};

impl Writer {
    /// A writer for a recording that was registered with this log; None for any other. A recording has one writer at a time.
    /// Takes no block before the first access.
    pub fn new(log: &Log, recording: RecordingIndex) -> Option<Writer> {
        let entry = log.base() + log.recording_entry(recording)? as usize;
        let core = Appender::new(
            log.memory,
            log.ring(),
            log.address(log.layout.clocks()),
            log.layout.clock_shift(),
            recording.get(),
            entry + REC_APPENDED as usize,
            entry + REC_DROPPED as usize,
        );
        let scratch = [LineTicks::default(); SCRATCH_LINES];
        Some(Writer { core, log: *log, noted_ticks: 0, noted_cursor: 0, scratch })
    }

    /// The log it writes to.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The recording it writes for.
    pub fn recording(&self) -> Option<RecordingIndex> {
        RecordingIndex::new(self.core.recording())
    }

    /// Records that found no room so far.
    pub fn dropped(&self) -> u64 {
        self.core.dropped()
    }

    /// Registers an instruction: see [`Log::register_site`].
    pub fn register_site(&self, pc: u64, kind: Kind, length: u32) -> Result<SiteIndex, crate::RegistryFull> {
        self.log.register_site(pc, kind, length)
    }

    /// Call right before the memory is touched: `len` bytes at `offset` of `object`, as `kind` says.
    ///
    /// Of an access of more than [`MAX_BEGIN_BYTES`] only the fact that it was dropped is logged. An access of no bytes is not
    /// logged. `offset` counts modulo 2^48.
    #[inline(always)]
    pub fn begin(&mut self, kind: Kind, object: ObjectIndex, offset: u64, len: u64) -> Token {
        if len.wrapping_sub(1) >= LINE_BYTES - (offset & (LINE_BYTES - 1)) {
            return self.begin_lines(kind, object, offset, len);
        }
        self.begin_line(kind, Touch::of(kind.writes()), object, offset, len)
    }

    /// [`Writer::begin`] for an access whose last touch of the memory is one locked instruction (`lock`, `xchg`): being a fence, that
    /// needs one tick of the clock, not two. The last instruction that touches the memory before `commit` must be that one.
    ///
    /// Where another process was found at the same clock meanwhile, `commit` pauses for [`GIVE_WAY_PAUSES`], so that two that fight
    /// for a line get more done before they lose it. It waits for nobody.
    #[inline(always)]
    pub fn begin_locked(&mut self, kind: Kind, object: ObjectIndex, offset: u64, len: u64) -> Token {
        if len.wrapping_sub(1) >= LINE_BYTES - (offset & (LINE_BYTES - 1)) {
            return self.begin_lines(kind, object, offset, len);
        }
        let touch = if kind.writes() { Touch::Locked } else { Touch::Read };
        self.begin_line(kind, touch, object, offset, len)
    }

    #[inline(always)]
    fn begin_line(&mut self, kind: Kind, touch: Touch, object: ObjectIndex, offset: u64, len: u64) -> Token {
        match self.core.begin(touch, object.get(), offset) {
            Some(begun) => Token { begun, len, kind, touch, form: Form::Line },
            None => dropped(kind),
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_lines(&mut self, kind: Kind, object: ObjectIndex, offset: u64, len: u64) -> Token {
        let place = Log::place(object, offset);
        let form = begin_lines(&mut self.core, kind, place, len, &mut self.scratch);
        Token { begun: Begun { place, clock: 0, start: 0 }, len, kind, touch: Touch::of(kind.writes()), form }
    }

    /// Call right after the memory was touched, for a read or a write of 1 to 8 bytes.
    ///
    /// `value`: a read's what it saw, a write's what is there now, little endian, zero-extended. `bbcount` must not decrease.
    /// The site's kind and length must be those of `begin`.
    #[inline(always)]
    pub fn commit(&mut self, token: Token, site: SiteIndex, bbcount: u64, value: u64) {
        let Some((interval, delta)) = self.finish_line(&token, bbcount) else {
            return self.commit_slow(token, site, bbcount, value, value);
        };
        let commit = Commit { site: site.get(), shape: SHAPE_SINGLE, delta };
        self.core.put_single(token.begun.place, interval, value, commit);
        give_way(&token, interval);
    }

    /// The same for an access that reads and writes: `old` is what it saw, `new` what is there now.
    #[inline(always)]
    pub fn commit_rw(&mut self, token: Token, site: SiteIndex, bbcount: u64, old: u64, new: u64) {
        let Some((interval, delta)) = self.finish_line(&token, bbcount) else {
            return self.commit_slow(token, site, bbcount, old, new);
        };
        let commit = Commit { site: site.get(), shape: SHAPE_DOUBLE, delta };
        self.core.put_double(token.begun.place, interval, old, new, commit);
        give_way(&token, interval);
    }

    /// The interval and bbcount as they stand in a short record; None (and the clock untouched) if it does not fit one.
    #[inline(always)]
    fn finish_line(&mut self, token: &Token, bbcount: u64) -> Option<(u64, u32)> {
        let delta = bbcount.wrapping_sub(self.core.bb_base);
        if token.form != Form::Line || token.len > 8 || delta >> 32 != 0 {
            return None;
        }
        let start = token.begun.start;
        let width = clock::after(&self.core.memory, token.begun.clock, token.touch).wrapping_sub(start);
        if width >> (64 - INTERVAL_BITS) != 0 || start >> INTERVAL_BITS != 0 {
            // Rare: asleep during the access, or a clock that ticked for days. The slow way looks at the clock again, later,
            // which is as true.
            return None;
        }
        Some((start | width << INTERVAL_BITS, delta as u32))
    }

    #[cold]
    #[inline(never)]
    fn commit_slow(&mut self, token: Token, site: SiteIndex, bbcount: u64, old: u64, new: u64) {
        let (old, new) = (old.to_le_bytes(), new.to_le_bytes());
        let seen = old.get(..token.len as usize).unwrap_or(&old);
        let written = new.get(..token.len as usize).unwrap_or(&new);
        self.commit_bytes(token, Origin::Site(site), bbcount, seen, written);
    }

    /// Call right after the memory was touched, for an access of any length that `begin` takes.
    ///
    /// `seen` counts if the access reads, `written` if it writes; both together in a read/write have one length. They may be
    /// shorter than what `begin` was told, if the access turned out to be: the rest was not touched. `bbcount` as in `commit`.
    pub fn commit_bytes(&mut self, token: Token, origin: Origin, bbcount: u64, seen: &[u8], written: &[u8]) {
        let Token { begun, len, kind, touch, form } = token;
        let mut one = [LineTicks { start: begun.start, end: 0 }];
        let ticks = match form {
            Form::Line => {
                one[0].end = clock::after(&self.core.memory, begun.clock, touch);
                &one[..]
            }
            Form::Lines => {
                finish_lines(&self.core, kind, begun.place, len, &mut self.scratch);
                &self.scratch[..]
            }
            Form::Dropped => return self.core.drop_record(),
            Form::Nothing => return,
        };
        let access = Long { place: begun.place, len, kind, pc: self.pc(origin), origin, bbcount, seen, written };
        access.append(&mut self.core, ticks);
    }

    /// How many entries of scratch space an access needs.
    pub const fn lines(offset: u64, len: u64) -> usize {
        if len == 0 { 0 } else { lines(offset & OFFSET_MASK, len) as usize }
    }

    /// [`Writer::begin`] for an access of any length, a system call's say. `scratch` must have [`Writer::lines`] entries, else
    /// the access is dropped.
    pub fn begin_wide(&mut self, kind: Kind, object: ObjectIndex, offset: u64, len: u64, scratch: &mut [LineTicks]) -> WideToken {
        let place = Log::place(object, offset);
        let form = begin_lines(&mut self.core, kind, place, len, scratch);
        WideToken { place, len, kind, form }
    }

    /// [`Writer::commit_bytes`] for [`Writer::begin_wide`], with the same scratch space.
    pub fn commit_wide(&mut self, token: WideToken, scratch: &mut [LineTicks], origin: Origin, bbcount: u64, seen: &[u8], written: &[u8]) {
        let WideToken { place, len, kind, form } = token;
        match form {
            Form::Nothing => {}
            Form::Dropped => self.core.drop_record(),
            Form::Line | Form::Lines => {
                finish_lines(&self.core, kind, place, len, scratch);
                let access = Long { place, len, kind, pc: self.pc(origin), origin, bbcount, seen, written };
                access.append(&mut self.core, scratch);
            }
        }
    }

    /// The access begun by emitted code happened, and its interval does not fit a short record: counts it as dropped.
    pub fn drop_begun(&mut self) {
        self.core.unmark();
        self.core.drop_record();
    }

    /// The access did not happen (a fault, an error of the system call): nothing is logged.
    pub fn abandon(&mut self, _token: Token) {
        self.core.unmark();
    }

    /// [`Writer::abandon`] for [`Writer::begin_wide`].
    pub fn abandon_wide(&mut self, _token: WideToken) {
        self.core.unmark();
    }

    /// Notes the time in the log if something was logged and about a millisecond passed since the last note, so that rough
    /// times stay good where accesses are rare. Worth a call where the program enters the kernel; `bbcount` as in `commit`. Does
    /// nothing while an access is under way, whose place would no longer be known if the process died.
    pub fn note_time(&mut self, bbcount: u64) {
        let ticks = self.core.memory.ticks();
        if self.core.has_block()
            && !self.core.is_marked()
            && self.core.cursor != self.noted_cursor
            && ticks.wrapping_sub(self.noted_ticks) > NOTE_TICKS
            && self.core.put_mark(bbcount)
        {
            self.noted_ticks = ticks;
            self.noted_cursor = self.core.cursor;
        }
    }

    /// Gives the current block back. The next access takes another; call it at the end, or when none is expected for long.
    pub fn finish(&mut self) {
        self.core.release();
    }

    fn pc(&self, origin: Origin) -> u64 {
        match origin {
            Origin::Site(site) => self.log.site_pc(site),
            Origin::Pc { pc, .. } => pc,
        }
    }
}

/// After a locked access that met another process on its clock: lets that one get on, for a moment and whatever it does.
#[inline(always)]
fn give_way(token: &Token, interval: u64) {
    if token.touch == Touch::Locked && interval >> INTERVAL_BITS != 0 {
        pause();
    }
}

#[cold]
#[inline(never)]
fn pause() {
    (0..GIVE_WAY_PAUSES).for_each(|_| core::hint::spin_loop());
}

fn dropped(kind: Kind) -> Token {
    let begun = Begun { place: 0, clock: 0, start: 0 };
    Token { begun, len: 0, kind, touch: Touch::of(kind.writes()), form: Form::Dropped }
}

/// Looks at the clocks of all lines of an access, before it.
fn begin_lines<M: Memory>(core: &mut Appender<M>, kind: Kind, place: u64, len: u64, scratch: &mut [LineTicks]) -> Form {
    if len == 0 {
        return Form::Nothing;
    }
    // Longer than any object, its lines could not even be counted.
    if len > OFFSET_MASK {
        return Form::Dropped;
    }
    let count = lines(place & OFFSET_MASK, len);
    if (scratch.len() as u64) < count || !core.make_room(2) {
        return Form::Dropped;
    }
    core.mark_begun(place);
    for (line, ticks) in scratch.iter_mut().take(count as usize).enumerate() {
        let clock = core.clock_address(line_place(place, line));
        ticks.start = clock::before(&core.memory, clock, Touch::of(kind.writes()));
    }
    Form::Lines
}

/// Looks at them again, after it.
fn finish_lines<M: Memory>(core: &Appender<M>, kind: Kind, place: u64, len: u64, scratch: &mut [LineTicks]) {
    let count = lines(place & OFFSET_MASK, len);
    for (line, ticks) in scratch.iter_mut().take(count as usize).enumerate() {
        let clock = core.clock_address(line_place(place, line));
        ticks.end = clock::after(&core.memory, clock, Touch::of(kind.writes()));
    }
}

#[inline(always)]
fn line_place(place: u64, line: usize) -> u64 {
    let offset = (place & OFFSET_MASK & !(LINE_BYTES - 1)).wrapping_add(line as u64 * LINE_BYTES);
    place & !OFFSET_MASK | offset & OFFSET_MASK
}

/// An access on its way into long records.
struct Long<'a> {
    place: u64,
    len: u64,
    kind: Kind,
    origin: Origin,
    pc: u64,
    bbcount: u64,
    seen: &'a [u8],
    written: &'a [u8],
}

impl Long<'_> {
    fn append<M: Memory>(&self, core: &mut Appender<M>, ticks: &[LineTicks]) {
        let offset = self.place & OFFSET_MASK;
        let (seen, written) = (self.seen.len() as u64, self.written.len() as u64);
        let given = match self.kind {
            Kind::Read => seen,
            Kind::Write => written,
            Kind::ReadWrite => seen.min(written),
        };
        let total = given.min(self.len);
        if total == 0 {
            return core.unmark();
        }
        let mut done = 0;
        while done < total {
            // Pieces end on multiples of their size, so that all but the first and last are of whole lines.
            let at = offset + done;
            let len = (total - done).min(MAX_PIECE_BYTES - at % MAX_PIECE_BYTES);
            let flags = if done == 0 { LONG_FIRST } else { 0 } | if done + len == total { LONG_LAST } else { 0 };
            self.append_piece(core, ticks, total, done, len, flags);
            done += len;
        }
    }

    fn append_piece<M: Memory>(&self, core: &mut Appender<M>, ticks: &[LineTicks], total: u64, done: u64, len: u64, flags: u64) {
        let offset = self.place & OFFSET_MASK;
        let at = offset + done;
        let shape = LongShape::new(at, len, self.kind);
        let stale = self.bbcount.wrapping_sub(core.bb_base) >> 32 != 0;
        if stale && !core.put_mark(self.bbcount) || !core.make_room(shape.slots) {
            return core.drop_record();
        }
        let first_line = (at / LINE_BYTES - offset / LINE_BYTES) as usize;
        for (line, ticks) in ticks.iter().skip(first_line).take(shape.lines as usize).enumerate() {
            core.put_payload(line as u64 * 2, ticks.start);
            core.put_payload(line as u64 * 2 + 1, ticks.end);
        }
        if self.kind.reads() {
            put_bytes(core, shape.seen, self.seen, done, len);
        }
        if self.kind.writes() {
            put_bytes(core, shape.written, self.written, done, len);
        }
        let (site, by_kernel) = match self.origin {
            Origin::Site(site) => (site.get(), false),
            Origin::Pc { by_kernel, .. } => (0, by_kernel),
        };
        let head = LongHead {
            len,
            kind_bits: self.kind as u8,
            flags: flags | if by_kernel { LONG_BY_KERNEL } else { 0 },
            total: total.min(u32::MAX.into()) as u32,
        };
        let delta = self.bbcount.wrapping_sub(core.bb_base) as u32;
        let place = self.place & !OFFSET_MASK | at & OFFSET_MASK;
        core.put_long(place, head.word(), self.pc, Commit { site, shape: SHAPE_LONG, delta }, shape.slots);
    }
}

/// Stores `bytes[done..done + len]` into the payload from byte `at`, in words.
fn put_bytes<M: Memory>(core: &mut Appender<M>, at: u64, bytes: &[u8], done: u64, len: u64) {
    let piece = bytes.get(done as usize..(done + len) as usize).unwrap_or(&[]);
    for (index, chunk) in piece.chunks(8).enumerate() {
        let mut word = [0; 8];
        word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        core.put_payload(at / 8 + index as u64, u64::from_le_bytes(word));
    }
}
