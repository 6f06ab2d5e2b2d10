"""`ugo bookmark`"""

from ..errors import UdbError


class Command:
    names = ("ugo bookmark",)
    help = "Go to a bookmark of this recording.\nUsage: ugo bookmark NAME"

    def invoke(self, session, argument):
        if not argument:
            raise UdbError("ugo bookmark needs a name; `uinfo bookmarks` lists them")
        session.seek(session.place().bookmarks.time(argument))
        session.show()

    def complete(self, session, text):
        return [name for name in session.place().bookmarks.names() if name.startswith(text)]
