"""gdb's own words for a refused change of the program, replaced by the reason.

gdb refuses to write registers and memory deep inside, whichever command asks: `set`, `call`, `jump`, `return`, and all those of a front end.
It takes its messages through gettext, so a catalogue with those two messages changes them everywhere. A gdb or a C library without gettext
keeps gdb's words.
"""

import ctypes
import os
import struct
import tempfile

REASON = "history cannot be changed, so nothing can be assigned, called or jumped to here"

# As in gdb's source.
_MESSAGES = ("Writing to memory is not allowed (addr %s, len %s)", "Writing to registers is not allowed (regno %d)")

_DOMAIN = b"gdb"
_LC_MESSAGES = 5
# There in every C library with catalogues; unlike "C", one for which they are looked at.
_NEUTRAL = b"C.UTF-8"


def catalogue(messages):
    """A catalogue in the binary form of gettext (.mo)."""
    entries = sorted({"": "Content-Type: text/plain; charset=UTF-8\n", **messages}.items())
    encoded = [(message.encode(), wording.encode()) for message, wording in entries]
    head = 7 * 4
    texts = head + 2 * 8 * len(encoded)
    tables, content = [], b""
    for column in (0, 1):
        for entry in encoded:
            tables += [len(entry[column]), texts + len(content)]
            content += entry[column] + b"\0"
    header = (0x950412DE, 0, len(encoded), head, head + 8 * len(encoded), 0, 0)
    return struct.pack(f"<7I{len(tables)}I", *header, *tables) + content


def install():
    """Makes gdb say why; whether that could be done."""
    try:
        return _install(ctypes.CDLL(None))
    except (AttributeError, OSError):
        return False


def _install(library):
    for name in ("setlocale", "bindtextdomain", "dgettext"):
        getattr(library, name).restype = ctypes.c_char_p
    locale = library.setlocale(_LC_MESSAGES, None)
    if locale in (None, b"C", b"POSIX"):
        locale = library.setlocale(_LC_MESSAGES, _NEUTRAL)
        if locale is None:
            return False
        # It did not count so far, and is not to begin to.
        os.environ.pop("LANGUAGE", None)
    language = os.environ.get("LANGUAGE", "").split(":")[0] or os.fsdecode(locale)
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, language, "LC_MESSAGES")
        os.makedirs(place)
        with open(os.path.join(place, "gdb.mo"), "wb") as file:
            file.write(catalogue({message: REASON for message in _MESSAGES}))
        before = library.bindtextdomain(_DOMAIN, None)
        library.bindtextdomain(_DOMAIN, os.fsencode(folder))
        # Now the catalogue is read, and kept in memory.
        found = library.dgettext(_DOMAIN, _MESSAGES[0].encode()) == REASON.encode()
        if not found:
            library.bindtextdomain(_DOMAIN, before)
        return found
