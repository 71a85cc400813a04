"""What programs return, without a library's classes, and how two such results differ."""

import numpy as np

# Relative to the largest number of a result. An accelerator adds in another order.
_TOLERANCES = {"float64": 1e-8, "complex128": 1e-8, "float32": 2e-4, "complex64": 2e-4, "float16": 1e-2, "bfloat16": 3e-2}


def plain(value):
    """Tensors as (dtype, strides, array), containers as tuples."""
    if hasattr(value, "detach") and hasattr(value, "dtype"):
        dtype, host = str(value.dtype).split(".")[-1], value.detach().cpu()
        if dtype == "bfloat16":
            host = host.float()
        strides = tuple(value.stride()) if str(value.layout) == "torch.strided" else None
        return "tensor", dtype, strides, host.resolve_conj().resolve_neg().numpy()
    if isinstance(value, dict):
        return tuple((k, plain(v)) for k, v in value.items())
    if isinstance(value, (tuple, list)):
        return tuple(plain(v) for v in value)
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return value
    return str(value)


def difference(got, expected, where="result"):
    """The first difference in words, None if there is none."""
    if isinstance(expected, tuple) and expected[:1] == ("tensor",):
        return _of_tensors(got, expected, where)
    if isinstance(expected, tuple):
        if not isinstance(got, tuple) or len(got) != len(expected):
            return f"{where}: {got!r:.200} instead of {expected!r:.200}"
        return next(filter(None, (difference(g, e, f"{where}[{i}]") for i, (g, e) in enumerate(zip(got, expected)))), None)
    if isinstance(expected, float) and isinstance(got, float):
        same = abs(got - expected) <= 1e-3 * max(abs(expected), 1e-2) or got == expected or got != got and expected != expected
    else:
        same = type(got) is type(expected) and got == expected
    return None if same else f"{where}: {got!r:.200} instead of {expected!r:.200}"


def _of_tensors(got, expected, where):
    if not isinstance(got, tuple) or got[:2] != expected[:2] or got[3].shape != expected[3].shape:
        return f"{where}: {got!r:.200} instead of {expected!r:.200}"
    tolerance, g, e = _TOLERANCES.get(expected[1], 0), got[3], expected[3]
    if not tolerance:
        return None if (g == e).all() else f"{where}: {g!r:.200} instead of {e!r:.200}"
    g, e = (np.asarray(v, "complex128") for v in (g, e))
    finite = np.isfinite(e)
    if not np.array_equal(np.isfinite(g), finite) or not np.array_equal(g[~finite], e[~finite], equal_nan=True):
        return f"{where}: {g!r:.200} instead of {e!r:.200}"
    error = np.abs(g[finite] - e[finite]).max(initial=0)
    if error <= tolerance * max(1e-1, np.abs(e[finite]).max(initial=0)):
        return None
    return f"{where}: off by {error:.2e}, {expected[1]}"
