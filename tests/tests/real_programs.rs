//! Programs of the system, each on a small task, natively, recorded and replayed.

use std::path::PathBuf;

use tests::random::Random;
use tests::{Ended, Program, check, pool};

/// A task: its name, the command, and what differs from a program without input that ends well.
struct Task {
    name: &'static str,
    program: Program,
}

fn task<const N: usize>(name: &'static str, argv: [&str; N]) -> Task {
    Task { name, program: Program::new(argv) }
}

impl Task {
    fn stdin(mut self, text: impl Into<Vec<u8>>) -> Task {
        self.program.stdin = text.into();
        self
    }

    fn file(mut self, name: &str, contents: impl Into<Vec<u8>>) -> Task {
        self.program.files.push((PathBuf::from(name), contents.into()));
        self
    }

    fn exits(mut self, status: i32) -> Task {
        self.program.ends = Ended::Exit(status);
        self
    }

    fn stops(mut self, reason: &str) -> Task {
        self.program.stops = Some(reason.to_owned());
        self
    }
}

/// Checks the tasks whose program is installed; at least one must be.
fn check_tasks(tasks: Vec<Task>) {
    let (here, missing): (Vec<Task>, Vec<Task>) = tasks.into_iter().partition(|task| is_installed(&task.program.argv[0].to_string_lossy()));
    for task in missing {
        println!("not installed, left out: {}", task.name);
    }
    pool::run_all(&here, |task| task.name.to_owned(), |task| check(&task.program));
}

/// How much the largest sort sorts: `UNDO_SORT_MB`.
fn sort_megabytes() -> u64 {
    std::env::var("UNDO_SORT_MB").ok().and_then(|megabytes| megabytes.parse().ok()).unwrap_or(20)
}

fn is_installed(program: &str) -> bool {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|directory| directory.join(program).is_file())
}

/// Lines that look random and are always the same.
fn lines(count: u64) -> String {
    let mut random = Random::new(1);
    let mut text = String::new();
    for number in 0..count {
        text += &format!("{} line {number} of {:x} with some words\n", random.below(100_000), random.bits() >> 32);
    }
    text
}

