"""`uinfo wallclock`"""

from ..errors import UdbError

NO_TIMES = "this recording holds no times of day; `uinfo time` shows the time in the recording"


class Command:
    names = ("uinfo wallclock", "info wallclock")
    help = "Show the time of day at which the current moment was recorded."

    def invoke(self, session, _argument):
        session.place()
        raise UdbError(NO_TIMES)
