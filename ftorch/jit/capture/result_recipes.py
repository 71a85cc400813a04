"""Output reconstruction: descriptions of what a compiled call gives back, and how a run makes it."""

from __future__ import annotations

import collections
import contextlib
from typing import Any

from ...autograd.grad_mode import enable_grad
from ...eager.autograd import tape
from ...eager.memory.storage import Storage
from ...eager.tensor import Tensor, TensorBase, wrap, wrap_view
from ...utils import _pytree as pytree
from . import new_objects
from .argument_parts import contains, is_movable
from .argument_views import View, view_of
from .gradients import FreedNode


class New:
    """A tensor made by the program: output ``position``, seen through a geometry."""

    __slots__ = ("position", "geometry", "offset", "root", "requires_grad", "number", "label", "t")

    def __init__(self, position, t):
        self.position, self.t = position, t
        self.geometry, self.offset, self.root = t._ftorch_geometry, t._ftorch_offset, t._ftorch_storage.root
        self.requires_grad, self.number, self.label = t._ftorch_requires_grad, None, None


class Results:
    """The results of a captured call.

    Attributes:
        differentiable: those that have a graph; ``freed`` the ids of those whose graph is used up.
    """

    def __init__(self, captured, outputs, leaves, slots):
        self.captured, self.leaves, self.slots = captured, leaves, slots
        self.given = {id(leaf): i for i, leaf in enumerate(leaves) if issubclass(type(leaf), TensorBase)}
        self.differentiable: list = []
        self.freed: set[int] = set()
        self._described: dict[int, Any] = {}
        self.objects: dict[int, Any] = {}  # {id of an object or cell: its recipe}
        self.begun: set[int] = set()  # ids of objects that are made of their parts, which are being described
        try:
            self._describe_all(outputs, slots)
        except RecursionError:
            raise captured.Unsupported("a container that holds itself is made by each call") from None
        self.objects = {}  # recipes hold what their ids stand for
        self._plain: bool | None = None

    def let_go(self) -> None:
        """Holds the first call's arguments no longer: runs have their own."""
        self.leaves = None

    def _describe_all(self, outputs, slots):
        flat, self.spec = pytree.tree_flatten(outputs)
        self._sharing = collections.Counter(
            id(s) for s in {id(t): t._ftorch_storage for t in flat if issubclass(type(t), TensorBase)}.values()
        )
        self.flat = [self._any(value, slots) for value in flat]
        self.is_single = len(flat) == 1 and flat[0] is outputs

    def _any(self, value, slots):
        if issubclass(type(value), TensorBase):
            return self.describe(value, slots)
        if type(value) in (list, tuple, dict) or (issubclass(type(value), tuple) and new_objects.holds(value)):
            flat, spec = pytree.tree_flatten(value)
            return "tree", spec, [self._any(v, slots) for v in flat]
        return new_objects.describe(value, self)

    def describe(self, t, slots):
        """How a run makes a tensor."""
        found = self._described.get(id(t))
        if found is None:
            found = self._described[id(t)] = self._describe(t, slots)
        return found

    def _describe(self, t, slots):
        captured, storage = self.captured, t._ftorch_storage
        if id(t) in self.given:
            return "argument", self.given[id(t)]
        if id(t) in captured.sources.of_tensor:
            return "tensor", captured.sources.of_tensor[id(t)]
        self._check_class(t)
        if captured.is_born(storage):
            if self._is_part(t):
                return ["part", self.describe(t._base, slots), View(t, t._base), t]
            new = New(captured._ref(storage, slots), t)
            if t._ftorch_requires_grad and tape.grad_fn_of(t) is not None:
                self.differentiable.append(t)
            return "new", new
        # Of several tensors in one storage it is a view of its base, to which its gradients go.
        source = captured.sources.of_tensor.get(id(t._base)) or captured.sources.storage(storage)
        if source is not None:
            self._check_place(source, t)
            return "view", source, View(t, source.get(self.leaves))
        if id(storage) in captured.draws:
            return "draw", captured.draws[id(storage)], storage.root, t._ftorch_requires_grad
        if id(storage) in captured.trace.made:
            return "made", storage.root, captured.trace.made[id(storage)][1], t._ftorch_requires_grad
        if captured.is_made(storage):
            raise captured.Unsupported("a result shares the memory of a tensor that is not known")
        if t._ftorch_requires_grad and t._grad_fn is not None:
            raise captured.Unsupported("a result has a graph made outside")
        return "constant", t

    def _check_place(self, source, t):
        """Views of an argument's elements are made of the argument of each call, wherever it lies; others are not."""
        if source.kind != "argument":
            return
        argument, storage = source.get(self.leaves), t._ftorch_storage
        if t._ftorch_geometry.dtype.itemsize != argument._ftorch_geometry.dtype.itemsize or (
            sum(issubclass(type(leaf), TensorBase) and leaf._ftorch_storage is storage for leaf in self.leaves) > 1
        ) or (is_movable(argument) and not contains(argument, t)):
            self.captured.placed = True

    def _is_part(self, t):
        """Whether a new tensor stays a view with its base's history: what is written to others of that memory concerns it."""
        base = t._base
        return (
            base is not None and self._sharing[id(t._ftorch_storage)] > 1
            and t._ftorch_requires_grad and base._ftorch_requires_grad and tape.grad_fn_of(base) is not None
            and not (t._ftorch_meta is not None and t._ftorch_meta.creation)
        )

    def _check_class(self, t):
        """A run makes tensors, not objects of other classes.

        Raises:
            Unsupported: a new one is of another class.
        """
        if type(t) is not Tensor:
            raise self.captured.Unsupported(f"a {type(t).__name__} is made by each call")

    @property
    def bases(self) -> list:
        """The sources of tensors of which results are views."""
        return [how[1] for how in self._described.values() if how[0] == "view"]

    # --- the first call

    def rewire(self, node):
        """Gives the captured call's results the graph that a run's have."""
        number = 0
        for kind, new in [d[:2] for d in self._described.values()]:
            if kind != "new" or new.t._grad_fn is None or not new.requires_grad:
                if kind == "new":
                    new.t = None
                continue
            t = new.t
            if id(t) in self.freed:
                new.label = t._grad_fn.name()
                t._grad_fn, t._ftorch_output_nr = FreedNode(new.label), 0
            else:
                new.number = number
                t._grad_fn, t._ftorch_output_nr = node, number
                number += 1
            if t._base is not None:
                t._base = None
            new.t = None
        parts = [how for how in self._described.values() if how[0] == "part"]
        with enable_grad() if parts else contextlib.nullcontext():
            for how in parts:
                t, how[3] = how[3], None
                new = view_of(t._base, how[2])
                t._grad_fn, t._ftorch_output_nr = new._grad_fn, new._ftorch_output_nr
        self.differentiable = []

    # --- a run

    def _are_plain(self):
        """Whether each result is the whole of an output of its own, without a graph, and goes nowhere else."""
        if self.captured.grads or self.captured.puts or self.captured.trace.birth:
            return False
        news = [how[1] for how in self.flat if how[0] == "new"]
        return len({new.position for new in news}) == len(self.flat) and not any(
            new.requires_grad or new.geometry is not new.root for new in news
        )

    def build(self, make):
        """The results of a run, in the form that the function gave them."""
        if self.is_single:
            return make(self.flat[0])
        if self._plain is None:
            self._plain = self._are_plain()
        if self._plain:
            values = make.values
            flat = [wrap(Storage(new.root, values[new.position])) for _, new in self.flat]
            return pytree.tree_unflatten(flat, self.spec)
        return pytree.tree_unflatten([make(how) for how in self.flat], self.spec)


