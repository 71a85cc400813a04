"""An exported program compiled ahead of time: a serialized XLA executable, with StableHLO beside it.

The executable is for the machine that it was compiled on and the sizes of the example. Where one of these is another, the
program's graph runs (`_aot_graph`), and the StableHLO is compiled for sizes that come so often that it pays.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import pickle
import platform
import sys
import time
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
from ..eager.runtime import background
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
    """(signature, {name: tensor} of the constants, StableHLO, executable, why the StableHLO is not for all sizes) of a program.

    StableHLO and executable are bytes; the last is None, or an exception where some kernel needs numbers for sizes.
    """
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
    example = [jax.ShapeDtypeStruct(tuple(n.meta["val"].shape if not _symbolic(s) else _sizes(n)), s.dtype)
               for n, s in zip(order, flat.shapes)]
    lowered = jax.export.export(jax.jit(run), platforms=[_platform(device)])
    one_size = None
    try:
        exported = lowered(*constants, [*flat.shapes, *seed])
    except Exception as error:
        if not any(map(_symbolic, flat.shapes)):
            raise
        exported, one_size = lowered(*constants, [*example, *seed]), error
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
               # Bytes within bytes: what other versions of JAX wrote is not read before the machine is compared.
               "executable": pickle.dumps(serialize_executable.serialize(executable))}
    return signature, tensors, bytes(exported.serialize()), pickle.dumps(payload), one_size


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


_MOST_EXECUTABLES = 32  # that are kept beside the one compiled ahead: some 6 MB each of a transformer's two layers
_MOST_SIZES = 4096  # whose use is counted
_FIRST_GUESS = 0.5  # s that a compilation takes


class _Use:
    """What running one of a program's sizes without an executable took.

    Attributes:
        calls: how often it ran; ``seconds`` what all but the first call took, which may have planned its ops.
        worth: how many compilations' time it has to take before it is compiled.
        job: what compiles it, ``made`` what comes of that.
    """

    __slots__ = ("calls", "seconds", "worth", "job", "made")

    def __init__(self):
        self.calls, self.seconds, self.worth, self.job, self.made = 0, 0.0, 1.0, None, None

    def waits_longer(self):
        """Its executable went, or could not be made: the next one has to pay for more."""
        self.seconds, self.worth = 0.0, 2 * self.worth


class _Made:
    """A function to be compiled, as `background.Job` asks it, which keeps the executable."""

    def __init__(self, function):
        self.function, self.lowered, self.executable, self.seconds = function, None, None, 0.0

    def lower(self, *operands):
        self.seconds = -time.perf_counter()
        self.lowered = self.function.lower(*operands)
        return self

    def compile(self):
        lowered, self.lowered, self.function = self.lowered, None, None
        self.executable = lowered.compile()
        self.seconds += time.perf_counter()
        return self


@scoped
def _compile_beside(made, operands):
    return background.compile_beside(made, *jax.tree.map(background.structure_of, operands))


class Runner:
    """The executables of a program that was compiled ahead: that of the package where it fits, others made from the StableHLO.

    No more than a number of these is kept, those that were called last; a size whose executable went has to be called more
    than before to get it again. `ready` gives the executable of a size, `exact` makes it at once, and `ran` beside, when
    a size has run so long without it (by `_aot_graph`) that it pays.

    Args:
        stablehlo: its bytes; ``executable`` the bytes of the executable, or None.
        is_of_one_size: whether the StableHLO is for the example's sizes only.
    """

    def __init__(self, stablehlo: bytes, executable: bytes | None, device, is_of_one_size=False):
        self.stablehlo, self.device, self.is_of_one_size = stablehlo, device, is_of_one_size
        self.functions: collections.OrderedDict[Any, Any] = collections.OrderedDict()
        self.example: Any = None  # the sizes of the package's executable, of whatever machine
        self._ahead: Any = None
        self._uses: collections.OrderedDict[Any, _Use] = collections.OrderedDict()
        self._exported: Any = None
        self._seconds = _FIRST_GUESS
        self._compiling, self._keeping = forking.lock(), forking.lock()
        if executable is None:
            return
        payload = pickle.loads(executable)  # as trusted as a library is: see `aoti_load_package`
        self.example = tuple(payload["shapes"])
        if payload["machine"] == machine(device):
            where, made = _device.to_jax(device), payload["executable"]
            self._ahead = serialize_executable.deserialize_and_load(
                *(pickle.loads(made) if isinstance(made, bytes) else made), backend=where.client, execution_devices=[where]
            )

    @property
    def is_ahead(self) -> bool:
        """Whether there is an executable for this machine."""
        return self._ahead is not None

    @scoped
    def __call__(self, function, kept, given, inputs):
        """The results of an executable for arrays.

        Args:
            given: arrays whose memory results may take.
        """
        return function(kept, given, inputs)

    def is_forked(self) -> bool:
        """Whether executables cannot run, since XLA's threads are in the process that this one was forked from."""
        return _device.forked[0] and self.device.type == "cpu"

    def ready(self, key):
        """The executable for sizes (the shapes of the inputs, without the seed), if there is one."""
        if self.is_forked():
            return None
        if key == self.example and self._ahead is not None:
            return self._ahead
        with self._keeping:
            found = self.functions.get(key)
            if found is not None:
                self.functions.move_to_end(key)
                return found
            use = self._uses.get(key)
            if use is None or use.job is None or not use.job.poll():
                return None
            made, use.job, use.made = use.made, None, None  # the job is noted after what it makes
            if made.executable is None:  # it could not be compiled, or not there
                use.waits_longer()
                return None
            self._seconds = made.seconds
            return self._keep(key, made.executable)

    def exact(self, kept, given, inputs, key):
        """The executable for sizes, compiled here where there is none.

        Raises:
            RuntimeError: in a forked process, which cannot run it.
            ValueError: for sizes that the program is not for.
        """
        if self.is_forked():
            raise RuntimeError(
                "a package runs on XLA's threads, which are not in a process that was forked from one that had used them: "
                "load packages in the worker, before the parent computes or loads anything, or start workers with 'spawn'"
            )
        if self.is_of_one_size and key != self.example:
            raise RuntimeError(
                "the program has no StableHLO for all sizes: it runs those that are not the example's by its graph, whose "
                "meaning function modes, transforms and another default dtype than when it was packaged would change"
            )
        with self._compiling:  # once, however many threads come with these sizes
            function = self.ready(key)
            if function is None:
                function = self._of_sizes(kept, given, inputs)
                with self._keeping:
                    self._keep(key, function)
        return function

    def _keep(self, key, function):
        self.functions[key] = function
        self.functions.move_to_end(key)
        if len(self.functions) > _MOST_EXECUTABLES:
            gone, _ = self.functions.popitem(last=False)
            self._use(gone).waits_longer()
        return function

    def _use(self, key):
        use = self._uses.get(key)
        if use is None:
            use = self._uses[key] = _Use()
            if len(self._uses) > _MOST_SIZES:
                self._uses.popitem(last=False)
        else:
            self._uses.move_to_end(key)
        return use

    def is_known(self, key):
        """Whether sizes are known to be the program's."""
        return key in self._uses or key == self.example

    @scoped
    def check(self, kept, given, inputs):
        """Looks whether the program is for sizes, which compiles nothing.

        Raises:
            ValueError: as `exact` does.
        """
        jax.eval_shape(self._program().call, kept, given, inputs)

    def ran(self, key, seconds, operands) -> None:
        """Notes that a size ran without its executable; begins to compile it when that pays.

        Args:
            operands: gives the arrays that `exact` is given; None if it is never to be compiled.
        """
        with self._keeping:
            use = self._use(key)
            use.calls += 1
            if use.calls > 1:
                use.seconds += seconds
            if operands is None or use.made is not None or use.seconds < use.worth * self._seconds:
                return
            beside = background.is_possible()
            if beside:
                if not background.has_room():
                    return
                use.made = made = _Made(self._function())
        if beside:
            try:
                use.job = _compile_beside(made, operands())
            finally:
                if use.job is None:  # too many wait, or it was interrupted
                    use.made = None
            return
        try:
            self.exact(*operands(), key)
        except Exception:  # the size runs on by the graph, as one does that could not be compiled beside
            with self._keeping:
                use.waits_longer()

    def _program(self):
        if self._exported is None:
            self._exported = jax.export.deserialize(bytearray(self.stablehlo))
        return self._exported

    def _function(self):
        call = self._program().call
        # Each a function of its own: what JAX keeps of one goes with it.
        return jax.jit(lambda kept, given, inputs: call(kept, given, inputs), donate_argnums=(1,))

    @scoped
    def _of_sizes(self, *arrays):
        made = _Made(self._function()).lower(*arrays).compile()
        self._seconds = made.seconds
        return made.executable


@scoped  # a copy of NumPy's integers has 64 bits then
def copied(arrays: list[Any]) -> list[Any]:
    """Arrays that a run may take over: one that fails or is interrupted leaves what it was to replace as it was."""
    return [jnp.copy(array) for array in arrays]
