"""The event log: walking it in pages, and an event as a line."""

import re

from . import times
from .conditions import Event
from .errors import UdbError

_OPTION = re.compile(r"\s*-(limit|l|min|a|max|b|quiet|q)(?:\s+|\Z)")


def walk(request, condition, limit=None, **bounds):
    """The events that satisfy the condition, page by page.

    `request` asks the server; `limit` bounds the events considered. Between pages a Ctrl-C is noticed.
    """
    left = limit
    cursor = None
    while left is None or left > 0:
        fields = dict(bounds)
        if condition.name is not None:
            fields["name"] = condition.name
        if cursor is not None:
            fields["cursor"] = cursor
        if left is not None:
            fields["limit"] = left
        page = request("events", **fields)
        for row in page["events"]:
            if condition.accepts(row):
                yield Event._make(row)
        cursor = page["cursor"]
        if cursor is None:
            return
        if left is not None:
            left -= page["scanned"]


def line(event):
    """`time=3,264:0xffffffffffffffff: openat. result=0x3 size=80.`"""
    parts = f"result={event.result:#x} " if event.syscall is not None else ""
    if event.address:
        parts += f"address={event.address:#x} "
    if event.name == "RDTSC":
        parts += f"timestamp={event.timestamp:#x} "
    if event.signum:
        parts += f"signum={event.signum} "
    if event.tid:
        parts += f"tid={event.tid} "
    return f"time={times.show((event.bbcount, event.pc))}: {event.name}. {parts}size={event.size}."


def parse_options(text, now):
    """(bounds, limit, quiet, condition text) of the arguments of `uinfo events`."""
    bounds, limit, quiet = {}, None, False
    while True:
        option = _OPTION.match(text)
        if option is None:
            return bounds, limit, quiet, text.strip()
        name, text = option.group(1)[0], text[option.end() :]
        if option.group(1) in ("q", "quiet"):
            quiet = True
            continue
        word, _, text = text.partition(" ")
        if not word:
            raise UdbError(f"-{option.group(1)} needs a number after it")
        if name == "l":
            if not re.match(r"[0-9][0-9,]*\Z", word):
                raise UdbError(f'"{word}" is not a number of events')
            limit = times.number(word)
        elif option.group(1) in ("a", "min"):
            bounds["min"] = times.parse_bbcount(word, now)
        else:
            bounds["max"] = times.parse_bbcount(word, now)
