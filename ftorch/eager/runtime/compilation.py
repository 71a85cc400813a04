"""Compilation of traces as functions by XLA: the order of what they are given and give, and XLA's options."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax

from ..core import device as _device
from ..core import jax_internals
from ..core.jax_scope import is_inside, scoped
from ..core.jaxprs import inner
from ..core.lock_sharing import rest
from ..core.suppressed_warnings import quiet
from ..native.passes.rewrite import rewritten
from ..native.waiting import beside
from .counters import stats
from .scalars import COMPLEX, FLOAT, INT, weak
from .trace_code import steps_of

jax_internals.compile_by(beside, is_inside)

# Programs of a training step are many small steps: in the order that keeps memory low they also run
# up to a fifth faster than in the one that XLA's CPU backend takes to keep more threads busy.
ROUNDED = {"xla_allow_excess_precision": False}  # numbers of 16 bits are rounded in each step
_CPU_OPTIONS = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
# The emitters that make code of each fusion through MLIR want up to 1 MB and 6 ms for one of an eager program, whose rounding
# makes fusions longer: the first step of a ResNet-50 would hold 1,056 MB instead of 639. Without them a loop over an array
# whose memory the result takes goes by single elements, since LLVM does not know that they are the same: compiled programs,
# which want no more memory and less time to compile with them, have them at all lengths, and short eager ones.
_LONG_OPTIONS = {**_CPU_OPTIONS, "xla_cpu_use_fusion_emitters": False}  # the last is in jaxlib until 0.10
_LONG = 128  # steps


@functools.cache
def _cpu_options(is_long, rounded):
    """The options for a program on the CPU, as far as this jaxlib has them."""
    return _known({**(_LONG_OPTIONS if is_long else _CPU_OPTIONS), **(ROUNDED if rounded else {})}, _cpu())


def _known(wanted, where):
    """Those of XLA's options that this jaxlib has."""
    return wanted if _compiles(wanted, where) else {n: v for n, v in wanted.items() if _compiles({n: v}, where)}


def _compiles(options, where):
    try:
        jax.jit(int, compiler_options=options, out_shardings=where).lower().compile()
    except jax.errors.JaxRuntimeError as error:
        if "No such compile option" not in str(error):
            raise
        return False
    return True


@functools.cache
def _cpu():
    return jax.sharding.SingleDeviceSharding(_device.to_jax(_device.CPU))


@scoped
def put(array, device):
    """A NumPy array where programs for a device take it from without a transfer."""
    return jax.device_put(array, _cpu() if device is None or device is _device.CPU else _device.to_jax(device))


def jitted(program, *, donates, device, steps, rounded=False):
    """The compiled form of a program of (arrays to keep, arrays that it may take over, ...), made of so many steps.

    Args:
        device: where it runs.
        rounded: whether it gives the bits that its steps give one by one, as an eager program has to.
    """
    donated = (1,) if donates else ()
    if device is not _device.CPU:
        return accelerated(program, device, donated)
    # Where its inputs are is said: JAX would compile again for those that it has put elsewhere
    # by default (new ones) and those that another program gave, which are bound to a device.
    options: Any = {"compiler_options": _cpu_options(rounded and steps > _LONG, rounded), "in_shardings": _cpu()}
    return jax.jit(rewritten(program, donated=1, rounded=rounded), donate_argnums=donated, **options)


# --- accelerators

# Triton's products are found by trying out hundreds of kernels, 19 s for the step of a network of four layers. The
# heuristics of cuBLASLt, which PyTorch asks, too, choose at once and the same each time, and steps are as fast or faster.
_CUDA_OPTIONS = {"xla_gpu_enable_triton_gemm": False, "xla_gpu_enable_cublaslt": True}
_NO_TRIALS = {"xla_gpu_autotune_level": 0}
_tries_kernels = False


def try_kernels(whether: bool) -> None:
    """Says whether all programs for GPUs are compiled from now on with the kernels that were fastest when tried."""
    global _tries_kernels
    _tries_kernels = whether


def accelerated(program, device, donated=()):
    """A function compiled for an accelerator, or for several devices.

    Args:
        donated: which arguments' arrays it may take over.
    """
    if device.type != "cuda" or _device.is_several(device):
        return jax.jit(program, donate_argnums=donated)
    return _CudaProgram(program, device, donated)


