"""Records the ops of an example run, module by module, for `trace`.

For the time of a trace the public functions and tensor methods are replaced by ones that write down
each call with `lowering`'s op. Tensors are real and keep their identity: what an object's value is
called in the program is looked up by the object.
"""

from __future__ import annotations

import functools
import threading
import warnings

from ...._dispatch.dispatch_state import state
from ....eager.core.formats import contiguous_format
from ....eager.core.geometry import Size
from ....eager.core.public_functions import is_function
from ....eager.dispatch.overrides import TorchFunctionMode
from ....eager.memory.storage import newest_level
from ....eager.tensor import Tensor, TensorBase, modes
from ....fx import _targets
from ....fx._interception import Interception, original, tensor_attribute, tensor_attributes
from ....nn import Module
from . import lowering_nn  # noqa: F401  (its rules)
from .casts import cast_arguments
from .indexed_calls import IndexedCalls
from .intercepted_names import (
    EFFECTS,
    FROZEN,
    ITERATION,
    LENGTH,
    LISTS,
    LOOKS,
    OF_SPARSE,
    OPERATORS,
    PASSED,
    PROPERTIES,
    RANDOM,
)
from .lowering import _RESULT, lower
from .records import (
    Frame,
    ScopedPlace,
    Statement,
    TracedInt,
    TracerWarning,
    Value,
    flat,
    has_tensor,
    parameter_names,
    plain,
)
from .seen_calls import SeenCalls, is_inside, place_of
from .source_notes import described, note_call, operands_of

__all__ = ["Recorder"]

# Functions that are one op each, whatever they are made of here.
_WHOLE = ("quantized_gru", "quantized_lstm", "_pack_padded_sequence", "_pad_packed_sequence")


class _Stored(TorchFunctionMode):
    """Sees calls of public functions that a program keeps in variables of its own."""

    _ftorch_traces = True  # compiled functions ask for it

    def __init__(self, recorder):
        self.recorder = recorder

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        path = _targets.public_path(func)
        if path is None or self.recorder.depth or not self.recorder.active:
            return func(*args, **kwargs)
        kind, _, name = path.removeprefix("torch.").rpartition(".")
        return self.recorder.call(kind, name, func, args, kwargs)


class _PerThread(type):
    """``Recorder.current``: what the calling thread records into, or None."""

    _local = threading.local()

    @property
    def current(cls):
        return getattr(cls._local, "current", None)

    @current.setter
    def current(cls, value):
        cls._local.current = value


