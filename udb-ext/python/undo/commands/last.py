"""`last`"""

import re

from .. import times
from ..errors import UdbError

_FORWARD = re.compile(r"-(forward|f)(?:\s+|\Z)")


class Command:
    names = ("last",)
    help = """Go to where a value was last changed.
Usage: last [-f] [EXPRESSION]

Goes back to just before the instruction that gave the value it has here; with -forward or -f, on to just after the one that
changes it next. Without EXPRESSION, repeats the last one. Breakpoints are not hit on the way."""
    completer = "COMPLETE_EXPRESSION"

    def invoke(self, session, argument):
        session.place()
        option = _FORWARD.match(argument)
        expression = argument[option.end() :].strip() if option else argument
        if expression:
            watched = (expression, *session.debugger.variable(expression))
        elif session.last_expression:
            watched = session.last_expression
        else:
            raise UdbError("last needs an expression, such as last counter")
        session.last_expression = watched
        self._search(session, *watched, forward=bool(option))

    def _search(self, session, expression, address, length, kind, forward):
        debugger = session.debugger
        debugger.say(f"Searching {'forward' if forward else 'backward'} for changes to {address:#x}-{address + length:#x} for the expression:")
        debugger.say(f"    {expression}\n")
        before = debugger.content(address, kind)
        session.request("arm", address=address, length=length)
        debugger.resume_to_change("continue" if forward else "reverse-continue", address, length)
        after = debugger.content(address, kind)
        place = session.place()
        limit = place.end if forward else place.begin
        if before == after:
            if place.history.now == limit:
                raise UdbError(f"{expression} does not change {'after' if forward else 'before'} that in the recorded history")
            raise UdbError(f"interrupted at {times.show(place.history.now)}")
        debugger.say("Was = {}\nNow = {}\n".format(*((before, after) if forward else (after, before))))
        debugger.flush()
        session.show()
