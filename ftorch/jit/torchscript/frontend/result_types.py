"""Types of what ops, methods and conversions of programs give."""

from __future__ import annotations

from ..program.aten import OVERLOADS
from ..program.types import BOOL, DEVICE, FLOAT, INT, NONE, NUMBER, STR, TENSOR, Type

__all__ = ["CONVERSIONS", "METHODS", "METHOD_ARGUMENTS", "attribute_kind", "op_result"]

_INTS, _TENSORS = Type("List", (INT,)), Type("List", (TENSOR,))
_STRINGS = Type("List", (STR,))
_PAIR = Type("Tuple", (TENSOR, TENSOR))

_ATTRIBUTES = {
    "dtype": INT, "layout": INT, "ndim": INT, "itemsize": INT, "nbytes": INT, "device": DEVICE,
    "shape": _INTS, "grad": Type("Optional", (TENSOR,)), "requires_grad": BOOL, "is_leaf": BOOL,
    "output_nr": INT, "retains_grad": BOOL, "name": Type("Optional", (STR,)),
}


def attribute_kind(name) -> Type:
    """The type of a tensor's attribute."""
    return BOOL if name.startswith("is_") else _ATTRIBUTES.get(name, TENSOR)


def _size(kinds):
    return INT if len(kinds) > 1 else _INTS


# Ops whose results the declarations of ops do not tell: composites, and what gives Python's values.
_RESULTS = {
    **dict.fromkeys("dim numel nelement element_size storage_offset get_device sparse_dim dense_dim _nnz".split(), INT),
    **dict.fromkeys("is_floating_point is_complex is_contiguous is_nonzero equal allclose "
                    "is_same_size is_signed is_pinned is_coalesced".split(), BOOL),
    **dict.fromkeys("sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor "
                    "sparse_compressed_tensor coalesce indices values _indices _values crow_indices col_indices "
                    "ccol_indices row_indices to_dense to_sparse to_sparse_csr to_sparse_csc".split(), TENSOR),
    **dict.fromkeys("split chunk unbind tensor_split hsplit vsplit dsplit split_with_sizes meshgrid "
                    "broadcast_tensors atleast_1d_list".split(), _TENSORS),
    **dict.fromkeys("zeros ones full empty rand randn randint arange tensor eye linspace zeros_like "
                    "ones_like full_like empty_like rand_like randn_like to cpu float double half int "
                    "long type_as reshape contiguous flatten dropout batch_norm expand repeat t "
                    "permute requires_grad_ clone detach nonzero squeeze unsqueeze".split(), TENSOR),
    "grad": Type("List", (Type("Optional", (TENSOR,)),)), "backward": NONE,
    "size": _size, "stride": _size, "Size": _INTS, "item": NUMBER, "device": DEVICE, "format": STR,
    "percentFormat": STR, "warn": NONE, "promote_types": INT, "result_type": INT, "get_autocast_dtype": INT,
    "can_cast": BOOL, "set_grad_enabled": NONE, "manual_seed": NONE,
}

# Functions of ``math``.
_MATH = {
    **dict.fromkeys("sqrt exp log log2 log10 log1p expm1 sin cos tan asin acos atan atan2 sinh cosh tanh "
                    "asinh acosh atanh fabs degrees radians copysign ldexp fmod pow erf erfc gamma "
                    "lgamma".split(), FLOAT),
    **dict.fromkeys("floor ceil gcd factorial".split(), INT),
    **dict.fromkeys("isnan isinf isfinite".split(), BOOL),
}
_REDUCED_IN_PAIRS = frozenset("max min median nanmedian mode sort topk kthvalue cummax cummin".split())


def op_result(name, positional, operands) -> Type | None:
    """The type of an op's result, or None.

    Args:
        positional: the types of its positional operands; ``operands``: of all.
    """
    made = _RESULTS.get(name)
    if made is not None:
        return made(positional) if callable(made) else made
    if name in _REDUCED_IN_PAIRS:
        return _reduced(name, positional, operands)
    if not positional or positional[0] is None:
        return None
    if positional[0].name in ("int", "float"):
        return _MATH.get(name)
    if positional[0] != TENSOR and positional[0].name != "List":
        return None
    base = name.removesuffix("_") if name not in OVERLOADS else name
    results = {
        tuple(r.type.base + "".join(r.type.suffixes) for r in o.schema.returns)
        for o in OVERLOADS.get(base, ())
    }
    if len(results) != 1:
        return None
    (only,) = results
    kinds = [_KINDS.get(r) for r in only]
    if None in kinds:
        return None
    return kinds[0] if len(kinds) == 1 else Type("Tuple", tuple(kinds))


