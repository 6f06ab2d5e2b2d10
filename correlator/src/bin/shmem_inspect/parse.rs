//! What users type: numbers, times, places in objects, recordings.
use anyhow::{Result, bail};
use correlator::{Discovery, FoundRecording, Kind, ObjectIndex, RecordingIndex, Time};

/// `4096`, `4,096` or `0x1000`.
pub fn number(text: &str) -> Result<u64, String> {
    let plain = text.replace([',', '_'], "");
    let parsed = match plain.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => plain.parse(),
    };
    parsed.map_err(|_| {
        let hint = if u64::from_str_radix(&plain, 16).is_ok() { format!("; is it 0x{plain}?") } else { String::new() };
        format!("expected a number like 4096 or 0x1000, found {text}{hint}")
    })
}

/// `2,822:0x5618d2d15c61`, or `2,822`: the beginning of that basic block.
pub fn time(text: &str) -> Result<Time, String> {
    let (bbcount, pc) = text.split_once(':').unwrap_or((text, "0"));
    Ok(Time { bbcount: number(bbcount)?, pc: number(pc)? })
}

pub fn kind(text: &str) -> Result<Kind, String> {
    match text {
        "read" => Ok(Kind::Read),
        "write" => Ok(Kind::Write),
        "read/write" | "readwrite" | "rw" => Ok(Kind::ReadWrite),
        _ => Err(format!("expected read, write or read/write, found {text}")),
    }
}

/// What an address on the command line means.
#[derive(Clone, Copy, Debug)]
pub enum Address {
    Guest(u64),
    /// `3+0x118`.
    InObject(ObjectIndex, u64),
}

pub fn address(text: &str) -> Result<Address, String> {
    let Some((object, offset)) = text.split_once('+') else { return Ok(Address::Guest(number(text)?)) };
    let object = number(object).ok().and_then(|object| ObjectIndex::new(u32::try_from(object).ok()?));
    let object = object.ok_or_else(|| format!("expected an object's number before the +, found {text}"))?;
    Ok(Address::InObject(object, number(offset)?))
}

/// A recording by its number, process, name or file, or the beginning of the last two.
pub fn recording(discovery: &Discovery, text: &str) -> Result<RecordingIndex> {
    let number: Option<u32> = text.parse().ok();
    if let Some(found) = number.and_then(|number| discovery.inferior(number)) {
        return Ok(found.index);
    }
    let is = |found: &FoundRecording, wanted: &dyn Fn(&str) -> bool| {
        let stem = found.path.as_ref().and_then(|path| path.file_stem()).map(|stem| stem.to_string_lossy());
        Some(found.pid) == number || wanted(&found.name) || stem.is_some_and(|stem| wanted(&stem))
    };
    let wanted = text.trim_end_matches(".undo");
    let matching = |wanted: &dyn Fn(&str) -> bool| -> Vec<_> { discovery.recordings.iter().filter(|found| is(found, wanted)).collect() };
    let mut found = matching(&|name| name == wanted);
    if found.is_empty() {
        found = matching(&|name| name.starts_with(wanted));
    }
    match &found[..] {
        [] => bail!("recording: expected a number, process, name or file that `info` lists, found {text}"),
        [found] => Ok(found.index),
        _ => bail!("recording: {text} stands for several; give its number, which `info` lists"),
    }
}
