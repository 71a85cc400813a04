"""Deterministic algorithms: operations that PyTorch has no deterministic form of, where such forms are asked for."""

from __future__ import annotations

import functools

# Set by `use_deterministic_algorithms`.
is_asked = False
only_warns = False


def alert(name: str):
    """What `OpDef.notice` declares of an operation without such a form: `alert_now`, of its name."""
    return functools.partial(alert_now, name)


def alert_now(name: str) -> str | None:
    """The warning of an operation that has none.

    Raises:
        RuntimeError: where warnings are not enough.
    """
    if not is_asked:
        return None
    issue = ("file an issue at https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic "
             "support for this operation.")
    start = f"{name} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True"
    if only_warns:
        return f"{start}, warn_only=True)'. You can {issue}"
    raise RuntimeError(
        f"{start})'. You can turn off determinism just for this operation, or you can use the 'warn_only=True' option, "
        f"if that's acceptable for your application. You can also {issue}"
    )
