"""Sizes as users write them: `512M`."""

import re

from .errors import UdbError

_SIZE = re.compile(r"([0-9]+)([KMG]?)\Z", re.IGNORECASE)
_SCALE = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse(text):
    match = _SIZE.match(text.strip())
    if match is None:
        raise UdbError(f'"{text}" is not a size: write a number, with K, M or G after it, such as 512M')
    return int(match.group(1)) * _SCALE[match.group(2).upper()]
