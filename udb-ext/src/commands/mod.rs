//! The questions that the Python side asks: a JSON object in, a JSON object out, over gdb's `monitor`.
//!
//! A request is `{"do": NAME, …}`; a reply is the answer, or `{"error": TEXT}`. Answers are bounded, so that none blocks gdb for long:
//! what may be long (events, accesses) comes in pages.

mod correlate;
mod events;
mod files;
mod memory;
mod time;
mod wallclock;

use std::time::Duration;

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
    Wallclock,
    SeekWallclock { nanoseconds: u64 },
}

/// The answer takes longer than gdb may be blocked; the same question is to be asked again.
#[derive(Serialize)]
struct Wait {
    wait: bool,
}

/// How long gdb may be blocked: it notices a Ctrl-C between two requests only.
const SLICE: Duration = Duration::from_millis(200);

#[derive(Serialize)]
struct Failure<'a> {
    error: &'a str,
}

/// The reply to one request, as JSON text.
pub fn answer(debuggee: &mut Debuggee, request: &[u8]) -> String {
    let request = serde_json::from_slice(request).map_err(|error| format!("udb-server: {error}"));
    let reply =
        request.and_then(|request| if must_wait(debuggee, &request) { Ok(json(&Wait { wait: true })) } else { perform(debuggee, request) });
    reply.unwrap_or_else(|error| json(&Failure { error: &error }))
}

