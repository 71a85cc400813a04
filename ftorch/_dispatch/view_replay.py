"""Views of a value taken again, and undone: what functional graphs and functional tensors make of writes to memory.

A tensor is its value now, and the views that lead to it from what owns the memory. A write gives it a new value, which
is carried through the inverses of its views into the owner; another tensor of that memory is taken anew when it is read
next. Views themselves read nothing. The order of the calls is PyTorch's.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from .._ops import OpOverload, ops

aten = ops.aten
VIEWS = frozenset(
    "alias as_strided detach diagonal expand lift_fresh permute select slice split split_with_sizes squeeze t "
    "transpose unbind unsqueeze view _unsafe_view view_as_real view_as_complex unfold _conj _neg_view".split()
)
SEVERAL = frozenset("split split_with_sizes unbind".split())
_SCATTERED = frozenset("select slice diagonal as_strided".split())
_SAME = frozenset("alias detach lift_fresh".split())
_RENAMED = {"bernoulli_": ("bernoulli", "p"), "normal_": ("normal_functional", "default")}


class Owner:
    """Memory: its value as a whole, and how often it was written."""

    def __init__(self, base):
        self.base, self.generation = base, 0


def copying(target):
    """The overload that copies what a view shows; the view itself where ATen has none."""
    name = "_unsafe_view" if target._opname == "_unsafe_view" else f"{target._opname}_copy"
    return getattr(getattr(aten, name, None), target._overloadname, target)


def functional_form(target: OpOverload) -> OpOverload | None:
    """The overload of ATen that computes what one that writes in place does; None if there is none."""
    name, overload = _RENAMED.get(target._opname, (target._opname[:-1], target._overloadname))
    packet = getattr(aten, name, None)
    return None if packet is None else getattr(packet, overload, None)


class Replay:
    """Calls of views and of their inverses, on nodes of a graph or on tensors.

    A view is ``(target, args, kwargs, example, item)``: ``example`` is what it gives, ``item`` which of several results.
    """

    def call(self, target, args, kwargs=None, like: Any = None):
        """The result of a call; ``like`` looks like it."""
        raise AssertionError("abstract")

    def example(self, value) -> Any:
        """A tensor that looks like a value."""
        raise AssertionError("abstract")

    def looks(self, function, value) -> Any:
        """What a function of a value looks like."""
        return function(self.example(value))

    def item(self, several, i):
        """One of several results."""
        return self.call(operator.getitem, (several, i), like=self.example(several)[i])

    def seen(self, base, metas: Iterable):
        """What some views show of a value."""
        for target, args, kwargs, example, item in metas:
            base = self.call(target, (base, *args), kwargs, like=example)
            if item is not None:
                base = self.item(base, item)
        return base

    def written(self, owner: Owner, metas, new) -> None:
        """Carries a new value of what the views show into the memory."""
        value = new
        if metas:
            befores = [owner.base]
            for meta in metas[:-1]:
                befores.append(self.seen(befores[-1], (meta,)))
            for before, meta in zip(reversed(befores), reversed(metas)):
                value = self.undone(before, meta, value)
        owner.base = value
        owner.generation += 1

    def undone(self, before, meta, value):
        """A whole with a value in the place that a view sees of it.

        Raises:
            RuntimeError: the view has no inverse.
        """
        target, args, kwargs, example, item = meta
        copies = target._opname.endswith("_copy")
        name, like = target._opname.removesuffix("_copy"), self.example(before)

        def view(name, args, like, overload="default"):
            found = getattr(getattr(aten, name), overload)
            return self.call(copying(found) if copies else found, args, {}, like=like)

        if name in _SAME:
            return value
        if name in _SCATTERED:
            scatter = getattr(aten, f"{name}_scatter").default
            return self.call(scatter, (before, value, *args), kwargs, like=like)
        if name == "unbind":
            dim = args[0] if args else 0
            return self.call(aten.select_scatter.default, (before, value, dim, item), like=like)
        if name in SEVERAL:
            dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
            start = sum(int(part.shape[dim]) for part in example[:item])
            stop = start + int(example[item].shape[dim])
            return self.call(aten.slice_scatter.default, (before, value, dim, start, stop), like=like)
        if name in ("t", "transpose", "_conj", "_neg_view"):
            return self.call(target, (value, *args), kwargs, like=like)
        if name == "permute":
            rank = len(args[0])
            inverse = sorted(range(rank), key=lambda d: args[0][d] % rank)
            return self.call(target, (value, inverse), like=like)
        if name == "unsqueeze":
            return view("squeeze", (value, args[0]), like, "dim")
        if name == "squeeze":
            rank = len(like.shape)
            dims = range(rank) if not args else args[0] if isinstance(args[0], (list, tuple)) else [args[0]]
            for d in sorted(d % max(rank, 1) for d in dims):
                if d < rank and like.shape[d] == 1:
                    value = view("unsqueeze", (value, d), self.looks(lambda x, d=d: x.unsqueeze(d), value))
            return value
        if name == "expand":
            # What was added to all that show an element is added to it.
            change = self.call(aten.sub.Tensor, (value, before), {}, like=self.example(value))
            return self.call(aten.add.Tensor, (before, self._summed(change, like, copies)), {}, like=like)
        if name == "unfold":
            dim, size, step = args
            return self.call(aten.unfold_backward.default, (value, list(like.shape), dim, size, step), like=like)
        if name in ("view", "_unsafe_view"):
            if target._overloadname == "dtype":
                return view("view", (value, like.dtype), like, "dtype")
            return view("view", (value, list(like.shape)), like)
        if name in ("view_as_real", "view_as_complex"):
            back = "view_as_complex" if name == "view_as_real" else "view_as_real"
            return view(back, (value,), like)
        raise RuntimeError(f"a write through {target} cannot be made functional")

    def _summed(self, value, like, copies):
        """The sum over what something was expanded to, in its size."""
        now = self.example(value)
        lead = len(now.shape) - len(like.shape)
        dims = [*range(lead), *(i + lead for i, n in enumerate(like.shape) if n == 1 and now.shape[i + lead] != 1)]
        if dims:
            value = self.call(
                aten.sum.dim_IntList, (value, dims, True), {}, like=self.looks(lambda x: x.sum(dims, True), value)
            )
        if lead:
            view = aten.view.default
            return self.call(copying(view) if copies else view, (value, list(like.shape)), {}, like=like)
        return self.call(aten.clone.default, (value,), {}, like=like) if copies else value
