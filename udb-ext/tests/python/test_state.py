"""History, bookmarks, shared values, accesses, and the session over a debugger that is not there."""

import contextlib
import os
import tempfile
import unittest

from undo import accesses, shared
from undo.bookmarks import Bookmarks
from undo.errors import UdbError
from undo.history import History
from undo.session import Session


class Histories(unittest.TestCase):
    def test_undo_and_redo(self):
        history = History("a")
        for place in "bc":
            history.moved(place)
        self.assertEqual(history.undo(), "b")
        history.undone()
        self.assertEqual((history.now, history.undo(), history.redo()), ("b", "a", "c"))
        history.redone()
        self.assertEqual(history.now, "c")

    def test_a_new_movement_ends_what_could_be_redone(self):
        history = History("a")
        history.moved("b")
        history.undone()
        history.moved("c")
        with self.assertRaises(UdbError):
            history.redo()
        self.assertEqual(history.undo(), "a")

    def test_staying_is_no_movement(self):
        history = History("a")
        history.moved("a")
        with self.assertRaises(UdbError):
            history.undo()

    def test_it_is_bounded(self):
        history = History(0)
        for place in range(1, 5000):
            history.moved(place)
        steps = 0
        while True:
            try:
                history.undo()
            except UdbError:
                break
            history.undone()
            steps += 1
        self.assertEqual(steps, 1000)


class Marks(unittest.TestCase):
    def test_names_and_times(self):
        marks = Bookmarks()
        marks.add("late", (9, 1))
        marks.add("early", (2, 1))
        self.assertEqual([name for name, _ in marks.all()], ["early", "late"])
        self.assertEqual(marks.at((9, 1)), ["late"])
        self.assertEqual(marks.at((9, 2)), [])
        marks.remove("late")
        for call in (lambda: marks.time("late"), lambda: marks.remove("late"), lambda: marks.add("a b", (1, 1)), lambda: marks.add("", (1, 1))):
            self.assertRaises(UdbError, call)


class SharedValues(unittest.TestCase):
    def test_marks(self):
        leaves = [shared.Node(address=index * 4, size=4, text=str(index)) for index in range(4)]
        statuses = {0: "private", 4: "never", 8: {"accessed": [5, 1], "stale": True}, 12: {"accessed": [9, 1], "stale": False}}
        tree = shared.Node(children=[("a", leaves[0]), ("b", leaves[1]), ("c", shared.Node(children=[(None, leaves[2]), (None, leaves[3])], cut=True))])

        def request(what, ranges):
            self.assertEqual(what, "shared")
            return {"statuses": [statuses[address] for address, _ in ranges]}

        marks = shared.marks_of(tree, request)
        self.assertEqual(shared.write(tree, marks), "{a = 0, b = <never accessed>, c = {2 <stale>, 3...}}")
        self.assertEqual(shared.write(tree, marks, pretty=True), "{\n  a = 0,\n  b = <never accessed>,\n  c = {2 <stale>, 3...}\n}")


class Accesses(unittest.TestCase):
    ROWS = [
        {"uuid": "p", "pid": 133, "time": [2822, 0x5618D2D15C61], "kind": "write", "address": 0x7F61B0794118, "length": 4, "own": False, "value": "64000000", "source": None, "unordered": False},
        {"uuid": "c", "pid": 137, "time": [3040, 0x5618D2D15BBF], "kind": "read", "address": 0x7F61B0794118, "length": 4, "own": True, "value": None, "source": "/x/y.c:96", "unordered": False},
    ]

    def test_the_table_as_users_know_it(self):
        expected = """\
    Num    PID  Time in recording     Type    Address           Len
  -----  -----  --------------------  ------  --------------  -----
      2    133  2,822:0x5618d2d15c61  write   0x7f61b0794118      4
*     1    137  3,040:0x5618d2d15bbf  read    0x7f61b0794118      4"""
        self.assertEqual(accesses.render(self.ROWS, {"c": 1, "p": 2}), expected)

    def test_values_and_sources(self):
        text = accesses.render(self.ROWS, {"c": 1, "p": 2}, lambda row: "p.c:124")
        self.assertIn("100      p.c:124", text)
        self.assertIn("y.c:96", text)
        self.assertEqual(accesses.value({"value": "ff" * 16}), "ff " * 15 + "ff")
        self.assertEqual(accesses.value({"value": "ffffffff"}), "-1")

    def test_where_a_value_comes_from(self):
        self.assertEqual(accesses.origin(self.ROWS)["pid"], 133)
        self.assertIsNone(accesses.origin(self.ROWS[1:]))

    def test_a_writer_that_was_not_recorded(self):
        row = dict(self.ROWS[0], uuid=None, time=None)
        self.assertIn("?      ?  (not recorded)", accesses.render([row], {}))


