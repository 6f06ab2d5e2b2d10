"""What is loaded and where one stands in it: the state behind all commands.

A *place* is what belongs to one inferior: its recording, the history of its movements, its bookmarks. gdb's inferior numbers are ours:
the loaded recording is 1, the others follow in the order of their discovery, each opened when first visited.
"""

import os

from . import location, times
from .bookmarks import Bookmarks
from .errors import UdbError
from .history import History


class Place:
    def __init__(self, path, uuid=None, pid=0):
        self.path = path
        self.uuid = uuid
        self.pid = pid
        self.history = History()
        self.bookmarks = Bookmarks()
        self.begin = None
        self.end = None
        # Marks which code is mapped, as of gdb's last look at the libraries.
        self.code = None
        self.open = False
        self.pipe = None


class Session:
    def __init__(self, debugger, server, quiet=False):
        self.debugger = debugger
        self.server = server
        self.quiet = quiet
        self.places = {}
        # What `last` without an expression repeats.
        self.last_expression = None

    # -- where ----------------------------------------------------------------------------------------------------------------

    def place(self):
        """The current inferior's place."""
        found = self.places.get(self.debugger.inferior())
        if found is None or not found.open:
            raise UdbError("no recording is loaded here: `uload FILE.undo` loads one")
        return found

    def now(self):
        return self.place().history.now

    def numbers(self):
        """Inferior numbers by UUID."""
        return {place.uuid: number for number, place in self.places.items()}

    def prompt(self):
        place = self.places.get(self.debugger.inferior())
        if place is None or not place.open or not self.debugger.connected():
            return times.NOT_RUNNING
        now = place.history.now
        return times.prompt(now, place.begin, place.end, place.bookmarks.at(now))

    def request(self, what, **fields):
        return self.debugger.request(what, **fields)

    # -- moving ---------------------------------------------------------------------------------------------------------------

    def noted(self, reply):
        """Takes over where the server says it is; whether other code is mapped there than gdb knows of."""
        place = self.place()
        place.begin, place.end = tuple(reply["begin"]), tuple(reply["end"])
        place.history.moved(tuple(reply["now"]))
        other_code = place.code is not None and place.code != reply["code"]
        place.code = reply["code"]
        self.publish()
        return other_code

    def publish(self):
        place = self.places.get(self.debugger.inferior())
        if place is not None and place.open and place.history.now:
            self.debugger.set_variable("_undo_time", place.history.now[0])
            self.debugger.set_variable("_undo_time_min", place.begin[0])
            self.debugger.set_variable("_undo_time_max", place.end[0])

    def jump(self, what, **fields):
        """A movement that gdb knows nothing of; afterwards gdb's picture is right."""
        with self.debugger.uninterrupted():
            self.debugger.flush(libraries=self.noted(self._travel(what, **fields)))

    def _travel(self, what, **fields):
        """Asks for a jump until it is done: a long one is made in pieces, so that a Ctrl-C can come between."""
        origin = self.now()
        try:
            while True:
                reply = self.request(what, **fields)
                if reply["arrived"]:
                    return reply
                with self.debugger.interruptible():
                    pass
        except UdbError:
            if tuple(self.request("now")["now"]) != origin:
                self.request("seek", bbcount=origin[0], pc=origin[1])
            raise
        except KeyboardInterrupt:
            self.debugger.flush(libraries=self.noted(self.request("now")))
            raise UdbError(f"interrupted on the way, at {times.show(self.now())}; `ugo undo` goes back") from None

    def seek(self, time):
        bbcount, pc = time
        if pc is None or pc == times.NO_PC:
            self.jump("seek", bbcount=bbcount)
        else:
            self.jump("seek", bbcount=bbcount, pc=pc)

    def go_in_history(self, time, done):
        """Like `seek`, but along the history, which `done` tells."""
        with self.debugger.uninterrupted():
            reply = self._travel("seek", bbcount=time[0], pc=time[1])
            done()
            self.debugger.flush(libraries=self.noted(reply))

    def show(self, short=False):
        form = location.short if short else location.full
        self.debugger.say(form(self.debugger.frame()))

    def stopped(self):
        """gdb moved the program."""
        if self.debugger.inferior() in self.places and self.debugger.connected():
            with self.debugger.uninterrupted():
                self.noted(self.request("now"))

    # -- loading --------------------------------------------------------------------------------------------------------------

    def load(self, path):
        """Opens a recording as inferior 1 and finds those that belong to it."""
        path = os.path.abspath(os.path.expanduser(path))
        if not os.path.exists(path):
            raise UdbError(f"{path}: No such file or directory")
        self.unload()
        self._open(1, Place(path))
        found = self.request("recordings")
        # Those of what was loaded before: gdb gives no number twice.
        spare = [number for number in self.debugger.inferiors() if number != 1]
        for recording in found["recordings"][1:]:
            number = spare.pop(0) if spare else self.debugger.add_inferior()
            self.places[number] = Place(recording["path"], recording["uuid"], recording["pid"])
        for warning in found["warnings"]:
            self.debugger.say(f"udb: {warning}")
        if not self.quiet and len(self.places) > 1:
            others = len(self.places) - 1
            log = os.path.basename(found["log"] or "")
            what = "1 other recording" if others == 1 else f"{others} other recordings"
            self.debugger.say(f"Found {what} that shared memory with this one (log {log}); `uinfo inferiors` lists them.")

    def unload(self):
        loaded = [number for number in sorted(self.places, reverse=True) if self.places[number].open]
        # First all of them, as `disconnect` makes gdb forget the threads of every inferior.
        for number in loaded:
            self.debugger.attempt(f"kill inferiors {number}")
        for number in loaded:
            self.debugger.select_inferior(number)
            self.debugger.attempt("disconnect")
            place = self.places[number]
            # The next recording may be of another program.
            self.debugger.forget_files()
            place.open = False
            if place.pipe is not None:
                os.close(place.pipe)
                place.pipe = None
        if self.places:
            self.debugger.select_inferior(1)
        self.places.clear()

    def _open(self, number, place):
        """Connects the current inferior, whose number that is."""
        place.pipe = self.debugger.connect(self.server, place.path)
        place.open = True
        self.places[number] = place
        reply = self.request("now")
        place.uuid, place.pid = reply["uuid"], reply["pid"]
        self.noted(reply)
        if self.debugger.uses_files_of_recording():
            return
        if any(file["on_disk"] != "same" for file in self.request("files")["files"]):
            self.debugger.use_files_of_recording(reply["executable"])

    def visit(self, number):
        """Makes another inferior current, opening its recording if this is the first visit."""
        place = self.places.get(number)
        if place is None:
            known = ", ".join(map(str, sorted(self.places))) or "none"
            raise UdbError(f"there is no inferior {number} (there are: {known}); `uinfo inferiors` lists them")
        if place.path is None:
            raise UdbError(f"the recording of process {place.pid} is not in this directory; put its .undo file there and load again")
        origin = self.debugger.inferior()
        self.debugger.own_breakpoints(origin)
        self.debugger.select_inferior(number)
        # It may have been open and been killed.
        if not place.open or not self.debugger.connected():
            try:
                self._open(number, place)
            except UdbError:
                self.debugger.select_inferior(origin)
                raise
        self.debugger.own_breakpoints(number)
        self.publish()