#[test]
fn coreutils() {
    check_tasks(vec![
        task("echo", ["echo", "one", "two"]),
        task("false", ["false"]).exits(1),
        task("cat", ["cat", "-n", "a", "-", "a"]).stdin("from stdin\n").file("a", "in a file\n"),
        task("cat missing", ["cat", "missing"]).exits(1),
        task("ls", ["ls", "-A", "-1", "-F", "--color=always"]).file("b", "x").file("d/c", "y").file("a", "z"),
        task("ls all", ["ls", "-la", "/etc"]),
        task("sort of much", ["sort", "--parallel=1", "in", "-o", "out"]).file("in", lines(21_000 * sort_megabytes())),
        task("ls long", ["ls", "-l", "--time-style=+%Y", "/etc/passwd", "/usr/bin"]),
        task("sort", ["sort", "--parallel=1", "-n", "-k1"]).stdin(lines(20_000)),
        task("sort unique", ["sort", "--parallel=1", "-u", "-r", "-t", " ", "-k3", "in", "-o", "out"]).file("in", lines(3_000)),
        task("uniq", ["uniq", "-c"]).stdin("a\na\nb\na\n"),
        task("wc", ["wc", "-lwcmL"]).stdin(lines(2_000)),
        task("sha256sum", ["sha256sum", "in", "-"]).file("in", lines(30_000)).stdin("abc"),
        task("md5sum", ["md5sum"]).stdin(lines(5_000)),
        task("b2sum", ["b2sum"]).stdin(lines(5_000)),
        task("cksum", ["cksum"]).stdin(lines(5_000)),
        task("cut", ["cut", "-d", " ", "-f", "1,4-"]).stdin(lines(2_000)),
        task("tr", ["tr", "a-z", "A-Z"]).stdin(lines(2_000)),
        task("seq", ["seq", "-w", "1", "0.5", "500"]),
        task("factor", ["factor", "18446744073709551557", "340282366920938463463374607431768211455", "123456789012345678"]),
        task("od", ["od", "-A", "x", "-t", "x1z"]).stdin(lines(100)),
        task("base64", ["base64", "-w", "60"]).stdin(lines(1_000)),
        task("tac", ["tac"]).stdin(lines(1_000)),
        task("shuf", ["shuf", "--random-source=in", "in"]).file("in", lines(500)),
        task("split", ["split", "-l", "100", "-d", "in", "part-"]).file("in", lines(1_050)),
        task("csplit", ["csplit", "-z", "in", "/ 5 of/", "{1}"]).file("in", lines(200).replace("line 15 of", "line 5 of")),
        task("expr", ["expr", "17", "*", "(", "3", "+", "4", ")"]),
        task("date", ["date", "-d", "@86400000", "+%F %T %A"]),
        task("stat", ["stat", "-c", "%s %a %F %h", "in", "/"]).file("in", "12345"),
        task("du", ["du", "-b", "--apparent-size", "d"]).file("d/a", lines(100)).file("d/e/b", lines(50)),
        task("head and tail", ["tail", "-n", "+90", "in"]).file("in", lines(100)),
        task("tail bytes", ["tail", "-c", "100"]).stdin(lines(100)),
        task("paste", ["paste", "-d", ",", "a", "b"]).file("a", "1\n2\n").file("b", "x\ny\nz\n"),
        task("join", ["join", "a", "b"]).file("a", "1 a\n2 b\n").file("b", "1 x\n2 y\n"),
        task("comm", ["comm", "a", "b"]).file("a", "1\n2\n").file("b", "2\n3\n"),
        task("fmt", ["fmt", "-w", "50"]).stdin(lines(100)),
        task("fold", ["fold", "-s", "-w", "20"]).stdin(lines(100)),
        task("nl", ["nl", "-ba"]).stdin(lines(50)),
        task("expand", ["expand", "-t", "4"]).stdin("a\tb\tc\n"),
        task("numfmt", ["numfmt", "--to=iec", "1234567890"]),
        task("printf", ["printf", "%05d|%s|%x|%e\\n", "42", "text", "255", "1.5"]),
        task("tee", ["tee", "a", "b"]).stdin("to three places\n"),
        task("dd", ["dd", "if=in", "of=out", "bs=1000", "count=3", "skip=1", "status=none"]).file("in", lines(500)),
        task("cp", ["cp", "-r", "-p", "d", "e"]).file("d/a", "1").file("d/b/c", "2"),
        task("mv", ["mv", "a", "b"]).file("a", "1"),
        task("ln", ["ln", "-s", "a", "b"]).file("a", "1"),
        task("rm", ["rm", "-r", "-v", "d"]).file("d/a", "1").file("d/b/c", "2"),
        task("mkdir", ["mkdir", "-p", "-m", "700", "x/y/z"]),
        task("touch", ["touch", "-d", "2020-01-01", "new"]),
        task("chmod", ["chmod", "-v", "751", "a"]).file("a", "1"),
        task("truncate", ["truncate", "-s", "10K", "a"]).file("a", "1"),
        task("readlink", ["readlink", "-f", "."]),
        task("pwd", ["/bin/pwd"]),
        task("env", ["printenv", "HOME", "LD_PRELOAD", "TZ"]).exits(1),
        task("id", ["id"]),
        task("uname", ["uname", "-s", "-m"]),
        task("nproc", ["nproc", "--all"]),
        task("tsort", ["tsort"]).stdin("a b\nb c\na c\n"),
        task("timeout", ["timeout", "60", "sh", "-c", "echo in time; exit 5"]).exits(5),
        task("test", ["test", "-d", "missing"]).exits(1),
        task("sync", ["sync", "a"]).file("a", "1"),
    ]);
}

