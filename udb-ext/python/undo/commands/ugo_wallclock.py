"""`ugo wallclock`"""

from .uinfo_wallclock import NO_TIMES
from ..errors import UdbError


class Command:
    names = ("ugo wallclock",)
    help = "Go to the moment that was recorded at a time of day.\nUsage: ugo wallclock TIME"

    def invoke(self, session, _argument):
        session.place()
        raise UdbError(NO_TIMES)
