"""Several modules on their inputs (``torch.nn.parallel.parallel_apply``)."""

from __future__ import annotations

from ..._worker_errors import ExceptionWrapper

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj):
    """The first tensor in a structure of lists, tuples and dicts, or None."""
    from ...eager.tensor import Tensor

    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, dict):
        obj = list(obj.items())
    if isinstance(obj, (list, tuple)):
        for entry in obj:
            if (found := get_a_var(entry)) is not None:
                return found
    return None


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """The results of modules on their inputs, in order.

    XLA's devices work side by side while the calls are made one after another, so no threads are needed.

    Raises:
        RuntimeError or what the module raised, with the number of its replica.
    """
    if len(modules) != len(inputs):
        raise AssertionError(
            f"The number of modules {len(modules)} is not equal to the number of inputs {len(inputs)}"
        )
    kwargs_tup = kwargs_tup or [{}] * len(modules)
    results = []
    for i, (module, given, kwargs) in enumerate(zip(modules, inputs, kwargs_tup)):
        given = given if isinstance(given, (list, tuple)) else (given,)
        try:
            results.append(module(*given, **kwargs))
        except Exception:  # noqa: BLE001  (raised again, with its place)
            device = None if devices is None else devices[i]
            ExceptionWrapper(where=f"in replica {i} on device {device}").reraise()
    return results
