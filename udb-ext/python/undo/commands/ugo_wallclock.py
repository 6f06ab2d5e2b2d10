"""`ugo wallclock`"""

from .. import wallclock
from ..errors import UdbError


class Command:
    names = ("ugo wallclock",)
    help = """Go to the first event at or after a time of day.
Usage: ugo wallclock [YYYY-MM-DD] HH:MM[:SS[.FRACTION]] | SECONDS-SINCE-1970

Without a date, on the day on which the recording began. `uinfo wallclock` shows the recorded range."""

    def invoke(self, session, argument):
        session.place()
        clock = session.request("wallclock")
        wanted = wallclock.parse(argument, near=clock["begin"])
        if not clock["begin"] <= wanted <= clock["end"]:
            begin, end = wallclock.show(clock["begin"]), wallclock.show(clock["end"])
            raise UdbError(f"{wallclock.show(wanted)} is outside the recorded range [{begin} - {end}]")
        session.jump("seek-wallclock", nanoseconds=wanted)
        session.show()
