"""gdb commands that make no sense on a recording: each says what to do instead."""

from ..errors import UdbError


class Command:
    names = ("run", "start", "starti", "attach")
    help = "Not for recordings: they have been run. `ugo start` goes to the start of the recorded history."

    def invoke(self, _session, _argument):
        raise UdbError("a recording cannot be run again; `ugo start` goes to its start, and `live-record PROGRAM` makes a new one")
