"""`set variable`, in place of gdb's: says why nothing can be assigned."""


class Command:
    names = ("set variable",)
    help = "Evaluate an expression without printing it, to assign to a convenience variable. The program's own are history.\nUsage: set variable $NAME = EXPRESSION"
    completer = "COMPLETE_EXPRESSION"

    def invoke(self, session, argument):
        session.debugger.evaluate(argument)
