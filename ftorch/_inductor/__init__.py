"""PyTorch's compiler back end (``torch._inductor``): here it is XLA."""

from __future__ import annotations

from . import config

__all__ = ["compile", "config", "list_mode_options", "list_options"]


def compile(gm, example_inputs=None, options=None):
    """A graph as an XLA program."""
    from .._dynamo.backends import inductor

    return inductor(gm, example_inputs)


def list_mode_options(mode=None, dynamic=None):
    """What the modes of ``torch.compile`` set: nothing, for XLA."""
    modes = {m: {} for m in ("default", "reduce-overhead", "max-autotune",
                             "max-autotune-no-cudagraphs")}  # fmt: skip
    return modes if mode is None else modes[mode]


def list_options() -> list[str]:
    """The names in `config`."""
    return sorted(n for n in vars(config) if not n.startswith("_") and n != "annotations")
