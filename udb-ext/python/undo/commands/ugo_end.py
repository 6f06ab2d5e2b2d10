"""`ugo end`"""

_REACHED = "udb: Have reached end of recorded history."


class Command:
    names = ("ugo end",)
    help = "Go to the end of the recorded history."

    def invoke(self, session, _argument):
        session.jump("end")
        session.debugger.say(f"{_REACHED}\n\nProgram received signal SIGTRAP, Trace/breakpoint trap.\n{_REACHED}")
        session.show()
