"""Operand checks: one device, dtypes that the op takes; and what promotion casts operands to."""

from __future__ import annotations

from ..core import device as _device
from ..core import dtype as _dtype
from ..core.registry import OPTIONAL_TENSOR, TENSOR
from . import unsigned
from .argument_types import public_name, type_name, wrong_call
from .promotion import (
    broadcast_shape,
    result_type_of,
)

_ARITHMETIC = ("add", "sub", "mul", "div", "floor_divide")  # all their arguments may be numbers


class MixedDevices(RuntimeError):
    """Tensors of the CPU beside some of another device, where they are put if they may be.

    Attributes:
        device: the latter.
        places: of the operands that may be on the CPU; None for all of them.
    """

    def __init__(self, text, device, places):
        super().__init__(text)
        self.device, self.places = device, places


def check_devices(op, tensors):
    device, first_zero = None, False
    for t in tensors:
        g = t._ftorch_geometry
        if device is None or (g.device is not device and not g.is_zero_dim):
            if device is not None and not first_zero:
                text = (
                    f"Expected all tensors to be on the same device, but found at least two devices, {device} and "
                    f"{g.device}!"
                )
                for several, other in ((device, g.device), (g.device, device)):
                    if other is _device.CPU and _device.is_several(several):
                        raise MixedDevices(text, several, None)
                if op.definition.anywhere and _device.CPU in (device, g.device):
                    raise MixedDevices(text, g.device if device is _device.CPU else device, op.definition.anywhere)
                raise RuntimeError(text)
            device, first_zero = g.device, g.is_zero_dim
    return device


def check_required(op, definition, slots, scalars):
    for i, (kind, slot) in enumerate(zip(definition.kinds, slots)):
        is_number = slot[0] == "s" and kind in (TENSOR, OPTIONAL_TENSOR)
        if (kind == TENSOR and slot[0] == "n") or (is_number and i not in definition.numbers):
            given = type(scalars[slot[1]]).__name__ if is_number else "NoneType"
            raise wrong_call(
                f"{op.name}(): argument '{public_name(definition.argument_names[i])}' "
                f"(position {i + 1}) must be Tensor, not {given}"
            )
    if definition.numbers and not any(s[0] == "t" for s in slots) and op.name not in _ARITHMETIC:
        given = ", ".join(type_name(v) for v in scalars)
        raise TypeError(
            f"{op.name}() received an invalid combination of arguments - got ({given}), but expected "
            f"one of:\n * (Tensor input, Tensor other)\n * (Tensor input, Number other)\n"
        )


def promotion_of(op, definition, slots, tensors, scalars):
    """({flat tensor index: dtype to cast to}, {flat scalar index: dtype})."""
    casts, numbers = {}, {}
    if definition.promote is None:
        # A number where the kernel wants a tensor becomes one of its default dtype.
        for kind, slot in zip(definition.kinds, slots):
            if slot[0] == "s" and kind in (TENSOR, OPTIONAL_TENSOR):
                numbers[slot[1]] = _dtype.from_python(type(scalars[slot[1]]))
        return casts, numbers
    taking = []
    for i in definition.promoting:
        slot = slots[i]
        if slot[0] == "t":
            taking.append((0, slot[1]))
        elif slot[0] == "s":
            taking.append((1, slot[1]))
        elif slot[0] == "l":
            taking.extend((0, j) for j in slot[1] if j is not None)
    values = [scalars[j] if is_scalar else tensors[j] for is_scalar, j in taking]
    common = result_type_of(values)
    if definition.promote == "float" and common.category < 2:
        common = _dtype.get_default_dtype()
    for is_scalar, j in taking:
        (numbers if is_scalar else casts)[j] = common
    if definition.precise is not None and common.itemsize == 2 and common.category == 2:
        tag, j = slots[definition.precise]
        if tag == "s":
            numbers[j] = _dtype.float32
        elif tensors[j]._ftorch_geometry.is_zero_dim and tensors[j]._ftorch_geometry.dtype is not common:
            casts[j] = _dtype.float32
    broadcast_shape([tensors[j]._ftorch_geometry.shape for is_scalar, j in taking if not is_scalar])
    for i, slot in enumerate(slots):
        if slot[0] == "s" and definition.kinds[i] in (TENSOR, OPTIONAL_TENSOR):
            numbers.setdefault(slot[1], common)
    return casts, numbers


def check_unsigned(definition, slots, tensors, casts):
    if any(t._ftorch_geometry.dtype in unsigned.WIDE for t in tensors) or any(
        s[0] == "v" and isinstance(s[1], _dtype.dtype) and s[1] in unsigned.WIDE for s in slots
    ):
        unsigned.check(definition, slots, tensors, next(iter(casts.values()), None))
