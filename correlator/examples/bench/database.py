# python3 -c … FOLDER load: rows of accesses come on standard input as CSV, and go to a database in the folder.
# python3 -c … FOLDER ask: asks it what is in the folder's questions.json, and prints one JSON object.
import json, sys, time

folder, what = sys.argv[1:]
columns = ["position", "recording", "bbcount", "line", "start_at", "end_at", "kind", "clock_start", "clock_end"]

# The recording's own last access to the bytes, and the youngest accesses by anyone that its value may rest on.
LAST = """SELECT position, clock_end FROM accesses WHERE line = ? AND recording = ? AND bbcount < ? AND start_at < ? AND end_at > ?
          ORDER BY bbcount DESC LIMIT 1"""
ROWS = """SELECT position, recording, bbcount, kind FROM accesses WHERE line = ? AND clock_start <= ? AND start_at < ? AND end_at > ?
          AND (recording <> ? OR position <= ?) ORDER BY clock_start DESC LIMIT ?"""

try:
    import duckdb
except ImportError:
    duckdb = None
    import csv, sqlite3

def open_database():
    if duckdb:
        db = duckdb.connect(folder + "/db")
        # Whoever reads our output wants no progress bar in it.
        db.execute("SET enable_progress_bar = false; SET preserve_insertion_order = false; SET memory_limit = '6GB'; SET threads = 2")
        return "DuckDB " + duckdb.__version__, db
    db = sqlite3.connect(folder + "/db")
    db.execute("PRAGMA journal_mode = OFF")
    db.execute("PRAGMA synchronous = OFF")
    db.execute("PRAGMA cache_size = -2000000")
    return "SQLite " + sqlite3.sqlite_version, db

def load(db):
    if duckdb:
        types = ", ".join(f"'{column}': '{'UTINYINT' if column == 'kind' else 'UBIGINT'}'" for column in columns)
        # Sorted, so that the ranges of values in its row groups say which to skip.
        db.execute(f"CREATE TABLE accesses AS SELECT * FROM read_csv('/dev/stdin', header = false, columns = {{{types}}}) ORDER BY line, clock_start")
    else:
        db.execute("CREATE TABLE accesses (" + ", ".join(column + " INTEGER" for column in columns) + ")")
        db.executemany("INSERT INTO accesses VALUES (" + ", ".join("?" * len(columns)) + ")", csv.reader(sys.stdin))
        db.commit()

def make_index(db):
    if duckdb:
        db.execute("CREATE INDEX by_line ON accesses(line)")
        db.execute("CHECKPOINT")
    else:
        db.execute("CREATE INDEX by_time ON accesses(line, recording, bbcount)")
        db.execute("CREATE INDEX by_clock ON accesses(line, clock_start)")

def ask(db, q):
    last = db.execute(LAST, (q["line"], q["recording"], q["bbcount"], q["to"], q["from"])).fetchone()
    if last is None:
        return None, 0
    position, end = last
    rows = db.execute(ROWS, (q["line"], end, q["to"], q["from"], q["recording"], position, q["limit"])).fetchall()
    return position, len(rows)

name, db = open_database()
if what == "load":
    begin = time.perf_counter()
    load(db)
    loaded = time.perf_counter()
    make_index(db)
    indexed = time.perf_counter()
    db.close()
    with open(folder + "/loaded.json", "w") as file:
        json.dump({"database_load_ms": (loaded - begin) * 1e3, "database_index_ms": (indexed - loaded) * 1e3}, file)
    sys.exit()

questions = json.load(open(folder + "/questions.json"))
times = []
# A few warm it; no more are asked than take a minute.
stop = time.perf_counter() + 60
for number, q in enumerate(questions[:20] + questions):
    start = time.perf_counter()
    position, rows = ask(db, q)
    end = time.perf_counter()
    if number >= 20:
        times.append((end - start) * 1e6)
    assert position == q["last"], (name, q, position)
    # What values show to have come later is left out there, not here; of less than a whole history all the same.
    assert rows >= q["rows"], (name, q, rows)
    if end > stop and len(times) >= 10:
        break
times.sort()
print(json.dumps({
    "database": name, **json.load(open(folder + "/loaded.json")),
    "database_questions": len(times), "database_median_us": times[len(times) // 2], "database_p99_us": times[len(times) * 99 // 100],
}))
