"""`uinfo event-log-size`"""

from .. import table


class Command:
    names = ("uinfo event-log-size", "info event-log-size")
    help = "Show how much room the recorded events take."

    def invoke(self, session, _argument):
        session.place()
        size = session.request("event-stats")["size"]
        session.debugger.say(f"event log size is {size} bytes ({table.size(size)})")
