"""Times in a history: `2,822:0x5618d2d15c61` is the state before the instruction at that address, within block 2,822."""

import re

from .errors import UdbError

NO_PC = (1 << 64) - 1

_NUMBER = r"[0-9][0-9,]*"
_ABSOLUTE = re.compile(rf"({_NUMBER})(?::(0x[0-9a-fA-F]+|[0-9]+))?\Z")
_RELATIVE = re.compile(rf"([+-])\s*({_NUMBER})\Z")


def number(text):
    """`232,759` or `232759`."""
    return int(text.replace(",", ""))


def parse_bbcount(text, now):
    """A number with or without commas, `now`, `+N` or `-N`; never below 0."""
    text = text.strip()
    if text == "now":
        return now
    relative = _RELATIVE.match(text)
    if relative:
        distance = number(relative.group(2))
        return max(0, now + distance if relative.group(1) == "+" else now - distance)
    if re.match(rf"{_NUMBER}\Z", text):
        return number(text)
    raise UdbError(f'"{text}" is not a bbcount: write a number, now, +N or -N')


def parse(text, now):
    """(bbcount, pc or None) of what a user wrote; `now` is the current bbcount."""
    text = text.strip()
    absolute = _ABSOLUTE.match(text)
    if absolute:
        pc = absolute.group(2)
        return number(absolute.group(1)), None if pc is None else int(pc, 0)
    if text == "now" or _RELATIVE.match(text):
        return parse_bbcount(text, now), None
    raise UdbError(f'"{text}" is not a time: write BBCOUNT, BBCOUNT:PC, +N or -N, such as 2,822:0x5618d2d15c61')


def show(time):
    bbcount, pc = time
    return f"{bbcount:,}:{pc:#x}"


def percent(now, begin, end):
    """How far into the recorded range, in whole percents."""
    length = end[0] - begin[0]
    return 0 if length <= 0 else (now[0] - begin[0]) * 100 // length


def prompt(now, begin, end, bookmarks=()):
    """`start 1> `, `99% 10,333> `, `end 225,575> `, with the bookmarks that are exactly here."""
    if now == begin:
        where = "start"
    elif now == end:
        where = "end"
    else:
        where = f"{percent(now, begin, end)}%"
    return " ".join([where, f"{now[0]:,}", *bookmarks]) + "> "


NOT_RUNNING = "not running> "
