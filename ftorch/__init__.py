"""ftorch: PyTorch's programming model on JAX. ``import ftorch as torch`` is the whole migration.

Tensors, operators and autograd are imported at once. Packages on top of them (``nn``, ``optim``,
``utils``, ...) are imported when they are first used, so ``import ftorch`` costs little more than
``import jax``.
"""
# ruff: noqa: F401, F403, I001

from ._toplevel import startup as _startup  # first of all: how JAX is set up

import sys as _sys

from . import autograd, random
from ._alias import install_as_torch
from ._toplevel.basics import *
from ._toplevel.basics import (
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
    _debug_has_internal_overlap,
)
from ._toplevel.picklable import name_functions as _name_functions
from .eager.surface.settings import *
from .autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .eager.surface.attach import public_functions as _public_functions
from .eager.core import api as _api
from .eager.core.device import device, get_default_device, set_default_device
from .eager.core.dtype import (
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
from .eager.runtime.executor import OutOfMemoryError
from .eager.call.op import hooks as _hooks
from .eager.core.formats import (
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
from .eager.dynamic_shapes import traces as _shared_traces  # noqa: F401  (traces of accelerators share programs)
from .eager.tensor_api import jax_trees as _jax_trees  # noqa: F401  (tensors in JAX's pytrees)
from .eager.core.geometry import Size
from .eager.tensor_api.printing import set_printoptions
from .eager.tensor_api.legacy_storages import storage_classes as _storage_classes
from .eager.tensor_api.legacy_storages import storage_types as _storage_types
from .eager.tensor_api.storages import TypedStorage, UntypedStorage
from .eager.tensor import Tensor
from .eager.tensor_api.legacy_types import tensor_types as _tensor_types
from .random import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
    thread_safe_generator,
)
from .torch_version import __version__

from math import e, inf, nan, pi  # isort: skip

newaxis = None
torch = _sys.modules[__name__]

# The functions derived from the registry of ops: add, matmul, zeros, ... ``__init__.pyi`` spells
# them out.
globals().update(_public_functions())
globals().update(_tensor_types())
globals().update(_storage_types())

# Packages that are imported when they are first used.
_PACKAGES = frozenset(
    {
        "_C",
        "_VF",
        "__config__",
        "__future__",
        "_dispatch",
        "_export",
        "_jit_internal",
        "_library",
        "_native",
        "_ops",
        "_prims",
        "_prims_common",
        "_refs",
        "_utils",
        "_utils_internal",
        "_vendor",
        "_vmap_internals",
        "ao",
        "numa",
        "mtia",
        "_custom_ops",
        "_decomp",
        "_dynamo",
        "_functorch",
        "_guards",
        "_higher_order_ops",
        "_inductor",
        "_logging",
        "_subclasses",
        "_tensor",
        "_tensor_str",
        "_weights_only_unpickler",
        "accelerator",
        "amp",
        "backends",
        "compiler",
        "cpu",
        "cuda",
        "distributed",
        "distributions",
        "export",
        "fft",
        "func",
        "functional",
        "futures",
        "fx",
        "hub",
        "interop",
        "jit",
        "library",
        "linalg",
        "masked",
        "monitor",
        "mps",
        "multiprocessing",
        "nested",
        "nn",
        "onnx",
        "optim",
        "overrides",
        "package",
        "profiler",
        "quantization",
        "quasirandom",
        "return_types",
        "serialization",
        "signal",
        "sparse",
        "special",
        "storage",
        "testing",
        "torch_version",
        "types",
        "utils",
        "version",
        "xpu",
    }
)

# Names of the top level that live in those packages.
_ELSEWHERE = {
    "autocast": "amp",
    "autocast_decrement_nesting": "amp.autocast_mode",
    "autocast_increment_nesting": "amp.autocast_mode",
    "clear_autocast_cache": "amp.autocast_mode",
    "GradScaler": "amp",
    "compile": "jit",
    "DispatchKey": "library._keys",
    "Event": "_toplevel.streams",
    "ScriptObject": "_quantized._tensor",
    "Stream": "_toplevel.streams",
    "get_autocast_cpu_dtype": "amp.autocast_mode",
    "get_autocast_dtype": "amp.autocast_mode",
    "get_autocast_gpu_dtype": "amp.autocast_mode",
    "is_autocast_available": "amp.autocast_mode",
    "is_autocast_cache_enabled": "amp.autocast_mode",
    "is_autocast_cpu_enabled": "amp.autocast_mode",
    "is_autocast_enabled": "amp.autocast_mode",
    "load": "serialization",
    "ops": "_ops",
    "save": "serialization",
    "set_autocast_cache_enabled": "amp.autocast_mode",
    "set_autocast_cpu_dtype": "amp.autocast_mode",
    "set_autocast_cpu_enabled": "amp.autocast_mode",
    "set_autocast_dtype": "amp.autocast_mode",
    "set_autocast_enabled": "amp.autocast_mode",
    "set_autocast_gpu_dtype": "amp.autocast_mode",
    **dict.fromkeys(
        (
            "_to_functional_tensor _from_functional_tensor _is_functional_tensor _is_functional_tensor_base _sync "
            "_enable_functionalization _disable_functionalization _freeze_functional_tensor "
            "_functionalize_replace _functionalize_commit_update _functionalize_sync "
            "_functionalize_has_data_mutation _functionalize_has_metadata_mutation "
            "_functionalize_mutation_counter "
        ).split(),
        "_dispatch.functional_tensors",
    ),
    "cond": "functional.control_flow",
    "vmap": "eager.transforms.vmap",
    **dict.fromkeys(("SymBool", "SymFloat", "SymInt"), "fx.experimental.symbolic_shapes"),
    **dict.fromkeys(
        (
            "sparse_coo_tensor",
            "sparse_csr_tensor",
            "sparse_csc_tensor",
            "sparse_bsr_tensor",
            "sparse_bsc_tensor",
            "sparse_compressed_tensor",
        ),
        "sparse",
    ),
    **dict.fromkeys(("CompilationUnit", "ScriptFunction", "ScriptModule", "fork", "wait"), "jit"),
    **dict.fromkeys(("PyTorchFileReader", "PyTorchFileWriter", "Graph", "Node", "Value", "Block"), "_C"),
    **dict.fromkeys(
        (
            "AnyType", "AwaitType", "BoolType", "ComplexType", "DeviceObjType", "DictType", "FloatType", "FutureType",
            "IntType", "ListType", "NoneType", "NumberType", "OptionalType", "PyObjectType", "RRefType", "StreamObjType",
            "StringType", "SymBoolType", "SymIntType", "TensorType", "TupleType", "Type", "UnionType",
        ),
        "_C",
    ),
    **dict.fromkeys(("DisableTorchFunction", "DisableTorchFunctionSubclass", "DispatchKey", "DispatchKeySet"), "_C"),
    "Future": "futures",
    "classproperty": "_utils",
    **dict.fromkeys(
        ("set_anomaly_enabled", "is_anomaly_enabled", "is_anomaly_check_nan_enabled"), "autograd.anomaly_mode"
    ),
    **dict.fromkeys(("quantized_gru", "quantized_lstm"), "_quantized._recurrent"),
    **dict.fromkeys(
        (
            "fbgemm_linear_fp16_weight", "fbgemm_linear_fp16_weight_fp32_activation", "fbgemm_linear_int8_weight",
            "fbgemm_linear_int8_weight_fp32_activation", "fbgemm_linear_quantize_weight", "fbgemm_pack_gemm_matrix_fp16",
            "fbgemm_pack_quantized_matrix", "quantized_gru_cell", "quantized_lstm_cell", "quantized_rnn_relu_cell",
            "quantized_rnn_tanh_cell",
        ),
        "_quantized._fbgemm",
    ),
    **dict.fromkeys(tuple(f"quantized_max_pool{n}d" for n in (1, 2, 3)), "_quantized._pooling"),
    "quantized_batch_norm": "_quantized._normalization",
    **dict.fromkeys(("_pack_padded_sequence", "_pad_packed_sequence"), "nn.utils.rnn"),
    "Tag": "_ops",
    "while_loop": "functional.control_flow",
    "classes": "_ops",
    "StorageBase": "storage",
    "Storage": "storage",
    "windows": "signal",
    **dict.fromkeys(
        (
            "_nested_tensor_from_mask_left_aligned",
            "_nested_from_padded",
            "_nested_tensor_from_mask",
            "_nested_tensor_from_tensor_list",
            "_amp_update_scale_",
            "_amp_foreach_non_finite_check_and_unscale_",
            "_fused_sdp_choice",
            "_nnpack_available",
            "_nnpack_spatial_convolution",
            "cudnn_is_acceptable",
            "_add_relu",
            "_sparse_broadcast_to",
            "_validate_sparse_coo_tensor_args",
            "_validate_sparse_compressed_tensor_args",
            "_aminmax",
            "_has_compatible_shallow_copy_type",
            "_cast_Byte",
            "_cast_Char",
            "_cast_Double",
            "_cast_Float",
            "_cast_Half",
            "_cast_Int",
            "_cast_Long",
            "_cast_Short",
            "_convert_indices_from_coo_to_csr",
            "_convert_indices_from_csr_to_coo",
            "_dim_arange",
            "_euclidean_dist",
            "_fused_rms_norm",
            "_masked_softmax",
            "_nested_compute_contiguous_strides_offsets",
            "_nested_view_from_buffer",
            "_prelu_kernel",
            "_stack",
            "_trilinear",
            "_unique",
            "_weight_norm_interface",
            "as_strided_",
            "get_device",
            "is_distributed",
            "matrix_rank",
            "set_vital",
        ),
        "_C._variable_functions",
    ),
    **dict.fromkeys(
        (
            "crow_indices_copy", "col_indices_copy", "ccol_indices_copy", "row_indices_copy", "values_copy", "_conj_copy",
            "_neg_view_copy", "_reshape_alias_copy", "_logcumsumexp", "_lazy_clone", "_coalesce", "_adaptive_avg_pool3d",
            "_addmm_activation", "_add_relu_", "_convolution_mode", "_to_cpu", "_sparse_sparse_matmul", "_print",
            "_sparse_sum", "_conj_physical",
            "is_vulkan_available", "init_num_threads", "_running_with_deploy", "_as_tensor_fullprec", "_sym_acos",
            "_sym_asin", "_sym_atan", "_sym_cos", "_sym_cosh", "_sym_log2", "_sym_sin", "_sym_sinh", "_sym_sqrt",
            "_sym_tan", "_sym_tanh",
        ),
        "_C._uncommon_functions",
    ),
    "_native_multi_head_attention": "_C._fused_attention", "_transform_bias_rescale_qkv": "_C._fused_attention",
    "_transformer_encoder_layer_fwd": "_C._fused_attention",
    "_check_tensor_all_with": "_toplevel.basics",
    "_disable_dynamo": "compiler._disabling",
    # Of ATen's operators those that PyTorch has as functions of the module.
    **dict.fromkeys(
        (
            "_adaptive_avg_pool2d",
            "_conj", "_index_put_impl_", "_linalg_check_errors", "_unsafe_index_put",
            "_assert_scalar",
            "_assert_tensor_metadata",
            "_convolution",
            "_fft_c2c",
            "_fft_c2r",
            "_fft_r2c",
            "_is_all_true",
            "_is_any_true",
            "_log_softmax",
            "_native_batch_norm_legit_no_training",
            "_efficientzerotensor",
            "_embedding_bag_forward_only",
            "_pin_memory",
            "_scaled_dot_product_attention_math",
            "_scaled_dot_product_cudnn_attention",
            "_scaled_dot_product_efficient_attention",
            "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_flash_attention_for_cpu",
            "_softmax",
            "_unsafe_index",
            "embedding_bag",
            "sym_constrain_range",
            "sym_constrain_range_for_size",
        ),
        "_C._variable_functions",
    ),
}


_name_functions(vars(), __name__)
_name_functions(vars(Tensor), __name__, "Tensor.")
for _space, _functions in (("linalg", _api.linalg), ("fft", _api.fft), ("special", _api.special),
                           ("nn.functional", _api.nn.functional)):
    _name_functions(vars(_functions), f"{__name__}.{_space}")

# Modules of the standard library that PyTorch's own imports leave behind: programs write `torch.os`.
_STANDARD = frozenset(
    "builtins ctypes functools glob importlib inspect math os platform sys textwrap threading "
    "warnings".split()
)
# What was asked of the module in older versions, and is answered with a warning.
_MOVED_QUESTIONS = {
    "has_cuda": "torch.backends.cuda.is_built", "has_cudnn": "torch.backends.cudnn.is_available",
    "has_mkldnn": "torch.backends.mkldnn.is_available", "has_mps": "torch.backends.mps.is_built",
}


def __getattr__(name):
    import importlib

    if name in _STANDARD:
        return importlib.import_module(name)

    if name in _MOVED_QUESTIONS:
        from .eager.core.user_warnings import warn_user

        place = _MOVED_QUESTIONS[name]
        warn_user(f"'{name}' is deprecated, please use '{place}()'")
        module, _, function = place.removeprefix("torch.").rpartition(".")
        return getattr(importlib.import_module(f"{__name__}.{module}"), function)()

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
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def _vmap(function):
    # `autograd.grad(is_grads_batched=True)` maps; the engine stands below the transforms.
    from .eager.transforms.vmap import vmap

    return vmap(function)


_hooks.vmap = _vmap


def _imported_when_asked(name):
    def imported():
        import importlib

        return importlib.import_module(f".{name}", __name__)

    return imported


# What lower layers hand on to upper ones.
_hooks.data_loaders = _imported_when_asked("utils.data")
_hooks.profiler = _imported_when_asked("profiler")
_hooks.quantized = _imported_when_asked("_quantized")
_hooks.recorded_region = _imported_when_asked("jit.capture.recorded_region")
_hooks.sparse = _imported_when_asked("sparse")
_hooks.symbolic_graphs = _imported_when_asked("export._symbolic_graphs")


_hooks.python_classes = lambda cls: _imported_when_asked("_dispatch.python_dispatch")().register_class(cls)


if "IPython" in _sys.modules:
    _imported_when_asked("utils._notebook_display")().register()


def __dir__():
    return sorted({*globals(), *_PACKAGES, *_ELSEWHERE})


__all__ = [name for name in __dir__() if not name.startswith("_")]