class Recorder(IndexedCalls, metaclass=_PerThread):
    """What happened in a run."""

    active: bool = False

    def __init__(self, root: Module | None = None):
        self.root = root
        self.values: dict[int, Value] = {}
        self.places: dict[tuple, Value] = {}  # by where in memory their elements are
        self.whole: dict[int, Value] = {}  # of the storages that were made in the trace: what is all of one
        self.kept: list = []
        self.frame = Frame(root, ())
        self.top = self.frame
        self.depth = 0
        self.levels = len(modes.levels)
        newest_level[0] += 1  # storages that are made from here on know it
        self.level = newest_level[0]
        self.seen = SeenCalls(self)
        self.paths: dict[int, tuple[str, ...]] = {}
        self.random: list[Statement] = []
        self.units: list = []  # of the programs that it calls; (name, function) of what is left to Python
        self.scopes: list[str] = []  # that its user has opened
        if root is not None:
            for name, module in root.named_modules():
                path = tuple(filter(None, name.split(".")))
                self.paths[id(module)] = path
                if "_c" in module.__dict__:  # it is compiled
                    self.paths[id(module._c)] = path
                packed = [(k, v) for k, v in vars(module).items() if hasattr(type(v), "_qualified")]
                for key, t in (*module._parameters.items(), *module._buffers.items(), *packed):
                    if t is not None and id(t) not in self.values:
                        self.bind(t, Value(key, "attribute", path=(*path, key)))

    # --- values

    def bind(self, obj, value: Value):
        """Makes ``obj`` known as a value."""
        value.object = obj
        value.frame = value.frame or self.frame
        self.values[id(obj)] = value
        self.kept.append(obj)
        if isinstance(obj, TensorBase):
            self.places.setdefault(place_of(obj), value)
            storage = obj._ftorch_storage
            if obj._ftorch_geometry is storage.root and storage.level >= self.level:
                self.whole.setdefault(id(storage), value)
        return value

    def known(self, obj) -> Value | None:
        """The value of a tensor, or of another one that has the same elements of the same memory.

        Gradients and transforms make tensors anew of what they saved and were given. What is in memory from before the trace
        may be another tensor of the user's, which is none of the trace's.
        """
        found = self.values.get(id(obj))
        if found is not None or not isinstance(obj, TensorBase):
            return found
        if obj._ftorch_storage.level < self.level and not is_inside():
            return None
        found = self.places.get(place_of(obj)) or self._part(obj)
        if found is not None:
            self.values[id(obj)] = found
            self.kept.append(obj)
        return found

    def _part(self, t) -> Value | None:
        """The value of a part of what a step of the program gave, taken where no call was seen; None if it is not."""
        base = self.whole.get(id(t._ftorch_storage))
        if base is None or base.kind != "result" or base.object._ftorch_storage is not t._ftorch_storage:
            return None
        return self.strided(base, t)

    def strided(self, base, t) -> Value | None:
        """The value of a part of what ``base`` is in the example, by strides; None if its layout may be another one.

        The layout of what was copied is known; of others a copy is taken first, which nobody writes to.
        """
        x, g = base.object, t._ftorch_geometry
        offset = t._ftorch_offset - x._ftorch_offset
        if offset < 0 or not x.is_contiguous():
            return None
        if base.hint != "clone":
            copy = Value("clone", frame=self.frame, detail=described(x))
            self.frame.items.append(Statement("clone", [base], {"memory_format": contiguous_format}, [copy]))
            base = copy
        value = Value("as_strided", frame=self.frame, detail=described(t), object=t)
        self.frame.items.append(Statement("as_strided", [base, list(g.shape), list(g.stride), offset], {}, [value]))
        return value

    def of(self, obj) -> Value:
        """The value of a tensor: its own, or a constant."""
        found = self.known(obj)
        if found is None:
            is_made_here = isinstance(obj, TensorBase) and obj._ftorch_storage.level >= self.level
            found = self.bind(obj, Value("c", "unknown" if is_made_here else "constant"))
        return found

    @property
    def is_idle(self) -> bool:
        """Whether public calls are no steps of the program: they are part of one, or on tensors of a transform."""
        return self.depth > 0 or not self.active or len(modes.levels) > self.levels

    def operand(self, a):
        """An argument of an op with values in the place of tensors and sizes."""
        if isinstance(a, TensorBase):
            return self.of(a)
        if hasattr(type(a), "_qualified"):  # packed weights
            if id(a) not in self.values:
                raise RuntimeError("Packed weights of a traced program have to be attributes of its modules.")
            return self.values[id(a)]
        if type(a) is TracedInt and a.recorder is self:
            return a.value
        if isinstance(a, (list, tuple)):
            return [self.operand(x) for x in a]
        if isinstance(a, dict):
            return {k: self.operand(v) for k, v in a.items()}
        return a

    def number(self, op, operands, number):
        """The result of arithmetic on sizes."""
        value = Value(op, type="int", frame=self.frame)
        self.frame.items.append(
            Statement(op, [self.operand(o) for o in operands], {}, [value])
        )
        return TracedInt.make(number, value, self)

    # --- scopes

    def push_scope(self, name: str) -> None:
        """Opens a scope: what is recorded until it is closed has its name (``node.scopeName()`` of `_get_trace_graph`)."""
        self.scopes.append(name)

    def pop_scope(self) -> None:
        """Closes the scope that was opened last."""
        self.scopes.pop()

    def noted(self, kind, name, operands):
        """`note_call`; where scopes are open the place knows them."""
        place = note_call(kind, name, operands)
        return ScopedPlace.at(place, "/".join(self.scopes)) if self.scopes else place

    # --- calls

    def call(self, kind, name, function, args, kwargs):
        """Makes a call and records it."""
        if self.is_idle:
            return function(*args, **kwargs)
        lowered = lower(kind, name, function, args, kwargs)
        if lowered is None or callable(lowered):
            result = (lowered or function)(*args, **kwargs)
            self.check_known(name, result, args)
            return result
        result = self.plainly(function, *args, **kwargs)
        if has_tensor(result):
            place = self.noted(kind, name, operands_of(self, (*args, *kwargs.values())))
            self.record(lowered, result, args, place)
        return result

    def plainly(self, function, *args, **kwargs):
        """What a call gives of which nothing is recorded."""
        self.depth += 1
        stack = state.stack
        try:
            if self.seen in stack:
                state.stack = [mode for mode in stack if mode is not self.seen]
            return function(*plain(args), **plain(kwargs))
        finally:
            state.stack = stack
            self.depth -= 1

    def operation(self, op, function, args, kwargs):
        """Makes a call that is an op of TorchScript as it is written, and records it."""
        if self.is_idle:
            return function(*args, **kwargs)
        result = self.plainly(function, *args, **kwargs)
        if has_tensor(result):
            place = self.noted("", op.rpartition("::")[2], operands_of(self, args))
            self.record((op, list(args), kwargs), result, (), place)
        return result

    def check_known(self, name, result, args):
        """Makes what a call gave a constant, where nothing in the program computes it; refuses that for one of its tensors."""
        missing = [r for r in flat(result) if isinstance(r, TensorBase) and self.known(r) is None]
        if missing and any(
            isinstance(a, TensorBase) and id(a) in self.values
            and self.values[id(a)].kind in ("result", "input") for a in flat(args)
        ):
            raise RuntimeError(
                f"{name} cannot be part of a traced program: TorchScript has no such op. Write it "
                "with others, or use script."
            )
        for r in missing:
            self.bind(r, Value("c", "constant"))

    def record(self, lowered, result, args=(), place=None):
        """Writes down a call of an op, or of two (the first one's result goes into the second)."""
        if isinstance(lowered[0], tuple):
            (op, first, named), *lowered = lowered
            middle = Value(op, frame=self.frame)
            operands = [self.operand(a) for a in first]
            self.frame.items.append(Statement(op, operands, named, [middle], place=place))
            lowered[1] = [middle if a is _RESULT else a for a in lowered[1]]
        op, positional, named = lowered
        if modes.autocast is not None:
            positional, named = cast_arguments(self, op, positional, named, place)
        operands = [a if isinstance(a, Value) else self.operand(a) for a in positional]
        named = {k: self.operand(v) for k, v in named.items()}
        writes = op.endswith("_") and not op.endswith("__")
        inplace = writes and isinstance(result, TensorBase) and any(result is a for a in args)
        hint = op.rpartition("::")[2].strip("_")
        if isinstance(result, TensorBase):
            results, shape = [Value(hint, frame=self.frame)], "one"
            if not inplace:
                self.bind(result, results[0])
        elif result is None:
            results, shape = [], "none"
        else:
            shape = "list" if isinstance(result, list) or op in LISTS else "tuple"
            results = []
            for r in result:
                results.append(self.bind(r, Value(hint, frame=self.frame)))
        for value, r in zip(results, [result] if isinstance(result, TensorBase) else result or ()):
            given = [v for v in flat([operands, named]) if isinstance(v, Value)]
            value.detail = described(r, given) if isinstance(r, TensorBase) else ""
        statement = Statement(op, operands, named, results, shape, writes or op in EFFECTS, place)
        self.frame.items.append(statement)
        if op in RANDOM and not (op.endswith("dropout") and not positional[2]):
            self.random.append(statement)

    # --- modules

    def module_call(self, module, args, kwargs, call):
        """A call of a module, as a frame of its own where the module is the root's."""
        if self.is_idle or module is self.root:
            return call(module, *args, **kwargs)
        if "_c" in module.__dict__:
            return call(module, *args, **kwargs)  # its method is called, which is recorded
        path = self.paths.get(id(module))
        parent = self.frame
        below = path is not None and parent.path is not None and (
            path[: len(parent.path)] == parent.path and len(path) > len(parent.path)
        )
        if not below:
            return call(module, *args, **kwargs)
        frame = Frame(module, path, parent)
        frame.inputs = [self.operand(a) for a in (*args, *kwargs.values())]
        frame.names = parameter_names(module)
        parent.items.append(frame)
        self.frame = frame
        try:
            result = call(module, *args, **kwargs)
        finally:
            self.frame = parent
        frame.outputs = [v for v in flat(self.operand(result)) if isinstance(v, Value)]
        return result

    # --- replacing

    def __enter__(self):
        import ftorch as torch

        from ...._quantized._operators import QuantizedOperator

        self.before, Recorder.current = Recorder.current, self
        self.interception = Interception()
        _targets.prepare()
        self.interception.functions(_functions())
        self.interception.methods(_methods())
        self.interception.place(Module, "__call__", _module_call(original(Module.__call__)))
        self.interception.place(QuantizedOperator, "__call__", _operator_call(original(QuantizedOperator.__call__)))
        sequences = vars(torch.nn.utils.rnn)
        for name in _WHOLE:
            function = _whole_call(name, original(getattr(torch, name)))
            for holder in (vars(torch), sequences):
                if name in holder:
                    self.interception.place(holder, name, function)
        self.interception.place(sequences, "batch_of", _batch_of(original(sequences["batch_of"])))
        from ....sparse._tensor import SparseTensor

        self.interception.place(vars(torch.sparse), "mm", _whole_call("_sparse_mm", original(torch.sparse.mm)))
        for name in OF_SPARSE:
            if name in vars(SparseTensor):  # whose methods are its own
                self.interception.place(SparseTensor, name, _method(name, original(vars(SparseTensor)[name])))
        self.mode = _Stored(self)
        self.mode.__enter__()
        self.seen.__enter__()
        self.active = True
        return self

    def __exit__(self, *exc):
        self.active = False
        try:
            self.seen.__exit__(*exc)
            self.mode.__exit__(*exc)
        finally:
            try:
                self.interception.__exit__(*exc)
            finally:
                Recorder.current = self.before


