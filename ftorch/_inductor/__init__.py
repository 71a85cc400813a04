"""PyTorch's compiler back end (``torch._inductor``): here it is XLA."""

from __future__ import annotations

from typing import Any

from . import config

__all__ = ["check_options", "compile", "config", "list_mode_options", "list_options"]

_MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "lite": {
        "fallback_by_default": True, "selective_decompose": True, "reorder_for_peak_memory": False,
        "reorder_for_compute_comm_overlap": False,
        "triton.reorder_for_reducing_graph_partitions": False, "use_pre_grad_passes": False,
        "use_joint_graph_passes": False, "use_post_grad_passes": False, "use_dce": False,
        "allow_buffer_reuse": False,
    },
    "reduce-overhead": {"triton.cudagraphs": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True, "coordinate_descent_tuning": True},
    "max-autotune": {"max_autotune": True, "triton.cudagraphs": True, "coordinate_descent_tuning": True},
}  # fmt: skip


def compile(gm, example_inputs=None, options=None):
    """A graph as an XLA program."""
    from .._dynamo.backends import inductor

    return inductor(gm, example_inputs)


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """What a mode of ``torch.compile`` sets in `config`, or all of them by mode. XLA reads none of it.

    Raises:
        RuntimeError: there is no such mode.

    >>> import ftorch as torch
    >>> torch._inductor.list_mode_options("reduce-overhead")
    {'triton.cudagraphs': True}
    """
    if mode is None:
        return {name: dict(options) for name, options in _MODES.items()}
    if mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    return dict(_MODES[mode])


def list_options() -> list[str]:
    """The names that ``torch.compile(options=...)`` takes."""
    return list(config._names())  # type: ignore[attr-defined]


def check_options(options) -> None:
    """Checks what is given to ``torch.compile(options=...)``.

    Raises:
        RuntimeError: an option does not exist, or its value has another type.
    """
    known = None
    for key, value in options.items():
        name = key.replace("-", "_")
        known = known or set(list_options())
        if name not in known:
            raise RuntimeError(
                f"Unexpected optimization option {key}, known options are {list_options()}"
            )
        kind = config.get_type(name)  # type: ignore[attr-defined]
        if kind is not None and type(value) is not kind:
            raise RuntimeError(
                f"Unexpected type of attr {key}, got {type(value).__name__} should be {kind.__name__}"
            )
