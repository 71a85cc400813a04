"""What ``torch.jit`` has to tune its executor. XLA decides these things here: values are only kept."""

from __future__ import annotations

from ..._old_names import place_in
from ...eager.native.contexts import contextmanager
from .deprecations import warn_use

__all__ = [
    "enable_onednn_fusion", "fuser", "last_executed_optimized_graph", "onednn_fusion_enabled",
    "optimized_execution", "set_fusion_strategy", "strict_fusion", "export_opnames",
]

_state = {"onednn": False, "fusion": [("STATIC", 2), ("DYNAMIC", 10)]}


def enable_onednn_fusion(enabled: bool) -> None:
    """Keeps the flag; XLA fuses either way."""
    _state["onednn"] = bool(enabled)


def onednn_fusion_enabled() -> bool:
    """What `enable_onednn_fusion` was given.

    >>> import ftorch as torch
    >>> torch.jit.onednn_fusion_enabled()
    False
    """
    return _state["onednn"]


def set_fusion_strategy(strategy):
    """Keeps the list of ``("STATIC" or "DYNAMIC", depth)`` and gives the one before.

    Raises:
        RuntimeError: for other kinds.
    """
    warn_use("set_fusion_strategy")
    for kind, _ in strategy:
        if kind not in ("STATIC", "DYNAMIC"):
            raise RuntimeError(f"FusionBehavior only supported 'STATIC' or 'DYNAMIC', got: {kind}")
    before, _state["fusion"] = _state["fusion"], list(strategy)
    return before


@contextmanager
def optimized_execution(should_optimize):
    """A ``with`` block in which nothing changes: programs are always compiled by XLA."""
    yield


@contextmanager
def fuser(name):
    """A ``with`` block in which XLA fuses, whichever fuser is named.

    Raises:
        Exception: for an unknown name.
    """
    if name not in ("fuser0", "fuser1", "fuser2", "fuser3", "none"):
        raise Exception(f"unrecognized fuser option (name: {name})")
    yield


class strict_fusion:
    """A ``with`` block in scripted code in which everything is fused: it always is."""

    def __init__(self):
        pass

    def __enter__(self):
        pass

    def __exit__(self, type, value, tb):
        pass


def last_executed_optimized_graph():
    """None: programs run as parts of XLA's."""
    return None


def export_opnames(m) -> list[str]:
    """The names of the ops that a compiled module calls, ``"aten::relu"``, sorted."""
    import ast

    found = set()
    unit = m._c._type.unit
    names = [*unit.functions.values()]
    for kind in unit.classes.values():
        names += kind.methods.values()
    for function in names:
        for node in ast.walk(function.node):
            if isinstance(node, ast.Call):
                path = ast.unparse(node.func)
                if path.startswith("torch.") and path.count(".") == 1:
                    found.add("aten::" + path.removeprefix("torch."))
                elif path.startswith("ops.") and path.count(".") == 2:
                    found.add("::".join(path.split(".")[1:]))
    return sorted(found)

place_in("jit", strict_fusion)