class FakeDebugger:
    """Two recordings of 100 blocks; no gdb."""

    def __init__(self, folder):
        self.current = 1
        self.paths = {1: os.path.join(folder, "a.undo"), 2: os.path.join(folder, "b.undo")}
        self.at = {}
        self.made = [1]
        self.output = []
        self.flushed = []
        self.variables = {}
        # How a jump ends: after how many pieces, and what interrupts it then.
        self.pieces = []

    def inferior(self):
        return self.current

    def connected(self):
        return self.current in self.at

    def connect(self, server, path):
        if path.endswith("broken.undo"):
            raise UdbError(f"{path}: not a recording")
        self.at[self.current] = (1, 16)
        return None

    def request(self, what, **fields):
        if what == "recordings":
            rows = [{"uuid": f"u{number}", "pid": 100 + number, "path": path} for number, path in self.paths.items()]
            return {"recordings": rows, "log": "/x/log.shmem", "warnings": []}
        if what == "files":
            return {"files": []}
        if what == "seek":
            if fields["bbcount"] > 100:
                raise UdbError("outside")
            self.at[self.current] = (fields["bbcount"], fields.get("pc", 0))
        if what == "end":
            self.at[self.current] = (100, 16)
        arrived = True
        if what == "seek" and self.pieces:
            self.at[self.current] = (self.pieces.pop(0), 0)
            if self.pieces and self.pieces[0] is KeyboardInterrupt:
                raise self.pieces.pop(0)
            arrived = False
        now = self.at[self.current]
        return {"arrived": arrived, "now": list(now), "begin": [1, 16], "end": [100, 16], "pid": 100 + self.current, "uuid": f"u{self.current}", "executable": "/e", "code": str(now[0] > 50)}

    def uninterrupted(self):
        return contextlib.nullcontext()

    interruptible = uninterrupted

    def uses_files_of_recording(self):
        return False

    def forget_files(self):
        pass

    def inferiors(self):
        return list(self.made)

    def add_inferior(self):
        self.made.append(max(self.made) + 1)
        return self.made[-1]

    def select_inferior(self, number):
        self.current = number

    def own_breakpoints(self, number):
        pass

    def attempt(self, command):
        word, _, number = command.rpartition(" ")
        if word == "kill inferiors":
            self.at.pop(int(number), None)

    def flush(self, libraries):
        self.flushed.append(libraries)

    def frame(self):
        return "#0  main () at x.c:1\n1\t{\n"

    def say(self, text):
        self.output.append(text)

    def set_variable(self, name, value):
        self.variables[name] = value


class Sessions(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.debugger = FakeDebugger(folder.name)
        for path in self.debugger.paths.values():
            open(path, "w").close()
        self.session = Session(self.debugger, "server")
        self.session.load(self.debugger.paths[1])

    def test_loading_finds_the_others_without_opening_them(self):
        self.assertEqual(sorted(self.session.places), [1, 2])
        self.assertFalse(self.session.places[2].open)
        self.assertEqual(self.session.numbers(), {"u1": 1, "u2": 2})
        self.assertIn("1 other recording", self.debugger.output[0])

    def test_jumps_are_noted_and_undone(self):
        self.session.jump("end")
        self.assertEqual(self.session.prompt(), "end 100> ")
        self.assertEqual(self.debugger.variables["_undo_time"], 100)
        history = self.session.place().history
        self.session.go_in_history(history.undo(), history.undone)
        self.assertEqual(self.session.prompt(), "start 1> ")
        history = self.session.place().history
        self.session.go_in_history(history.redo(), history.redone)
        self.assertEqual(self.session.now(), (100, 16))

    def test_libraries_are_read_again_only_where_other_code_is_mapped(self):
        for bbcount in (2, 60, 70, 3):
            self.session.seek((bbcount, None))
        self.assertEqual(self.debugger.flushed, [False, True, False, True])

    def test_a_failed_jump_changes_nothing(self):
        with self.assertRaises(UdbError):
            self.session.seek((101, None))
        self.assertEqual(self.session.now(), (1, 16))

    def test_a_long_jump_is_made_in_pieces(self):
        self.debugger.pieces = [10, 20, 30]
        self.session.seek((40, None))
        self.assertEqual((self.session.now(), self.debugger.pieces), ((40, 0), []))
        self.assertEqual(len(self.debugger.flushed), 1)

    def test_a_jump_that_fails_on_the_way_leads_back(self):
        self.debugger.pieces = [10, 20]
        with self.assertRaises(UdbError):
            self.session.seek((101, None))
        self.assertEqual(self.debugger.at[1], (1, 16))

    def test_an_interrupted_jump_says_where_it_ended(self):
        self.debugger.pieces = [10, 20, KeyboardInterrupt]
        with self.assertRaisesRegex(UdbError, "interrupted on the way, at 20:0x0"):
            self.session.seek((40, None))
        self.assertEqual(self.session.now(), (20, 0))
        self.assertEqual(self.session.place().history.undo(), (1, 16))

    def test_a_killed_recording_is_opened_again(self):
        self.session.visit(2)
        self.debugger.at.pop(2)
        self.session.visit(1)
        self.session.visit(2)
        self.assertEqual(self.session.now(), (1, 16))

    def test_each_recording_has_its_own_place(self):
        self.session.seek((5, None))
        self.session.visit(2)
        self.session.seek((7, 1))
        self.session.visit(1)
        self.assertEqual(self.session.now(), (5, 0))
        self.session.visit(2)
        self.assertEqual(self.session.now(), (7, 1))
        self.assertEqual(self.session.place().pid, 102)

    def test_a_recording_that_cannot_be_opened_leaves_one_where_one_was(self):
        self.session.places[2].path = "/x/broken.undo"
        with self.assertRaises(UdbError):
            self.session.visit(2)
        self.assertEqual(self.debugger.current, 1)
        with self.assertRaises(UdbError):
            self.session.visit(3)

    def test_the_next_run_has_the_same_numbers(self):
        self.session.visit(2)
        self.session.load(self.debugger.paths[1])
        self.assertEqual((sorted(self.session.places), self.debugger.current, sorted(self.debugger.at)), ([1, 2], 1, [1]))
        other = self.debugger.paths.pop(2)
        self.session.load(self.debugger.paths[1])
        self.assertEqual(sorted(self.session.places), [1])
        self.debugger.paths[2] = other
        self.session.load(self.debugger.paths[1])
        self.assertEqual(sorted(self.session.places), [1, 2])

    def test_without_a_recording(self):
        self.session.unload()
        self.assertEqual(self.session.prompt(), "not running> ")
        self.assertRaises(UdbError, self.session.place)


if __name__ == "__main__":
    unittest.main()
