"""Conditions, pages and lines of the event log."""

import unittest

from undo import events
from undo.conditions import FIELDS, Condition, Event
from undo.errors import UdbError


def event(**fields):
    return Event(**{**dict.fromkeys(FIELDS, 0), "name": "read", "syscall": 0, "size": 80, **fields})


class FakeLog:
    """The server's paging, three events a page."""

    PAGE = 3

    def __init__(self, count):
        self.events = [event(bbcount=number, result=number, name="read" if number % 2 else "write") for number in range(count)]
        self.requests = []

    def __call__(self, what, cursor=0, limit=None, name=None):
        self.requests.append({"cursor": cursor, "limit": limit, "name": name})
        scanned = min(self.PAGE, len(self.events) - cursor, self.PAGE if limit is None else limit)
        page = self.events[cursor : cursor + scanned]
        end = cursor + scanned
        shown = [list(row) for row in page if name in (None, row.name)]
        return {"events": shown, "scanned": scanned, "cursor": end if end < len(self.events) else None}


class Walk(unittest.TestCase):
    def results(self, condition="", limit=None, count=10):
        log = FakeLog(count)
        found = [row.result for row in events.walk(log, Condition(condition), limit)]
        return found, log.requests

    def test_all_pages(self):
        self.assertEqual(self.results()[0], list(range(10)))

    def test_the_limit_counts_events_considered(self):
        self.assertEqual(self.results(limit=4)[0], [0, 1, 2, 3])
        self.assertEqual(self.results("name == 'write'", limit=4)[0], [0, 2])
        self.assertEqual(self.results(limit=0)[0], [])

    def test_the_server_filters_names(self):
        found, requests = self.results("result > 3 and name == 'read'")
        self.assertEqual(found, [5, 7, 9])
        self.assertTrue(all(request["name"] == "read" for request in requests))

    def test_nothing_is_asked_for_before_it_is_wanted(self):
        log = FakeLog(10)
        next(events.walk(log, Condition("")))
        self.assertEqual(len(log.requests), 1)

    def test_an_empty_log(self):
        self.assertEqual(self.results(count=0)[0], [])


class Conditions(unittest.TestCase):
    def test_names_that_must_hold(self):
        self.assertEqual(Condition("name == 'x'").name, "x")
        self.assertEqual(Condition("'x' == name and size > 1").name, "x")
        for text in ("name == 'x' or size > 1", "not name == 'x'", "name != 'x'", "name == tid", "size == 1", ""):
            self.assertIsNone(Condition(text).name, text)

    def test_errors_are_one_line(self):
        for text in ("1 +", "result ==", "import os", "x y"):
            with self.assertRaises(UdbError) as caught:
                Condition(text)
            self.assertEqual(len(str(caught.exception).splitlines()), 1)
        for text in ("nosuch == 1", "name > 1", "1 / result"):
            with self.assertRaises(UdbError) as caught:
                Condition(text).accepts(event())
            self.assertEqual(len(str(caught.exception).splitlines()), 1)

    def test_all_fields_are_there(self):
        text = "address == bbcount == pc == result == signum == tid == timestamp == 0 and size == 80 and syscall == 0"
        self.assertTrue(Condition(text).accepts(event()))

    def test_names_are_known_in_inner_scopes(self):
        self.assertTrue(Condition("any(part in name for part in ('rea', 'wri'))").accepts(event()))


class Lines(unittest.TestCase):
    def test_as_users_know_them(self):
        line = events.line(event(bbcount=3264, pc=(1 << 64) - 1, name="openat", syscall=257, result=3))
        self.assertEqual(line, "time=3,264:0xffffffffffffffff: openat. result=0x3 size=80.")
        line = events.line(event(bbcount=14654, pc=(1 << 64) - 1, name="THREADSWITCH", syscall=None, tid=21080, size=56))
        self.assertEqual(line, "time=14,654:0xffffffffffffffff: THREADSWITCH. tid=21080 size=56.")

    def test_results_are_shown_even_if_zero(self):
        self.assertIn("result=0x0 ", events.line(event(name="fstat", syscall=5)))


class Options(unittest.TestCase):
    def test_all_spellings(self):
        self.assertEqual(events.parse_options("-l 100 name == 'openat'", 1), ({}, 100, False, "name == 'openat'"))
        self.assertEqual(events.parse_options("-a now -b +1", 3339), ({"min": 3339, "max": 3340}, None, False, ""))
        self.assertEqual(events.parse_options("-min 1,000 -max -1 -q x", 5), ({"min": 1000, "max": 4}, None, True, "x"))
        self.assertEqual(events.parse_options("-limit 2 -quiet", 5), ({}, 2, True, ""))
        self.assertEqual(events.parse_options("", 5), ({}, None, False, ""))

    def test_bad_ones(self):
        for text in ("-l", "-l x", "-a", "-a x", "-b 0x1"):
            with self.assertRaises(UdbError, msg=text):
                events.parse_options(text, 1)


if __name__ == "__main__":
    unittest.main()
