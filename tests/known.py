"""What is known to fail, by property of `tests.test_registry` and op, with the reason.

The tests are expected to fail (strictly: a repaired op has to leave the table).
"""

_FREE = "mathematics leaves the result open: PyTorch's choice is another"
_EMPTY = "an empty result requires grad, in PyTorch it does not"

KNOWN: dict[str, dict[str, str]] = {
    "values": {
        "linalg_svd": f"{_FREE} (vectors of the null space)",
    },
    "method": {},
    "inplace": {},
    "versions": {},
    "out": {},
    "gradient": {
        "as_strided_scatter": "PyTorch's gradient is not the adjoint of its own function",
        "combinations": _EMPTY,
        "linalg_vector_norm": "the gradient of the norm of order 0 is zeros, in PyTorch None",
        "trapezoid.dx": _EMPTY,
        "trapz.dx": _EMPTY,
    },
    "vmap": {},
    "compile": {},
    "meta": {},
}
