"""`uinfo inferiors`"""

import os

from .. import table


def _name(place):
    return os.path.basename(place.path) if place.path else "(no file)"


class Command:
    names = ("uinfo inferiors",)
    help = "List the recordings of this run that shared memory. A * marks the current one; `ugo inferior N` goes to another."

    def invoke(self, session, _argument):
        session.place()
        current = session.debugger.inferior()
        numbers = sorted(session.places)
        rows = [(number, session.places[number].pid, _name(session.places[number])) for number in numbers]
        columns = [("Num", ">"), ("PID", ">"), ("Recording", "<")]
        session.debugger.say(table.render(columns, rows, [number == current for number in numbers]))
