"""The error that a user is told, in one line that says what to do."""


class UdbError(Exception):
    pass
