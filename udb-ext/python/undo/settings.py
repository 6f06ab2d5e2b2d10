"""Settings of the recorder that a session carries. A loaded recording keeps its own: they then change nothing."""

from . import sizes, table
from .errors import UdbError


class MaxEventLogSize:
    name = "max-event-log-size"
    summary = "the maximum size of the event log"
    help = "A number, with K, M or G after it, or 0 for a suitable size. A loaded recording is complete; the setting does not change it."
    _SUITABLE = 1 << 30

    def __init__(self):
        self._bytes = self._SUITABLE
        self.text = "1G"

    def set(self, text):
        self._bytes = sizes.parse(text) or self._SUITABLE
        self.text = text.strip()

    def shown(self):
        return f"maximum event log size is {self._bytes} bytes ({table.size(self._bytes)})"


class EventLogMode:
    name = "event-log-mode"
    summary = "what happens when the event log is full: circular or straight"
    help = "circular forgets the oldest events, straight stops. A loaded recording is complete; the setting does not change it."

    def __init__(self):
        self.text = "circular"

    def set(self, text):
        if text.strip() not in ("circular", "straight"):
            raise UdbError(f'"{text}" is not an event log mode: write circular or straight')
        self.text = text.strip()

    def shown(self):
        return f"event log mode is {self.text}"


ALL = (MaxEventLogSize, EventLogMode)
