"""Where one has been: what `ugo undo` and `ugo redo` go back and forth in. Each inferior has its own."""

from .errors import UdbError

# Older places are forgotten.
_LIMIT = 1000


class History:
    """The places visited before the current one, and those undone."""

    def __init__(self, place=None):
        self.now = place
        self._past = []
        self._future = []

    def moved(self, place):
        """Takes note of a movement; one that led nowhere does not count."""
        if place == self.now:
            return
        if self.now is not None:
            self._past.append(self.now)
            del self._past[:-_LIMIT]
        self._future.clear()
        self.now = place

    def undo(self):
        """The place before this one; call `confirm` once there."""
        if not self._past:
            raise UdbError("nothing to undo: there was no movement before this one")
        return self._past[-1]

    def redo(self):
        if not self._future:
            raise UdbError("nothing to redo: `ugo undo` was not the last movement")
        return self._future[-1]

    def undone(self):
        self._future.append(self.now)
        self.now = self._past.pop()

    def redone(self):
        self._past.append(self.now)
        self.now = self._future.pop()
