"""The graph of a package's program, called by the engine's ops: what runs sizes without an executable, at once.

The engine plans ops for all sizes and runs new ones on the host tier (``docs/decisions/0050-size-classes.md``), in a forked
process, too. So a package needs no second way of doing that.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from .._higher_order_ops import HigherOrderOperator
from .._ops import OpOverload
from ..autograd.grad_mode import no_grad
from ..eager.core import dtype as _dtype
from ..eager.core import forking
from ..eager.dispatch import autocast
from ..eager.native.contexts import contextmanager
from ..eager.runtime import capture_trace, executor
from ..eager.tensor import Tensor, TensorBase, from_array, modes
from ..eager.tensor_api.conversions import retyped
from ..fx.experimental.symbolic_shapes import SymInt
from ..fx.graph_module import GraphModule
from ._aot_program import Signature
from ._archive import _read_tensors, _write_tensors
from ._deserialize import from_json
from ._functionalize import functionalized
from ._serialize import to_json
from .exported_program import GuardsFn
from .graph_signature import ConstantArgument, InputKind, OutputKind

_CONFIG = "model_graph_config.json"
_STATE = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def signature_of(program):
    """(signature, {name: tensor} of the constants) of a program that is not compiled."""
    specs = program.graph_signature.input_specs
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    tensors = {s.target: program._tensor_of(s).detach() for s in specs if s.kind in _STATE}
    inputs: list[dict[str, Any]] = []
    places: dict[str, int] = {}
    for spec in specs:
        if spec.kind is not InputKind.USER_INPUT:
            continue
        if isinstance(spec.arg, ConstantArgument):
            inputs.append({"value": spec.arg.value})
            continue
        places[spec.arg.name] = len(places)
        val = nodes[spec.arg.name].meta["val"]
        sizes = [str(n.expr) if isinstance(n, SymInt) else int(n) for n in val.shape]
        inputs.append({"dtype": val.dtype.numpy.name, "sizes": sizes})
    outputs: list[list[Any]] = []
    for spec in functionalized(program, {}).graph_signature.output_specs:
        if spec.kind is OutputKind.USER_OUTPUT:
            is_value = isinstance(spec.arg, ConstantArgument)
            outputs.append(["value", spec.arg.value] if is_value else ["user", ""])
        elif spec.kind is OutputKind.USER_INPUT_MUTATION:
            outputs.append(["input", places[spec.target]])
        else:
            outputs.append(["constant", spec.target])
    written = [target for kind, target in outputs if kind == "constant"]
    return Signature(list(tensors), written, inputs, outputs, False), tensors


def graph_of(program, signature, tensors, is_alone=False):
    """(description, {name: tensor} of what only the graph has) of a program's graph; None if not every process can run it.

    Args:
        signature: of the compiled program; tensors: its constants by name, most of which are the graph's.
        is_alone: there is no compiled program, so that the processes that run it need the operators that it has.
    """
    if modes.autocast is not None:  # its casts are in the compiled program, as in PyTorch's packages, but not in the graph
        return None
    if not (is_alone or _is_of_known_ops(program.graph_module)) or any(
        s.kind is not InputKind.USER_INPUT and s.kind not in _STATE for s in program.graph_signature.input_specs
    ):
        return None
    try:
        description = to_json(program)
    except RuntimeError:  # something in it has no word in files
        return None
    names = {_identity(t): name for name, t in tensors.items()}
    constants, others = {}, {}
    for spec in program.graph_signature.input_specs:
        if spec.kind in _STATE:
            t = program._tensor_of(spec)
            own = tensors.get(spec.target)
            if own is not None and _identity(own) == _identity(t):
                constants[spec.target] = spec.target
            elif (name := names.get(_identity(t))) is not None:
                constants[spec.target] = name
            else:  # the compiled program does not read it
                others[spec.target] = t.detach()
    if set(signature.written) - set(constants.values()):
        return None
    return {
        "program": _without_sources(description), "constants": constants, "dtype": _dtype.get_default_dtype().name,
    }, others


def write_graph(writer, record, graph) -> None:
    """Writes what `graph_of` gives into a package."""
    description, others = graph
    _write_tensors(writer, others, "constants", "graph", _CONFIG)
    writer.write(record, json.dumps(description).encode())


def _without_sources(description):
    """A description without where its nodes come from: larger than the rest, and other people's paths."""
    if isinstance(description, list):
        return [_without_sources(d) for d in description]
    if isinstance(description, dict):
        return {k: {} if k == "metadata" else _without_sources(d) for k, d in description.items()}
    return description


def _identity(t):
    return id(t._ftorch_storage), t._ftorch_geometry


