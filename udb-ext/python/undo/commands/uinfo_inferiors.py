"""`uinfo inferiors`"""

import os

from .. import table


class Command:
    names = ("uinfo inferiors",)
    help = "List the recordings of this run that shared memory. A * marks the current one; `ugo inferior N` goes to another."

    def invoke(self, session, _argument):
        session.place()
        current = session.debugger.inferior()
        numbers = sorted(session.places)
        rows = [(number, session.places[number].pid, os.path.basename(session.places[number].path)) for number in numbers]
        columns = [("Num", ">"), ("PID", ">"), ("Recording", "<")]
        session.debugger.say(table.render(columns, rows, [number == current for number in numbers]))
