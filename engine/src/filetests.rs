//! Translation rules as text: `engine/filetests/*.txt` hold guest instructions and the code that must come of them.
//!
//! ```text
//!   ; what this file shows
//!   shared 0x10000003                       optional, see `Settings::read`
//!
//!   0x10000000  48 01 c3                    ; add %rax,%rbx
//!   ---
//!   0x10000000  add %rax,%rbx               guest address where an instruction's translation begins
//!               jmp gate
//!   exits
//!   …
//! ```
//!
//! `UNDO_BLESS=1 cargo test -p engine filetests` writes what comes of the guest instructions now; look at the difference before you
//! commit it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::string::{String, ToString};
use std::vec::Vec;

use iced_x86::{Decoder, Formatter, GasFormatter, InstructionInfoFactory};

use crate::arena;
use crate::context::{COUNTERS, offset};
use crate::gate::Gate;
use crate::inline::{EventWords, InlineSite, LogWords};
use crate::sys::{self, raw};
use crate::trace::{self, Fetcher, Limits};
use crate::translate::{Output, Place, SiteMode, Style, translate};
use crate::unit::{Row, Spill};
use crate::watch::Wanted;

/// Where units are installed, and the gate.
const CODE: u64 = 0x2000_0000;
const COLD: u64 = 0x2100_0000;
const CONSTANTS: u64 = 0x2200_0000;
const GATE: Gate = Gate { exit: CODE - 0x100, dispatch: CODE - 0x80, indirect_miss: CODE - 0x40 };
/// Two pages of guest code start here.
const GUEST: u64 = 0x1000_0000;
const GUEST_BYTES: u64 = 8192;

/// A log whose words are named by [`name_fields`].
const INLINE: InlineSite = InlineSite {
    log: LogWords {
        cursor: arena::HEAP,
        limit: arena::HEAP + 8,
        base: arena::HEAP + 16,
        extra_slots: arena::HEAP + 24,
        clocks: arena::HEAP + 32,
        clock_shift: 54,
        clock_open: 8,
        slot_place: 0,
        slot_interval: 8,
        slot_value: 16,
        slot_commit: 24,
        slot_bytes: 32,
        double: 1 << 30,
        long: 2 << 30,
        pauses: 24,
    },
    events: EventWords {
        next: arena::HEAP + 40,
        last: arena::HEAP + 48,
        used: arena::HEAP + 56,
        open: arena::HEAP + 72,
        open_length: arena::HEAP + 88,
        open_end: arena::HEAP + 80,
        what: 3,
        size: 0,
        kind: 8,
        bbcount: 24,
        pc: 32,
        zero: [16, 40],
        address: 48,
        length: 56,
        bytes: 64,
    },
    cell: arena::HEAP + 64,
    number: 5,
    long_head: 0x77,
};

struct Settings {
    shared: Vec<u64>,
    announce: bool,
    inline: bool,
    exact: bool,
    precise_flags: bool,
    watch: Option<Wanted>,
    leads: BTreeMap<u64, u64>,
}

impl Settings {
    /// | line | meaning |
    /// |---|---|
    /// | `shared ADDRESS` | the instruction there is a shared site |
    /// | `inline` | accesses at shared sites are performed and logged inline |
    /// | `announce` | as at replay: the host is told of shared sites, nothing is redirected |
    /// | `exact` | one block that always comes back |
    /// | `precise flags` | as with breakpoints |
    /// | `leads FROM TO` | the branch there usually leads to |
    /// | `watch reads`, `watch writes` | accesses pass the filter |
    fn read(head: &str) -> Self {
        let mut settings = Self {
            shared: Vec::new(),
            announce: false,
            inline: false,
            exact: false,
            precise_flags: false,
            watch: None,
            leads: BTreeMap::new(),
        };
        for line in head.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [] | [";", ..] => {}
                ["shared", address] => settings.shared.push(number(address)),
                ["inline"] => settings.inline = true,
                ["leads", from, to] => _ = settings.leads.insert(number(from), number(to)),
                ["announce"] => settings.announce = true,
                ["exact"] => settings.exact = true,
                ["precise", "flags"] => settings.precise_flags = true,
                ["watch", what] => {
                    let wanted = settings.watch.get_or_insert(Wanted { reads: false, writes: false });
                    wanted.reads |= what == "reads";
                    wanted.writes |= what == "writes";
                }
                [address, ..] if address.starts_with("0x") => {}
                _ => panic!("not understood: {line}"),
            }
        }
        settings
    }
}

fn number(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or_else(|_| panic!("not a number: {text}"))
}

