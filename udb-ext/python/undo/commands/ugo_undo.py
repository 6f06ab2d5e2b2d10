"""`ugo undo`"""


class Command:
    names = ("ugo undo",)
    help = "Go back to where the program stood before the last movement through this recording, whichever command made it."

    def invoke(self, session, _argument):
        history = session.place().history
        wanted = history.undo()
        session.go_in_history(wanted, history.undone)
        session.show()
