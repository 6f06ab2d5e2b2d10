//! LTTng-UST, the tracer that people use for such things today, where it is installed (`liblttng-ust-dev`, `lttng-tools` and a C compiler).
//!
//! An event with the words of a record, into rings that overwrite the oldest (a snapshot session writes nothing to disk).
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const EVENTS: u64 = 500_000;
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Its daemon, in a home of its own.
struct Daemon<'a> {
    child: Child,
    home: &'a Path,
}

impl Daemon<'_> {
    fn lttng(&self, arguments: &[&str]) -> bool {
        quiet(Command::new("lttng").args(arguments).env("LTTNG_HOME", self.home))
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        self.lttng(&["destroy", "bench"]);
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

fn quiet(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// ns per event of one process; an error says why there is none.
pub fn event_ns() -> Result<f64, &'static str> {
    let dir = tempfile::tempdir().map_err(|_| "no temporary directory")?;
    let program = dir.path().join("lttng");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/log");
    let mut compile = Command::new("cc");
    compile.arg("-O2").arg("-I").arg(&sources).arg("-o").arg(&program).arg(sources.join("lttng.c")).args(["-llttng-ust", "-ldl"]);
    if !quiet(&mut compile) || !quiet(Command::new("lttng").arg("--version")) {
        return Err("not installed");
    }
    let mut daemon = Command::new("lttng-sessiond");
    daemon.env("LTTNG_HOME", dir.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let daemon = Daemon { child: daemon.spawn().map_err(|_| "no lttng-sessiond")?, home: dir.path() };
    let start = Instant::now();
    while !daemon.lttng(&["list"]) {
        if start.elapsed() > START_TIMEOUT {
            return Err("lttng-sessiond did not start");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let ready = daemon.lttng(&["create", "bench", "--snapshot"])
        && daemon.lttng(&["enable-channel", "-u", "--overwrite", "--subbuf-size=1M", "--num-subbuf=4", "ring"])
        && daemon.lttng(&["enable-event", "-u", "bench:access", "-c", "ring"])
        && daemon.lttng(&["start"]);
    if !ready {
        return Err("its session could not be set up");
    }
    let mut events = Command::new(program);
    events.arg(EVENTS.to_string()).arg("0").env("LTTNG_HOME", dir.path()).env("LTTNG_UST_REGISTER_TIMEOUT", "10000");
    let output = events.output().map_err(|_| "its program did not run")?;
    String::from_utf8_lossy(&output.stdout).trim().parse().map_err(|_| "its program was not traced")
}