/// The guest's bytes by address.
fn guest_code(head: &str) -> BTreeMap<u64, Vec<u8>> {
    let lines = head.lines().filter(|line| line.starts_with("0x"));
    lines
        .map(|line| {
            let code = line.split(';').next().unwrap_or("");
            let mut words = code.split_whitespace();
            let address = number(words.next().unwrap_or(""));
            (address, words.map(|byte| number(byte) as u8).collect())
        })
        .collect()
}

fn formatter() -> GasFormatter {
    let mut formatter = GasFormatter::new();
    formatter.options_mut().set_branch_leading_zeros(false);
    formatter.options_mut().set_small_hex_numbers_in_decimal(true);
    formatter.options_mut().set_uppercase_hex(false);
    formatter
}

fn decode_one(bytes: &[u8], address: u64) -> (String, usize) {
    let instruction = Decoder::with_ip(64, bytes, address, 0).decode();
    let mut text = String::new();
    formatter().format(&instruction, &mut text);
    (text.split_whitespace().collect::<Vec<_>>().join(" "), instruction.len().max(1))
}

/// The input as it is written back: the same bytes, disassembled.
fn rewrite_head(head: &str) -> String {
    let mut text = String::new();
    for line in head.lines() {
        if !line.starts_with("0x") {
            let _ = writeln!(text, "{line}");
            continue;
        }
        let code = line.split(';').next().unwrap_or("").trim_end();
        let (address, bytes) = guest_code(line).pop_first().unwrap();
        let _ = writeln!(text, "{code:<48} ; {}", decode_one(&bytes, address).0);
    }
    text
}

fn translation(head: &str) -> String {
    let settings = Settings::read(head);
    let code = guest_code(head);
    for (&address, bytes) in &code {
        assert!(address >= GUEST && address + bytes.len() as u64 <= GUEST + GUEST_BYTES, "{address:#x} is not in the guest's pages");
        crate::memory::write_guest(address, bytes);
    }
    let start = *code.keys().next().expect("no guest instructions");
    let mut fetcher = Fetcher::default();
    let mut factory = InstructionInfoFactory::new();
    let (max_transfers, max_instructions) = if settings.exact { (1, Limits::TRACE.1) } else { Limits::TRACE };
    let limits = Limits {
        max_transfers,
        max_instructions,
        cut: None,
        breakpoints: &|_| false,
        in_region: &|pc| (GUEST..GUEST + GUEST_BYTES).contains(&pc),
        usual: &|pc| settings.leads.get(&pc).copied(),
        only: &|pc| settings.leads.get(&pc).copied(),
        may_guard: &|pc| !settings.exact && settings.watch.is_none() && !settings.shared.contains(&pc),
    };
    let trace = trace::build(&mut fetcher, start, &limits);
    let is_shared = |pc: u64| settings.shared.contains(&pc);
    let inline = |_: &crate::site::Site| settings.inline.then_some(INLINE);
    let style = Style {
        gate: GATE,
        counter: (COUNTERS - 1) as u8,
        linked: !settings.exact,
        precise_flags: settings.precise_flags,
        sites: if settings.announce { SiteMode::Announce(&is_shared) } else { SiteMode::Redirect { is_site: &is_shared, inline: &inline } },
        watch: settings.watch,
        first_exit: 2,
        first_site: 0,
    };
    let place = Place { base: CODE, cold_base: COLD, constants_base: CONSTANTS, buffers: (Vec::new(), Vec::new()) };
    let output = translate(&trace, None, place, &style, &mut fetcher, &mut factory);
    clear_guest();
    listing(&output)
}

/// Makes all guest code undecodable, which ends a trace.
fn clear_guest() {
    crate::memory::write_guest(GUEST, &[0x06; GUEST_BYTES as usize]);
}

