"""`ugo blame`"""

from .. import accesses, times
from ..errors import UdbError
from .ublame import Range


class Command:
    names = ("ugo blame",)
    help = """Go to the access that produced the current value, in whichever process.
Usage: ugo blame EXPRESSION

As if `ublame EXPRESSION` had been read and `ugo inferior` given the newest write."""
    completer = "COMPLETE_EXPRESSION"

    def invoke(self, session, argument):
        reply = Range(argument).ask(session)
        row = accesses.origin(reply["rows"])
        if row is None:
            raise UdbError(reply["reason"] or "no logged access wrote this value: it is as it was when recording began")
        if row["time"] is None:
            raise UdbError("a process that was not recorded wrote this value; `ublame` shows the accesses before and after")
        number = session.numbers().get(row["uuid"])
        if number is None:
            raise UdbError(f"process {row['pid']} wrote this value, and there is no recording of it")
        session.debugger.say(f"Going to: inferior {number}, process {row['pid']}, {row['kind']} at {times.show(row['time'])}")
        session.visit(number)
        session.seek(tuple(row["time"]))
        session.debugger.say("")
        session.show(short=True)