#[test]
fn text_tools() {
    check_tasks(vec![
        task("grep", ["grep", "-n", "-E", "(1|7)+ of [0-9a-f]{6}", "in"]).file("in", lines(5_000)),
        task("grep perl", ["grep", "-o", "-P", "\\d+(?= line)"]).stdin(lines(1_000)),
        task("grep nothing", ["grep", "-c", "nothing"]).stdin(lines(1_000)).exits(1),
        task("grep tree", ["grep", "-r", "-l", "needle", "."]).file("a/x", "needle").file("a/y", "hay").file("b", "needle"),
        task("sed", ["sed", "-E", "-e", "s/([0-9]+) line/<\\1>/g", "-e", "/7/d", "-e", "5q"]).stdin(lines(100)),
        task("sed in place", ["sed", "-i.old", "y/abc/xyz/", "in"]).file("in", lines(100)),
        task("awk", ["awk", "{ sum += $1; words[$5]++ } END { print sum, length(words); printf \"%.3f\\n\", sqrt(sum) }"])
            .stdin(lines(5_000)),
        task(
            "awk pipe",
            ["awk", "BEGIN { while ((\"echo a; echo b\" | getline x) > 0) print \"got\", x; system(\"exit 3\"); print log(10) }"],
        ),
        task("diff", ["diff", "-u", "--label", "a", "--label", "b", "a", "b"])
            .file("a", lines(100))
            .file("b", lines(100).replace("line 50", "LINE 50"))
            .exits(1),
        task("cmp", ["cmp", "a", "b"]).file("a", "abc").file("b", "abd").exits(1),
        task("find", ["find", ".", "-type", "f", "-size", "-2", "-name", "*.c", "-print"])
            .file("a/x.c", "1")
            .file("b/y.h", "2")
            .file("z.c", "3"),
        task("find exec", ["find", ".", "-name", "*.c", "-exec", "wc", "-c", "{}", ";"]).file("x.c", "123"),
        task("xargs", ["xargs", "-n", "2", "echo", "pair"]).stdin("a b c d e\n"),
        task("bc", ["bc", "-l"]).stdin("scale=50\n4*a(1)\n2^200\nfor (i=0; i<5; i++) i^3\n"),
        task("dc", ["dc"]).stdin("30k 2 v p 7 3 / p\n"),
        task("file", ["file", "-b", "in"]).file("in", "#!/bin/sh\necho\n"),
        task("strings", ["strings", "-n", "8", "in"]).file("in", "\0\0some text here\0\u{1}more text here\0"),
        task("m4", ["m4"]).stdin("define(`x', `$1-$1')x(5) eval(2**10)\n"),
    ]);
}