/// The context's fields by name.
fn name_fields(line: &str) -> String {
    let heap = (arena::HEAP - arena::CONTEXT) as u32;
    let fields = [
        (offset::EXIT, "exit"),
        (offset::SPILL_RCX, "spill0"),
        (offset::SPILL_R11, "spill1"),
        (offset::SPILL_RAX, "spill2"),
        (offset::ACCESS_ADDRESS, "access_address"),
        (offset::counter(COUNTERS - 1), "counter"),
        (offset::SAVED_FLAGS, "saved_flags"),
        (offset::RESULT_FLAGS, "result_flags"),
        (offset::RESULT_RAX, "result_rax"),
        (offset::OLD_VALUE, "old_value"),
        (offset::COUNT_TOTAL, "count_total"),
        (offset::ATTENTION, "attention"),
        (heap, "log_cursor"),
        (heap + 8, "log_limit"),
        (heap + 16, "log_base"),
        (heap + 24, "log_extra_slots"),
        (heap + 32, "log_clocks"),
        (heap + 40, "event_next"),
        (heap + 48, "event_last"),
        (heap + 56, "event_used"),
        (heap + 64, "cell"),
        (heap + 72, "event_open"),
        (heap + 80, "event_open_end"),
        (heap + 88, "event_open_length"),
        (arena::INDIRECT_TABLE_OFFSET, "sieve"),
        (arena::WATCH_FILTER_OFFSET, "watch_filter"),
    ];
    let Some((before, rest)) = line.split_once("%gs:0x") else { return line.to_string() };
    let digits = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
    let value = number(&rest[..digits]) as u32;
    match fields.iter().find(|(offset, _)| *offset == value) {
        Some((_, name)) => std::format!("{before}%gs:{name}{}", &rest[digits..]),
        None => {
            let register = (0..16).find(|&register| offset::saved(register) == value);
            let counter = (0..COUNTERS).find(|&counter| offset::counter(counter) == value);
            match (register, counter) {
                (Some(register), _) => std::format!("{before}%gs:saved{register}{}", &rest[digits..]),
                (_, Some(counter)) => std::format!("{before}%gs:counter{counter}{}", &rest[digits..]),
                _ => line.to_string(),
            }
        }
    }
}

fn row_text(row: &Row) -> String {
    let mut text = std::format!("{:#x}", row.pc);
    if row.unsettled != 0 {
        let _ = write!(text, " {:+}", row.unsettled);
    }
    match row.spill {
        Spill::None => {}
        Spill::Inline { set, flags, undo } => {
            let _ = write!(text, " inline {set:#06x}{}{}", if flags { " flags" } else { "" }, if undo.is_some() { " undo" } else { "" });
        }
        spill => {
            let _ = write!(text, " {spill:?}");
        }
    }
    text
}

fn listing(output: &Output) -> String {
    let mut text = String::new();
    let mut at = 0;
    while at < output.bytes.len() {
        for row in output.rows.iter().filter(|row| row.host as usize == at) {
            let _ = writeln!(text, "{}:", row_text(row));
        }
        let address = CODE + at as u64;
        let (line, length) = decode_one(&output.bytes[at..], address);
        let line = name_fields(&line).replace(&std::format!("{:#x}", GATE.exit), "gate");
        let _ = writeln!(text, "    {address:#x}  {line}");
        at += length;
    }
    text.push_str("cold\n");
    let mut at = 0;
    while at < output.cold.len() {
        let address = COLD + at as u64;
        let (line, length) = decode_one(&output.cold[at..], address);
        let line = name_fields(&line).replace(&std::format!("{:#x}", GATE.exit), "gate");
        let _ = writeln!(text, "    {address:#x}  {line}");
        at += length;
    }
    if !output.constants.is_empty() {
        let _ = writeln!(text, "constants {:#x?}", output.constants);
    }
    text.push_str("exits\n");
    for (index, exit) in output.exits.iter().enumerate() {
        let _ = writeln!(text, "    {}: {:x?} at {:#x}, unsettled {}", index + 2, exit.kind, exit.pc, exit.unsettled);
    }
    text
}

#[test]
fn filetests() {
    let flags = raw::MAP_PRIVATE | raw::MAP_ANONYMOUS | raw::MAP_FIXED_NOREPLACE;
    let mapped = sys::mmap(GUEST, GUEST_BYTES, raw::PROT_READ | raw::PROT_WRITE, flags, -1, 0);
    assert_eq!(mapped as u64, GUEST, "the guest's place is taken");
    clear_guest();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests");
    let bless = std::env::var_os("UNDO_BLESS").is_some();
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let (head, expected) = text.split_once("---\n").unwrap_or((&text, ""));
        let found = translation(head);
        count += 1;
        if bless {
            std::fs::write(&path, std::format!("{}---\n{found}", rewrite_head(head))).unwrap();
        } else if found != expected {
            let at = found.lines().zip(expected.lines()).take_while(|(a, b)| a == b).count();
            let line = |text: &str| text.lines().nth(at).unwrap_or("the end").to_string();
            wrong.push(std::format!("{}: expected `{}`, found `{}`", path.display(), line(expected).trim(), line(&found).trim()));
        }
    }
    sys::munmap(GUEST, GUEST_BYTES);
    assert!(count > 0, "no files in {}", directory.display());
    assert!(wrong.is_empty(), "{}\nUNDO_BLESS=1 writes what comes now", wrong.join("\n"));
}
