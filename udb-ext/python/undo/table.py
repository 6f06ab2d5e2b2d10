"""Tables for people: two blanks between columns, a rule under each header, a mark before the rows that are one's own.

    Num    PID  Recording
  -----  -----  -----------------
*     1    137  consumer-133.undo
      2    133  producer-133.undo
"""

# How much wider than its header a column is at least.
_ROOM = 2


def render(columns, rows, marks=None):
    """`columns` are (header, alignment) with alignment `<` or `>`; `marks` says which rows get the star."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [
        max([len(header) + _ROOM] + [len(row[index]) for row in cells]) for index, (header, _) in enumerate(columns)
    ]

    def line(mark, texts):
        padded = (f"{text:{align}{width}}" for text, (_, align), width in zip(texts, columns, widths))
        return (mark + " " + "  ".join(padded)).rstrip()

    marks = marks or [False] * len(cells)
    lines = [line(" ", [header for header, _ in columns]), line(" ", ["-" * width for width in widths])]
    lines += [line("*" if mark else " ", row) for mark, row in zip(marks, cells)]
    return "\n".join(lines)


def size(count):
    """`67108864` as `64.00M`."""
    for unit, scale in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.2f}{unit}"
    return f"{count}"
