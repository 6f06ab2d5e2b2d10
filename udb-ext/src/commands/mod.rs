//! The questions that the Python side asks: a JSON object in, a JSON object out, over gdb's `monitor`.
//!
//! A request is `{"do": NAME, …}`; a reply is the answer, or `{"error": TEXT}`. Answers are bounded, so that none blocks gdb for long:
//! what may be long (events, accesses) comes in pages.

mod correlate;
mod events;
mod files;
mod memory;
mod time;

use serde::{Deserialize, Serialize};

use crate::target::Debuggee;

#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
enum Request {
    Now,
    Begin,
    End,
    Seek { bbcount: u64, pc: Option<u64> },
    Events(events::Page),
    EventStats,
    Arm(memory::Watch),
    Mappings,
    Shared { ranges: Vec<(u64, u64)> },
    Files,
    Recordings,
    Blame(correlate::Range),
}

#[derive(Serialize)]
struct Failure<'a> {
    error: &'a str,
}

/// The reply to one request, as JSON text.
pub fn answer(debuggee: &mut Debuggee, request: &[u8]) -> String {
    let reply =
        serde_json::from_slice(request).map_err(|error| format!("udb-server: {error}")).and_then(|request| perform(debuggee, request));
    reply.unwrap_or_else(|error| json(&Failure { error: &error }))
}

fn perform(debuggee: &mut Debuggee, request: Request) -> Result<String, String> {
    match request {
        Request::Now => Ok(json(&time::now(debuggee))),
        Request::Begin => time::begin(debuggee).map(|now| json(&now)),
        Request::End => time::end(debuggee).map(|now| json(&now)),
        Request::Seek { bbcount, pc } => time::seek(debuggee, bbcount, pc).map(|now| json(&now)),
        Request::Events(page) => Ok(json(&events::page(debuggee, &page))),
        Request::EventStats => Ok(json(&events::stats(debuggee))),
        Request::Arm(watch) => Ok(json(&memory::arm(debuggee, &watch))),
        Request::Mappings => memory::mappings(debuggee).map(|mappings| json(&mappings)),
        Request::Shared { ranges } => memory::shared(debuggee, &ranges).map(|statuses| json(&statuses)),
        Request::Files => Ok(json(&files::list(debuggee))),
        Request::Recordings => correlate::recordings(debuggee).map(|recordings| json(&recordings)),
        Request::Blame(range) => correlate::blame(debuggee, &range).map(|blame| json(&blame)),
    }
}

fn json(value: &impl Serialize) -> String {
    // Only a map with keys that are not strings could fail, and no reply has one.
    serde_json::to_string(value).unwrap_or_else(|error| format!("{{\"error\":\"udb-server: {error}\"}}"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