@functools.cache
def _functions():
    """{id of a public function: the one that records its calls}."""
    return {id(f): _function(f) for _, functions in _targets.holders() for f in functions.values()}


@functools.cache
def _methods():
    """{name of a tensor method or property: the one that records}."""
    found: dict = {
        name: _method(name, method) for name, method in tensor_attributes().items()
        if is_function(method) and name not in PASSED and (
            not name.startswith("_") or name in OPERATORS
        )
    }
    for name, text in LOOKS.items():
        if hasattr(Tensor, name):
            found[name] = _look(name, text)
    found["__iter__"], found["__len__"] = _warned("__iter__", ITERATION), _warned("__len__", LENGTH)
    shape = tensor_attribute("shape")
    found["shape"] = property(lambda t: _sizes(t, shape.__get__(t)))
    found["numel"] = found["nelement"] = _count(tensor_attribute("numel"))
    found["size"] = _size_method(tensor_attribute("size"))
    for name, op in PROPERTIES.items():
        attribute = tensor_attribute(name)
        if isinstance(attribute, property):
            found[name] = _property(op, attribute)
    return found


@functools.cache
def _function(function):
    path = (_targets.public_path(function) or "torch").split(".")
    kind, name = ".".join(path[1:-1]), path[-1]

    @functools.wraps(function)
    def call(*args, **kwargs):
        recorder = Recorder.current
        if recorder is None:
            return function(*args, **kwargs)
        return recorder.call(kind, name, function, args, kwargs)

    return call


