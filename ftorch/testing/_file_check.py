"""``FileCheck``: checks that a text has lines in an order."""

from __future__ import annotations

import re

__all__ = ["FileCheck"]


class FileCheck:
    """Checks what a text has, in the order in which the checks are added; `run` makes them.

    >>> import ftorch as torch
    >>> torch.testing.FileCheck().check("add").check_next("mul").check_not("div").run("add x\\nmul y")
    """

    def __init__(self):
        self._checks: list[tuple] = []

    def __repr__(self):
        return "FileCheck()"

    def _add(self, kind, text, count=0, exactly=False):
        self._checks.append((kind, text, count, exactly))
        return self

    def check(self, test_string: str) -> FileCheck:
        """The text has a string behind what was found before."""
        return self._add("CHECK", test_string)

    def check_not(self, test_string: str) -> FileCheck:
        """A string does not occur between what was found before and what is found next."""
        return self._add("CHECK-NOT", test_string)

    def check_same(self, test_string: str) -> FileCheck:
        """A string follows on the line of what was found before."""
        return self._add("CHECK-SAME", test_string)

    def check_next(self, test_string: str) -> FileCheck:
        """A string is on the line behind the one of what was found before."""
        return self._add("CHECK-NEXT", test_string)

    def check_count(self, test_string: str, count: int, exactly: bool = False) -> FileCheck:
        """A string occurs so many times; with ``exactly`` no more often."""
        if not count and not exactly:
            raise RuntimeError("Count must be greater than 0 unless exactly is set")
        return self._add("CHECK-COUNT", test_string, count, exactly)

    def check_dag(self, test_string: str) -> FileCheck:
        """A string occurs, in any order among neighbouring checks of this kind."""
        return self._add("CHECK-DAG", test_string)

    def check_regex(self, test_string: str) -> FileCheck:
        """A regular expression matches behind what was found before."""
        return self._add("CHECK-REGEX", test_string)

    def check_source_highlighted(self, test_string: str) -> FileCheck:
        """A string occurs on a line, with marks below it."""
        return self._add("CHECK-SOURCE-HIGHLIGHTED", test_string)

    def run(self, *texts) -> None:
        """Makes the checks on a text or what has one, such as a graph.

        Args:
            texts: the text; or a text whose lines declare checks (``# CHECK-NOT: div``), and the one to check.

        Raises:
            RuntimeError: a check fails; says which and where it looked.

        >>> import ftorch as torch
        >>> torch.testing.FileCheck().run("# CHECK: add\\n# CHECK-NEXT: mul", "add x\\nmul y")
        """
        *declared, text = texts
        checks = [*self._checks, *(check for lines in declared for check in _declared(lines))]
        if not checks:
            raise RuntimeError("No checks have been added to this instance ofFilecheck! Check for bad input.")
        _Run(str(text)).all(checks)


_DECLARED = re.compile(r"#\s*CHECK(?:-(NEXT|SAME|NOT|DAG|REGEX|SOURCE-HIGHLIGHTED)|-COUNT-(EXACTLY-)?(\d+))?: (.*)")


def _declared(text: str) -> list[tuple]:
    """The checks that a text's lines declare."""
    found = []
    for kind, exactly, count, what in _DECLARED.findall(text):
        name = "CHECK-COUNT" if count else f"CHECK-{kind}" if kind else "CHECK"
        found.append((name, what, int(count or 0), bool(exactly)))
    return found


class _Run:
    def __init__(self, text):
        self.text, self.at = text, 0  # where what was found before ends
        self.began = 0

    def fail(self, kind, what, start, end=None, found=None):
        shown = self.text[start : len(self.text) if end is None else end]
        if found is None:
            raise RuntimeError(f'Expected to find "{what}" but did not find it\nSearched string:\n{shown}\n'
                               f"From {kind}: {what}\n")
        raise RuntimeError(f'Expected to not find "{what}" but found it\n{shown}\nFrom {kind}: {what}\n')

    def find(self, kind, what, start, end=None):
        found = self.text.find(what, start, len(self.text) if end is None else end)
        if found < 0:
            self.fail(kind, what, start, end)
        return found

    def accept(self, start, end):
        self.began, self.at = start, end

    def all(self, checks):
        i = 0
        while i < len(checks):
            kind = checks[i][0]
            group = [checks[i]]
            if kind in ("CHECK-NOT", "CHECK-DAG"):
                while i + len(group) < len(checks) and checks[i + len(group)][0] == kind:
                    group.append(checks[i + len(group)])
            i += len(group)
            if kind == "CHECK-NOT":
                start = self.at
                self.all(checks[i : i + 1]) if i < len(checks) else self.accept(len(self.text), len(self.text))
                end, i = self.began, i + (i < len(checks))
                for _, what, *_ in group:
                    if self.text.find(what, start, end) >= 0:
                        self.fail(kind, what, start, end, found=True)
            elif kind == "CHECK-DAG":
                found = [(self.find(kind, what, self.at), len(what)) for _, what, *_ in group]
                self.accept(min(s for s, _ in found), max(s + n for s, n in found))
            else:
                self.one(*group[0])

    def one(self, kind, what, count, exactly):
        if kind == "CHECK-REGEX":
            found = re.compile(what).search(self.text, self.at)
            if found is None:
                self.fail(kind, what, self.at)
            else:
                self.accept(found.start(), found.end())
        elif kind == "CHECK-COUNT":
            begin, start = None, self.at
            for _ in range(count):
                at = self.find(kind, what, self.at)
                begin = at if begin is None else begin
                self.at = at + len(what)
            if exactly and self.text.find(what, self.at) >= 0:
                self.fail("CHECK-NOT", what, self.at, None, found=True)
            self.began = start if begin is None else begin
        elif kind == "CHECK-SAME":
            end = self.line_end(self.at)
            at = self.find(kind, what, self.at, end)
            self.accept(at, at + len(what))
        elif kind == "CHECK-NEXT":
            start = self.line_end(self.at) + 1
            at = self.find(kind, what, start, self.line_end(start))
            self.accept(at, at + len(what))
        elif kind == "CHECK-SOURCE-HIGHLIGHTED":
            self.highlighted(kind, what)
        else:
            at = self.find(kind, what, self.at)
            self.accept(at, at + len(what))

    def line_end(self, at):
        end = self.text.find("\n", at)
        return len(self.text) if end < 0 else end

    def highlighted(self, kind, what):
        at = self.find(kind, what, self.at)
        column = at - (self.text.rfind("\n", 0, at) + 1)
        start = self.line_end(at) + 1
        marks = self.text[start : self.line_end(start)][column : column + len(what)]
        if marks != "~" * len(what):
            self.fail(kind, "~" * len(what), start, self.line_end(start))
        self.accept(at, start + column + len(what))
