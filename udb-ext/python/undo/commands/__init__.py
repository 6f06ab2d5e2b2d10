"""One command a file. Each module has a `Command` with

    names                        what it answers to
    help                         for gdb's `help`
    invoke(session, argument)    raises UdbError for what the user is to be told
    complete(session, text)      optional: words that may come next
"""

import importlib
import pkgutil

from .hint import hint_at_origin

__all__ = ["define_all", "hint_at_origin"]

_PREFIXES = {
    "ugo": "Move through the recorded history.",
    "uinfo": "Show what is known about the recording. `uinfo X` also answers as `info X`, except where gdb has a command of that name.",
}

# Not commands, but what they share.
_HELPERS = {"hint"}


def define_all(debugger, session):
    for name, summary in _PREFIXES.items():
        debugger.prefix(name, summary)
    for found in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        if found.name not in _HELPERS:
            command = importlib.import_module(f"{__name__}.{found.name}").Command()
            for name in command.names:
                debugger.define(name, command, session)
