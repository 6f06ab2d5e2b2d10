//! The command line: gdb's habits (`-ex`, `-batch`, order kept) with our options.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde::Serialize;

/// What to do once the recording is open, in the order given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    Command(String),
    Script(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    Recording,
    /// Asked for what only a live debugger does; why not.
    Unsupported(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments {
    pub recording: Option<PathBuf>,
    pub batch: bool,
    pub quiet: bool,
    pub steps: Vec<Step>,
    pub max_event_log_size: Option<String>,
    pub event_log_mode: Option<String>,
    pub mode: Mode,
    /// Passed on as they are.
    pub for_gdb: Vec<String>,
}

/// gdb takes long options with one dash as well.
const ONE_DASH: [(&str, &str); 14] = [
    ("-batch", "--batch"),
    ("-quiet", "--quiet"),
    ("-silent", "--quiet"),
    ("-ex", "--eval-command"),
    ("-eval-command", "--eval-command"),
    ("-command", "--command"),
    ("-args", "--args"),
    ("-pid", "--pid"),
    ("-nx", "--nx"),
    ("-nh", "--nh"),
    ("-interpreter", "--interpreter"),
    ("-tui", "--tui"),
    ("-help", "--help"),
    ("-version", "--version"),
];

pub fn command() -> Command {
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    Command::new("udb")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Debugs a recording: forwards, backwards, and across the processes that shared memory with it")
        .after_help(
            "Environment: UNDO_GDB names the gdb to use; UNDO_event_log_max, UNDO_event_log_mode are defaults of the options of that name.",
        )
        .arg(Arg::new("recording").value_name("FILE.undo").value_parser(clap::value_parser!(PathBuf)).help("The recording to open"))
        .arg(flag("batch").help("Run the commands given and exit; the status is 0 only if all of them succeeded"))
        .arg(flag("quiet").short('q').help("Do not print the line about what was loaded"))
        .arg(
            Arg::new("eval-command")
                .long("eval-command")
                .visible_alias("ex")
                .value_name("COMMAND")
                .action(ArgAction::Append)
                .allow_hyphen_values(true)
                .help("Run a command once the recording is open (also -ex)"),
        )
        .arg(Arg::new("command").long("command").short('x').value_name("FILE").action(ArgAction::Append).help("Run the commands in FILE"))
        .arg(
            Arg::new("max-event-log-size")
                .long("max-event-log-size")
                .value_name("SIZE[K|M|G]")
                .help("Limit of the event log; a loaded recording keeps its own"),
        )
        .arg(
            Arg::new("event-log-mode")
                .long("event-log-mode")
                .value_parser(["circular", "straight"])
                .help("What happens when the event log is full; a loaded recording keeps its own"),
        )
        .arg(Arg::new("interpreter").long("interpreter").short('i').value_name("NAME").help("gdb's command interpreter, such as mi"))
        .arg(flag("nx").short('n').help("Do not read gdb's init files"))
        .arg(flag("nh").help("Do not read ~/.gdbinit"))
        .arg(flag("tui").help("gdb's text user interface"))
        .arg(Arg::new("pid").long("pid").short('p').value_name("PID").hide(true))
        .arg(Arg::new("args").long("args").num_args(1..).allow_hyphen_values(true).hide(true))
}

impl Arguments {
    pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Self, clap::Error> {
        let matches = command().try_get_matches_from(arguments.map(two_dashes))?;
        let size = matches.get_one::<String>("max-event-log-size").cloned().or_else(|| env::var("UNDO_event_log_max").ok());
        let log_mode = matches.get_one::<String>("event-log-mode").cloned().or_else(|| env::var("UNDO_event_log_mode").ok());
        check(size.as_deref().is_none_or(is_size), "the size of the event log is a number with K, M or G after it, such as 512M")?;
        check(
            log_mode.as_deref().is_none_or(|mode| ["circular", "straight"].contains(&mode)),
            "the event log's mode is circular or straight",
        )?;
        Ok(Arguments {
            recording: matches.get_one("recording").cloned(),
            batch: matches.get_flag("batch"),
            quiet: matches.get_flag("quiet"),
            steps: steps(&matches),
            max_event_log_size: size,
            event_log_mode: log_mode,
            mode: mode(&matches),
            for_gdb: for_gdb(&matches),
        })
    }
}

fn two_dashes(argument: OsString) -> OsString {
    let Some(text) = argument.to_str() else {
        return argument;
    };
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    match ONE_DASH.iter().find(|(short, _)| *short == name) {
        Some((_, long)) => value.map_or_else(|| (*long).to_owned(), |value| format!("{long}={value}")).into(),
        None => argument,
    }
}

fn check(fine: bool, message: &str) -> Result<(), clap::Error> {
    if fine { Ok(()) } else { Err(clap::Error::raw(ErrorKind::InvalidValue, format!("{message}\n"))) }
}

fn is_size(text: &str) -> bool {
    let digits = text.strip_suffix(['K', 'M', 'G', 'k', 'm', 'g']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// `-ex` and `-x` in the order they were given among each other.
fn steps(matches: &ArgMatches) -> Vec<Step> {
    let with_places = |name: &str, make: fn(String) -> Step| -> Vec<(usize, Step)> {
        let values = matches.get_many::<String>(name).unwrap_or_default().cloned().map(make);
        matches.indices_of(name).unwrap_or_default().zip(values).collect()
    };
    let mut all = with_places("eval-command", Step::Command);
    all.extend(with_places("command", Step::Script));
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, step)| step).collect()
}

fn mode(matches: &ArgMatches) -> Mode {
    let live = "udb debugs recordings; make one with";
    if let Some(program) = matches.get_many::<String>("args").and_then(|mut words| words.next()) {
        return Mode::Unsupported(format!("{live} `live-record {program} …`, then `udb FILE.undo`"));
    }
    if let Some(pid) = matches.get_one::<String>("pid") {
        return Mode::Unsupported(format!("{live} `live-record --pid {pid}`, then `udb FILE.undo`"));
    }
    Mode::Recording
}

fn for_gdb(matches: &ArgMatches) -> Vec<String> {
    let mut all: Vec<String> =
        ["nx", "nh", "tui"].into_iter().filter(|name| matches.get_flag(name)).map(|name| format!("--{name}")).collect();
    if let Some(interpreter) = matches.get_one::<String>("interpreter") {
        all.push(format!("--interpreter={interpreter}"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Arguments, clap::Error> {
        Arguments::parse(["udb"].iter().chain(words).map(OsString::from))
    }

    #[test]
    fn the_command_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn commands_and_scripts_keep_their_order() {
        let arguments = parse(&["-batch", "-ex", "a", "-x", "f", "--eval-command=b", "x.undo", "-ex", "-c"]).unwrap();
        let expected = [Step::Command("a".into()), Step::Script("f".into()), Step::Command("b".into()), Step::Command("-c".into())];
        assert_eq!(arguments.steps, expected);
        assert!(arguments.batch);
        assert_eq!(arguments.recording, Some(PathBuf::from("x.undo")));
    }

    #[test]
    fn live_debugging_is_refused_with_the_way_out() {
        let Mode::Unsupported(reason) = parse(&["--args", "prog", "-q"]).unwrap().mode else { panic!() };
        assert!(reason.contains("live-record prog"), "{reason}");
        let Mode::Unsupported(reason) = parse(&["-p", "12"]).unwrap().mode else { panic!() };
        assert!(reason.contains("--pid 12"), "{reason}");
    }

    #[test]
    fn sizes_and_modes_are_checked() {
        assert!(parse(&["--max-event-log-size", "512M"]).is_ok());
        assert!(parse(&["--max-event-log-size", "lots"]).is_err());
        assert!(parse(&["--max-event-log-size", ""]).is_err());
        assert!(parse(&["--event-log-mode", "round"]).is_err());
    }

    #[test]
    fn what_gdb_knows_goes_to_gdb() {
        assert_eq!(parse(&["-interpreter=mi", "-nx", "-q"]).unwrap().for_gdb, ["--nx", "--interpreter=mi"]);
    }
}
