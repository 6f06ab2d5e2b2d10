//! The recordings that are running on this machine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use comfy_table::{Table, presets};

use crate::launch::SNAPSHOT_NAME;

struct Session {
    pid: i32,
    user: String,
    age: Duration,
    program: String,
}

/// Prints the processes of all users that are being recorded, however their recordings were started.
pub fn list() -> Result<()> {
    let mut sessions = Vec::new();
    for entry in fs::read_dir("/proc").context("cannot list /proc")? {
        let path = entry?.path();
        // What ends meanwhile is not listed.
        sessions.extend(session(&path));
    }
    sessions.sort_by_key(|session| session.pid);
    if sessions.is_empty() {
        println!("No process is being recorded.");
        return Ok(());
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["PID", "USER", "RECORDED FOR", "PROGRAM"]);
    for session in sessions {
        let time = humantime::format_duration(Duration::from_secs(session.age.as_secs())).to_string();
        table.add_row([session.pid.to_string(), session.user, time, session.program]);
    }
    println!("{table}");
    Ok(())
}

/// The recorded process whose snapshot this /proc entry is, if it is one.
fn session(snapshot: &Path) -> Option<Session> {
    snapshot.file_name()?.to_str()?.parse::<i32>().ok()?;
    let name = fs::read(snapshot.join("comm")).ok()?;
    if name.strip_suffix(b"\n")? != SNAPSHOT_NAME.to_bytes() {
        return None;
    }
    let status = fs::read_to_string(snapshot.join("status")).ok()?;
    let parent: i32 = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
    let metadata = fs::metadata(snapshot).ok()?;
    let arguments = fs::read(format!("/proc/{parent}/cmdline")).ok()?;
    let user = nix::unistd::User::from_uid(metadata.uid().into()).ok().flatten();
    Some(Session {
        pid: parent,
        user: user.map_or_else(|| metadata.uid().to_string(), |user| user.name),
        age: age(snapshot)?,
        program: String::from_utf8_lossy(&arguments).trim_end_matches('\0').replace('\0', " "),
    })
}

/// How long a process has been there.
fn age(process: &Path) -> Option<Duration> {
    let ticks_per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()?? as f64;
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    // Field 22; the second is in parentheses and may hold anything.
    let start: f64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let uptime: f64 = fs::read_to_string("/proc/uptime").ok()?.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_secs_f64((uptime - start / ticks_per_second).max(0.0)))
}
