"""`uinfo time`"""

from .. import times


class Command:
    names = ("uinfo time", "info time")
    help = "Show where in the recorded history the program stands.\nUsage: uinfo time [-a]\n\nWith -a, as full times."

    def invoke(self, session, argument):
        place = session.place()
        form = times.show if argument == "-a" else lambda time: f"{time[0]:,}"
        now, begin, end = map(form, (place.history.now, place.begin, place.end))
        session.debugger.say(f"Current time is: {now} (in recorded range: [{begin} - {end}])")
