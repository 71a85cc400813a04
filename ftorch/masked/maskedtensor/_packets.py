"""Lists of ATen's operators, made when somebody asks."""

from __future__ import annotations


def packets(scope: dict, **lists):
    """A module's ``__getattr__`` that makes lists of ``torch.ops.aten``'s packets of names."""

    def __getattr__(name):
        if name not in lists:
            raise AttributeError(f"module {scope['__name__']!r} has no attribute {name!r}")
        from ... import ops

        scope[name] = [getattr(ops.aten, op) for op in lists[name]]
        return scope[name]

    return __getattr__
