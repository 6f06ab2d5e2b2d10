"""`ugo inferior`"""

import re

from .. import times
from ..errors import UdbError


class Command:
    names = ("ugo inferior",)
    help = """Go to another recording of this run, and optionally to a time in it.
Usage: ugo inferior N [TIME]

N is a number from `uinfo inferiors`. The recording is opened when first visited, and stays where it was left."""

    def invoke(self, session, argument):
        number, _, time = argument.partition(" ")
        if not re.match(r"[0-9]+\Z", number):
            raise UdbError(f'"{number}" is not an inferior number; `uinfo inferiors` lists them' if number else "ugo inferior needs a number")
        origin = session.debugger.inferior()
        session.visit(int(number))
        if time.strip():
            try:
                session.seek(times.parse(time, session.now()[0]))
            except UdbError:
                session.visit(origin)
                raise
        session.debugger.say("")
        # Without a time one comes to where the process was left, and is to see where that is.
        session.show(short=bool(time.strip()))

    def complete(self, session, text):
        return [str(number) for number in sorted(session.places) if str(number).startswith(text)]