class _CudaProgram:
    """A jitted function whose options follow from what it computes: XLA's first choice for a convolution is up to 25 times
    as slow as the best, so that programs which have one try kernels out.
    """

    __slots__ = ("_program", "_device", "_donated", "_function")

    def __init__(self, program, device, donated):
        self._program, self._device, self._donated = program, device, donated
        self._function: Any = None

    def __call__(self, *operands):
        return (self._function or self._chosen(operands))(*operands)

    def lower(self, *operands):
        """As of `jax.jit`'s functions."""
        return (self._function or self._chosen(operands)).lower(*operands)

    def _chosen(self, operands):
        function = self._jitted(_tries_kernels)
        # JAX keeps what it traced for another function of the same program.
        if not _tries_kernels and _convolves(function.trace(*operands).jaxpr.jaxpr):
            function = self._jitted(True)
        self._function = function
        return function

    def _jitted(self, tries):
        return jax.jit(self._program, donate_argnums=self._donated, compiler_options=_cuda_options(self._device, tries))


@functools.cache
def _cuda_options(device, tries):
    """The options for a program on a GPU, as far as this jaxlib has them."""
    where = jax.sharding.SingleDeviceSharding(_device.to_jax(device))
    return _known({**_CUDA_OPTIONS, **({} if tries else _NO_TRIALS)}, where)


def _convolves(jaxpr):
    """Whether there is a convolution in a jaxpr, or in one that it calls."""
    return any(
        eqn.primitive is jax.lax.conv_general_dilated_p
        or any(_convolves(getattr(found, "jaxpr", found)) for found in inner(eqn.params.values()))
        for eqn in jaxpr.eqns
    )


def paired(donated, before):
    """The order of donated inputs and of results in which JAX lays each result over what it replaces.

    JAX gives a result the memory of the first donated input of its shape. Where that is needed after
    the result is there, XLA copies it.

    Args:
        before: for each result the input that it replaces, or something else.
    """
    own = {b: place for place, b in enumerate(before) if b in donated}
    given = (*own, *(i for i in donated if i not in own))
    taken = set(own.values())
    return given, [*own.values(), *(place for place in range(len(before)) if place not in taken)]


def places(order):
    """Where in a list in this order the first element is, the second, ..."""
    return sorted(range(len(order)), key=order.__getitem__)


class Compiled(NamedTuple):
    """A program: ``function(kept, given, ints, floats)`` gives the live values.

    Attributes:
        given: the inputs whose memory it takes over, in the order of that argument.
        order: which live value each result is; None if they are in order.
    """

    function: Any
    given: tuple[int, ...]
    order: list[int] | None


def element(vector, i):
    """``vector[i]`` without the bounds arithmetic of JAX's indexing, which is slow to compile."""
    return jax.lax.squeeze(jax.lax.slice(vector, (i,), (i + 1,)), (0,))


def function_of(code, live):
    """A trace as a function, to be traced: (inputs, integers, floats) -> the live values."""
    walk = steps_of(code)

    def function(inputs, ints, floats):
        i = f = 0
        values = []
        for plan, operands in walk:
            rest()
            numbers = []
            for kind in plan.scalars:
                if kind == INT:
                    numbers.append(weak(element(ints, i), INT))
                    i += 1
                elif kind == FLOAT:
                    numbers.append(weak(element(floats, f), FLOAT))
                    f += 1
                else:
                    parts = element(floats, f), element(floats, f + 1)
                    numbers.append(weak(jax.lax.complex(*parts), COMPLEX))
                    f += 2
            arrays = [values[o] if o >= 0 else inputs[-1 - o] for o in operands]
            with quiet():
                results = plan.fn(*arrays, *numbers)
            if plan.is_single:
                values.append(results)
            else:
                values.extend(results)
        return [values[slot] for slot in live]

    return function


def compile_code(code, live, donated, device, before):
    """The compiled program of a trace.

    Args:
        before: for each live slot the input whose value it replaces, or -1.
    """
    stats.compilations += 1
    given_order, order = paired(donated, before)
    function = function_of(code, [live[place] for place in order])
    count = 1 + max((-1 - item for item in code if item.__class__ is int and item < 0), default=-1)

    def program(kept, given, ints, floats):
        kept, given = iter(kept), dict(zip(given_order, given, strict=True))
        return function([given[i] if i in given else next(kept) for i in range(count)], ints, floats)

    compiled = jitted(
        program, donates=bool(donated), device=device, steps=count_steps(code), rounded=True
    )
    return Compiled(compiled, given_order, None if order == sorted(order) else order)


def count_steps(code):
    """Of how many steps a trace is made."""
    return sum([item.__class__ is not int for item in code])
