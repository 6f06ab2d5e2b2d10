"""`select-frame function`: see `frame_function`."""

from . import frame_function


class Command(frame_function.Command):
    names = ("select-frame function",)
    help = "Select the innermost frame of a function, without printing it.\nUsage: select-frame function NAME"

    def then(self, _debugger):
        pass