class Making:
    """Makes described tensors out of a program's values, each once: ``making(how)``.

    Functions within each other would hold one another, and what they made, until the next garbage collection.
    """

    __slots__ = ("captured", "values", "leaves", "originals", "node", "_storages", "_made")

    def __init__(self, captured, values, leaves, originals, node):
        self.captured, self.values, self.node = captured, values, node
        self.leaves, self.originals = leaves, originals
        self._storages: dict[int, Storage] = {}
        self._made: dict[int, Any] = {}

    def __call__(self, how):
        kind = how[0]
        if kind == "constant":
            return how[1]
        if kind == "argument":
            return self.originals[how[1]]
        if kind == "tensor":
            return how[1].get(self.leaves)
        found = self._made.get(id(how))
        if found is None:
            found = self._made[id(how)] = self._fresh(how)
        return found

    def _fresh(self, how):
        kind = how[0]
        if kind == "view":
            _, source, view = how
            return view_of(source.get(self.originals), view)
        if kind == "part":
            with enable_grad():
                return view_of(self(how[1]), how[2])
        if kind == "draw":
            t = wrap(Storage(how[2], self.captured.drawn[how[1]]))
            t._ftorch_requires_grad = how[3]
            return t
        if kind == "made":
            t = wrap(Storage(how[1], how[2]))
            t._ftorch_requires_grad = how[3]
            return t
        if kind == "tree":
            return pytree.tree_unflatten([self(part) for part in how[2]], how[1])
        if kind == "new":
            return self._new(how[1])
        return new_objects.make(how, self, self._made)

    def _new(self, new):
        storage = self._storages.get(new.position)
        if storage is None:
            storage = self._storages[new.position] = Storage(new.root, self.values[new.position])
            storage.version = self.captured.trace.birth  # of inference mode, or 0
        if new.geometry is new.root:
            t = wrap(storage)
        else:
            t = wrap_view(storage, new.geometry, new.offset, None)
        if new.requires_grad:
            t._ftorch_requires_grad = True
            if new.number is not None:
                t._grad_fn, t._ftorch_output_nr = self.node, new.number
            elif new.label is not None:
                t._grad_fn = FreedNode(new.label)
        return t
