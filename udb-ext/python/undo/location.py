"""Where the program stands, in the forms in which gdb itself tells it."""

import re

_LEVEL = re.compile(r"#\d+\s+")
_ADDRESS = re.compile(r"(0x[0-9a-f]+) in ")


def full(frame):
    """From the text of gdb's `frame`: as at a stop in a new place. `0x… in f (…) at file:line`, then the source line."""
    return _LEVEL.sub("", frame, count=1).rstrip("\n")


def short(frame):
    """As at a stop in the same function: address if amid a line, number and text of the line; or the full form without source."""
    text = full(frame)
    first, _, rest = text.partition("\n")
    if not re.match(r"\d+\t", rest):
        return text
    address = _ADDRESS.match(first)
    return (f"{address.group(1)}\t" if address else "") + rest
