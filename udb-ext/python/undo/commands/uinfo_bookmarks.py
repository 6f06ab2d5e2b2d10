"""`uinfo bookmarks`"""

from .. import table, times


class Command:
    names = ("uinfo bookmarks", "info bookmarks")
    help = "List the bookmarks of this recording. `ugo bookmark NAME` goes to one."

    def invoke(self, session, _argument):
        marks = session.place().bookmarks
        if not marks.all():
            session.debugger.say("No bookmarks; `ubookmark NAME` makes one.")
            return
        rows = [(name, times.show(time)) for name, time in marks.all()]
        here = marks.at(session.now())
        session.debugger.say(table.render([("Name", "<"), ("Time", "<")], rows, [name in here for name, _ in rows]))
