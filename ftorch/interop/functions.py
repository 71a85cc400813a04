"""Functions of JAX arrays as functions of tensors."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..eager.autograd.derivative_kernels import Derived
from ..eager.call import op as _op
from ..eager.core.jax_scope import callers_settings, scoped, under
from ..eager.core.registry import OPTIONAL_TENSOR
from ..eager.tensor import TensorBase
from ..eager.tensor_api.jax_interop import from_jax

_MOST = 256  # kinds of calls of one function that are known
_MOST_SHAPES = 1024  # of the arrays of one kind


def on_tensors(function: Callable) -> Callable:
    """A JAX function as a function of tensors: recorded, differentiated, mapped and compiled as any operation is.

    Args:
        function: of pytrees of arrays. It is traced as `jax.jit` traces, under the caller's settings of JAX
            (``jax.enable_x64``), once for each kind of call; results that are no arrays become arrays.

    Returns:
        A function of pytrees in which tensors (and arrays) are what is traced; numbers, strings and other leaves are
        constants, and each of them is traced anew.

    Raises:
        TypeError: when it is called, for a constant that is not hashable.

    >>> import ftorch as torch, jax.numpy as jnp
    >>> scaled = torch.interop.on_tensors(lambda x, scale: {"y": jnp.tanh(x) * scale})
    >>> x = torch.zeros(2, requires_grad=True)
    >>> scaled(x, 3.0)["y"].sum().backward()
    >>> x.grad
    tensor([3., 3.])
    """
    return keeping_keys(function, lambda key: jax.random.wrap_key_data(key.data.jax(), impl=key.implementation))


class RandomKey(NamedTuple):
    """A typed random key of JAX's as a tensor of its data."""

    data: TensorBase
    implementation: Any


def keeping_keys(function: Callable, made: Callable) -> Callable:
    """`on_tensors`, whose arguments may hold `RandomKey`s; for those among its results it gives ``made(key)``."""
    calls = Calls(function, made)

    @functools.wraps(function)
    def call(*args, **kwargs):
        return calls(*args, **kwargs)

    return call


def as_it_is(key):
    """The random key of a result, which stays one of tensors."""
    return key


class Calls:
    """A function on tensors by kind of call. Copies and pickles have the function, and find out the kinds again."""

    def __init__(self, function: Callable, made: Callable = as_it_is):
        self._function, self._made = function, made
        self._calls: collections.OrderedDict[tuple, _Call] = collections.OrderedDict()

    def __reduce__(self):
        return type(self), (self._function, self._made)

    def __call__(self, *args, **kwargs):
        leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=is_leaf)
        tensors, constants, signs = [], [], []
        for leaf in leaves:
            kind = _kind_of(leaf)
            constants.append((kind, None if kind else leaf, type(leaf)))
            if isinstance(leaf, (float, complex, np.inexact)):
                signs.append(repr(leaf))  # -0.0 is not 0.0
            if kind:
                tensors.append(_tensor_of(leaf, kind))
        settings, calls = callers_settings(), self._calls
        key = tree, tuple(constants), tuple(signs), settings
        found = calls.get(key)
        if found is None:
            found = calls[key] = _Call(self._function, tree, constants, settings, self._made)
            if len(calls) > _MOST:
                calls.popitem(last=False)
        return found(tensors)


def is_leaf(value) -> bool:
    """Whether a value is a leaf of the pytrees here, which JAX would take apart."""
    return isinstance(value, (TensorBase, RandomKey))


def _is_key(value):
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def _kind_of(leaf) -> Any:
    """"array"; the implementation of a random key; None for a constant."""
    if isinstance(leaf, RandomKey):
        return leaf.implementation
    if _is_key(leaf):
        return jax.random.key_impl(leaf)
    return "array" if isinstance(leaf, (TensorBase, jax.Array, np.ndarray)) else None


def _tensor_of(leaf, kind):
    if is_leaf(leaf):
        return leaf.data if isinstance(leaf, RandomKey) else leaf
    return from_jax(jnp.asarray(leaf) if kind == "array" else jax.random.key_data(leaf))


class _Call:
    """One kind of call: the structure of the arguments, and the constants among them."""

    def __init__(self, function, tree, constants, settings, made):
        self._function, self._tree, self._constants, self._settings = function, tree, constants, settings
        self._made = made
        self._trees: dict[tuple, Any] = {}  # of results, by the shapes and dtypes of the arrays
        name = getattr(function, "__name__", type(function).__name__)
        count = sum(kind is not None for kind, *_ in constants)
        self._op = _op.Op(Derived(name, self._kernel, [OPTIONAL_TENSOR] * count))

    def __call__(self, tensors):
        results = self._op(*tensors)
        shapes = tuple([(tuple(t.shape), t.dtype.numpy) for t in tensors])
        tree, kinds = self._trees.get(shapes) or self._structure(shapes)
        results = results if isinstance(results, tuple) else (results,)
        return jax.tree.unflatten(tree, [
            t if kind == "array" else self._made(RandomKey(t, kind)) for t, kind in zip(results, kinds, strict=True)
        ])

    @scoped
    def _structure(self, shapes):
        jax.eval_shape(self._kernel, *[jax.ShapeDtypeStruct(*s) for s in shapes])
        return self._trees[shapes]

    def _kernel(self, *arrays):
        given = iter(arrays)
        leaves = [
            constant if kind is None else next(given) if kind == "array" else jax.random.wrap_key_data(next(given), impl=kind)
            for kind, constant, _ in self._constants
        ]
        with under(self._settings):
            args, kwargs = jax.tree.unflatten(self._tree, leaves)
            found, tree = jax.tree.flatten(self._function(*args, **kwargs))
            kinds = [jax.random.key_impl(r) if _is_key(r) else "array" for r in found]
            results = tuple([jnp.asarray(r) if k == "array" else jax.random.key_data(r) for r, k in zip(found, kinds)])
        if len(self._trees) >= _MOST_SHAPES:
            self._trees.clear()  # what is asked for again is found out again
        self._trees[tuple([(a.shape, a.dtype) for a in arrays])] = tree, kinds
        return results[0] if len(results) == 1 else results


__all__ = ["on_tensors"]
