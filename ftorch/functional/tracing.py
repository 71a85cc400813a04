"""Functions of control flow operators as jaxprs: which tensors they capture, which numbers they draw.

Random numbers in a traced function are functions of a seed, which is one more operand: the operator
draws it from the generator when it is called (for each step, and for each example of a `vmap` that
asks for different numbers), so that a gradient sees the numbers that the forward pass saw. They are
not those that the same code draws step by step.
"""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import numpy as np

from ..eager.call import op as _op
from ..eager.core import api, callback_errors
from ..eager.core.jax_scope import scoped
from ..eager.core.public_functions import python_of
from ..eager.dispatch.randomness import FILL
from ..eager.native.contexts import called_back
from ..eager.sampling.generator import Generator
from ..eager.tensor import TensorBase, from_array, modes
from ..eager.tensor_api.jax_interop import jax_array
from ..eager.transforms.dual import Dual, DualLevel, dual
from ..utils import _pytree as pytree

SEED = jax.ShapeDtypeStruct((), np.int64)


class TraceLevel(DualLevel):
    """The level of a function that is traced to a jaxpr; finds out which tensors it captures.

    Attributes:
        seed: the array that random numbers are made of; None where none may be drawn.
        draws: how many functions drew random numbers.
    """

    def __init__(self, captured_arrays=None, seed=None):
        super().__init__()
        self.is_transform = False
        self.given = captured_arrays
        self.captured: list = []
        self.stand_ins: dict = {}
        self.seed, self.draws = seed, 0

    def _primal(self, t):
        if not isinstance(t, TensorBase):
            return t
        if isinstance(t, Dual) and t._ftorch_level is self:
            return t._inner
        found = self.stand_ins.get(id(t))
        if found is None:
            index = len(self.captured)
            self.captured.append(t)
            array = (
                jnp.zeros(t.shape, t.dtype.numpy) if self.given is None else self.given[index]
            )
            found = self.stand_ins[id(t)] = from_array(array)
        return found

    def known(self, t, how):
        raise RuntimeError(
            "the value of a tensor inside a traced control flow operator is not known; use torch.where "
            "or a control flow operator instead of Python control flow on values"
        )

    def random(self, kind, function, args, kwargs):
        if self.seed is None:
            raise RuntimeError(
                "random operations are not possible in this function of a control flow operator that "
                "is traced; draw the numbers outside and pass them in"
            )
        self.draws += 1
        arrays = [jax_array(self._primal(a)) for a in args if isinstance(a, TensorBase)]
        host = _host_function(function, args, kwargs, self.draws)
        try:
            example = host(0, *(np.ones(a.shape, a.dtype) for a in arrays))
        except callback_errors.CallbackFailed as error:
            raise callback_errors.original(error) from None
        array = jax.pure_callback(
            host, jax.ShapeDtypeStruct(example.shape, example.dtype), self.seed,
            *(jax.lax.stop_gradient(a) for a in arrays), vmap_method="sequential",
        )
        result = dual(self, from_array(array), None)
        if kind != FILL:
            return result
        return args[0].copy_(result)


def _host_function(function, args, kwargs, index):
    """``host(seed, *arrays of the tensors)``: the numbers that a function draws, as an array."""
    is_tensor = [isinstance(a, TensorBase) for a in args]
    rest = [None if t else a for a, t in zip(args, is_tensor)]
    place = list(inspect.signature(python_of(function)).parameters).index("generator")

    def host(seed, *arrays):
        def draw(results):
            generator = Generator()
            generator.manual_seed((int(seed) * 1000003 + index) % (1 << 62))
            given = iter(arrays)
            full = [from_array(np.array(next(given))) if t else a for a, t in zip(rest, is_tensor)]
            named = dict(kwargs)
            if place < len(full):
                full[place] = generator
            else:
                named["generator"] = generator
            results.append(_op.to_numpy(function(*full, **named)))

        return called_back(draw)[0]

    return host


class TracedFunction:
    """A function as a jaxpr: ``captured`` tensors are its first operands.

    It runs twice. The first run, on zeros whose results nobody asks for, finds the captured tensors:
    what it computes from those alone is an ordinary computation, on the outer tape. The second gives
    the jaxpr. If the function draws random numbers (``draws``), a seed is its last operand.
    """

    @scoped
    def __init__(self, function, structs, may_draw=True):
        self.spec = None

        def run(level, arrays):
            with level:
                output = function(*(dual(level, from_array(a), None) for a in arrays))
                flat, self.spec = pytree.tree_flatten(output)
                return [level._primal(t) if isinstance(t, TensorBase) else t for t in flat]

        def trace(captured_arrays, arrays):
            outer, modes.grad = modes.grad, False
            seed = None
            if self.draws:
                *arrays, seed = arrays
            try:
                results = run(TraceLevel(captured_arrays, seed), arrays)
                return [
                    jax_array(t) if isinstance(t, TensorBase) else jnp.asarray(t) for t in results
                ]
            finally:
                modes.grad = outer

        level = TraceLevel(seed=jnp.zeros((), jnp.int64) if may_draw else None)
        run(level, [jnp.zeros(s.shape, s.dtype) for s in structs])
        self.draws = level.draws > 0
        if self.draws:
            structs = [*structs, SEED]
        captured = level.captured
        held = [jax.ShapeDtypeStruct(t.shape, t.dtype.numpy) for t in captured]
        self.closed = jax.make_jaxpr(trace)(held, structs)
        # Arrays in closures are operands too: inside JAX's transformations they may be tracers.
        self.captured = [*captured, *(from_array(c) for c in self.closed.consts)]
        self.count = len(captured)
        self.outputs = self.closed.out_avals
        self.key = str(self.closed.jaxpr)

    def __call__(self, captured, arrays):
        captured, constants = captured[: self.count], captured[self.count :]
        return jax.core.eval_jaxpr(self.closed.jaxpr, constants, *captured, *arrays)


def seeds(*shape):
    """Seeds drawn from the default generator, as a transform's ``randomness`` says."""
    return api.randint(0, 1 << 40, shape)
