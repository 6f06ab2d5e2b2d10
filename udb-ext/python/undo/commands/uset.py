"""`uset`"""

from .. import settings
from ..errors import UdbError


def setting_named(name):
    known = [setting.name for setting in settings.ALL]
    if name not in known:
        raise UdbError(f'there is no setting "{name}" (there are: {", ".join(known)}); gdb\'s own are set with `set`')
    return name


class Command:
    names = ("uset",)
    help = "Change a setting of the recorder. `set NAME VALUE` does the same.\nUsage: uset max-event-log-size SIZE | uset event-log-mode circular|straight"

    def invoke(self, session, argument):
        name, _, value = argument.partition(" ")
        if not value.strip():
            raise UdbError("uset needs a setting and its value, such as uset event-log-mode straight")
        session.debugger.run(f"set {setting_named(name)} {value.strip()}")

    def complete(self, _session, text):
        return [setting.name for setting in settings.ALL if setting.name.startswith(text)]
