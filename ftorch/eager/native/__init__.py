"""Kernels of this package for the CPU, in C++: matrix products and convolutions in float32.

They are built when the package is installed, if there is a compiler; without one, XLA's are used. What is
recorded never names them: `rewrite.py` puts them into a program before XLA compiles it. With
``FTORCH_NATIVE=0`` in the environment they are not used.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import warnings

import jax
import numpy as np

_NAMES = ("ftorch_multiply", "ftorch_convolve", "ftorch_weight_gradient")


def _register():
    spec = importlib.util.find_spec("._kernels", __name__)
    if spec is None or spec.origin is None or os.environ.get("FTORCH_NATIVE") == "0":
        return False
    try:
        library = ctypes.CDLL(spec.origin)
        for name in _NAMES:
            target = jax.ffi.pycapsule(getattr(library, name))
            jax.ffi.register_ffi_target(name, target, platform="cpu")
    except (OSError, AttributeError, RuntimeError, ValueError) as error:
        warnings.warn(
            f"ftorch's kernels were built for another jaxlib or machine ({error}); XLA's are used. "
            "Reinstall ftorch to build them anew.",
            stacklevel=2,
        )
        return False
    return True


available = _register()


def call(name, shape, *operands, **attributes):
    """The custom call ``name`` on float32 ``operands``; every attribute is a sequence of integers."""
    result = jax.ShapeDtypeStruct(shape, np.float32)
    packed = {key: np.array(value, np.int64) for key, value in attributes.items()}
    return jax.ffi.ffi_call(name, result)(*operands, **packed)
