"""`ugo start`"""


class Command:
    names = ("ugo start",)
    help = "Go to the start of the recorded history."

    def invoke(self, session, _argument):
        session.jump("begin")
        session.debugger.say("\nNo more reverse-execution history.")
        session.show()
