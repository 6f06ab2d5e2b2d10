"""`ubookmark`"""

from .. import times
from ..errors import UdbError


class Command:
    names = ("ubookmark",)
    help = """Give the current time a name, for `ugo bookmark` and the prompt.
Usage: ubookmark NAME
       ubookmark -d NAME

With -d, forget the name."""

    def invoke(self, session, argument):
        marks = session.place().bookmarks
        option, _, name = argument.partition(" ")
        if option in ("-d", "-delete"):
            marks.remove(name.strip())
        elif not argument:
            raise UdbError("ubookmark needs a name; `uinfo bookmarks` lists those there are")
        else:
            marks.add(argument, session.now())
            session.debugger.say(f"Bookmark {argument} is at {times.show(session.now())}.")
