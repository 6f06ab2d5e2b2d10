"""The only module that imports gdb: what the others need of it, and the registration of commands.

Caches. gdb trusts that memory and registers change only where it resumed the program. A jump through history breaks that, so after
every one `moved` drops all that gdb remembers: registers and frames, the memory cache, the old values of watchpoints, and the list of
libraries if other code is mapped now.
"""

import contextlib
import json
import os
import re
import signal

import gdb

from . import shared
from .errors import UdbError


class Debugger:
    """gdb as the rest of the package sees it."""

    error = gdb.error

    # -- commands --------------------------------------------------------------------------------------------------------------

    def run(self, command, from_tty=False):
        gdb.execute(command, from_tty, False)

    def capture(self, command):
        return gdb.execute(command, False, True)

    def attempt(self, command):
        """Runs a command whose failure does not matter: some gdbs lack it, or there is nothing for it to do."""
        try:
            return self.capture(command)
        except gdb.error:
            return None

    def say(self, text, end="\n"):
        gdb.write(text + end)
        gdb.flush()

    @contextlib.contextmanager
    def _silence(self):
        """gdb tells a stop past any redirection of its output. gdb 12 knows no way to keep it quiet, and tells it twice."""
        if not self._can_be_silent():
            yield
            return
        gdb.execute("set suppress-cli-notifications on", False, True)
        try:
            yield
        finally:
            gdb.execute("set suppress-cli-notifications off", False, True)

    def _can_be_silent(self):
        try:
            return gdb.parameter("suppress-cli-notifications") is not None
        except RuntimeError:
            return False

    # -- the server ------------------------------------------------------------------------------------------------------------

    def connected(self):
        return gdb.selected_inferior().pid != 0

    def request(self, what, **fields):
        """Asks the server of the current inferior; its errors become ours."""
        if not self.connected():
            raise UdbError("no recording is loaded here: `uload FILE.undo` loads one")
        fields["do"] = what
        question = "monitor " + json.dumps(fields)
        while True:
            with self.uninterrupted():
                reply = self._reply(question)
            if "error" in reply:
                raise UdbError(reply["error"])
            if "wait" not in reply:
                return reply

    def _reply(self, question):
        try:
            reply = _first_object(self.capture(question))
            if "file" in reply:
                with open(reply["file"], encoding="utf-8") as long_reply:
                    reply = json.load(long_reply)
            return reply
        except (gdb.error, OSError, ValueError) as error:
            raise UdbError(f"udb-server does not answer: {error}") from None

    @contextlib.contextmanager
    def uninterrupted(self):
        """A Ctrl-C waits until the end of this. In the middle of a `monitor` command it would make gdb give up waiting for the answer, and
        take it for that to its next question; in the middle of our own work, leave that half done."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    @contextlib.contextmanager
    def interruptible(self):
        """Within `uninterrupted`: a Ctrl-C that waits comes now."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def connect(self, server, path):
        """Starts a server for the current inferior. What it complains about comes over a pipe: gdb would print it in passing."""
        read_end, write_end = os.pipe()
        try:
            words = ["exec", _quoted(server), "--stdio", _quoted(path), f"2>/proc/{os.getpid()}/fd/{write_end}"]
            try:
                with self._silence():
                    self.capture("target extended-remote | " + " ".join(words))
            except gdb.error as error:
                os.close(write_end)
                write_end = None
                complaint = os.read(read_end, 4096).decode(errors="replace").strip().splitlines()
                text = complaint[-1] if complaint else f"{path}: {error}"
                raise UdbError(text[5:] if text.startswith("udb: ") else text) from None
        finally:
            if write_end is not None:
                os.close(write_end)
        # The read end stays open: the server may write into the pipe as long as it lives.
        return read_end

    # -- inferiors -------------------------------------------------------------------------------------------------------------

    def inferior(self):
        return gdb.selected_inferior().num

    def inferiors(self):
        return sorted(inferior.num for inferior in gdb.inferiors())

    def add_inferior(self):
        before = set(self.inferiors())
        self.capture("add-inferior -no-connection")
        return (set(self.inferiors()) - before).pop()

    def select_inferior(self, number):
        with self._silence():
            self.capture(f"inferior {number}")

    # -- after a jump ----------------------------------------------------------------------------------------------------------

    def flush(self, libraries=False):
        self.attempt("maint flush register-cache")
        self.attempt("maint flush dcache")
        if self._can_be_silent() and not self._after_signal:
            with self._silence():
                # No steps, but a stop: gdb forgets why it stopped before, and a front end hears where the program is now.
                self.attempt("stepi 0")
        if libraries:
            self.attempt("nosharedlibrary")
            self.attempt("sharedlibrary")
        for breakpoint in gdb.breakpoints():
            if breakpoint.type in _WATCHPOINTS and breakpoint.enabled and breakpoint.is_valid():
                self._reset(breakpoint)

    def _reset(self, breakpoint):
        """Enabling a watchpoint reads its value anew. Where its frame does not exist gdb says that it deletes it, and does so at some later stop, after saying it again."""
        number = breakpoint.number
        self.attempt(f"disable {number}")
        complaint = self.attempt(f"enable {number}")
        if complaint and breakpoint.is_valid():
            self.say(complaint, end="")
            breakpoint.delete()

    def frame(self):
        """gdb's `frame`, or the bare pc where there is none."""
        text = self.attempt("frame")
        return text if text else f"{int(gdb.parse_and_eval('$pc')):#018x} in ?? ()\n"

    def select_frame_of(self, function):
        """Selects the innermost frame of that function. Returns the frame that was selected."""
        # Looking a function up in all inferiors makes gdb forget the selection.
        selected = gdb.selected_frame()
        bounds = []
        for location in gdb.decode_line(function)[1] or ():
            block = gdb.block_for_pc(location.pc)
            while block is not None and block.function is None:
                block = block.superblock
            if block is None:
                raise UdbError(f'"{function}" is not a function')
            bounds.append((block.start, block.end))
        frame = gdb.newest_frame()
        while frame is not None:
            if any(start <= frame.pc() < end for start, end in bounds):
                frame.select()
                return selected
            frame = frame.older()
        selected.select()
        raise UdbError(f'No frame for function "{function}".')

    def set_variable(self, name, value):
        gdb.set_convenience_variable(name, value)

    def use_files_of_recording(self, executable):
        """Reads all symbols anew, through the server: the files on this machine are not those that ran."""
        self._sysroot = gdb.parameter("sysroot")
        self.attempt("set sysroot target:")
        self.attempt("file " + _file_word("target:" + executable))
        self.attempt("nosharedlibrary")
        self.attempt("sharedlibrary")

    def uses_files_of_recording(self):
        return gdb.parameter("sysroot") == "target:"

    # What the user had before the recording's own files were used.
    _sysroot = None

    def forget_files(self):
        """Of the selected inferior: gdb keeps the executable beyond the connection."""
        self.attempt("with confirm off -- file")
        self.attempt("nosharedlibrary")
        if self._sysroot is not None:
            self.attempt(f"set sysroot {self._sysroot}")
            self._sysroot = None

    def leave_cold_part(self):
        """To be called before `reverse-finish`. Compilers put the rarely executed part of a function elsewhere, and gdb takes that part for
        the function: it would come to the jump from one part to the other only. So go there first, without a word."""
        try:
            frame = gdb.selected_frame()
            function = frame.function()
            if frame.level() != 0 or frame.type() != gdb.NORMAL_FRAME or function is None:
                return
            entry = int(function.value().address) & _ALL_BITS
            block = frame.block()
            # Symbols compare by identity, and each look makes new ones.
            while block is not None and (block.function is None or block.function.name != function.name):
                block = block.superblock
            if block is None or block.start == entry:
                return
            ranges = [(int(low, 16), int(high, 16)) for low, high in _PART.findall(self.capture("disassemble"))]
            if any(low <= frame.pc() < high and not low <= entry < high for low, high in ranges):
                with self._silence():
                    self.capture("reverse-finish")
        except (gdb.error, RuntimeError):
            # Then `reverse-finish` itself says what is wrong.
            pass

    # -- values ----------------------------------------------------------------------------------------------------------------

    def integer(self, expression):
        try:
            return int(gdb.parse_and_eval(expression))
        except (gdb.error, ValueError, TypeError) as error:
            raise UdbError(f"{expression}: {error}") from None

    def place_of(self, expression):
        """(address, length) that an expression is about: what a pointer points to, else where the variable is, else a number."""
        try:
            value = gdb.parse_and_eval(expression)
            kind = value.type.strip_typedefs()
            if kind.code in (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_REF):
                target = kind.target().strip_typedefs()
                return int(value) & _ALL_BITS, max(1, _size_of(target))
            if value.address is not None:
                return int(value.address) & _ALL_BITS, max(1, _size_of(kind))
            return int(value) & _ALL_BITS, 1
        except (gdb.error, ValueError, TypeError) as error:
            raise UdbError(f"{expression}: {error}") from None

    def variable(self, expression):
        """(address, length, type) of a variable: enough to read it again where its name means nothing."""
        try:
            value = gdb.parse_and_eval(expression)
            if value.address is None:
                raise UdbError(f"{expression} is not in memory, so it has no history; name a variable")
            return int(value.address) & _ALL_BITS, value.type.sizeof, value.type
        except gdb.error as error:
            raise UdbError(f"{expression}: {error}") from None

    def content(self, address, kind):
        """What is there now, as gdb prints a value of that type."""
        try:
            return gdb.Value(address).cast(kind.pointer()).dereference().format_string()
        except gdb.error as error:
            return f"<{error}>"

    def resume_to_change(self, command, address, length):
        """Resumes the program, which the server is armed to stop at a change; without a word about where it stops."""
        try:
            # gdb is quiet only about stops that it expects.
            expected = gdb.Breakpoint(f"*(char(*)[{length}]){address:#x}", gdb.BP_WATCHPOINT, gdb.WP_WRITE, internal=True)
            expected.silent = True
            try:
                with self._silence():
                    self.capture(command)
            finally:
                expected.delete()
        except gdb.error as error:
            raise UdbError(str(error)) from None

    def evaluate(self, expression):
        return gdb.parse_and_eval(expression)

    def remember(self, value):
        """Puts a value into gdb's value history; its number."""
        return gdb.add_history(value)

    def tree(self, value, form):
        """A value as a tree for `shared`, its leaves printed in gdb's format letter `form`."""
        address = value.address
        if address is None:
            return None
        return _node(value, {"format": form} if form else {})

    def prints_pretty(self):
        return bool(gdb.parameter("print pretty"))

    def bytes_of(self, value):
        if value.address is None or value.type.sizeof == 0:
            return None
        return int(value.address) & _ALL_BITS, value.type.sizeof

    def source_line(self, inferior, pc):
        """`file:line` of an address in an inferior that is open, or None."""
        for candidate in gdb.inferiors():
            if candidate.num == inferior and candidate.pid != 0:
                found = candidate.progspace.find_pc_line(pc)
                if found.symtab is not None:
                    return f"{found.symtab.filename}:{found.line}"
        return None

    # -- hooks -----------------------------------------------------------------------------------------------------------------

    def on_stop(self, handler):
        def stopped(event):
            self._after_signal = isinstance(event, gdb.SignalEvent)
            handler(event)

        gdb.events.stop.connect(stopped)

    # Then `stepi 0` would tell of the signal again, as "Program stopped."
    _after_signal = False

    def before_prompt(self, handler):
        gdb.events.before_prompt.connect(handler)

    def set_prompt(self, make):
        gdb.prompt_hook = lambda current: make()

    def watched_places(self, event):
        """(address, length) of the watchpoints at which the program stopped."""
        places = []
        for breakpoint in getattr(event, "breakpoints", []):
            if breakpoint.type in _WATCHPOINTS and breakpoint.expression:
                try:
                    value = gdb.parse_and_eval(_LOCATION.sub("", breakpoint.expression))
                except gdb.error:
                    continue
                if value.address is not None:
                    places.append((int(value.address) & _ALL_BITS, value.type.sizeof))
        return places

    def going_back(self):
        return "reverse" in (self.attempt("show exec-direction") or "").lower()

    def own_breakpoints(self, inferior):
        """Lets breakpoint locations stop only the inferior for which their breakpoint was made. gdb 12 cannot, and stops in all."""
        for breakpoint in gdb.breakpoints():
            owner = self._owners.setdefault(breakpoint.number, inferior)
            for location in getattr(breakpoint, "locations", None) or []:
                groups = getattr(location, "thread_groups", None)
                if groups:
                    location.enabled = owner in groups

    _owners = {}

    def note_breakpoints(self):
        gdb.events.breakpoint_created.connect(
            lambda breakpoint: self._owners.setdefault(breakpoint.number, gdb.selected_inferior().num)
        )

    # -- registration ----------------------------------------------------------------------------------------------------------

    def prefix(self, name, summary):
        self._define(name, _Prefix(name, summary), prefix=True)

    def define(self, name, command, session):
        """Makes `command` (see `commands`) answer to `name`."""
        self._define(name, command, session=session)

    def _define(self, name, command, session=None, prefix=False):
        def invoke(self, argument, from_tty):
            try:
                command.invoke(session, argument.strip())
            except (UdbError, gdb.error) as error:
                # Without this, gdb would tell its own errors as Python's.
                raise gdb.GdbError(str(error)) from None

        body = {"__doc__": command.help, "invoke": invoke}
        if hasattr(command, "complete"):
            body["complete"] = lambda self, text, word: command.complete(session, text)
        made = type("UdbCommand", (gdb.Command,), body)
        completer = {} if "complete" in body else {"completer_class": getattr(gdb, getattr(command, "completer", "COMPLETE_NONE"))}
        made(name, gdb.COMMAND_RUNNING, prefix=prefix, **completer)

    def parameter(self, name, setting):
        """A `set`/`show` pair over an object with `text`, `set(text)` and `shown()`."""

        class Parameter(gdb.Parameter):
            __doc__ = setting.help
            set_doc = f"Set {setting.summary}."
            show_doc = f"Show {setting.summary}."

            def __init__(self):
                super().__init__(name, gdb.COMMAND_RUNNING, gdb.PARAM_STRING)
                self.value = setting.text

            def get_set_string(self):
                try:
                    setting.set(self.value)
                except UdbError as error:
                    raise gdb.GdbError(str(error)) from None
                finally:
                    self.value = setting.text
                return ""

            def get_show_string(self, value):
                return setting.shown()

        Parameter()


