"""`ushow`"""

from .uset import setting_named
from .. import settings
from ..errors import UdbError


class Command:
    names = ("ushow",)
    help = "Show a setting of the recorder. `show NAME` does the same.\nUsage: ushow max-event-log-size | event-log-mode"

    def invoke(self, session, argument):
        if not argument:
            raise UdbError(f"ushow needs a setting: {', '.join(setting.name for setting in settings.ALL)}")
        session.debugger.run(f"show {setting_named(argument)}")

    def complete(self, _session, text):
        return [setting.name for setting in settings.ALL if setting.name.startswith(text)]