def _is_of_known_ops(module):
    """Whether a graph has only what comes with the package: operators of one's own may be missing where it is loaded."""
    for inner in module.modules():
        if isinstance(inner, GraphModule):
            for node in inner.graph.nodes:
                target = node.target
                if isinstance(target, OpOverload):
                    if target.namespace not in ("aten", "prims"):
                        return False
                elif node.op == "call_function" and not isinstance(target, HigherOrderOperator):
                    if getattr(target, "__module__", "") not in ("_operator", "math", "builtins"):
                        return False
    return True


def read_graph(reader, record) -> PackagedGraph | None:
    """The graph of a package; None for one that has none."""
    if record not in reader:
        return None
    return PackagedGraph(json.loads(reader.read(record)), _read_tensors(reader, "constants", _CONFIG))


class PackagedGraph:
    """A program's graph as a function of a package's constants and inputs, made at the first call.

    Args:
        others: {name: tensor} of what only the graph has.
    """

    def __init__(self, description, others):
        self._description, self._others = description, others
        self._making = forking.lock()
        self._made: Any = None  # see `_parts`
        self._dtype = description["dtype"]

    def is_usable(self) -> bool:
        """Whether the calling thread's ops do what the graph says: no mode would see or change them, nothing records them."""
        return (
            not modes.levels and not modes.function_modes
            and capture_trace.capturing() is None and _dtype.get_default_dtype().name == self._dtype
        )

    def _parts(self):
        """(function of the placeholders, what is given to each, signature, checks of sizes), made once."""
        with self._making:
            if self._made is None:
                program = from_json(self._description["program"], {}, {}, None)
                names, others = self._description["constants"], self._others
                given = []
                for spec in program.graph_signature.input_specs:
                    if spec.kind is InputKind.USER_INPUT:
                        given.append(None)
                    else:
                        given.append(names[spec.target] if spec.target in names else others[spec.target].detach())
                self._made = program.graph_module, given, program.graph_signature, program._checks()
                self._description = self._others = None
        return self._made

    def check(self, leaves) -> None:
        """Looks whether the program is for leaves of the arguments.

        Raises:
            ValueError: it is not.
        """
        checks = (self._made or self._parts())[-1]
        try:
            GuardsFn(checks)(*leaves)
        except AssertionError as error:
            raise ValueError(error) from None

    def __call__(self, constants, leaves, signature):
        """The results, flat, of leaves of the arguments; what the program writes is written.

        Args:
            constants: {name: tensor}.
            signature: of the compiled program, whose results these are: each in memory of its own, in order.
        """
        module, given, graph_signature, _ = self._made or self._parts()
        rest = iter(leaves)
        placeholders = [
            _plain(next(rest)) if g is None else constants[g] if g.__class__ is str else g for g in given
        ]
        by_name = {s.arg.name: t for s, t in zip(graph_signature.input_specs, placeholders)}
        owners = {s.target: s.arg.name for s in graph_signature.input_specs}
        with no_grad(), _without_autocast():
            outputs = module(*placeholders)
            taken = {id(t._ftorch_storage) for t in placeholders if isinstance(t, TensorBase)}
            expected = iter([o for o in signature.outputs if o[0] in ("user", "value")])
            users, writes = [], []
            for spec, value in zip(graph_signature.output_specs, outputs, strict=True):
                if spec.kind is not OutputKind.USER_OUTPUT:
                    name = spec.target if spec.kind is OutputKind.USER_INPUT_MUTATION else owners[spec.target]
                    writes.append((by_name[name], value))
                    continue
                kind, constant = next(expected)
                users.append(constant if kind == "value" else _own(value, taken))
            for t, value in writes:
                t.detach().copy_(value)
        executor.flush()
        return users


@contextmanager
def _without_autocast():
    on = modes.autocast or ()
    try:
        for device_type in on:
            autocast.set_enabled(device_type, False)
        yield
    finally:
        for device_type in on:
            autocast.set_enabled(device_type, True)


def _plain(value):
    """A leaf as an executable sees it: no subclass is asked about the calls, and none comes out of them."""
    return retyped(value, Tensor) if isinstance(value, TensorBase) and value.__class__ is not Tensor else value


def _own(value, taken):
    """A result in order and in memory of its own, as an executable's."""
    if not isinstance(value, TensorBase):
        return from_array(np.asarray(value))
    g, storage = value._ftorch_geometry, value._ftorch_storage
    if id(storage) in taken or g is not storage.root or not value.is_contiguous():
        value = value.detach().contiguous().clone()
    taken.add(id(value._ftorch_storage))
    return value.detach()