def _method(name, function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        recorder = Recorder.current
        if recorder is None:
            return function(*args, **kwargs)
        if name == "__getitem__":
            return recorder.getitem(args[0], args[1], function)
        if name == "__setitem__":
            return recorder.setitem(*args, function)
        return recorder.call("method", name, function, args, kwargs)

    return call


def _module_call(function):
    @functools.wraps(function)
    def __call__(self, *args, **kwargs):
        recorder = Recorder.current
        if recorder is None:
            return function(self, *args, **kwargs)
        return recorder.module_call(self, args, kwargs, function)

    return __call__


def _operator_call(function):
    @functools.wraps(function)
    def __call__(self, *args, **kwargs):
        recorder = Recorder.current
        if recorder is None:
            return function(self, *args, **kwargs)
        op = f"{self.namespace}::{self.__name__}"
        return recorder.operation(op, functools.partial(function, self), args, kwargs)

    return __call__


def _whole_call(name, function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        recorder = Recorder.current
        if recorder is None:
            return function(*args, **kwargs)
        return recorder.operation(name, function, args, kwargs)

    return call


def _batch_of(function):
    """How many sequences are packed: the program computes it, as it does sizes."""

    def batch_of(batch_sizes):
        recorder = Recorder.current
        if recorder is None or recorder.is_idle:
            return function(batch_sizes)
        number = recorder.plainly(function, batch_sizes)
        return recorder.number("Int", [batch_sizes[0]], number)

    return batch_of


def _warned(name, text):
    function = tensor_attribute(name)

    def call(self, *args, **kwargs):
        recorder = Recorder.current
        if recorder is not None and not recorder.is_idle:
            found = recorder.values.get(id(self))
            if found is None or found.kind in ("result", "input"):
                warnings.warn(text, TracerWarning, stacklevel=2)
        return function(self, *args, **kwargs)

    return call


def _look(name, text):
    return _warned(name, text + FROZEN)


def _sizes(t, plain):
    recorder = Recorder.current
    if recorder is None or recorder.is_idle:
        return plain
    value = recorder.values.get(id(t))
    if value is None or value.kind not in ("result", "input"):
        return plain
    out = []
    for i, n in enumerate(plain):
        made = Value("size", type="int", frame=recorder.frame)
        recorder.frame.items.append(Statement("size", [value, i], {}, [made]))
        out.append(TracedInt.make(n, made, recorder))
    return Size(out)


def _count(function):
    def numel(t):
        plain = function(t)
        recorder = Recorder.current
        if recorder is None or recorder.is_idle:
            return plain
        value = recorder.values.get(id(t))
        if value is None or value.kind not in ("result", "input"):
            return plain
        return recorder.number("numel", [t], plain)

    return numel


def _size_method(function):
    def size(self, dim=None):
        plain = function(self)
        sizes = _sizes(self, plain)
        if dim is None:
            return sizes
        if sizes is plain or not isinstance(dim, int):
            return function(self, dim)
        function(self, dim)
        return sizes[dim]

    return size


def _property(op, attribute):
    def get(t):
        recorder = Recorder.current
        if recorder is None or recorder.is_idle:
            return attribute.fget(t)
        result = recorder.plainly(attribute.fget, t)
        if isinstance(result, TensorBase):
            recorder.record((op, [t], {}), result)
        return result

    return property(get, attribute.fset, attribute.fdel)
