"""`uinfo wallclock`"""

from .. import wallclock


class Command:
    names = ("uinfo wallclock", "info wallclock")
    help = "Show the time of day at which the current moment was recorded, as of the last event before it."

    def invoke(self, session, _argument):
        session.place()
        clock = session.request("wallclock")
        now, begin, end = (wallclock.show(clock[name]) for name in ("now", "begin", "end"))
        session.debugger.say(f"Current wallclock time is: {now} (in recorded range: [{begin} - {end}])")
