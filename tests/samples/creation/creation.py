"""Samples for ftorch/eager/kernels/creation/factories.py: kernels whose last argument is the dtype."""

import numpy as np

from tests.samples import S, T, register

_FLOAT, _INT = np.dtype("float32"), np.dtype("int64")

register("full", S((2, 3), 2.5, _FLOAT), S((), True, np.dtype("bool")), S((0,), 3, _INT))
for _name in ("zeros", "ones", "empty"):
    register(_name, S((2, 3), _FLOAT), S((), _INT))
    register(f"{_name}_like", S(T(2, 3), _INT))
    register(f"new_{_name}", S(T(2), (3, 1), _FLOAT))
register("full_like", S(T(2, 3), 7, _FLOAT))
register("new_full", S(T(2), (3, 1), 7, _INT))
register("eye", S(2, 3, _FLOAT), S(0, 2, _INT))
register("arange", S(5, 0, 1, _INT), S(4, 0.5, 0.25, _FLOAT), S(3, 5, -2, _INT), S(0, 1, 1, _INT))
register("linspace", S(0, 1, 5, _FLOAT), S(0, 10, 4, _INT), S(3, -3, 1, _FLOAT), S(0, 1, 0, _FLOAT))
register("logspace", S(0, 2, 3, 10.0, _FLOAT), S(0, 3, 4, 2.0, _INT))
register("tril_indices", S(3, 4, 1, _INT))
register("triu_indices", S(3, 4, -1, _INT))