class _Prefix:
    def __init__(self, name, summary):
        self._name = name
        self.help = summary

    def invoke(self, _session, argument):
        if argument:
            word = argument.split()[0]
            raise UdbError(f'there is no command "{self._name} {word}": `help {self._name}` lists them')
        gdb.execute(f"help {self._name}")


# How `disassemble` begins each part of a function.
_PART = re.compile(r"^Address range (0x[0-9a-f]+) to (0x[0-9a-f]+):$", re.MULTILINE)
# How gdb writes a watchpoint made with -l.
_LOCATION = re.compile(r"-l(ocation)?\s+")
_ALL_BITS = (1 << 64) - 1
_WATCHPOINTS = [
    getattr(gdb, name)
    for name in ("BP_WATCHPOINT", "BP_HARDWARE_WATCHPOINT", "BP_READ_WATCHPOINT", "BP_ACCESS_WATCHPOINT")
    if hasattr(gdb, name)
]


def _first_object(text):
    """The reply; with `set debug remote` there is more than that."""
    lines = [line for line in text.splitlines() if line.startswith("{")]
    return json.loads(lines[-1] if lines else text)


def _quoted(word):
    """A word for the shell that gdb starts the server with."""
    return "'" + word.replace("'", "'\\''") + "'"


def _file_word(word):
    """A word for gdb's own commands."""
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _size_of(kind):
    return 1 if kind.code in (gdb.TYPE_CODE_VOID, gdb.TYPE_CODE_FUNC) else kind.sizeof


def _node(value, options):
    """A tree node of a value in memory. Elements are limited as gdb limits them."""
    kind = value.type.strip_typedefs()
    if kind.code == gdb.TYPE_CODE_ARRAY and not _is_text(kind):
        low, high = kind.range()
        limit = gdb.parameter("print elements") or high + 1
        shown = range(low, min(high + 1, low + limit))
        return shared.Node(children=[(None, _node(value[index], options)) for index in shown], cut=high + 1 - low > limit)
    if kind.code == gdb.TYPE_CODE_STRUCT:
        fields = [field for field in kind.fields() if hasattr(field, "bitpos")]
        return shared.Node(children=[(_label(field), _node(value[field], options)) for field in fields])
    address = int(value.address) & _ALL_BITS if value.address is not None else None
    try:
        text = value.format_string(**options)
    except gdb.error as error:
        text = f"<error: {error}>"
    return shared.Node(address=address, size=kind.sizeof, text=text)


def _label(field):
    return f"<{field.name}>" if field.is_base_class else field.name


def _is_text(kind):
    target = kind.target().strip_typedefs()
    return target.code == gdb.TYPE_CODE_INT and target.sizeof == 1 or target.code == gdb.TYPE_CODE_CHAR
