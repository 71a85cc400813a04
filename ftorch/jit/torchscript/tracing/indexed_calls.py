"""Indexing in a trace: views, look-ups and writes, as PyTorch's indexing makes them."""

from __future__ import annotations

from ....eager.tensor import TensorBase
from .records import Statement, Value, plain
from .source_notes import described, operands_of

__all__ = ["IndexedCalls"]


class IndexedCalls:
    """What a recorder makes of ``x[index]`` and ``x[index] = value``."""

    def getitem(self, x, index, function):
        """``x[index]``, as views and lookups."""
        if self.is_idle:
            return function(x, index)
        result = self.plainly(function, x, index)
        before = len(self.frame.items)
        place = self.noted("", "getitem", operands_of(self, (x,)))
        found = self._viewed(x, index)
        example = x
        for statement in self.frame.items[before:]:
            statement.place = place
            example = self.stepped(example, statement)
        if isinstance(found, Value):
            if found is not self.of(x):
                found.detail = described(result)
                self.bind(result, found)
            else:
                self.record(("alias", [x], {}), result)
        else:
            value, indices = found
            self.record(("index", [value, indices], {}), result, (), place)
        return result

    def stepped(self, example, statement):
        """What a step of an index gives for the example, whose type is noted; None where it is not known."""
        op, rest = statement.op, statement.args[1:]
        if example is None or any(isinstance(a, Value) for a in rest):
            return None
        self.depth += 1
        try:
            if op == "slice":
                made = example[(slice(None),) * rest[0] + (slice(*rest[1:]),)]
            else:
                made = getattr(example, op)(*rest)
        finally:
            self.depth -= 1
        statement.results[0].detail = described(made, [statement.args[0]])
        return made

    def setitem(self, x, index, value, function):
        """``x[index] = value``."""
        if self.is_idle:
            return function(x, index, value)
        found = self._viewed(x, index)
        source = value
        self.depth += 1
        try:
            if not isinstance(source, TensorBase):
                source = x.new_tensor(source)
                self.bind(source, Value("c", "constant"))
            function(x, plain(index), plain(value))
        finally:
            self.depth -= 1
        if isinstance(found, Value):
            out, op, args = Value("copy", frame=self.frame), "copy_", [found, self.of(source)]
        else:
            out, op = Value("index_put", frame=self.frame), "index_put_"
            args = [found[0], found[1], self.of(source), False]
        self.frame.items.append(Statement(op, args, {}, [out], "one", True))

    def _step(self, op, *args):
        value = Value(op, frame=self.frame)
        self.frame.items.append(Statement(op, [self.operand(a) if not isinstance(a, Value) else a
                                               for a in args], {}, [value]))
        return value

    def _viewed(self, x, index):
        """The value of ``x[index]``; where tensors index, (the value to look up in, the indices)."""
        items = list(index) if isinstance(index, tuple) else [index]
        if isinstance(index, list):
            items = [index]
        consumed = sum(
            (i.dim() if isinstance(i, TensorBase) and str(i.dtype) == "torch.bool" else 1)
            for i in items if i is not None and i is not Ellipsis and not isinstance(i, bool)
        )
        if not any(i is Ellipsis for i in items):
            items.append(Ellipsis)
        value, dim, indices = self.of(x), 0, []
        shape, place = x._ftorch_geometry.shape, 0
        for item in items:
            if item is None:
                value = self._step("unsqueeze", value, dim)
                dim += 1
            elif item is Ellipsis:
                dim += len(shape) - consumed
                place += len(shape) - consumed
            elif isinstance(item, slice):
                # Also where it is all of the example's: another argument may be longer.
                if any(p is not None for p in (item.start, item.stop, item.step)):
                    end = 9223372036854775807 if item.stop is None else item.stop  # as PyTorch writes it
                    value = self._step("slice", value, dim, item.start or 0, end, item.step or 1)
                dim += 1
                place += 1
            elif isinstance(item, int) and not isinstance(item, bool):
                value = self._step("select", value, dim, item)
                place += 1
            else:
                t = item
                if not isinstance(t, TensorBase):
                    import ftorch as torch

                    t = torch.tensor(item)
                indices += [None] * (dim - len(indices)) + [self.of(t)]
                width = t.dim() if str(t.dtype) == "torch.bool" else 1
                dim += 1
                place += width
        return (value, indices) if indices else value
