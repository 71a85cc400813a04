"""`Compare`: measurements as a table."""

from __future__ import annotations

import enum
import math

from .common import Measurement, ordered_unique, select_unit, trim_sigfig, unit_to_english

__all__ = ["Colorize", "Compare"]

_BOLD, _END = "\033[1m", "\033[0m"


class Colorize(enum.Enum):
    """What a time is compared with to choose its colour."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


def _colored(text, value, best):
    """The text in the colour of a time that is so much longer than the best."""
    if value <= best * 1.01 or value <= best + 100e-9:
        return f"\033[92m{_BOLD}{text}{_END}{_END}"
    if value <= best * 1.1:
        return f"\033[34m{_BOLD}{text}{_END}{_END}"
    if value >= best * 5:
        return f"\033[31m{_BOLD}{text}{_END}{_END}"
    if value >= best * 2:
        return f"\033[2m\033[91m{text}{_END}{_END}"
    return text


class Table:
    """The measurements of one label: a row for each name, a column for each description.

    Rows of the same number of threads are a group.
    """

    def __init__(self, results, colorize, trim_significant_figures, highlight_warnings) -> None:
        self.results = results
        self.colorize = colorize
        self.trim = trim_significant_figures
        self.highlight = highlight_warnings
        self.unit, self.scale = select_unit(min(r.median for r in results))
        self.column_keys = ordered_unique(r.description for r in results)
        self.row_keys = ordered_unique(map(self._row_key, results))
        self.row_keys.sort(key=lambda key: key[:2])
        by_place = {(self._row_key(r), r.description): r for r in results}
        self.rows = [[by_place.get((row, c)) for c in self.column_keys] for row in self.row_keys]
        columns = zip(*self.rows, strict=True)
        self.formats = [self._format([r for r in column if r is not None]) for column in columns]

    @staticmethod
    def _row_key(result):
        return result.num_threads, result.env, result.as_row_name

    def _format(self, column):
        """How a column's numbers are written: with as many digits as the surest needs."""
        digits = [math.ceil(math.log10(r.median / self.scale)) for r in column]
        decimals = 1
        if self.trim:
            decimals = min(
                max(r.significant_figures - d, 0) for r, d in zip(column, digits, strict=True)
            )
        length = max(digits) + decimals + (decimals > 0)
        note = 7 if self.highlight and any(r.has_warnings for r in column) else 0
        return f"{{:>{length}.{decimals}f}}{{:>{note}}}", note

    def _number(self, result, column):
        template, note = self.formats[column]
        if result is None:
            return " " * len(template.format(trim_sigfig(1, 1) if self.trim else 1, ""))
        value = result.median / self.scale
        if self.trim:
            value = trim_sigfig(value, result.significant_figures)
        warned = note and result.has_warnings
        return template.format(
            value, f" (! {result.iqr / result.median * 100:.0f}%)" if warned else ""
        )

    def _row_names(self):
        """The rows' names, with their environments where these change."""
        environments = {r.env for r in self.results}
        shown = len(environments) > 1
        width = 4 + (max(map(len, environments)) if shown else 0)
        names, before = [], None
        for threads, env, name in self.row_keys:
            text = f"({env})" if shown and (threads, env) != before else ""
            names.append("  " + text.ljust(width) + name)
            before = threads, env
        return names

    def _best(self, i, j):
        """The shortest time that the one in row i and column j is compared with."""
        if self.colorize is Colorize.ROWWISE:
            group = self.rows[i]
        else:
            threads = self.row_keys[i][0]
            keyed = zip(self.row_keys, self.rows, strict=True)
            group = [row[j] for key, row in keyed if key[0] == threads]
        return min(r.median for r in group if r is not None)

    def render(self) -> str:
        """The table as text."""
        cells = [["", *(key or "" for key in self.column_keys)]]
        for name, row in zip(self._row_names(), self.rows, strict=True):
            cells.append([name, *(self._number(r, j) for j, r in enumerate(row))])
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        header = [text.center(width) for text, width in zip(cells[0], widths, strict=True)]
        lines = ["  |  ".join(header)]
        total = len(lines[0])
        threads_before = None
        for i, (key, row) in enumerate(zip(self.row_keys, self.rows, strict=True)):
            if key[0] != threads_before:
                threads_before = key[0]
                lines.append(f"{threads_before} threads: ".ljust(total, "-"))
            texts = [cells[i + 1][0].ljust(widths[0])]
            for j, result in enumerate(row):
                text = cells[i + 1][j + 1].center(widths[j + 1])
                if self.colorize is not Colorize.NONE and result is not None:
                    text = _colored(text, result.median, self._best(i, j))
                texts.append(text)
            lines.append("  |  ".join(texts))
        title = f" {self.results[0].label or ''} ".center(total - 2, "-")
        lines = [
            f"[{title}]", *lines, "",
            f"Times are in {unit_to_english(self.unit)}s ({self.unit}).",
        ]
        if self.highlight and any(r.has_warnings for r in self.results):
            lines.append(
                "(! XX%) Measurement has high variance, where XX is the IQR / median * 100."
            )
        return "\n".join([*lines, ""])


class Compare:
    """Measurements as tables, one for each label (``torch.utils.benchmark.Compare``): a row for each
    ``sub_label`` (else statement) and ``env``, a column for each ``description``, in groups by
    ``num_threads``. Measurements of the same task are merged.

    Raises:
        ValueError: for anything but measurements.

    >>> import ftorch as torch
    >>> from ftorch.utils.benchmark import Compare, Measurement, TaskSpec
    >>> def m(time, **task):
    ...     return Measurement(1, [time], TaskSpec("f(x)", "pass", label="f", **task))
    >>> print(Compare([m(2e-3, description="old"), m(1e-3, description="new")]))
    [---------- f -----------]
                |  old  |  new
    1 threads: ---------------
          f(x)  |  2.0  |  1.0
    <BLANKLINE>
    Times are in milliseconds (ms).
    <BLANKLINE>
    """

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trim_significant_figures = False
        self._colorize = Colorize.NONE
        self._highlight_warnings = False

    def extend_results(self, results) -> None:
        """Adds measurements."""
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(  # noqa: TRY004  (PyTorch's)
                    f"Expected an instance of `Measurement`, got {type(result)} instead."
                )
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Writes only digits that mean something."""
        self._trim_significant_figures = True

    def colorize(self, rowwise=False) -> None:
        """Colours times by how near they are to the best of their column, or row."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Marks measurements whose times are far apart."""
        self._highlight_warnings = True

    def print(self) -> None:
        """Prints the tables."""
        print(str(self))

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        groups = ((key, [m for m in merged if m.label == key])
                  for key in ordered_unique(m.label for m in merged))
        return "\n".join(
            Table(
                group, self._colorize, self._trim_significant_figures, self._highlight_warnings
            ).render()
            for _, group in groups
        )
