"""How functions of JAX arrays become operators of a package's namespace."""

from __future__ import annotations

import functools

import jax

from ..eager.core.jax_scope import scoped_trace
from ..eager.tensor import Tensor
from ..eager.tensor_api.jax_interop import from_jax
from ..library import Library

_libraries: dict[str, Library] = {}


def define(schema: str, function) -> None:
    """Registers an operator.

    Args:
        schema: with its namespace, ``"torchvision::nms(Tensor dets, ...) -> Tensor"``.
        function: of tensors.
    """
    namespace, _, rest = schema.partition("::")
    library = _libraries.get(namespace)
    if library is None:
        library = _libraries[namespace] = Library(namespace, "FRAGMENT")
    library.define(rest)
    library.impl(rest.partition("(")[0], function, "CompositeExplicitAutograd")


def kernel(*static: str):
    """Makes a function of arrays one of tensors: compiled, once for each value of the static arguments.

    The results are tensors outside of the graph: libraries bring derivatives of their own.
    """

    def decorate(function):
        compiled = scoped_trace(jax.jit(function, static_argnames=static))

        @functools.wraps(function)
        def call(*args, **kwargs):
            values = [a.detach().jax() if isinstance(a, Tensor) else a for a in args]
            out = compiled(*values, **kwargs)
            if isinstance(out, tuple):
                return tuple(from_jax(o) for o in out)
            return from_jax(out)

        return call

    return decorate
