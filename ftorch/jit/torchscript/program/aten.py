"""Names of ops in programs, ``torch.conv2d``, as functions: ATen's argument order, dtypes by number."""

from __future__ import annotations

import functools
import operator

import ftorch as torch

from ...._alias import is_own
from ....eager.core.registry import OVERLOADS
from ....eager.tensor import TensorBase
from .aten_adapters import ADAPTED, _dtype, _keywords
from .autocasts import cast_as_compiled
from .builtins import SCALAR, RaisedError, raise_exception
from .types import CODE_OF, code

__all__ = ["ATTRIBUTES", "CASTS", "DTYPE_CASTS", "PRIM", "builtin", "operator_named", "takes_numbers"]


def _converting(function, positions):
    """A function whose arguments at some positions, and keywords, come as programs have them."""

    def call(*args, **kwargs):
        if positions and len(args) > positions[0][0]:
            args = list(args)
            for i, convert in positions:
                if i < len(args):
                    args[i] = convert(args[i])
        return function(*args, **_keywords(kwargs)) if kwargs else function(*args)

    return call


# Ops that have a dtype among the positional arguments; elsewhere it comes by keyword.
_POSITIONS = {"softmax": 2, "log_softmax": 2, "quantize_per_tensor": 3, "quantize_per_channel": 4,
              "quantize_per_tensor_dynamic": 1}


# Methods of tensors that are ops without being declared as such.
_METHODS = frozenset(
    "__and__ __getitem__ __iand__ __ilshift__ __ior__ __irshift__ __ixor__ __lshift__ __or__ __rshift__ __xor__ "
    "_coalesced_ _indices _nnz _values backward bernoulli_ cauchy_ ccol_indices coalesce col_indices contiguous cpu "
    "crow_indices cuda dense_dim dim element_size expand_as exponential_ fill_diagonal_ geometric_ get_device indices "
    "is_coalesced is_contiguous is_distributed is_pinned is_set_to item log_normal_ new_empty_strided normal_ numel "
    "pin_memory random_ requires_grad_ reshape_as resize resize_ resize_as retain_grad row_indices set_ size "
    "sparse_dim sparse_mask sparse_resize_ sparse_resize_and_clear_ storage_offset stride sum_to_size to to_dense "
    "to_padded_tensor to_sparse to_sparse_bsc to_sparse_bsr to_sparse_csc to_sparse_csr uniform_ values view_as".split()
)
# Public functions that are no ops, or that reach outside of the program.
_REFUSED = frozenset(
    "Tensor asarray from_numpy frombuffer from_jax from_dlpack to_dlpack from_file save load eig lstsq lu solve symeig "
    "unique".split()
)
# Functions of the top level that are ops without being declared as such.
_CONSTRUCTORS = frozenset(
    f"sparse_{layout}_tensor" for layout in ("coo", "csr", "csc", "bsr", "bsc", "compressed")
)


@functools.cache
def _functions():
    from ....eager.surface.attach import public_functions

    return {k: v for k, v in public_functions().items() if k not in _REFUSED}


@functools.cache
def _declared():
    """Ops that ``torch.ops.aten`` declares beside the kernels."""
    from ...._dispatch import aten

    return {k: v for k, v in aten._FUNCTIONS.items() if k not in _REFUSED}


def _public(name):
    """The function of an op, found where functions are. Nothing but ops is found."""
    from ....nn import functional

    if name in _REFUSED:
        return None
    found = _functions().get(name)
    if found is not None:
        return found
    if name in OVERLOADS or name in _METHODS or (
        name.endswith("_") and not name.startswith("__") and name[:-1] in OVERLOADS
    ):
        found = getattr(torch.Tensor, name, None)
        if callable(found):
            return found
    if name in _CONSTRUCTORS or name in ("quantized_lstm", "quantized_gru"):
        return getattr(torch, name)
    if name in _FROM_FUNCTIONAL:
        return getattr(functional, name)
    for prefix in ("linalg", "fft", "special"):
        if name.startswith(prefix + "_"):
            found = getattr(getattr(torch, prefix), name[len(prefix) + 1 :], None)
            if callable(found) and is_own(getattr(found, "__module__", "")):
                return found
    found = None if name.startswith("__") else _declared().get(name)
    if found is not None:
        return found
    if name.endswith("_backward"):  # a gradient's, which no public function is
        return getattr(torch.ops.aten, name, None)
    base = name.removesuffix("_")
    if base != name and base and not base.endswith("_"):
        plain = operator_named(base, None)
        return plain and (lambda x, *a, **k: x.copy_(plain(x, *a, **k)))
    return None


def _dtype_places(packet):
    """[(place, conversion)] of the arguments by place that are dtypes, of an operator's default overload."""
    schema = packet.default._schema if packet is not None and "default" in packet.overloads() else None
    given = () if schema is None else schema.arguments
    return [(i, _dtype) for i, a in enumerate(given) if a.type.base == "ScalarType" and not a.is_keyword_only]


# Functions of torch.nn.functional whose arguments are ATen's.
_FROM_FUNCTIONAL = frozenset(
    "linear gelu silu mish hardswish hardsigmoid relu6 elu leaky_relu softplus log_sigmoid glu "
    "hardtanh logsigmoid avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d "
    "adaptive_avg_pool3d scaled_dot_product_attention one_hot pixel_shuffle pixel_unshuffle "
    "softshrink hardshrink tanhshrink hardtanh_ elu_ leaky_relu_ fold unfold channel_shuffle".split()
)


