"""From the launcher's instructions to a first prompt."""

import json

from . import commands, settings, wording
from .errors import UdbError
from .gdbapi import Debugger
from .session import Session

_SETTINGS = [
    # The server is on this machine, at the other end of a pipe. Nothing gets lost on the way, and an answer may take its time; at a timeout
    # gdb would take the late answer for that to its next question.
    "set remotetimeout 1000000",
    # What is past cannot be written. gdb then says so itself, in the words of `wording`, before it asks the server.
    "set may-write-memory off",
    "set may-write-registers off",
    "set exec-file-mismatch off",
    # The server looks at the conditions of breakpoints: a stop for gdb to look takes a thousand times as long.
    "set remote conditional-breakpoints-packet on",
    # Nothing is lost by leaving a recording, so `quit` does not ask.
    "define hook-quit\nset confirm off\nend",
    "define hook-reverse-finish\npython undo.leave_cold_part()\nend",
]

_state = {}


def prepare(text):
    """Defines all commands. Nothing is loaded yet."""
    instructions = json.loads(text)
    debugger = Debugger()
    session = Session(debugger, instructions["server"], quiet=instructions["quiet"])
    for line in _SETTINGS:
        debugger.run(line)
    wording.install()
    if debugger.attempt("show sysroot") and not _user_sysroot(debugger):
        debugger.run("set sysroot /")
    commands.define_all(debugger, session)
    for setting in settings.ALL:
        made = setting()
        chosen = instructions[made.name.replace("-", "_")]
        if chosen:
            made.set(chosen)
        debugger.parameter(made.name, made)
    debugger.note_breakpoints()
    debugger.on_stop(lambda event: _stopped(session, event))
    debugger.before_prompt(session.publish)
    debugger.set_prompt(session.prompt)
    _state.update(instructions=instructions, session=session)


def leave_cold_part():
    _state["session"].debugger.leave_cold_part()


def _user_sysroot(debugger):
    shown = debugger.attempt("show sysroot") or ""
    return 'is "target:".' not in shown


def _stopped(session, event):
    try:
        session.stopped()
        commands.hint_at_origin(session, event)
    except UdbError as error:
        session.debugger.say(f"udb: {error}")
    except KeyboardInterrupt:
        # The program stands already.
        pass


def run():
    """Opens the recording and does what the command line asks for, in its order."""
    instructions, session = _state["instructions"], _state["session"]
    debugger = session.debugger
    failures = 0
    if instructions["recording"]:
        try:
            session.load(instructions["recording"])
            debugger.say("\nNo more reverse-execution history.")
            session.show()
        except UdbError as error:
            debugger.say(f"udb: {error}")
            failures += 1
    if not failures or not instructions["batch"]:
        for step in instructions["steps"]:
            failures += not _performed(debugger, step, instructions["batch"])
    if instructions["batch"] and failures:
        debugger.run("quit 1")


def _performed(debugger, step, batch):
    command = step.get("command")
    try:
        debugger.run(command if command is not None else "source " + step["script"], from_tty=not batch)
        return True
    except debugger.error as error:
        debugger.say(str(error))
        return False
