"""The options of `print`: each stands for a setting, for this once."""

import re

# What `print -NAME` and `set print NAME` both know.
_SWITCHES = (
    "address",
    "array",
    "array-indexes",
    "memory-tag-violations",
    "nibbles",
    "null-stop",
    "object",
    "pretty",
    "raw-values",
    "static-members",
    "symbol",
    "union",
    "vtbl",
)
_NUMBERS = ("characters", "elements", "max-depth", "repeats")

_OPTION = re.compile(r"-([a-z][a-z-]*)(?:\s+|\Z)")
_STATE = re.compile(r"(on|off|yes|no|enable|disable|1|0)(?:\s+|\Z)")
_NUMBER = re.compile(r"(unlimited|-1|[0-9]+)(?:\s+|\Z)")
_END = re.compile(r"--(?:\s+|\Z)")


def split(text):
    """Settings as (name, value), and the rest of the arguments. What is no option begins the rest; so it may be an expression."""
    settings = []
    while True:
        end = _END.match(text)
        if end:
            return settings, text[end.end() :]
        option = _OPTION.match(text)
        names = _meant(option.group(1)) if option else []
        if len(names) != 1:
            return settings, text
        rest = text[option.end() :]
        value = (_NUMBER if names[0] in _NUMBERS else _STATE).match(rest)
        if value is None and names[0] in _NUMBERS:
            return settings, text
        settings.append((names[0], value.group(1) if value else "on"))
        text = rest[value.end() :] if value else rest


def _meant(word):
    known = _SWITCHES + _NUMBERS
    return [word] if word in known else [name for name in known if name.startswith(word)]
