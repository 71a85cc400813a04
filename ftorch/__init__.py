"""ftorch: PyTorch's programming model on JAX. ``import ftorch as torch`` is the whole migration.

Tensors, operators and autograd are imported at once. Packages on top of them (``nn``, ``optim``,
``utils``, ...) are imported when they are first used, so ``import ftorch`` costs little more than
``import jax``.
"""
# ruff: noqa: F401, F403, I001

from . import _startup  # first of all: how JAX is set up

from . import autograd, random
from ._basics import *
from ._basics import (
    _assert,
    _assert_async,
    _check,
    _check_index,
    _check_is_size,
    _check_not_implemented,
    _check_tensor_all,
    _check_type,
    _check_value,
    _check_with,
)
from ._settings import *
from .autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .eager.attach import public_functions as _public_functions
from .eager.device import device, get_default_device, set_default_device
from .eager.dtype import (
    bfloat16,
    bit,
    bits16,
    bits1x8,
    bits2x4,
    bits4x2,
    bits8,
    bool,
    can_cast,
    cdouble,
    cfloat,
    chalf,
    complex128,
    complex32,
    complex64,
    double,
    dtype,
    finfo,
    float,
    float16,
    float32,
    float4_e2m1fn_x2,
    float64,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    get_default_dtype,
    half,
    iinfo,
    int,
    int1,
    int16,
    int2,
    int3,
    int32,
    int4,
    int5,
    int6,
    int64,
    int7,
    int8,
    long,
    promote_types,
    qint32,
    qint8,
    quint2x4,
    quint4x2,
    quint8,
    set_default_dtype,
    short,
    uint1,
    uint16,
    uint2,
    uint3,
    uint32,
    uint4,
    uint5,
    uint6,
    uint64,
    uint7,
    uint8,
)
from .eager.executor import OutOfMemoryError
from .eager.op import hooks as _hooks
from .eager.formats import (
    _mkldnn,
    channels_last,
    channels_last_3d,
    contiguous_format,
    jagged,
    layout,
    legacy_contiguous_format,
    memory_format,
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
    preserve_format,
    qscheme,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from .eager import jax_trees as _jax_trees  # noqa: F401  (tensors in JAX's pytrees)
from .eager.geometry import Size
from .eager.printing import set_printoptions
from .eager.storages import TypedStorage, UntypedStorage
from .eager.tensor import Tensor
from .eager.types import tensor_types as _tensor_types
from .random import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from .torch_version import __version__

from math import e, inf, nan, pi  # isort: skip

newaxis = None

# The functions derived from the registry of ops: add, matmul, zeros, ... ``__init__.pyi`` spells
# them out.
globals().update(_public_functions())
globals().update(_tensor_types())

# Packages that are imported when they are first used.
_PACKAGES = frozenset({
    "_C", "__config__", "_custom_ops", "_decomp", "_dynamo", "_functorch", "_higher_order_ops",
    "_inductor", "_logging", "_subclasses", "_tensor", "_tensor_str", "_weights_only_unpickler", "accelerator",
    "amp", "backends", "compiler", "cpu", "cuda", "distributed", "distributions", "export", "fft",
    "func", "functional", "futures", "fx", "hub", "jit", "library", "linalg", "masked", "mps",
    "multiprocessing", "nested", "nn", "onnx", "optim", "overrides", "profiler", "quasirandom",
    "return_types", "serialization", "signal", "sparse", "special", "storage", "testing",
    "torch_version", "types", "utils", "version", "xpu",
})  # fmt: skip

# Names of the top level that live in those packages.
_ELSEWHERE = {
    "autocast": "amp", "autocast_decrement_nesting": "amp.autocast_mode",
    "autocast_increment_nesting": "amp.autocast_mode",
    "clear_autocast_cache": "amp.autocast_mode", "GradScaler": "amp",
    "compile": "jit", "Event": "cuda", "Stream": "cuda",
    "get_autocast_cpu_dtype": "amp.autocast_mode", "get_autocast_dtype": "amp.autocast_mode",
    "get_autocast_gpu_dtype": "amp.autocast_mode",
    "is_autocast_available": "amp.autocast_mode",
    "is_autocast_cache_enabled": "amp.autocast_mode",
    "is_autocast_cpu_enabled": "amp.autocast_mode", "is_autocast_enabled": "amp.autocast_mode",
    "load": "serialization", "ops": "_ops", "save": "serialization",
    "set_autocast_cache_enabled": "amp.autocast_mode",
    "set_autocast_cpu_dtype": "amp.autocast_mode",
    "set_autocast_cpu_enabled": "amp.autocast_mode", "set_autocast_dtype": "amp.autocast_mode",
    "set_autocast_enabled": "amp.autocast_mode", "set_autocast_gpu_dtype": "amp.autocast_mode",
    "cond": "functional.control_flow", "vmap": "functional",
    **dict.fromkeys(("SymBool", "SymFloat", "SymInt"), "fx.experimental.symbolic_shapes"),
    **dict.fromkeys((
        "sparse_coo_tensor", "sparse_csr_tensor", "sparse_csc_tensor", "sparse_bsr_tensor",
        "sparse_bsc_tensor", "sparse_compressed_tensor",
    ), "sparse"),
    "Tag": "_ops", "while_loop": "functional.control_flow",
}  # fmt: skip


def __getattr__(name):
    import importlib

    if name in _ELSEWHERE:
        value = getattr(importlib.import_module(f"{__name__}.{_ELSEWHERE[name]}"), name)
        globals()[name] = value
        return value
    if name in _PACKAGES:
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module 'ftorch' has no attribute '{name}'")


def _vmap(function):
    # `autograd.grad(is_grads_batched=True)` maps; the engine stands below the transforms.
    from .functional import vmap

    return vmap(function)


_hooks["vmap"] = _vmap


def _sparse():
    from . import sparse

    return sparse


_hooks["sparse"] = _sparse


def _python_classes(cls):
    from . import _python_dispatch

    _python_dispatch.register_class(cls)


_hooks["python_classes"] = _python_classes


def __dir__():
    return sorted({*globals(), *_PACKAGES, *_ELSEWHERE})


__all__ = [name for name in __dir__() if not name.startswith("_")]
