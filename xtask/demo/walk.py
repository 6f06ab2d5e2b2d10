"""The demo's walk, run by gdb inside `udb`: from the consumer's failed assertion to the line in the producer that made the bad value.

The commands are those a user would type. What depends on the run, the other process and its time, is taken from what `ublame`
printed. After each leg the walk checks where it is; a leg that ends elsewhere ends the walk with a reason and, unless
UNDO_DEMO_STAYS is set, gdb with status 1.
"""

import os
import re

import gdb

# reverse-finish out of abort() and the assertion's own functions: four to six frames, depending on the C library.
MOST_FRAMES = 12
# reverse-step from the call's line into the end of the function called.
MOST_STEPS = 3

# `      2    133  2,822:0x5618d2d15c61  write   0x7f61b0794118      4`, with `*` first if the access is the current inferior's own.
ACCESS = re.compile(r"^(?P<own>\*?)\s+(?P<inferior>\d+)\s+\d+\s+(?P<time>[\d,]+:0x[0-9a-f]+)\s+(?P<kind>read/write|read|write)\b")


class Lost(Exception):
    """The walk is not where it should be."""


def say(text):
    gdb.write(f"\n# {text}\n")


def do(command):
    """Runs a command as if typed."""
    gdb.write(f"(udb) {command}\n")
    gdb.flush()
    gdb.execute(command)
    gdb.flush()


def do_and_read(command):
    """The same for a command that does not move, and returns what it printed: gdb tells of a stop past whatever reads along."""
    gdb.write(f"(udb) {command}\n")
    printed = gdb.execute(command, to_string=True)
    gdb.write(printed)
    return printed


def expect_function(name):
    actual = gdb.newest_frame().name()
    if actual != name:
        raise Lost(f"in {actual}, not in {name}")


def back_to_change():
    """reverse-continue that must end at a watchpoint."""
    stops = []
    gdb.events.stop.connect(stops.append)
    try:
        do("reverse-continue")
    finally:
        gdb.events.stop.disconnect(stops.append)
    if not any(isinstance(stop, gdb.BreakpointEvent) for stop in stops):
        raise Lost("the watchpoint was not hit")


def expect_value(expression, value):
    actual = int(gdb.parse_and_eval(expression))
    if actual != value:
        raise Lost(f"{expression} is {actual}, not {value}")


def last_foreign_write(table):
    """Inferior and time of the last write that another process made, from what `ublame` printed."""
    rows = [row for row in map(ACCESS.match, table.splitlines()) if row]
    writes = [row for row in rows if not row["own"] and row["kind"] != "read"]
    if not writes:
        raise Lost("ublame shows no write by another process")
    return writes[-1]["inferior"], writes[-1]["time"]


def walk_back_to(function, command, most):
    for _ in range(most):
        do(command)
        if gdb.newest_frame().name() == function:
            return
    raise Lost(f"{most} times {command} did not lead to {function}")


def walk():
    say("The consumer failed at the very end of its recording. Go there.")
    do("ugo end")
    do("backtrace")

    say("Back out of the assertion's own functions, each to the point where it was called.")
    walk_back_to("consumer_run", "reverse-finish", MOST_FRAMES)
    do("print value")
    bad = int(gdb.parse_and_eval("value"))

    say("Where did this value come from?")
    do("watch value")
    back_to_change()
    expect_function("consumer_run")

    say("From shared memory. Which process wrote it, and when?")
    inferior, time = last_foreign_write(do_and_read("ublame &shmem_data_array[index]"))

    say("Go to that very instruction in the other process.")
    do(f"ugo inferior {inferior} {time}")
    expect_function("producer_run")
    do("print new_value")
    expect_value("new_value", bad)

    say("And where did it get the value?")
    do("watch new_value")
    back_to_change()
    expect_function("producer_run")

    say("Step back into the function that made it.")
    walk_back_to("random_in_range", "reverse-step", MOST_STEPS)
    do("list random_in_range")


def main():
    gdb.execute("set pagination off")
    gdb.execute("set confirm off")
    try:
        walk()
    except Exception as error:  # whatever it is, the exit status must tell
        gdb.write(f"\ndemo: the walk failed: {error}\n", gdb.STDERR)
        if "UNDO_DEMO_STAYS" not in os.environ:
            gdb.execute("quit 1")
        return
    if "UNDO_DEMO_STAYS" in os.environ:
        say("You are in udb now, in the producer; `ugo inferior 1` goes back to the consumer, `quit` ends.")
        gdb.execute("set pagination on")
        gdb.execute("set confirm on")


main()