@functools.cache
def operator_named(name: str, default=None):
    """A function that calls ``aten::name``, or the default."""
    adapted = ADAPTED.get(name)
    scalar = SCALAR.get(name)
    tensor = cast_as_compiled(name, adapted) if adapted else _tensor_op(name)
    if scalar is None:
        return tensor or default
    if tensor is None:
        return scalar
    if name in _ALWAYS_SCALAR:
        return scalar

    def call(*args, **kwargs):
        for a in args[:2]:
            if isinstance(a, TensorBase):
                return tensor(*args, **kwargs)
        return scalar(*args, **kwargs)

    return call


# Methods that give a tensor of another dtype, with its number; ``aten::to`` does it.
DTYPE_CASTS = {
    name: code(getattr(torch, dtype))
    for name, dtype in {
        "byte": "uint8", "char": "int8", "short": "int16", "int": "int32", "long": "int64", "half": "float16",
        "float": "float32", "double": "float64", "chalf": "complex32", "cfloat": "complex64", "cdouble": "complex128",
    }.items()
}
# Those, and methods that give a tensor elsewhere.
CASTS = frozenset({*DTYPE_CASTS, "cpu", "cuda"})


@functools.cache
def takes_numbers(name: str) -> bool:
    """Whether a method takes several numbers for its list, which is all that it takes: ``x.view(2, 3)``."""
    for definition in OVERLOADS.get(name, ()):
        rest = [a.type for a in definition.schema.arguments[1:] if not a.is_keyword_only]
        if len(rest) == 1 and rest[0].is_list and rest[0].base in ("int", "SymInt"):
            return True
    return False


_ALWAYS_SCALAR = frozenset(
    "append extend pop insert clear format percentFormat _set_item __contains__ __is__ __isnot__ "
    "len Int Float Bool warn wait __not__ get keys items".split()
)


def _tensor_op(name):
    function = _public(name)
    if function is None:
        return None
    place = _POSITIONS.get(name)
    if name.startswith("_") and not name.startswith("__"):
        places = _dtype_places(getattr(torch.ops.aten, name, None))
    else:
        places = [] if place is None else [(place, _dtype)]
    return cast_as_compiled(name, _converting(function, places))


def builtin(namespace: str, name: str):
    """The function behind ``torch.name`` (namespace "aten") or ``ops.namespace.name``.

    Raises:
        RuntimeError: if there is none.
    """
    found = None
    if namespace == "aten":
        found = operator_named(name)
    elif namespace == "prim":
        found = PRIM.get(name)
    elif not name.startswith("_") and not namespace.startswith("_"):
        packet = getattr(getattr(torch.ops, namespace, None), name, None)
        found = packet and _converting(packet, [])
    if found is None:
        raise RuntimeError(
            f"Unknown builtin op: {namespace}::{name}.\nThis program calls an op that ftorch does "
            "not have. If it is a custom op, register it (torch.library) before loading."
        )
    return found


# --- prim ----------------------------------------------------------------------------


def _assert_text(text):
    raise RaisedError(text)


def _index_of(x):
    index = x.index
    return -1 if index is None else index


def _tolist(x, *_):
    return x.tolist()


def _num_to_tensor(x):
    return torch.scalar_tensor(x, dtype=torch.int64 if isinstance(x, int) else torch.float64)


ATTRIBUTES: dict = {
    "dtype": lambda x: CODE_OF[x.dtype], "device": lambda x: x.device,
    "layout": lambda x: code(x.layout), "shape": lambda x: list(x.shape), "grad": lambda x: x.grad,
    "data": lambda x: x.data, "requires_grad": lambda x: x.requires_grad,
    "ndim": lambda x: x.dim(), "T": lambda x: x.T, "mT": lambda x: x.mT, "H": lambda x: x.H,
    "mH": lambda x: x.mH, "real": lambda x: x.real, "imag": lambda x: x.imag,
    "itemsize": lambda x: x.itemsize, "nbytes": lambda x: x.nbytes, "name": lambda x: None,
    "is_leaf": lambda x: x.is_leaf, "retains_grad": lambda x: x.retains_grad, "output_nr": lambda x: x.output_nr,
    **{f"is_{k}": (lambda kind: lambda x: x.device.type == kind)(k)
       for k in ("cuda", "cpu", "xpu", "mps", "meta", "xla", "ipu", "vulkan", "maia", "mtia")},
    "is_sparse": lambda x: x.layout is torch.sparse_coo, "is_quantized": lambda x: x.is_quantized,
    "is_mkldnn": lambda x: False, "is_nested": lambda x: False,
    "is_sparse_csr": lambda x: x.layout is torch.sparse_csr,
}

PRIM: dict = {
    **ATTRIBUTES, "RaiseException": raise_exception, "NumToTensor": _num_to_tensor,
    "unchecked_unwrap_optional": lambda x: x, "unchecked_cast": lambda x: x,
    "type": lambda x: x.type, "index": _index_of, "tolist": _tolist,
    "min": lambda a, *b: min(a, *b), "max": lambda a, *b: max(a, *b), "abs": abs,
    "rangelist": lambda n: list(range(n)), "Print": SCALAR["_print"],
    "EnumName": lambda e: e.name, "EnumValue": lambda e: e.value, "TupleIndex": operator.getitem,
    "id": id, "StringIndex": operator.getitem, "IfThenElse": lambda c, a, b: a if c else b,
    "awaitable_wait": lambda x: x, "awaitable_nowait": lambda x: x,
    "AutogradAnyNonZero": lambda *a: any(t is not None for t in a),
    "AutogradAllNonZero": lambda *a: all(t is not None for t in a),
}
