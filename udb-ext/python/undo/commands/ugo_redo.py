"""`ugo redo`"""


class Command:
    names = ("ugo redo",)
    help = "Take back the last `ugo undo`."

    def invoke(self, session, _argument):
        history = session.place().history
        wanted = history.redo()
        session.go_in_history(wanted, history.redone)
        session.show()
