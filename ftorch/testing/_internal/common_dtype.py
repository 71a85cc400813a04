"""Groups of dtypes."""

from __future__ import annotations

import ftorch as torch


def _validate_dtypes(*dtypes):
    for dtype in dtypes:
        if not isinstance(dtype, torch.dtype):
            raise AssertionError(f"expected torch.dtype, got {type(dtype)}")
    return dtypes


class _dispatch_dtypes(tuple):
    """A tuple of dtypes; sums are of this class."""

    def __add__(self, other):
        if not isinstance(other, tuple):
            raise AssertionError(f"expected tuple, got {type(other)}")
        return _dispatch_dtypes(tuple.__add__(self, other))


_empty_types = _dispatch_dtypes(())
_floating_types = _dispatch_dtypes((torch.float32, torch.float64))
_floating_types_and_half = _floating_types + (torch.half,)
_complex_types = _dispatch_dtypes((torch.cfloat, torch.cdouble))
_floating_and_complex_types = _floating_types + _complex_types
_double_types = _dispatch_dtypes((torch.float64, torch.complex128))
_integral_types = _dispatch_dtypes((torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))
_all_types = _floating_types + _integral_types
_all_types_and_complex = _all_types + _complex_types
_all_types_and_half = _all_types + (torch.half,)
_float8_types = _dispatch_dtypes(
    (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
)
_all_mps_types = _dispatch_dtypes((torch.float, torch.half, torch.bfloat16)) + _integral_types


def _group(name, dtypes):
    """The functions ``name()``, which gives a group, and ``name_and(*dtypes)``, which gives it with more."""

    def group():
        return dtypes

    def group_and(*more):
        return dtypes + _validate_dtypes(*more)

    group.__name__ = group.__qualname__ = name
    group_and.__name__ = group_and.__qualname__ = f"{name}_and"
    group.__doc__, group_and.__doc__ = f"{tuple(dtypes)}.", f"{tuple(dtypes)} and those given."
    return group, group_and


empty_types, _ = _group("empty_types", _empty_types)
floating_types, floating_types_and = _group("floating_types", _floating_types)
floating_types_and_half, _ = _group("floating_types_and_half", _floating_types_and_half)
floating_and_complex_types, floating_and_complex_types_and = _group(
    "floating_and_complex_types", _floating_and_complex_types
)
double_types, _ = _group("double_types", _double_types)
integral_types, integral_types_and = _group("integral_types", _integral_types)
all_types, all_types_and = _group("all_types", _all_types)
complex_types, complex_types_and = _group("complex_types", _complex_types)
all_types_and_complex, all_types_and_complex_and = _group("all_types_and_complex", _all_types_and_complex)
all_types_and_half, _ = _group("all_types_and_half", _all_types_and_half)
all_mps_types, all_mps_types_and = _group("all_mps_types", _all_mps_types)
float8_types, float8_types_and = _group("float8_types", _float8_types)
_, all_types_complex_float8_and = _group("all_types_complex_float8", _all_types_and_complex + _float8_types)
_, custom_types = _group("custom_types", _empty_types)


def get_all_dtypes(include_half=True, include_bfloat16=True, include_bool=True, include_complex=True,
                   include_complex32=False, include_qint=False) -> list[torch.dtype]:
    """A list of dtypes of all kinds."""
    found = get_all_int_dtypes() + get_all_fp_dtypes(include_half=include_half, include_bfloat16=include_bfloat16)
    if include_bool:
        found.append(torch.bool)
    if include_complex:
        found += get_all_complex_dtypes(include_complex32)
    return found + (get_all_qint_dtypes() if include_qint else [])


def get_all_math_dtypes(device) -> list[torch.dtype]:
    """The dtypes that a device computes in."""
    halves = str(device).startswith("cuda")
    return get_all_int_dtypes() + get_all_fp_dtypes(halves, halves) + get_all_complex_dtypes()


def get_all_complex_dtypes(include_complex32=False) -> list[torch.dtype]:
    """The complex dtypes."""
    return ([torch.complex32] if include_complex32 else []) + [torch.complex64, torch.complex128]


def get_all_int_dtypes() -> list[torch.dtype]:
    """The integer dtypes but the wider unsigned ones."""
    return [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def get_all_fp_dtypes(include_half=True, include_bfloat16=True) -> list[torch.dtype]:
    """The floating-point dtypes."""
    wanted = ((torch.float16, include_half), (torch.bfloat16, include_bfloat16))
    return [torch.float32, torch.float64] + [dtype for dtype, is_wanted in wanted if is_wanted]


def get_all_qint_dtypes() -> list[torch.dtype]:
    """The quantized dtypes."""
    return [torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4]


def highest_precision_float(device) -> torch.dtype:
    """A device's widest floating-point dtype."""
    return torch.float32 if torch.device(device).type == "mps" else torch.float64


def highest_precision_complex(device) -> torch.dtype:
    """A device's widest complex dtype."""
    return torch.complex64 if torch.device(device).type == "mps" else torch.complex128


float_to_corresponding_complex_type_map = {
    torch.float16: torch.complex32, torch.float32: torch.complex64, torch.float64: torch.complex128,
}
