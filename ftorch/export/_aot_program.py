"""An exported program compiled ahead of time: a serialized XLA executable, with StableHLO beside it.

The executable is for the machine that it was compiled on and the sizes of the example. Where one of these is
another, the StableHLO is compiled when it is needed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import pickle
import platform
import sys
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import jaxlib.version
import numpy as np
from jax.experimental import serialize_executable

from ..eager.core import device as _device
from ..eager.core import forking, jax_internals
from ..eager.core.jax_scope import scoped
from ..eager.core.refcount import LISTED
from ..eager.runtime import compilation as _compilation
from ..fx.node import Node
from ._stablehlo import flat_function
from .graph_signature import OutputKind

_WRITES = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)


@dataclasses.dataclass
class Signature:
    """What a program takes and gives, in words that JSON has.

    Attributes:
        constants: the names of the arrays that it takes first; ``written`` those that it gives anew, whose memory
            it takes over.
        inputs: for each leaf of the arguments None and its value, if it is a constant, or its dtype and sizes: numbers,
            or what they are called.
        outputs: for each output ["user", ""], ["constant", name] or ["input", position among the inputs] if it is a
            result of the program, or ["value", itself].
        seeded: whether the seed of its random numbers is one more input, an uint32.
    """

    constants: list[str]
    written: list[str]
    inputs: list[dict[str, Any]]
    outputs: list[list[Any]]
    seeded: bool


@scoped
def compiled_ahead(program, device):
    """(signature, {name: tensor} of the constants, StableHLO, executable) of a program: the last two as bytes."""
    flat = flat_function(program)
    names = {node: name for node, (name, _) in flat.constants.items()}
    tensors = {name: t for name, t in flat.constants.values()}
    outputs, written = [], []
    order = [n for n in flat.inputs if n is not None]
    places = {n.name: i for i, n in enumerate(order)}
    for kind, target, value in flat.outputs:
        if kind in _WRITES:
            outputs.append(["constant", target])
            written.append(target)
        elif kind is OutputKind.USER_INPUT_MUTATION:
            outputs.append(["input", places[target]])
        elif isinstance(value, Node):
            outputs.append(["user", ""])
        else:
            outputs.append(["value", value])
    kept = [n for n in tensors if n not in written]
    given = [n for n in dict.fromkeys(written) if n in tensors]
    by_name = {name: node for node, name in names.items()}

    def run(kept_arrays, given_arrays, inputs):
        key = None
        if flat.seeded:
            *inputs, seed = inputs
            key = jax.random.key(seed)
        values = dict(zip((by_name[n] for n in (*kept, *given)), (*kept_arrays, *given_arrays), strict=True))
        results = flat.run(values, dict(zip(order, inputs, strict=True)), key)
        return [jnp.asarray(o) for o, (_, _, value) in zip(results, flat.outputs) if isinstance(value, Node)]

    def like(name):
        return jax.ShapeDtypeStruct(tuple(tensors[name].shape), tensors[name].dtype.numpy)

    constants = [like(n) for n in kept], [like(n) for n in given]
    seed = [jax.ShapeDtypeStruct((), np.uint32)] * flat.seeded
    exported = jax.export.export(jax.jit(run), platforms=[_platform(device)])(*constants, [*flat.shapes, *seed])
    example = [jax.ShapeDtypeStruct(tuple(n.meta["val"].shape if not _symbolic(s) else _sizes(n)), s.dtype)
               for n, s in zip(order, flat.shapes)]
    function = _compilation.jitted(run, donates=bool(given), device=device, steps=len(program.graph.nodes))
    with jax_internals.without_cache():
        executable = function.lower(*constants, [*example, *seed]).compile()
    shapes = iter(flat.shapes)
    fixed = iter(flat.fixed.values())
    inputs = [
        {"value": next(fixed)} if node is None else _described(next(shapes)) for node in flat.inputs
    ]
    signature = Signature([*kept, *given], given, inputs, outputs, flat.seeded)
    payload = {"machine": machine(device), "shapes": [tuple(s.shape) for s in example],
               "executable": serialize_executable.serialize(executable)}
    return signature, tensors, bytes(exported.serialize()), pickle.dumps(payload)


def _symbolic(spec):
    return any(not isinstance(n, int) for n in spec.shape)


def _sizes(node):
    return [int(n) for n in node.meta["val"].shape]


def _described(spec):
    return {"dtype": np.dtype(spec.dtype).name, "sizes": [n if isinstance(n, int) else str(n) for n in spec.shape]}


def _platform(device):
    return _device.to_jax(device).platform if device.type != "cuda" else "cuda"


def machine(device) -> str:
    """What an executable depends on: versions, the processor's instructions, the kind of device."""
    words = [
        jax.__version__,
        jaxlib.version.__version__,
        sys.version,
        platform.machine(),
        _device.to_jax(device).device_kind,
    ]
    if device.type == "cpu":
        try:
            with open("/proc/cpuinfo", encoding="utf-8") as file:
                words += next((line.split() for line in file if line.startswith(("flags", "Features"))), [])
        except OSError:
            words.append(platform.processor())
    return hashlib.blake2b("\0".join(words).encode(), digest_size=16).hexdigest()


class Runner:
    """Runs a program that was compiled ahead: the executable where it fits, else the StableHLO.

    Args:
        stablehlo: its bytes; ``executable`` the bytes of the executable, or None.
    """

    def __init__(self, stablehlo: bytes, executable: bytes | None, device):
        self.stablehlo, self.device = stablehlo, device
        self.functions: dict[Any, Any] = {}
        self._jitted: Any = None
        self._compiling = forking.lock()
        self.is_ahead = False  # whether there is an executable for this machine
        if executable is None:
            return
        payload = pickle.loads(executable)  # as trusted as a library is: see `aoti_load_package`
        if payload["machine"] == machine(device):
            where = _device.to_jax(device)
            loaded = serialize_executable.deserialize_and_load(
                *payload["executable"], backend=where.client, execution_devices=[where]
            )
            self.functions[tuple(payload["shapes"])] = loaded
            self.is_ahead = True

    @scoped
    def __call__(self, kept, given, inputs, key):
        """The results for arrays.

        Args:
            given: arrays whose memory results may take; key: the shapes of the inputs, without the seed.

        Raises:
            ValueError: for sizes that the program is not for.
        """
        if _device.forked[0] and self.device.type == "cpu":
            raise RuntimeError(
                "a package runs on XLA's threads, which are not in a process that was forked from one that had used them: "
                "load packages in the worker, before the parent computes or loads anything, or start workers with 'spawn'"
            )
        function = self.functions.get(key)
        if function is None:
            with self._compiling:  # once, however many threads come with these sizes
                function = self.functions.get(key) or self._of_sizes(kept, given, inputs)
                self.functions[key] = function
        return function(kept, given, inputs)

    def _of_sizes(self, *arrays):
        if self._jitted is None:
            self._jitted = jax.jit(jax.export.deserialize(bytearray(self.stablehlo)).call, donate_argnums=(1,))
        return self._jitted.lower(*arrays).compile()


def spare(arrays: list[Any]) -> list[Any]:
    """Arrays that may be given away: copies of those that somebody else holds.

    Args:
        arrays: emptied.
    """
    given = []
    while arrays:
        array = arrays.pop(0)
        given.append(array if sys.getrefcount(array) == LISTED else jnp.copy(array))
        del array
    return given
