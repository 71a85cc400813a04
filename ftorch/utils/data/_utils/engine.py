"""Whether the tensor engine is loaded in this process.

It always is, except in a worker process that has not needed it yet: there ``ftorch`` is a
placeholder (see `server.py`), which loads the package when anything but ``ftorch.utils.data`` is
asked of it.
"""

from __future__ import annotations

import sys


def loaded() -> bool:
    """Whether tensors can exist in this process."""
    return not hasattr(type(sys.modules["ftorch"]), "load")


def when_loaded(hook):
    """Calls ``hook`` once the engine is loaded: now, or as soon as something needs it."""
    package = sys.modules["ftorch"]
    if hasattr(type(package), "load"):
        package.hooks.append(hook)
    else:
        hook()
    return hook


def settle() -> None:
    """Computes what this thread has recorded, and waits for it: children that are forked then have the values, and what
    they all would import."""
    if not loaded():
        return
    from ftorch.eager.core import jax_internals
    from ftorch.eager.runtime.executor import flush

    from . import tensors  # noqa: F401

    flush()
    jax_internals.wait_for_results()


_samples_compute = [False]  # whether samples here were seen to leave operations pending


def settler():
    """A function to be called after each sample: what the sample left pending runs.

    Samples are made alike, whole batches seldom: so the same few programs serve all of them, and are
    made at the first sight of a sample of its kind.
    """
    if not loaded():
        return lambda: None
    from ftorch.eager.runtime.executor import flush, pending_steps

    if _samples_compute[0]:
        flush()  # what the caller left pending is no part of the first sample's program
    pending = pending_steps()

    def settle():
        nonlocal pending
        if pending_steps() > pending:
            _samples_compute[0] = True
            flush(again=True)
            pending = pending_steps()

    return settle


def one_by_one(take, keys) -> list:
    """``[take(key) for key in keys]``, each computed by itself (see `settler`)."""
    settle, samples = settler(), []
    for key in keys:
        samples.append(take(key))
        settle()
    return samples


def tensor_type() -> type:
    """``torch.Tensor``, importable while the package is still being imported."""
    from ftorch.eager.tensor import Tensor

    return Tensor
