"""The commands that `udb` adds to gdb.

The launcher starts gdb with `undo.prepare(TEXT)` before anything is loaded and `undo.run()` once gdb is ready.

One command is one file in `commands`. Only `gdbapi` imports gdb; everything else takes the debugger as an argument, so that it can be
tested without one.
"""


def prepare(text):
    from . import startup

    startup.prepare(text)


def run():
    from . import startup

    startup.run()


def leave_cold_part():
    from . import startup

    startup.leave_cold_part()
