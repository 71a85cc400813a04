"""Records the ops of an example run, module by module, for `trace`.

For the time of a trace the public functions and tensor methods are replaced by ones that write down
each call with `lowering`'s op. Tensors are real and keep their identity: what an object's value is
called in the program is looked up by the object.
"""

from __future__ import annotations

import functools
import threading
import warnings

from ....eager.core.geometry import Size
from ....eager.core.public_functions import is_function
from ....eager.dispatch.overrides import TorchFunctionMode
from ....eager.tensor import Tensor, TensorBase
from ....fx import _targets
from ....fx._interception import Interception, original, tensor_attribute, tensor_attributes
from ....nn import Module
from . import lowering_nn  # noqa: F401  (its rules)
from .intercepted_names import (
    EFFECTS,
    FROZEN,
    ITERATION,
    LENGTH,
    LISTS,
    LOOKS,
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
from .source_notes import described, note_call, operands_of

__all__ = ["Recorder"]

# Functions that are one op each, whatever they are made of here.
_WHOLE = ("quantized_gru", "quantized_lstm", "_pack_padded_sequence", "_pad_packed_sequence")


class _Stored(TorchFunctionMode):
    """Sees calls of public functions that a program keeps in variables of its own."""

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


class Recorder(metaclass=_PerThread):
    """What happened in a run."""

    active: bool = False

    def __init__(self, root: Module | None = None):
        self.root = root
        self.values: dict[int, Value] = {}
        self.kept: list = []
        self.frame = Frame(root, ())
        self.top = self.frame
        self.depth = 0
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
        return value

    def of(self, obj) -> Value:
        """The value of a tensor: its own, or a constant."""
        found = self.values.get(id(obj))
        return found or self.bind(obj, Value("c", "constant"))

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

    @staticmethod
    def plain(value):
        """Arguments with Python's own integers in the place of sizes."""
        return plain(value)

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
        if self.depth or not self.active:
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
        try:
            return function(*plain(args), **plain(kwargs))
        finally:
            self.depth -= 1

    def operation(self, op, function, args, kwargs):
        """Makes a call that is an op of TorchScript as it is written, and records it."""
        if self.depth or not self.active:
            return function(*args, **kwargs)
        result = self.plainly(function, *args, **kwargs)
        if has_tensor(result):
            place = self.noted("", op.rpartition("::")[2], operands_of(self, args))
            self.record((op, list(args), kwargs), result, (), place)
        return result

    def check_known(self, name, result, args):
        """Refuses a call that gave a tensor which nothing in the program computes."""
        moving = ("result", "input")
        if any(
            isinstance(r, TensorBase) and id(r) not in self.values for r in flat(result)
        ) and any(
            isinstance(a, TensorBase) and id(a) in self.values
            and self.values[id(a)].kind in moving for a in flat(args)
        ):
            raise RuntimeError(
                f"{name} cannot be part of a traced program: TorchScript has no such op. Write it "
                "with others, or use script."
            )

    def record(self, lowered, result, args=(), place=None):
        """Writes down a call of an op, or of two (the first one's result goes into the second)."""
        if isinstance(lowered[0], tuple):
            (op, first, named), *lowered = lowered
            middle = Value(op, frame=self.frame)
            operands = [self.operand(a) for a in first]
            self.frame.items.append(Statement(op, operands, named, [middle], place=place))
            lowered[1] = [middle if a is _RESULT else a for a in lowered[1]]
        op, positional, named = lowered
        operands = [a if isinstance(a, Value) else self.operand(a) for a in positional]
        named = {k: self.operand(v) for k, v in named.items()}
        writes = op.endswith("_") and not op.endswith("__")
        inplace = writes and isinstance(result, TensorBase) and any(result is a for a in args)
        hint = op.rpartition("::")[2].strip("_")
        if isinstance(result, TensorBase):
            results, shape = [Value(hint, frame=self.frame)], "one"
            if not inplace:
                self.bind(result, results[0])
        else:
            shape = "list" if isinstance(result, list) or op in LISTS else "tuple"
            results = []
            for r in result:
                results.append(self.bind(r, Value(hint, frame=self.frame)))
        for value, r in zip(results, [result] if isinstance(result, TensorBase) else result):
            given = [v for v in flat([operands, named]) if isinstance(v, Value)]
            value.detail = described(r, given) if isinstance(r, TensorBase) else ""
        statement = Statement(op, operands, named, results, shape, writes or op in EFFECTS, place)
        self.frame.items.append(statement)
        if op in RANDOM and not (op.endswith("dropout") and not positional[2]):
            self.random.append(statement)

    def getitem(self, x, index, function):
        """``x[index]``, as views and lookups."""
        if self.depth or not self.active:
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
        if self.depth or not self.active:
            return function(x, index, value)
        found = self._viewed(x, index)
        source = value
        self.depth += 1
        try:
            if not isinstance(source, TensorBase):
                source = x.new_tensor(source)
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

    # --- modules

    def module_call(self, module, args, kwargs, call):
        """A call of a module, as a frame of its own where the module is the root's."""
        if self.depth or not self.active or module is self.root:
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
        self.mode = _Stored(self)
        self.mode.__enter__()
        self.active = True
        return self

    def __exit__(self, *exc):
        self.active = False
        try:
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
        if recorder is None or recorder.depth or not recorder.active:
            return function(batch_sizes)
        number = recorder.plainly(function, batch_sizes)
        return recorder.number("Int", [batch_sizes[0]], number)

    return batch_of


def _warned(name, text):
    function = tensor_attribute(name)

    def call(self, *args, **kwargs):
        recorder = Recorder.current
        if recorder is not None and recorder.active and not recorder.depth:
            found = recorder.values.get(id(self))
            if found is None or found.kind in ("result", "input"):
                warnings.warn(text, TracerWarning, stacklevel=2)
        return function(self, *args, **kwargs)

    return call


def _look(name, text):
    return _warned(name, text + FROZEN)


def _sizes(t, plain):
    recorder = Recorder.current
    if recorder is None or not recorder.active or recorder.depth:
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
        if recorder is None or not recorder.active or recorder.depth:
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
        if recorder is None or recorder.depth or not recorder.active:
            return attribute.fget(t)
        result = recorder.plainly(attribute.fget, t)
        if isinstance(result, TensorBase):
            recorder.record((op, [t], {}), result)
        return result

    return property(get, attribute.fset, attribute.fdel)
