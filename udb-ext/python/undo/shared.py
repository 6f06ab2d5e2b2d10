"""Printing what lies in shared memory: a value is known only as of this process's last access to it.

A value is a tree of nodes; the leaves are what one access reads. The debugger's side builds the tree, this side marks and writes it.
"""

NEVER = "<never accessed>"
STALE = "<stale>"


class Node:
    """`children` is None for a leaf, else (name or None, Node) pairs; `text` is how gdb prints a leaf."""

    def __init__(self, address=None, size=0, text="", children=None, cut=False):
        self.address = address
        self.size = size
        self.text = text
        self.children = children
        # Elements beyond gdb's limit were left out.
        self.cut = cut

    def leaves(self):
        if self.children is None:
            yield self
            return
        for _, child in self.children:
            yield from child.leaves()


def mark(status):
    """How to mark a leaf of this status: `private`, `never`, or when it was last accessed."""
    if status == "private":
        return None
    if status == "never":
        return NEVER
    return STALE if status["stale"] else None


def write(node, marks, pretty=False, depth=0):
    """The tree as gdb would print it; `marks` maps leaves to their marks, `pretty` gives each member a line."""
    if node.children is None:
        found = marks.get(node)
        if found == NEVER:
            return NEVER
        return f"{node.text} {found}" if found else node.text
    parts = [(f"{name} = " if name else "") + write(child, marks, pretty, depth + 1) for name, child in node.children]
    more = "..." if node.cut else ""
    if pretty and any(name for name, _ in node.children):
        margin = "  " * depth
        return "{" + ",".join(f"\n{margin}  {part}" for part in parts) + f"{more}\n{margin}}}"
    return "{" + ", ".join(parts) + more + "}"


def marks_of(node, request):
    """The marks of all leaves in memory, asked of the server at once."""
    leaves = [leaf for leaf in node.leaves() if leaf.address is not None and leaf.size > 0]
    statuses = request("shared", ranges=[[leaf.address, leaf.size] for leaf in leaves])["statuses"]
    found = {leaf: mark(status) for leaf, status in zip(leaves, statuses)}
    return {leaf: name for leaf, name in found.items() if name}
