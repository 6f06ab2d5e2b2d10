"""`usave`"""

import os
import shutil
import tempfile

from ..errors import UdbError


class Command:
    names = ("usave",)
    help = "Save the current recording under another name.\nUsage: usave FILE.undo"
    completer = "COMPLETE_FILENAME"

    def invoke(self, session, argument):
        if not argument:
            raise UdbError("usave needs a file name, such as FILE.undo")
        source = session.place().path
        target = os.path.abspath(os.path.expanduser(argument))
        if os.path.exists(target):
            raise UdbError(f"{argument}: there is such a file already; choose another name or remove it")
        try:
            # Under its final name a file is complete or not there.
            descriptor, unfinished = tempfile.mkstemp(dir=os.path.dirname(target))
            os.close(descriptor)
            try:
                shutil.copyfile(source, unfinished)
                shutil.copymode(source, unfinished)
                os.link(unfinished, target)
            finally:
                os.unlink(unfinished)
        except OSError as error:
            raise UdbError(f"{argument}: {error.strerror}") from None
        session.debugger.say(f"Saved to {argument}.")
