"""Memory formats: how the results of a call lie in memory: `OpDef.layout`."""

from __future__ import annotations

from ..core.geometry import Size, channels_last_stride, geometry, is_channels_last, pointwise_stride


def geometries(definition, shapes, dtypes, inputs, device, slots) -> tuple:
    """The geometries of results.

    Args:
        inputs: the geometries of the tensors.
        slots: of the arguments, as `planning.Structure` has them.
    """
    if callable(definition.layout):
        given = zip(definition.argument_names, slots, strict=True)
        static = {n: s[1] if s[0] == "v" else None for n, s in given if s[0] in "vn"}
        strides = definition.layout(inputs, static, list(map(tuple, shapes)))
        return tuple(
            geometry(Size(shape), dtype, device, stride)
            for shape, dtype, stride in zip(shapes, dtypes, strides, strict=True)
        )
    found = []
    follows = definition.promote is not None or definition.layout == "pointwise"
    keeps = definition.layout == "preserve" and inputs[0].is_dense
    channels = definition.layout == "channels" and any(map(is_channels_last, inputs[:2]))
    for own, dtype in zip(shapes, dtypes, strict=True):
        shape = Size(own)
        stride = inputs[0].stride if keeps and shape == inputs[0].shape else None
        if (follows or definition.layout == "preserve") and stride is None and shape and not all(
            g.has_new_stride() for g in inputs
        ):
            if all(_broadcasts_to(g.shape, shape) for g in inputs):
                stride = pointwise_stride(shape, inputs, _has_numbers(definition, slots))
        if stride is not None and definition.name == "pow" and slots[0][0] == "s":
            stride = None
        if channels and len(shape) == inputs[0].ndim:
            stride = channels_last_stride(shape)
        found.append(geometry(shape, dtype, device, stride))
    return tuple(found)


def follows(definition, slots) -> int:
    """1 if `geometries` gives `pointwise_stride`'s, of operands that do not lie as new tensors do; 2 with numbers; else 0."""
    layout = definition.layout
    if callable(layout) or layout in ("preserve", "channels") or (definition.promote is None and layout != "pointwise"):
        return 0
    if definition.name == "pow" and slots[0][0] == "s":
        return 0
    return 2 if _has_numbers(definition, slots) else 1


def _has_numbers(definition, slots):
    """Whether there are numbers that PyTorch makes tensors of, which decides about strides of dimensions of size 1."""
    return definition.name not in _OF_NUMBERS and any(slots[i][0] == "s" for i in definition.numbers)


_OF_NUMBERS = frozenset({"pow", "clamp", "clamp_min", "clamp_max"})  # kernels of their own for numbers


def _broadcasts_to(shape, target):
    gap = len(target) - len(shape)
    return gap >= 0 and all(n in (1, target[gap + i]) for i, n in enumerate(shape))