_KINDS = {"Tensor": TENSOR, "Tensor[]": _TENSORS, "bool": BOOL, "int": INT, "float": FLOAT}


def _reduced(name, positional, operands):
    if not positional or positional[0] != TENSOR:
        return None
    if name in ("sort", "topk", "kthvalue", "mode", "cummax", "cummin"):
        return _PAIR
    if len(operands) == 1:
        return TENSOR
    second = operands[1]
    return None if second is None else TENSOR if second == TENSOR else _PAIR


def _self(kind, kinds):
    return kind


def _item(kind, kinds):
    return kind.args[0] if kind.args else None


def _value(kind, kinds):
    return kind.args[1] if kind.args else None


def _get(kind, kinds):
    if not kind.args:
        return None
    value = kind.args[1]
    return Type("Optional", (value,)) if len(kinds) < 2 and value.name != "Optional" else value


def _list_of(*places):
    def made(kind, kinds):
        if not kind.args:
            return None
        inner = tuple(kind.args[p] for p in places)
        return Type("List", inner if len(inner) == 1 else (Type("Tuple", inner),))

    return made


def _popped(kind, kinds):
    return _item(kind, kinds)


METHODS: dict = {
    "List": {
        **dict.fromkeys("append extend insert remove reverse sort clear".split(), NONE),
        "pop": _popped, "copy": _self, "index": INT, "count": INT,
    },
    "Dict": {
        **dict.fromkeys("update clear".split(), NONE), "pop": _value, "setdefault": _value,
        "get": _get, "copy": _self, "keys": _list_of(0), "values": _list_of(1),
        "items": _list_of(0, 1), "popitem": None,
    },
    "str": {
        **dict.fromkeys("upper lower capitalize title swapcase strip lstrip rstrip replace join ljust "
                        "rjust center zfill expandtabs format".split(), STR),
        **dict.fromkeys("split rsplit splitlines".split(), _STRINGS),
        **dict.fromkeys("find rfind index rindex count".split(), INT),
        **dict.fromkeys("startswith endswith isdigit isalpha isalnum isspace isupper islower istitle "
                        "isnumeric isdecimal isidentifier isprintable".split(), BOOL),
        **dict.fromkeys(("partition", "rpartition"), Type("Tuple", (STR, STR, STR))),
    },
}

# Which of a container's types the last argument of a method has to have.
METHOD_ARGUMENTS = {("List", "append"): 0, ("List", "insert"): 0}


def _extreme(kinds):
    if len(kinds) == 2 and kinds[0] == kinds[1] and kinds[0] in (INT, FLOAT):
        return kinds[0]
    only = kinds[0] if len(kinds) == 1 else None
    return only.args[0] if only is not None and only.name == "List" else None


def _sum(kinds):
    return kinds[0].args[0] if kinds and kinds[0] is not None and kinds[0].name == "List" else None


def _round(kinds):
    return FLOAT if kinds == [FLOAT] or kinds == [INT] else None


def _divmod(kinds):
    same = kinds == [INT, INT] or kinds == [FLOAT, FLOAT]
    return Type("Tuple", tuple(kinds)) if same else None


def _abs(kinds):
    return kinds[0] if kinds and kinds[0] in (INT, FLOAT, TENSOR) else None


def _list(kinds):
    if not kinds or kinds[0] is None:
        return None
    if kinds[0] == STR:
        return _STRINGS
    return kinds[0] if kinds[0].name == "List" else None


CONVERSIONS: dict = {
    "int": INT, "float": FLOAT, "bool": BOOL, "str": STR, "complex": Type("complex"), "len": INT,
    "ord": INT, "chr": STR, "hex": STR, "oct": STR, "bin": STR, "hash": INT, "round": _round, "sum": _sum,
    "divmod": _divmod,
    "print": NONE, "min": _extreme, "max": _extreme, "abs": _abs, "list": _list, "sorted": _list,
}
