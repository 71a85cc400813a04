"""What a trace records of calls that are no public ones: backward passes, transforms, what functions do inside.

Public calls are written down as they are made (`recorder`). What reaches the engine in another way is seen below
autograd and transforms, as ATen's ops, while no public call is being made: the program computes it, too.
"""

from __future__ import annotations

from ...._dispatch.python_dispatch import EngineOverload
from ....eager.autograd import backward as engine
from ....eager.tensor import TensorBase, modes
from ....utils import _pytree as pytree
from ....utils._python_dispatch import TorchDispatchMode
from .records import ProgramCall, Value, has_tensor, plain

__all__ = ["SeenCalls", "is_inside", "place_of"]

# What makes a tensor of data that Python has, or gives its number to Python.
_OF_DATA = frozenset("aten::lift_fresh aten::lift aten::_local_scalar_dense".split())


class SeenCalls(TorchDispatchMode):
    """Records ATen's ops that nobody else records."""

    _ftorch_sees_aten = True  # gradients are seen as the ops that they are made of

    def __init__(self, recorder):
        self.recorder = recorder

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        recorder, kwargs = self.recorder, kwargs or {}
        if recorder.depth or not recorder.active:
            return func(*args, **kwargs)
        result = recorder.plainly(func, *args, **kwargs)
        name = func._schema.name
        if name in _OF_DATA:
            if isinstance(result, TensorBase) and recorder.known(result) is None:
                recorder.bind(result, Value("c", "constant"))
            return result
        if not has_tensor(result) and not func._schema.is_mutable:
            return result
        if isinstance(func, EngineOverload) and has_tensor(result):
            self._left_to_python(func, args, kwargs, result)
            return result
        if name == "aten::as_strided":
            base = recorder.of(args[0])
            value = recorder.strided(base, result) if base.kind != "unknown" else None
            if value is not None:
                recorder.bind(result, value)
            return result
        namespace, _, op = name.partition("::")
        operands = [*args, *kwargs.values()]
        recorder.record((op if namespace == "aten" else name, list(args), _given(kwargs)), result, operands)
        made = recorder.frame.items[-1]
        made.effect |= func._schema.is_mutable
        for value in made.results:
            if value.object is not None:
                value.detail = None  # whether gradients are recorded for it is known afterwards
        return result

    def _left_to_python(self, func, args, kwargs, result):
        """Records a call of the engine's own, for which ATen has no name: a derivative's, or a transform's."""
        leaves, structure = pytree.tree_flatten((args, kwargs))
        given = [None if isinstance(leaf, TensorBase) else (leaf,) for leaf in plain(leaves)]

        def apply(*tensors):
            left = iter(tensors)
            args, kwargs = pytree.tree_unflatten([next(left) if g is None else g[0] for g in given], structure)
            return func(*args, **kwargs)

        results = [result] if isinstance(result, TensorBase) else list(result)
        name = "".join(c if c.isalnum() else "_" for c in func._opname)
        apply.constants = tuple(g[0] for g in given if g is not None)  # type: ignore[attr-defined]
        apply.result_count = None if isinstance(result, TensorBase) else len(results)  # type: ignore[attr-defined]
        recorder = self.recorder
        operands = [recorder.of(leaf) for leaf in leaves if isinstance(leaf, TensorBase)]
        values = [recorder.bind(r, Value(name, frame=recorder.frame)) for r in results]
        path = f"__torch__.python_{len(recorder.units)}.{name}"
        recorder.units.append((path, apply))
        made = values[0] if isinstance(result, TensorBase) else values
        recorder.frame.items.append(ProgramCall(path, operands, {}, values, effect=func._schema.is_mutable, made=made))


def is_inside() -> bool:
    """Whether a backward pass or a transform is running."""
    return bool(modes.transforming or modes.levels) or engine.running() is not None


def place_of(t) -> tuple:
    """Where in memory a tensor's elements are."""
    return id(t._ftorch_storage), t._ftorch_geometry, t._ftorch_offset


def _given(kwargs):
    """Keyword arguments with values, without what says that memory is ordinary."""
    return {k: v for k, v in kwargs.items() if v is not None and not (k == "pin_memory" and not v)}
