"""`uinfo event-stats`"""

from .. import table


class Command:
    names = ("uinfo event-stats", "info event-stats")
    help = "Show how many events of each kind the recording holds, and how much room they take."

    def invoke(self, session, _argument):
        session.place()
        stats = session.request("event-stats")
        ordered = sorted(stats["names"].items(), key=lambda item: (-item[1][0], item[0]))
        rows = [(name, f"{count:,}", table.size(size)) for name, (count, size) in ordered]
        rows.append(("(all)", f"{stats['count']:,}", table.size(stats["size"])))
        session.debugger.say(table.render([("Event", "<"), ("Count", ">"), ("Size", ">")], rows))
