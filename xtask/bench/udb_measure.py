"""Runs inside `udb` on the recording of udb_workload.c, and prints one line of JSON: see `xtask/src/bench_udb.rs`."""

import json
import os
import random
import re
import statistics
import time

import gdb

CELLS = 1 << 16
REPEATS = 30

load = time.monotonic() - float(os.environ["UNDO_BENCH_START"])


def timed(command):
    begun = time.monotonic()
    text = gdb.execute(command, to_string=True)
    return time.monotonic() - begun, text


chance = random.Random(1)
end, _ = timed("ugo end")
gdb.execute("up-silently 50")
cell = lambda: f"ublame &cells[{chance.randrange(CELLS)}]"
first, _ = timed(cell())
blames, tables = zip(*(timed(cell()) for _ in range(REPEATS)))
rows = [re.findall(r"[0-9,]+:0x[0-9a-f]+", line) for table in tables for line in table.splitlines() if line.startswith("      2")]
times = chance.sample([row[0] for row in rows], 12)
first_visit, _ = timed(f"ugo inferior 2 {times[0]}")
for place in times:
    # Been there: its checkpoints are made.
    timed(f"ugo inferior 2 {place}")
visits = []
for place in times:
    timed("ugo inferior 1")
    seconds, _ = timed(f"ugo inferior 2 {place}")
    visits.append(seconds)
print(
    json.dumps(
        {
            "load_s": load,
            "ublame_ms": 1000 * statistics.median(blames),
            "ublame_max_ms": 1000 * max(blames),
            "ublame_first_s": first,
            "ugo_end_s": end,
            "ugo_inferior_s": statistics.median(visits),
            "ugo_inferior_max_s": max(visits),
            "ugo_inferior_first_s": first_visit,
        }
    )
)
