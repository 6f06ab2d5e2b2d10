"""Times, tables, locations, sizes: what users type and read."""

import gettext
import io
import unittest

from undo import location, print_options, sizes, table, times, wallclock, wording
from undo.errors import UdbError


class PrintOptions(unittest.TestCase):
    def test_options_become_settings(self):
        split = print_options.split
        self.assertEqual(split("-pretty -- *x"), ([("pretty", "on")], "*x"))
        self.assertEqual(split("-elem 3 -obj off -- /x y"), ([("elements", "3"), ("object", "off")], "/x y"))
        self.assertEqual(split("-array-indexes x"), ([("array-indexes", "on")], "x"))
        self.assertEqual(split("-elements unlimited -- y"), ([("elements", "unlimited")], "y"))

    def test_expressions_are_none(self):
        for text in ("x", "-1", "-x", "-nosuch", "/x y", "-elements x", "-a", ""):
            self.assertEqual(print_options.split(text), ([], text))
        self.assertEqual(print_options.split("-- -1"), ([], "-1"))


class Wording(unittest.TestCase):
    def test_a_catalogue_is_one_that_gettext_reads(self):
        messages = {"b %s": "die b", "a": "das ä", "ab": ""}
        read = gettext.GNUTranslations(io.BytesIO(wording.catalogue(messages)))
        self.assertEqual([read.gettext(message) for message in ("a", "b %s", "ab", "c")], ["das ä", "die b", "", "c"])


class Times(unittest.TestCase):
    def test_written_forms(self):
        self.assertEqual(times.parse("2,822:0x5618d2d15c61", 1), (2822, 0x5618D2D15C61))
        self.assertEqual(times.parse(" 2822 ", 1), (2822, None))
        self.assertEqual(times.parse("+1,000", 5), (1005, None))
        self.assertEqual(times.parse("-3", 5), (2, None))
        self.assertEqual(times.parse("-30", 5), (0, None))
        self.assertEqual(times.parse("now", 5), (5, None))

    def test_what_is_no_time(self):
        for text in ("x", "", "1:", "1:x", ":0x1", "+", "1 2", "0x10", "1:0x", "--1", ",1", "1\n:2"):
            with self.assertRaises(UdbError, msg=text):
                times.parse(text, 1)

    def test_shown_forms_can_be_typed(self):
        for time in ((1, 0), (2822, 0x5618D2D15C61), (10**9, times.NO_PC)):
            self.assertEqual(times.parse(times.show(time), 1), time)
        self.assertEqual(times.show((2822, 0x5618D2D15C61)), "2,822:0x5618d2d15c61")

    def test_prompts(self):
        begin, end = (1, 0x10), (225575, 0x20)
        self.assertEqual(times.prompt(begin, begin, end), "start 1> ")
        self.assertEqual(times.prompt(end, begin, end), "end 225,575> ")
        self.assertEqual(times.prompt((223333, 0x30), begin, end), "99% 223,333> ")
        self.assertEqual(times.prompt((1, 0x11), begin, end), "0% 1> ")
        self.assertEqual(times.prompt((225575, 0x1F), begin, end), "100% 225,575> ")
        self.assertEqual(times.prompt((3339, 0), (1, 0), (232759, 0), ["a", "b"]), "1% 3,339 a b> ")

    def test_a_recording_of_one_block(self):
        self.assertEqual(times.prompt((1, 2), (1, 1), (1, 3)), "0% 1> ")


class Tables(unittest.TestCase):
    def test_inferiors_as_users_know_them(self):
        text = table.render(
            [("Num", ">"), ("PID", ">"), ("Recording", "<")],
            [(1, 137, "consumer-133.undo"), (2, 133, "producer-133.undo")],
            [True, False],
        )
        expected = """\
    Num    PID  Recording
  -----  -----  -----------------
*     1    137  consumer-133.undo
      2    133  producer-133.undo"""
        self.assertEqual(text, expected)

    def test_wide_cells_widen_their_column(self):
        text = table.render([("N", ">")], [("123456",)])
        self.assertEqual(text, "       N\n  ------\n  123456")

    def test_sizes(self):
        self.assertEqual(table.size(1073741824), "1.00G")
        self.assertEqual(table.size(67108864), "64.00M")
        self.assertEqual(table.size(1536), "1.50K")
        self.assertEqual(table.size(80), "80")

    def test_sizes_written(self):
        self.assertEqual([sizes.parse(text) for text in ("0", "80", "2K", "512m", "1G")], [0, 80, 2048, 512 << 20, 1 << 30])
        for text in ("", "K", "1T", "-1", "1.5G", "1 G"):
            with self.assertRaises(UdbError, msg=text):
                sizes.parse(text)


class Locations(unittest.TestCase):
    AMID = "#0  0x00005618d2d15c61 in producer_run () at x.c:124\n124\t        shmem_data_array[index] = new_value;\n"
    AT_LINE = "#0  main () at x.c:16\n16\t{\n"
    NO_SOURCE = "#3  0x00007f in __GI_raise (sig=6) at raise.c:51\n51\tin raise.c\n"
    NO_SYMBOLS = "#0  0x00007f in ?? () from /lib/x.so\n"

    def test_full(self):
        self.assertEqual(location.full(self.AT_LINE), "main () at x.c:16\n16\t{")
        self.assertTrue(location.full(self.AMID).startswith("0x00005618d2d15c61 in producer_run ()"))

    def test_short(self):
        self.assertEqual(location.short(self.AMID), "0x00005618d2d15c61\t124\t        shmem_data_array[index] = new_value;")
        self.assertEqual(location.short(self.AT_LINE), "16\t{")
        self.assertEqual(location.short(self.NO_SOURCE), "0x00007f\t51\tin raise.c")
        self.assertEqual(location.short(self.NO_SYMBOLS), "0x00007f in ?? () from /lib/x.so")


class Wallclocks(unittest.TestCase):
    NEAR = 1_700_000_000_000_000_000

    def test_shown_forms_can_be_typed(self):
        moment = self.NEAR + 123_456_000
        shown = wallclock.show(moment)
        self.assertEqual(wallclock.parse(shown, 10**18), moment)
        self.assertEqual(wallclock.parse(shown.split(" ")[1], self.NEAR), moment)
        self.assertEqual(wallclock.parse("1700000000.5", 0), self.NEAR + 500_000_000)

    def test_what_is_no_time_of_day(self):
        for text in ("", "x", "25:00", "10", "2020-13-01 10:00", "10:00:00.", "10:61"):
            with self.assertRaises(UdbError, msg=text):
                wallclock.parse(text, self.NEAR)


if __name__ == "__main__":
    unittest.main()
