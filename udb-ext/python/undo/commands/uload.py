"""`uload`"""

from ..errors import UdbError


class Command:
    names = ("uload",)
    help = """Load a recording, in place of what is loaded.
Usage: uload [-e] FILE.undo

With -e, go to its end."""
    completer = "COMPLETE_FILENAME"

    def invoke(self, session, argument):
        to_end = argument.split(" ")[0] == "-e"
        path = argument[2:].strip() if to_end else argument
        if not path:
            raise UdbError("uload needs the name of a recording, such as FILE.undo")
        session.load(path)
        if to_end:
            session.jump("end")
        else:
            session.debugger.say("\nNo more reverse-execution history.")
        session.show()
