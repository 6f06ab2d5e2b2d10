"""`uinfo events`"""

import itertools

from .. import events
from ..conditions import Condition

# Lines told at once: one at a time takes gdb longer than finding them.
_AT_ONCE = 500


class Command:
    names = ("uinfo events", "info events")
    help = """List the events of the recording.
Usage: uinfo events [-l N] [-a BBCOUNT] [-b BBCOUNT] [-q] [CONDITION]

  -limit, -l N      consider at most N events
  -min, -a BBCOUNT  only events at BBCOUNT or later: a number, now, +N or -N
  -max, -b BBCOUNT  only events before BBCOUNT
  -quiet, -q        without a line for an empty list

CONDITION is a Python expression over address, bbcount, name, pc, result, signum, size, syscall, tid and timestamp."""

    def invoke(self, session, argument):
        bounds, limit, quiet, text = events.parse_options(argument, session.now()[0])
        lines = map(events.line, events.walk(session.request, Condition(text), limit, **bounds))
        shown = False
        while some := list(itertools.islice(lines, _AT_ONCE)):
            session.debugger.say("\n".join(some))
            shown = True
        if not shown and not quiet:
            session.debugger.say("No matching event")
