"""What tests of modes use (``torch.utils._mode_utils``)."""

from __future__ import annotations

from .._dispatch.python_dispatch import DisableTorchDispatch


def no_dispatch() -> DisableTorchDispatch:
    """A context in which no ``__torch_dispatch__`` sees calls."""
    return DisableTorchDispatch()


def all_same_mode(modes) -> bool:
    """Whether all are one mode.

    >>> from ftorch.utils._mode_utils import all_same_mode
    >>> all_same_mode([None, None]), all_same_mode([1, 2])
    (True, False)
    """
    return all(mode == modes[0] for mode in modes)
