"""The table of `ublame`, and the access that made a value."""

import os

from . import table, times


def number_of(row, numbers):
    """The inferior's number; `?` for a writer that was not recorded."""
    return numbers.get(row["uuid"], "?")


def render(rows, numbers, verbose=None):
    """`numbers` maps UUIDs to inferior numbers. `verbose` gives a row's source line, and adds it and the value to the table."""
    columns = [("Num", ">"), ("PID", ">"), ("Time in recording", "<"), ("Type", "<"), ("Address", "<"), ("Len", ">")]
    if verbose:
        columns += [("Value", "<"), ("Source", "<")]
    cells = []
    for row in rows:
        time = times.show(row["time"]) if row["time"] else "(not recorded)"
        kind = row["kind"] + (" ?" if row["unordered"] else "")
        pid = row["pid"] if row["uuid"] else "?"
        line = [number_of(row, numbers), pid, time, kind, f"{row['address']:#x}", row["length"]]
        if verbose:
            line += [value(row), os.path.basename(row["source"] or verbose(row) or "")]
        cells.append(line)
    return table.render(columns, cells, [row["own"] for row in rows])


def value(row):
    """The bytes after the access: as a number where they are one."""
    if not row["value"]:
        return ""
    content = bytes.fromhex(row["value"])
    if len(content) in (1, 2, 4, 8):
        return str(int.from_bytes(content, "little", signed=True))
    return content.hex(" ")


def origin(rows):
    """The newest write among the rows: where the value seen at the last one comes from."""
    return next((row for row in reversed(rows) if "write" in row["kind"]), None)
