"""`ublame`"""

import re

from .. import accesses
from ..errors import UdbError

_OPTION = re.compile(r"-(verbose|v|writers|w|-writers|-verbose)(?:\s+|\Z)")
_COUNT = re.compile(r"(.*),\s*(0x[0-9a-fA-F]+|[0-9]+)\Z", re.DOTALL)

# Older rows are left out unless asked for.
_ROWS = 200


class Range:
    """The bytes that a user asks about: an expression, an address, or either with a length after a comma."""

    def __init__(self, text):
        if not text:
            raise UdbError("ublame needs to know what: an expression such as &x, an address, or ADDRESS, LENGTH")
        counted = _COUNT.match(text)
        self.expression = counted.group(1).strip() if counted else text
        self.length = int(counted.group(2), 0) if counted else None

    def ask(self, session, **fields):
        session.place()
        address, length = session.debugger.place_of(self.expression)
        length = self.length or length
        reply = session.request("blame", address=address, length=length, **fields)
        if not reply["rows"] and not reply["reason"]:
            reply["reason"] = _reason(session, address, length)
        return reply


def _reason(session, address, length):
    status = session.request("shared", ranges=[[address, length]])["statuses"][0]
    if status == "private":
        return f"{address:#x} is not shared memory here: nobody but this process can have written it (`last` finds where)"
    return f"this recording has not accessed {address:#x} yet at this time"


class Command:
    names = ("ublame",)
    help = """List the accesses, by any process, that led to the value that shared memory has here.
Usage: ublame [-v] [-w] EXPRESSION[, LENGTH]

A pointer stands for what it points to, a variable for itself, a number for the byte at that address.
  -v, -verbose  show the value after each access, and the source line where it is known
  -w, -writers  only the accesses whose bytes are still there

A * marks this process's own accesses."""
    completer = "COMPLETE_EXPRESSION"

    def invoke(self, session, argument):
        verbose = writers = False
        option = _OPTION.match(argument)
        while option:
            verbose |= "v" in option.group(1)
            writers |= "w" in option.group(1)
            argument = argument[option.end() :]
            option = _OPTION.match(argument)
        reply = Range(argument).ask(session, limit=_ROWS, writers_only=writers, sources=verbose)
        if not reply["rows"]:
            raise UdbError(reply["reason"])
        numbers = session.numbers()

        def source(row):
            number = numbers.get(row["uuid"])
            return session.debugger.source_line(number, row["time"][1]) if number and row["time"] else None

        session.debugger.say(accesses.render(reply["rows"], numbers, source if verbose else None))
        if reply["omitted"]:
            session.debugger.say(f"(older accesses not shown: at most {reply['omitted']:,})")
        for note in reply["notes"]:
            session.debugger.say(note)
