"""Parameters of kernels by operation and sizes (``torch.sparse._triton_ops_meta``).

XLA chooses those of its own kernels, so the table begins empty. It holds what programs put into it, and `minimize` searches
for parameters of any function.
"""

from __future__ import annotations

import ftorch as torch

_KNOWN: dict = {}


def get_meta(op, key, device_name=None, version=(0, None, 0.5), exact=False):
    """The parameters that `update` was given for an operation and its sizes, or None.

    Args:
        key: sizes; those with ``"*"`` in them give a dictionary of all keys that match.
        device_name: the current accelerator's if None.
        exact: whether parameters of another device will not do.

    >>> from ftorch.sparse._triton_ops_meta import get_meta, update
    >>> update("scale", "a device", (0,), (16, 16), {"num_warps": 4})
    >>> get_meta("scale", (16, 16), "a device", (0,))
    {'num_warps': 4}
    """
    if device_name is None:
        device_name = torch.cuda.get_device_name()
    found = _KNOWN.get((op, device_name, version))
    if found is None and not exact:
        found = next((known for (name, _, v), known in _KNOWN.items() if name == op and v == version), None)
    if found is None:
        return None
    if "*" in key:
        return {k: v for k, v in found.items() if len(k) == len(key) and all(w in ("*", n) for w, n in zip(key, k))}
    return found.get(tuple(key))


def update(op, device_name, version, key, value):
    """Keeps the parameters of an operation for a device and sizes, in this process."""
    _KNOWN.setdefault((op, device_name, version), {})[tuple(key)] = value


def minimize(
    target_func, initial_parameters, reference_parameters, step_func, max_step=2, verbose=False, all_values=None
):
    """Parameters at which a function is least, found by steps from given ones.

    Args:
        target_func: ``target_func(parameters) -> float``, such as a time in ms.
        step_func: ``step_func(name, value, direction, parameters)`` gives the parameter's next value; the same one where
            there is none.
        max_step: how many steps of one parameter are tried at once.
        all_values: a dictionary that gets the target at all values that were tried, and is asked first; by the values in the
            order of their names.

    Returns:
        The parameters, by how many percent the target is less than at ``reference_parameters``, the target there, and a
        line about the values around it.

    >>> from ftorch.sparse._triton_ops_meta import minimize
    >>> found = minimize(lambda p: (p["n"] - 3) ** 2 + 1.0, {"n": 0}, {"n": 0}, lambda name, value, by, all: value + by)
    >>> found[:3]
    ({'n': 3}, 90.0, 1.0)
    """
    seen = {} if all_values is None else all_values

    def target(parameters):
        key = tuple(parameters[name] for name in sorted(parameters))
        if key not in seen:
            seen[key] = target_func(dict(parameters))
            if verbose:
                print(f"{dict(parameters)}: {seen[key]:.3f}")
        return seen[key]

    def neighbours(parameters, name):
        """The values of a parameter around, those below first: [(steps, value)]."""
        found = []
        for direction in (-1, 1):
            value = parameters[name]
            for step in range(1, max_step + 1):
                following = step_func(name, value, direction, {**parameters, name: value})
                value = following  # the same one at an end
                found.append((direction * step, value))
        return found

    reference = target(reference_parameters)
    best = dict(initial_parameters)
    while True:
        around = [{**best, name: value} for name in best for _, value in neighbours(best, name)]
        nearest = min(around, key=target, default=best)
        if target(nearest) >= target(best):
            break
        best = nearest
    least = target(best)
    parts = [f"timing0={reference:.3f}"]
    for name in sorted(best):
        sides: dict = {-1: [], 1: []}
        for step, value in neighbours(best, name):
            sides[1 if step > 0 else -1].append(f"{(target({**best, name: value}) / least - 1) * 100:.1f}")
        below, above = "|".join(reversed(sides[-1])), "|".join(sides[1])
        parts.append(f"{name}={best[name]} ({below}...{above} %)")
    return best, (1 - least / reference) * 100, least, ", ".join(parts)
