"""Catchpoints that gdb accepts and that would never be reached: the kernel does not tell of what is past, but its calls are recorded."""

from ..errors import UdbError


class Command:
    names = tuple(f"{how} {what}" for how in ("catch", "tcatch") for what in ("fork", "vfork", "exec"))
    help = "Not for recordings. `catch syscall` stops at the calls: fork, vfork, clone and clone3, execve and execveat."

    def invoke(self, _session, _argument):
        raise UdbError("a recording has no such events; `catch syscall fork vfork clone clone3 execve` stops at the calls")
