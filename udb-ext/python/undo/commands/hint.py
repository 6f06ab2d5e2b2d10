"""When a watchpoint on shared memory stops at a read, the value was written elsewhere: say where."""

from .. import accesses, times
from ..errors import UdbError


def hint_at_origin(session, event):
    place = session.place()
    if len(session.places) < 2 or not session.debugger.going_back():
        return
    for address, length in session.debugger.watched_places(event):
        line = _origin(session, place, address, length)
        if line:
            session.debugger.say(f"\n{line}")


def _origin(session, place, address, length):
    bbcount, pc = place.history.now
    try:
        # The access that is about to happen here counts.
        rows = session.request("blame", address=address, length=length, limit=50, at=[bbcount, pc + 1])["rows"]
    except UdbError:
        return None
    if not rows or rows[-1]["kind"] != "read" or tuple(rows[-1]["time"] or ()) != (bbcount, pc):
        return None
    writer = accesses.origin(rows)
    if writer is None:
        return "The value read here came from outside this process; no logged access wrote it."
    if writer["own"]:
        return None
    if writer["time"] is None:
        return "The value read here was written by a process that was not recorded: no logged access left it."
    number = session.numbers().get(writer["uuid"])
    if number is None:
        return f"The value read here was written by process {writer['pid']}, of which there is no recording."
    time = times.show(writer["time"])
    return f"The value read here was written by inferior {number} at {time}: `ugo inferior {number} {time}` goes there."
