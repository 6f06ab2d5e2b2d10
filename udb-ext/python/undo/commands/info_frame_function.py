"""`info frame function`: see `frame_function`."""

from . import frame_function


class Command(frame_function.Command):
    names = ("info frame function",)
    help = "Show all about the innermost frame of a function.\nUsage: info frame function NAME"

    def then(self, debugger):
        debugger.run("info frame")

    def after(self, selected):
        selected.select()
