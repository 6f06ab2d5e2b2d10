# Rows of accesses come on standard input as CSV; the folder is the first argument and has the questions. Prints one JSON object.
import json, sys, time

folder = sys.argv[1]
questions = json.load(open(folder + "/questions.json"))
columns = ["position", "recording", "bbcount", "line", "start_at", "end_at", "kind", "clock_start", "clock_end"]

# The recording's own last access to the bytes, and the youngest accesses by anyone that its value may rest on.
LAST = """SELECT position, clock_end FROM accesses WHERE line = ? AND recording = ? AND bbcount < ? AND start_at < ? AND end_at > ?
          ORDER BY bbcount DESC LIMIT 1"""
ROWS = """SELECT position, recording, bbcount, kind FROM accesses WHERE line = ? AND clock_start <= ? AND start_at < ? AND end_at > ?
          AND (recording <> ? OR position <= ?) ORDER BY clock_start DESC LIMIT ?"""

begin = time.perf_counter()
try:
    import duckdb
    name = "DuckDB " + duckdb.__version__
    db = duckdb.connect(folder + "/db")
    # Whoever reads our output wants no progress bar in it.
    db.execute("SET enable_progress_bar = false; SET preserve_insertion_order = false; SET memory_limit = '6GB'; SET threads = 2")
    types = ", ".join(f"'{column}': '{'UTINYINT' if column == 'kind' else 'UBIGINT'}'" for column in columns)
    # Sorted, so that the ranges of values in its row groups say which to skip; and the index.
    db.execute(f"CREATE TABLE accesses AS SELECT * FROM read_csv('/dev/stdin', header = false, columns = {{{types}}}) ORDER BY line, clock_start")
    loaded = time.perf_counter()
    db.execute("CREATE INDEX by_line ON accesses(line)")
except ImportError:
    import csv, sqlite3
    name = "SQLite " + sqlite3.sqlite_version
    db = sqlite3.connect(folder + "/db")
    db.execute("PRAGMA journal_mode = OFF")
    db.execute("PRAGMA synchronous = OFF")
    db.execute("PRAGMA cache_size = -2000000")
    db.execute("CREATE TABLE accesses (" + ", ".join(column + " INTEGER" for column in columns) + ")")
    db.executemany("INSERT INTO accesses VALUES (" + ", ".join("?" * len(columns)) + ")", csv.reader(sys.stdin))
    loaded = time.perf_counter()
    db.execute("CREATE INDEX by_time ON accesses(line, recording, bbcount)")
    db.execute("CREATE INDEX by_clock ON accesses(line, clock_start)")
indexed = time.perf_counter()

def ask(q):
    last = db.execute(LAST, (q["line"], q["recording"], q["bbcount"], q["to"], q["from"])).fetchone()
    if last is None:
        return None, 0
    position, end = last
    rows = db.execute(ROWS, (q["line"], end, q["to"], q["from"], q["recording"], position, q["limit"])).fetchall()
    return position, len(rows)

times = []
# A few warm it; no more are asked than take a minute.
stop = time.perf_counter() + 60
for number, q in enumerate(questions[:20] + questions):
    start = time.perf_counter()
    position, rows = ask(q)
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
    "database": name, "database_load_ms": (loaded - begin) * 1e3, "database_index_ms": (indexed - loaded) * 1e3,
    "database_questions": len(times), "database_median_us": times[len(times) // 2], "database_p99_us": times[len(times) * 99 // 100],
}))
