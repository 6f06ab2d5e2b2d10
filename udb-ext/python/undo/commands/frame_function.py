"""`frame function`, in place of gdb's, which crashes where there is more than one inferior (gdb 13)."""

from ..errors import UdbError


class Command:
    names = ("frame function",)
    help = """Select and print the innermost frame of a function.
Usage: frame function NAME"""
    completer = "COMPLETE_SYMBOL"

    def invoke(self, session, argument):
        if not argument:
            raise UdbError("Missing function name argument")
        selected = session.debugger.select_frame_of(argument)
        try:
            self.then(session.debugger)
        finally:
            self.after(selected)

    def then(self, debugger):
        debugger.run("frame")

    def after(self, selected):
        pass
