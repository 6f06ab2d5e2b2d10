"""`print`, in place of gdb's: marks what lies in shared memory and is not known, or may have changed since."""

import re

from .. import print_options, shared

_FORMAT = re.compile(r"/(\w*)\s*")

# A value of gdb's history: what it was is certain.
_REMEMBERED = re.compile(r"\$+[0-9]*\s*\Z")


class Command:
    names = ("print",)
    help = """Print the value of an expression.
Usage: print [[OPTION]... --] [/FMT] [EXPRESSION]

As gdb's own print, but of shared memory only what the recorded process knew can be shown: <never accessed> marks what it has not
touched so far, <stale> what it touched earlier and others may have changed since. `call` takes the same options and marks nothing."""
    completer = "COMPLETE_EXPRESSION"

    def invoke(self, session, argument):
        debugger = session.debugger
        settings, rest = print_options.split(argument)
        if settings:
            chosen = "".join(f"with print {name} {value} -- " for name, value in settings)
            debugger.run(f"{chosen}print -- {rest}")
            return
        form = _FORMAT.match(rest)
        expression = rest[form.end() :] if form else rest
        if not expression:
            # The last value again: gdb's business.
            debugger.run(f"call {argument}")
            return
        value = debugger.evaluate(expression)
        marked = None if _REMEMBERED.match(expression) else self._marked(session, value, form.group(1) if form else "")
        number = debugger.remember(value)
        text = marked or debugger.capture(f"output{form.group(0).strip() if form else ''} ${number}")
        debugger.say(f"${number} = {text}")

    def _marked(self, session, value, form):
        """The value with its marks, or None where gdb may print it as it is."""
        debugger = session.debugger
        where = debugger.bytes_of(value)
        if where is None or not debugger.connected():
            return None
        if session.request("shared", ranges=[list(where)])["statuses"] == ["private"]:
            return None
        tree = debugger.tree(value, form)
        marks = shared.marks_of(tree, session.request) if tree else None
        return shared.write(tree, marks, debugger.prints_pretty()) if marks else None
