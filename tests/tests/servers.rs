//! Servers as distributions ship them, that fork workers over shared memory: recorded as whole families while clients use them. What the
//! clients see, each replay and the access log must be right.
//!
//! A server that is not installed is left out, and the output says so.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use recording::Recording;
use tests::accesses::check_log;
use tests::run::run;
use tests::server::{NOBODY, Server};
use tests::{Ended, stage};

/// A directory that [`NOBODY`] owns, with the recorder in it: the staged one may lie where only we may look.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::Builder::new().prefix("srv").tempdir_in("/tmp").unwrap());
        for (directory, file) in [("bin", "live-record"), ("lib", "libundolr.so")] {
            fs::create_dir(place.path().join(directory)).unwrap();
            fs::copy(stage::stage().join(directory).join(file), place.path().join(directory).join(file)).unwrap();
        }
        fs::create_dir(place.path().join("recordings")).unwrap();
        for path in [place.path().to_owned(), place.path().join("recordings")] {
            if nix::unistd::geteuid().is_root() {
                chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// The command that records `argv` and all its descendants.
    fn recorded(&self, argv: &[&str]) -> Vec<OsString> {
        let mut command: Vec<OsString> = vec![self.path().join("bin/live-record").into()];
        let options = ["--on-fork", "both", "--shmem-log", "recordings/server.shmem", "-o", "recordings/server.undo"];
        command.extend(options.iter().chain(argv).map(OsString::from));
        command
    }

    /// Each recording replays exactly and none was cut short; the log shows no value that it does not explain.
    #[track_caller]
    fn check_recordings(&self, at_least: usize, said: &[String]) {
        assert!(!said.iter().any(|line| line.starts_with("undo:")), "{}", said.join("\n"));
        let mut recordings: Vec<PathBuf> =
            fs::read_dir(self.path().join("recordings")).unwrap().map(|entry| entry.unwrap().path()).collect();
        recordings.retain(|path| path.extension().is_some_and(|extension| extension == "undo"));
        assert!(recordings.len() >= at_least, "{recordings:?}");
        for recording in &recordings {
            Recording::open(recording).unwrap();
            let argv = [stage::program("undo-replay").into(), "verify".into(), recording.into()];
            let outcome = run(&argv, self.path(), b"").unwrap();
            let verdict = [outcome.stdout, outcome.stderr].concat();
            assert_eq!(outcome.ended, Ended::Exit(0), "{}", String::from_utf8_lossy(&verdict));
        }
        let accesses = check_log(&self.path().join("recordings/server.shmem")).unwrap().unwrap();
        println!("{} recordings, {accesses} accesses", recordings.len());
    }
}

/// Where a program is: on the path, or where Debian hides it.
fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    directories.extend(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    if let Ok(versions) = fs::read_dir("/usr/lib/postgresql") {
        directories.extend(versions.filter_map(|version| Some(version.ok()?.path().join("bin"))));
    }
    let found = directories.iter().flat_map(|directory| names.iter().map(|name| directory.join(name))).find(|path| path.is_file());
    if found.is_none() {
        println!("not installed, left out: {}", names[0]);
    }
    found
}

/// The body of the answer to a request for `path`.
fn get(socket: &Path, path: &str) -> Vec<u8> {
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&answer)));
    assert!(answer.starts_with(b"HTTP/1.1 200") || answer.starts_with(b"HTTP/1.0 200"), "{}", String::from_utf8_lossy(&answer[..end]));
    answer.split_off(end + 4)
}

/// Several clients at once, each with several requests for a file of `size` bytes.
fn clients(socket: &Path, path: &str, contents: &[u8]) {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    assert!(get(socket, path) == contents, "what {path} holds");
                }
            });
        }
    });
}

