"""`ugo time`"""

from .. import times
from ..errors import UdbError


class Command:
    names = ("ugo time",)
    help = """Go to a time in the recorded history.
Usage: ugo time BBCOUNT[:PC] | +N | -N | $VARIABLE

A time is a count of basic blocks, with or without commas, and optionally the address of an instruction in that block, such as
2,822:0x5618d2d15c61. +N and -N are relative to the current time."""

    def invoke(self, session, argument):
        if not argument:
            raise UdbError("ugo time needs a time: BBCOUNT, BBCOUNT:PC, +N or -N")
        now = session.now()
        if argument.startswith("$"):
            wanted = session.debugger.integer(argument), None
        else:
            wanted = times.parse(argument, now[0])
        session.seek(wanted)
        session.show()