fn must_wait(debuggee: &mut Debuggee, request: &Request) -> bool {
    let asks_the_log = match request {
        Request::Blame(_) => true,
        Request::Shared { ranges } => memory::ask_the_log(debuggee, ranges),
        _ => false,
    };
    asks_the_log && !debuggee.correlate.is_ready(SLICE)
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
        Request::Wallclock => wallclock::clock(debuggee).map(|clock| json(&clock)),
        Request::SeekWallclock { nanoseconds } => wallclock::seek_clock(debuggee, nanoseconds).map(|now| json(&now)),
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

#[cfg(test)]
mod tests {
    use replayer::Cancel;
    use serde_json::{Value, json};

    use super::*;
    use crate::fake;

    fn debuggee() -> Debuggee {
        Debuggee::new(fake::opened(), Cancel::default())
    }

    fn ask(debuggee: &mut Debuggee, request: Value) -> Value {
        serde_json::from_str(&answer(debuggee, request.to_string().as_bytes())).unwrap()
    }

    /// The results (which count the moments) of the events that a page shows.
    fn results(page: &Value) -> Vec<i64> {
        page["events"].as_array().unwrap().iter().map(|row| row[3].as_i64().unwrap()).collect()
    }

    #[test]
    fn jumps_tell_where_they_led() {
        let mut debuggee = debuggee();
        let (begin, end) = (json!([1, fake::pc(0)]), json!([5, fake::pc(9)]));
        let now = ask(&mut debuggee, json!({"do": "now"}));
        assert_eq!((&now["now"], &now["begin"], &now["end"]), (&begin, &begin, &end));
        let jumped = ask(&mut debuggee, json!({"do": "seek", "bbcount": 3}));
        assert_eq!(jumped["now"], json!([3, fake::pc(4)]));
        assert_eq!(jumped["code"], now["code"]);
        let jumped = ask(&mut debuggee, json!({"do": "end"}));
        assert_eq!(jumped["now"], end);
        assert_ne!(jumped["code"], now["code"]);
        assert_eq!(ask(&mut debuggee, json!({"do": "begin"}))["now"], begin);
    }

    #[test]
    fn errors_are_replies() {
        let mut debuggee = debuggee();
        for (request, part) in [
            (json!({"do": "seek", "bbcount": 99}), "outside the recorded range"),
            (json!({"do": "seek", "bbcount": 1, "pc": 1}), "never reached"),
            (json!({"do": "nosuch"}), "nosuch"),
            (json!({}), "udb-server"),
            (json!({"do": "blame", "address": 1, "length": 1}), "no log"),
        ] {
            let error = ask(&mut debuggee, request.clone())["error"].as_str().unwrap().to_owned();
            assert!(error.contains(part), "{request}: {error}");
        }
        assert!(answer(&mut debuggee, b"\xff").contains("error"));
        assert_eq!(ask(&mut debuggee, json!({"do": "now"}))["now"], json!([1, fake::pc(0)]));
    }

    #[test]
    fn events_are_cut_to_ranges_and_names() {
        let mut debuggee = debuggee();
        let mut page = |fields: Value| {
            let mut request = json!({"do": "events"});
            request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            results(&ask(&mut debuggee, request))
        };
        assert_eq!(page(json!({})), (0..10).collect::<Vec<_>>());
        assert_eq!(page(json!({"min": 2, "max": 3})), [2, 3]);
        assert_eq!(page(json!({"name": "write"})), [0, 3, 6, 9]);
        assert_eq!(page(json!({"name": "write", "limit": 4})), [0, 3]);
        assert_eq!(page(json!({"min": 99})), Vec::<i64>::new());
        assert_eq!(page(json!({"min": 3, "max": 2})), Vec::<i64>::new());
        let here = json!([2, fake::pc(3)]);
        assert_eq!(page(json!({"beyond": here, "limit": 2})), [4, 5]);
        assert_eq!(page(json!({"beyond": here, "backward": true})), [2, 1, 0]);
        assert_eq!(page(json!({"beyond": here, "backward": true, "limit": 1})), [2]);
        assert_eq!(page(json!({"beyond": [99, 0]})), Vec::<i64>::new());
    }

    #[test]
    fn pages_join_without_gap_or_overlap() {
        for backward in [false, true] {
            let mut debuggee = debuggee();
            let (mut seen, mut cursor) = (Vec::new(), Value::Null);
            loop {
                let page = ask(&mut debuggee, json!({"do": "events", "limit": 3, "cursor": cursor, "backward": backward}));
                assert_eq!(page["scanned"], results(&page).len());
                seen.extend(results(&page));
                cursor = page["cursor"].clone();
                if cursor.is_null() {
                    break;
                }
            }
            if backward {
                seen.reverse();
            }
            assert_eq!(seen, (0..10).collect::<Vec<_>>());
        }
    }

    #[test]
    fn statistics_add_up() {
        let stats = ask(&mut debuggee(), json!({"do": "event-stats"}));
        assert_eq!((stats["count"].clone(), stats["size"].clone()), (json!(10), json!(100)));
        assert_eq!(stats["names"], json!({"read": [6, 60], "write": [4, 40]}));
        let mut empty = Debuggee::new(fake::opened_with(Vec::new()), Cancel::default());
        assert_eq!(ask(&mut empty, json!({"do": "event-stats"}))["last"], Value::Null);
    }

    #[test]
    fn shared_bytes_have_a_status_each() {
        let mut debuggee = debuggee();
        let request = json!({"do": "shared", "ranges": [[fake::COUNTER, 1], [fake::COUNTER + 1, 1]]});
        assert_eq!(ask(&mut debuggee, request.clone())["statuses"], json!(["never", "private"]));
        ask(&mut debuggee, json!({"do": "seek", "bbcount": 2}));
        assert_eq!(ask(&mut debuggee, request)["statuses"], json!([{"accessed": [1, fake::pc(1)], "stale": true}, "private"]));
    }

    #[test]
    fn an_armed_search_passes_over_breakpoints_once() {
        let mut debuggee = debuggee();
        ask(&mut debuggee, json!({"do": "arm", "address": fake::COUNTER, "length": 1}));
        debuggee.run();
        assert_eq!(ask(&mut debuggee, json!({"do": "now"}))["now"], json!([1, fake::pc(1)]));
        debuggee.run();
        assert_eq!(ask(&mut debuggee, json!({"do": "now"}))["now"], json!([5, fake::pc(9)]));
    }

    #[test]
    fn files_say_whether_they_are_still_there() {
        let files = ask(&mut debuggee(), json!({"do": "files"}));
        assert_eq!(files["files"], json!([{"path": "/recorded/program", "size": 8, "on_disk": "missing"}]));
    }
}
