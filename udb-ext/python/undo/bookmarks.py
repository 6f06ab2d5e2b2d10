"""Named times of one recording."""

import re

from .errors import UdbError

_NAME = re.compile(r"[A-Za-z_][\w.-]*\Z")


class Bookmarks:
    def __init__(self):
        self._times = {}

    def add(self, name, time):
        if not _NAME.match(name):
            raise UdbError(f'"{name}" is not a bookmark name: use letters, digits, ".", "-" and "_", a letter first')
        self._times[name] = time

    def remove(self, name):
        self.time(name)
        del self._times[name]

    def time(self, name):
        if name not in self._times:
            known = ", ".join(sorted(self._times)) or "none yet; `ubookmark NAME` makes one"
            raise UdbError(f'no bookmark "{name}" (there are: {known})')
        return self._times[name]

    def at(self, time):
        """Names of the bookmarks at exactly this time."""
        return sorted(name for name, marked in self._times.items() if marked == time)

    def names(self):
        return sorted(self._times)

    def all(self):
        """(name, time), in the order of time."""
        return sorted(self._times.items(), key=lambda item: (item[1], item[0]))