#[test]
fn archives() {
    check_tasks(vec![
        task("gzip", ["gzip", "-n", "-9", "-k", "in"]).file("in", lines(10_000)),
        task("gzip twice", ["sh", "-c", "gzip -c | gunzip -c | cksum"]).stdin(lines(5_000)),
        task("gunzip", ["gzip", "-d", "-t", "in"]).file("in", "not compressed").exits(1),
        task("gunzip, a script", ["gunzip", "-c"]).stdin("not compressed").exits(1).stops("executes another program"),
        task("xz", ["xz", "-T1", "-6", "-k", "in"]).file("in", lines(3_000)),
        task("bzip2", ["bzip2", "-k", "in"]).file("in", lines(3_000)),
        task("zstd", ["zstd", "-q", "in"]).file("in", lines(3_000)).stops("a second thread"),
        task("tar", ["tar", "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "-cf", "out.tar", "d"])
            .file("d/a", lines(100))
            .file("d/b/c", lines(50)),
        task("tar gzip", ["tar", "--mtime=@0", "-czf", "out.tgz", "d"]).file("d/a", lines(100)),
    ]);
}

#[test]
fn shells() {
    let script = r#"
        set -u
        for i in $(seq 1 5); do echo "i=$i $((i * i))"; done
        (cd /; pwd; exit 3) || echo "subshell said $?"
        cat <<END
        here: $HOME
END
        seq 1 100 | grep 7 | while read -r n; do echo -n "$n "; done; echo
        f() { local x=$1; [ "$x" -le 0 ] && return 7; f $((x - 1)); }
        f 5; echo "f $?"
        trap 'echo trapped' USR1; kill -USR1 $$; trap 'echo leaving' EXIT
        sleep 0 & wait $!; echo "waited $?"
        x=$(printf 'a\nb\n' | tail -1); echo "$x" > file; wc -c < file
        case "$x" in b) echo "is b";; esac
        echo error >&2; false | true; echo "status $?"
    "#;
    let more = r#"
        declare -A map; for w in a b a c a; do map[$w]=$((${map[$w]:-0} + 1)); done; echo "${map[a]} ${#map[@]}"
        printf '%s\n' {1..5} | mapfile -t list; echo "${list[@]:-empty}"
        while read -r a b; do echo "$b $a"; done < <(printf '1 2\n3 4\n')
        [[ "abc123" =~ ([a-z]+)([0-9]+) ]] && echo "${BASH_REMATCH[2]}"
        set -o pipefail; (exit 4) | cat; echo "$?"; kill -TERM $$
    "#;
    let mut dies = task("bash dies", ["bash", "-c", more]);
    dies.program.ends = Ended::Signal(15);
    check_tasks(vec![
        task("bash", ["bash", "-c", script]),
        task("dash", ["dash", "-c", script]),
        dies,
        task("bash loop", ["bash", "-c", "n=0; for ((i = 0; i < 3000; i++)); do n=$((n + i % 7)); done; echo $n"]),
        task("bash file", ["bash", "script", "x y", "z"]).file("script", "echo \"$# $1\"; exit 9\n").exits(9),
        task("bash execs its last command", ["bash", "-c", "echo first; ls"]).file("a", "1").stops("executes another program"),
        task("exec in a shell", ["bash", "-c", "echo one; exec echo two"]).stops("executes another program"),
    ]);
}

#[test]
fn interpreters() {
    let python = "
import json, re, hashlib, collections, random, math, struct, zlib, decimal, itertools
random.seed(5)
data = [{'id': i, 'name': 'n%d' % (i * 7919 % 1000), 'v': random.random()} for i in range(3000)]
text = json.dumps(data, sort_keys=True)
print(hashlib.sha256(text.encode()).hexdigest(), len(json.loads(text)))
print(collections.Counter(m.group(1) for m in re.finditer(r'n(\\d)\\d+', text)).most_common(3))
print(zlib.crc32(text.encode()), len(zlib.compress(text.encode(), 6)))
print(math.fsum(d['v'] for d in data), decimal.Decimal(2).sqrt(), struct.pack('<dI', 1.5, 7).hex())
print(sum(1 for p in itertools.permutations(range(6)) if p[0] < p[-1]))
";
    let system = "
import os, sys, subprocess, tempfile, time, signal, select, mmap, threading
print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout)
r, w = os.pipe()
pid = os.fork()
if pid == 0:
    os.write(w, b'from the child'); os._exit(7)
print(os.read(r, 100), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
signal.signal(signal.SIGUSR1, lambda s, f: print('signal', s)); os.kill(os.getpid(), signal.SIGUSR1)
with open('out', 'w') as f: f.write('x' * 10000)
with open('out', 'r+b') as f:
    m = mmap.mmap(f.fileno(), 0); m[5:10] = b'hello'; print(m[:12]); m.close()
print(time.time() > 1e9, sorted(os.listdir('.')), sys.argv)
try: 1 / 0
except ZeroDivisionError as e: print(e)
sys.exit(3)
";
    let many = "
import json, re, hashlib
items = [{'id': i, 'name': 'item %d' % (i * 7919 % 100003), 'tags': [i % 7, i % 11]} for i in range(50000)]
text = json.dumps(items)
back = json.loads(text)
found = re.findall(r'item (\\d*7\\d)\\b', text)
total = hashlib.sha256()
for item in back: total.update(hashlib.md5(item['name'].encode()).digest())
print(len(text), len(found), found[:3], total.hexdigest(), back == items)
";
    let threads = "
import threading
out = []
t = [threading.Thread(target=lambda i=i: out.append(i * i)) for i in range(4)]
[x.start() for x in t]; [x.join() for x in t]
print(sorted(out))
";
    let perl = r#"
        my %count; my $text = join ' ', map { $_ * 7919 % 1000 } 1 .. 5000;
        $count{length $_}++ for split / /, $text;
        print join(',', map { "$_=$count{$_}" } sort keys %count), "\n";
        (my $x = $text) =~ s/(\d)(\d)/$2$1/g; print length($x), " ", unpack('%32C*', $x), "\n";
        open my $p, '-|', 'echo piped' or die; print <$p>; close $p;
        my $pid = fork; if (!$pid) { exit 5 } waitpid $pid, 0; print $? >> 8, "\n";
        local $SIG{ALRM} = sub { print "alarm\n" }; kill ALRM => $$; printf "%.5f\n", sin 1; eval { die "oops\n" }; print $@; exit 4;
    "#;
    let sql = sql_script();
    let interpreter = python_interpreter();
    let interpreter = interpreter.as_str();
    check_tasks(vec![
        task("python", [interpreter, "-c", python]),
        task("python, 50,000 items", [interpreter, "-c", many]),
        task("python system", [interpreter, "-c", system, "argument"]).exits(3),
        task("python threads", [interpreter, "-c", threads]).stops("a second thread"),
        task("python error", [interpreter, "-c", "import nothing_like_it"]).exits(1),
        task("perl", ["perl", "-e", perl]).exits(4),
        task("sqlite3", ["sqlite3", "-batch", "db"]).stdin(sql.clone()),
        task("sqlite3 in memory", ["sqlite3", "-batch", ":memory:"]).stdin(sql.clone()),
        task("sqlite3 write-ahead log", ["sqlite3", "-batch", "db"]).stdin(format!("pragma journal_mode=wal;\n{sql}")),
    ]);
}

/// Python itself: the name on the path may be a script that looks for it.
fn python_interpreter() -> String {
    let asked = std::process::Command::new("python3").args(["-c", "import os, sys; print(os.path.realpath(sys.executable))"]).output();
    asked.ok().and_then(|output| String::from_utf8(output.stdout).ok()).map_or("python3".into(), |path| path.trim().to_owned())
}

fn sql_script() -> String {
    let mut sql =
        String::from("create table t(id integer primary key, name text, value real);\ncreate index by_name on t(name);\nbegin;\n");
    for i in 0..30 {
        sql += &format!(
            "insert into t(name, value) with recursive n(x) as (select 1 union all select x + 1 from n where x < 20) select 'n' || (x * {i} % 17), x * 1.5 + {i} from n;\n"
        );
    }
    sql += "commit;\n";
    for i in 0..12 {
        sql += &format!("select name, count(*), sum(value), avg(id) from t where id % 13 <> {i} group by name order by 3 desc limit 3;\n");
    }
    sql += "update t set value = value * 2 where name like 'n1%';\ndelete from t where id % 5 = 0;\nvacuum;\nselect count(*), total(value) from t;\n";
    sql += "select group_concat(name, '') from (select distinct name from t order by name);\nexplain query plan select * from t where name = 'n3';\npragma integrity_check;\n";
    sql
}

#[test]
fn developers_tools() {
    const SOURCE: &str = "#include <stdio.h>\nint main(void) { for (int i = 0; i < 3; i++) printf(\"%d\\n\", i); return 0; }\n";
    let git = "git init -q -b main . && git -c user.name=a -c user.email=b commit -q --allow-empty -m first && echo text > f && git add f && git status --short && git -c user.name=a -c user.email=b commit -q -m second && git log --format=%s && git diff HEAD~1 --stat && rm -rf .git";
    check_tasks(vec![
        task("gcc", ["gcc", "-O2", "-c", "x.c"]).file("x.c", SOURCE),
        task("gcc error", ["gcc", "-c", "x.c"]).file("x.c", "int main(void) { return y; }\n").exits(1),
        task("cc1", ["sh", "-c", "$(gcc -print-prog-name=cc1) -quiet -O2 x.i -o x.s"]).file("x.i", "int f(int a) { return a * 3 + 1; }\n"),
        task("as", ["as", "-o", "x.o", "x.s"]).file("x.s", "f: mov $5, %eax\n ret\n"),
        task("make", ["make", "-s"]).file("Makefile", "all: b\n\tcat b\nb: a\n\tsort a > b; echo made\n").file("a", "2\n1\n"),
        task("git", ["sh", "-c", git]),
        task("git version", ["git", "--version"]),
        task("openssl", ["openssl", "dgst", "-sha512", "in"]).file("in", lines(1_000)),
        task(
            "openssl cipher",
            [
                "openssl",
                "enc",
                "-aes-256-cbc",
                "-K",
                "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
                "-iv",
                "000102030405060708090a0b0c0d0e0f",
                "-in",
                "in",
                "-out",
                "out",
            ],
        )
        .file("in", lines(1_000)),
        task("nm", ["nm", "-D", "/usr/lib/x86_64-linux-gnu/libm.so.6"]),
        task("objdump", ["objdump", "-d", "--start-address=0x0", "--stop-address=0x100", "/usr/bin/true"]),
        task("readelf", ["readelf", "-hlS", "/usr/bin/true"]),
        task("ldd", ["bash", "/usr/bin/ldd", "--version"]),
    ]);
}
