"""Times of day, as users write and read them: local time."""

import datetime
import re

from .errors import UdbError

_SECOND = 1_000_000_000
_FORM = re.compile(r"(?:(\d{4})-(\d{1,2})-(\d{1,2})[ T])?(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?\Z")
_EPOCH = re.compile(r"(\d{9,})(?:\.(\d{1,9}))?\Z")


def show(nanoseconds):
    """`2026-11-21 10:48:20.123456`"""
    moment = datetime.datetime.fromtimestamp(nanoseconds // _SECOND)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{nanoseconds % _SECOND // 1000:06d}"


def parse(text, near):
    """Nanoseconds since 1970. A time without a date is on the day of `near`."""
    text = text.strip()
    epoch = _EPOCH.match(text)
    if epoch:
        return int(epoch.group(1)) * _SECOND + _fraction(epoch.group(2))
    match = _FORM.match(text)
    if match is None:
        raise UdbError(f'"{text}" is not a time of day: write HH:MM:SS, YYYY-MM-DD HH:MM:SS, or seconds since 1970')
    *date, hour, minute, second, fraction = match.groups()
    day = datetime.datetime.fromtimestamp(near // _SECOND)
    try:
        if date[0] is not None:
            day = datetime.datetime(*map(int, date))
        moment = day.replace(hour=int(hour), minute=int(minute), second=int(second or 0), microsecond=0)
    except ValueError as error:
        raise UdbError(f'"{text}": {error}') from None
    return int(moment.timestamp()) * _SECOND + _fraction(fraction)


def _fraction(digits):
    return int((digits or "0").ljust(9, "0"))