#[test]
fn nginx() {
    let Some(program) = find(&["nginx"]) else { return };
    let place = Place::new();
    let (root, socket) = (place.path(), place.path().join("socket"));
    let contents: Vec<u8> = (0..100_000_u32).flat_map(|number| (number.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()).collect();
    fs::write(root.join("file"), &contents).unwrap();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|kind| format!("{kind}_temp_path {}/{kind};", root.display()));
    let configuration = format!(
        "daemon off; worker_processes 2; pid {root}/pid; error_log stderr notice;
         events {{ worker_connections 64; }}
         http {{
           access_log {root}/access; {temporary}
           limit_req_zone $server_name zone=one:1m rate=100000r/s;
           proxy_cache_path {root}/cache keys_zone=two:1m;
           server {{
             listen unix:{socket}; root {root};
             location / {{ limit_req zone=one burst=1000 nodelay; }}
             location /twice/ {{ proxy_pass http://unix:{socket}:/; proxy_cache two; proxy_cache_valid 1m; }}
           }}
         }}",
        root = root.display(),
        socket = socket.display(),
        temporary = temporary.join(" "),
    );
    fs::write(root.join("configuration"), configuration).unwrap();
    let configuration = root.join("configuration");
    let argv = place.recorded(&[&program.to_string_lossy(), "-c", &configuration.to_string_lossy(), "-e", "stderr"]);
    let mut server = Server::start(&argv, root, true).unwrap();
    server.wait_for("start cache loader process").unwrap();
    clients(&socket, "/file", &contents);
    clients(&socket, "/twice/file", &contents);
    server.signal(Signal::SIGHUP).unwrap();
    server.wait_for("start cache loader process").unwrap();
    clients(&socket, "/file", &contents);
    server.signal(Signal::SIGQUIT).unwrap();
    let (ended, said) = server.finish().unwrap();
    assert_eq!(ended, Ended::Exit(0), "{}", said.join("\n"));
    // The master, and twice two workers and the cache's manager and loader.
    place.check_recordings(9, &said);
}

#[test]
fn postgresql() {
    let (Some(initdb), Some(program), Some(psql)) = (find(&["initdb"]), find(&["postgres"]), find(&["psql"])) else { return };
    let place = Place::new();
    let root = place.path();
    let data = root.join("data").to_string_lossy().into_owned();
    let initialise = [&initdb.to_string_lossy(), "-D", &data, "-A", "trust", "-U", "tester", "-N"].map(OsString::from);
    let (ended, said) = Server::start(&initialise, root, true).unwrap().finish().unwrap();
    assert_eq!(ended, Ended::Exit(0), "{}", said.join("\n"));
    let socket = root.to_string_lossy();
    let options = ["-D", &data, "-k", &socket, "-c", "listen_addresses=", "-c", "shared_buffers=4MB", "-c", "logging_collector=off"];
    let argv = place.recorded(&[&[&*program.to_string_lossy()][..], &options].concat());
    let mut server = Server::start(&argv, root, true).unwrap();
    server.wait_for("ready to accept connections").unwrap();
    let ask = |sql: &str| {
        let argv =
            [&psql.to_string_lossy(), "-h", &socket, "-U", "tester", "-d", "postgres", "-qtA", "-v", "ON_ERROR_STOP=1"].map(OsString::from);
        let home = tempfile::tempdir().unwrap();
        let outcome = run(&argv, home.path(), sql.as_bytes()).unwrap();
        let said = String::from_utf8_lossy(&[outcome.stdout, outcome.stderr].concat()).into_owned();
        assert_eq!(outcome.ended, Ended::Exit(0), "{said}");
        said
    };
    ask("create table account(id int primary key, balance int); insert into account select i, 0 from generate_series(1, 500) i");
    std::thread::scope(|scope| {
        for client in 0..3 {
            scope.spawn(move || {
                let rounds =
                    (0..10).map(|round| format!("update account set balance = balance + 1 where id % 10 = {};", (client + round) % 10));
                ask(&rounds.collect::<String>())
            });
        }
    });
    assert_eq!(ask("vacuum account"), "");
    assert_eq!(ask("select sum(balance), count(*) from account"), "1500|500\n");
    server.signal(Signal::SIGINT).unwrap();
    let (ended, said) = server.finish().unwrap();
    assert_eq!(ended, Ended::Exit(0), "{}", said.join("\n"));
    place.check_recordings(10, &said);
}

#[test]
fn workers_of_python_over_one_segment() {
    // Not what a version manager puts in front: that is a shell script, which executes the interpreter.
    let program = Path::new("/usr/bin/python3");
    if !program.exists() {
        println!("not installed, left out: {}", program.display());
        return;
    }
    let place = Place::new();
    let script = r#"
import multiprocessing as mp
from multiprocessing import shared_memory

def work(name, number, total, lock):
    segment = shared_memory.SharedMemory(name=name)
    for _ in range(200):
        with lock:
            total.value += 1
        segment.buf[number] = (segment.buf[number] + 1) % 256
    segment.close()

mp.set_start_method('fork')
segment = shared_memory.SharedMemory(create=True, size=4096)
total, lock = mp.Value('i', 0, lock=False), mp.Lock()
workers = [mp.Process(target=work, args=(segment.name, number, total, lock)) for number in range(4)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
print(total.value, list(segment.buf[:5]))
segment.close()
segment.unlink()
"#;
    fs::write(place.path().join("script.py"), script).unwrap();
    let outcome = run(&place.recorded(&[&program.to_string_lossy(), "script.py"]), place.path(), b"").unwrap();
    let said: Vec<String> = String::from_utf8_lossy(&outcome.stderr).lines().map(str::to_owned).collect();
    assert_eq!((outcome.ended, &*String::from_utf8_lossy(&outcome.stdout)), (Ended::Exit(0), "800 [200, 200, 200, 200, 0]\n"), "{said:?}");
    place.check_recordings(5, &said);
}
