"""Conditions on events: Python expressions over an event's fields."""

import ast
import collections

from .errors import UdbError

# In the order of a row in the server's reply.
FIELDS = ("bbcount", "pc", "name", "result", "syscall", "signum", "address", "tid", "timestamp", "size")
Event = collections.namedtuple("Event", FIELDS)


class Condition:
    """Compiled once, tested on every event. An empty text accepts all."""

    def __init__(self, text):
        self.text = text.strip()
        self.name = None
        self._holds = None
        if not self.text:
            return
        try:
            tree = ast.parse(self.text, "condition", "eval")
        except SyntaxError as error:
            raise UdbError(f"condition: {error.msg}: {self.text}") from None
        self.name = _required_name(tree.body)
        # A function of the fields: called a million times, this is several times as quick as evaluating the expression.
        function = ast.parse(f"lambda {', '.join(FIELDS)}: 0", "condition", "eval")
        function.body.body = tree.body
        self._holds = eval(compile(function, "condition", "eval"), {})

    def accepts(self, row):
        """`row` has the values of `FIELDS`."""
        if self._holds is None:
            return True
        try:
            return bool(self._holds(*row))
        except NameError as error:
            known = ", ".join(sorted(FIELDS))
            raise UdbError(f"condition: {error} (there are: {known})") from None
        except Exception as error:
            raise UdbError(f"condition: {type(error).__name__}: {error}") from None


def _required_name(node):
    """The event name without which the condition cannot hold: lets the server leave all others out."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return next(filter(None, map(_required_name, node.values)), None)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
        sides = [node.left, node.comparators[0]]
        for variable, constant in (sides, sides[::-1]):
            named = isinstance(variable, ast.Name) and variable.id == "name"
            if named and isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                return constant.value
    return None
