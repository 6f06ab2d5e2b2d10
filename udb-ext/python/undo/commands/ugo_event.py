"""`ugo event`"""

from .. import events, times
from ..conditions import Condition
from ..errors import UdbError


class Command:
    names = ("ugo event",)
    help = """Go to the next or previous event, or the next or previous one for which a condition holds.
Usage: ugo event [next|prev] [CONDITION]

CONDITION is a Python expression over address, bbcount, name, pc, result, signum, size, syscall, tid and timestamp, such as
name == 'read' and result > 0. The program then stands before the instruction to which the event belongs: stepi replays the event."""

    def invoke(self, session, argument):
        word, _, rest = argument.partition(" ")
        direction = word if word in ("next", "prev") else None
        condition = Condition(rest if direction else argument)
        event = self._find(session, condition, backward=direction == "prev")
        if event is None:
            raise UdbError("No matching event")
        session.debugger.say(f"Going to: {events.line(event)}")
        session.seek((event.bbcount, event.pc))
        session.show(short=True)

    def _find(self, session, condition, backward):
        now = session.now()
        for event in events.walk(session.request, condition, beyond=list(now), backward=backward):
            # An event that belongs to no instruction is at its block as a whole.
            if event.pc != times.NO_PC or event.bbcount != now[0]:
                return event
        return None

    def complete(self, _session, text):
        return [word for word in ("next", "prev") if word.startswith(text)]
