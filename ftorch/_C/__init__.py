"""The names of PyTorch's extension module that programs reach for (``torch._C``)."""

from __future__ import annotations

from ..autograd.grad_mode import _set_grad_enabled  # noqa: F401
from ..eager.bindings.publishing import MODULES as _MODULES
from ..eager.bindings.publishing import _VariableFunctionsClass
from ..eager.core.device import device  # noqa: F401
from ..eager.core.dtype import dtype  # noqa: F401
from ..eager.core.errors import _LinAlgError  # noqa: F401
from ..eager.core.formats import layout, memory_format  # noqa: F401
from ..eager.core.geometry import Size  # noqa: F401
from ..eager.functions.shape import broadcast_shapes
from ..eager.runtime.executor import OutOfMemoryError  # noqa: F401
from ..eager.sampling.generator import Generator, default_generator  # noqa: F401
from ..eager.tensor import Tensor as TensorBase  # noqa: F401
from ..eager.tensor import (
    _TensorMeta,  # noqa: F401
    modes,
)
from ..overrides import (  # noqa: F401
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    _disabled_torch_function_impl,
    _is_torch_function_mode_enabled,
    _len_torch_function_stack,
)
from ._questions import *  # noqa: F403

_TensorBase = TensorBase
_VariableFunctions = _VariableFunctionsClass()
_linalg, _fft, _special = _MODULES["linalg"], _MODULES["fft"], _MODULES["special"]


def _set_fwd_grad_enabled(mode: bool) -> None:
    """Says whether tangents are computed, and seen, from now on."""
    modes.forward = bool(mode)


def _is_fwd_grad_enabled() -> bool:
    """Whether tangents are computed, and seen."""
    return modes.forward


def _is_torch_function_enabled() -> bool:
    """Whether subclasses' ``__torch_function__`` are called: not inside `DisableTorchFunctionSubclass`."""
    return modes.subclasses


def _infer_size(self, other) -> Size:
    """The shape that two shapes broadcast to. Raises RuntimeError if they do not.

    >>> import ftorch as torch
    >>> torch._C._infer_size(torch.Size([2, 1]), torch.Size([3]))
    torch.Size([2, 3])
    """
    for i, (a, b) in enumerate(zip(reversed(self), reversed(other))):
        if a != b and a != 1 and b != 1:
            at = max(len(self), len(other)) - 1 - i
            raise RuntimeError(
                f"The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension {at}"
            )
    return broadcast_shapes(tuple(self), tuple(other))


def _log_api_usage_once(event: str) -> None:
    """Does nothing: nothing is logged."""


def _get_tracing_state():
    """What ``jit.trace`` records into, or None where none is at work."""
    import sys

    recorder = sys.modules.get(f"{__package__.removesuffix('._C')}.jit.torchscript.tracing.recorder")
    return None if recorder is None else recorder.Recorder.current


def _is_tracing() -> bool:
    """Whether ``jit.trace`` is recording."""
    return _get_tracing_state() is not None


def _current_graph_task_id() -> int:
    """The number of the backward pass that is running in this thread; -1 if none is."""
    from ..eager.autograd.backward import running

    number = running()
    return -1 if number is None else number


def _current_autograd_node():
    """The node whose gradients are being computed in this thread, or None."""
    from ..eager.autograd.nodes import running

    return running.node


def is_grad_enabled() -> bool:
    """Whether operations are recorded in this thread."""
    return modes.grad


def _will_engine_execute_node(node) -> bool:
    """Whether the backward pass that is running runs a node.

    Raises:
        RuntimeError: none is running, this is no node, or a leaf's one, whose gradient `torch.autograd.grad` returns.
    """
    from ..eager.autograd import backward, nodes

    if not isinstance(node, nodes.Node):
        raise RuntimeError(f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}")
    if backward.running() is None:
        raise RuntimeError("_get_should_execute_nodes should only be called during the backward pass")
    if node._ftorch_is_accumulate and backward.catches(node):
        raise RuntimeError("A leaf node was passed to _will_engine_execute_node but we are currently running autograd.grad(). "
                           "This is currently not supported.")
    return backward.will_run(node)


def _current_graph_task_execution_order() -> list:
    """The nodes that the backward pass that is running runs, in their order.

    Raises:
        RuntimeError: none is running, or with several threads.
    """
    from ..autograd.grad_mode import is_multithreading_enabled
    from ..eager.autograd import backward

    if backward.running() is None:
        raise RuntimeError("_current_graph_task_execution_order should only be called during the backward pass")
    if is_multithreading_enabled():
        raise RuntimeError(
            "get_current_graph_task_execution_order expects the current backward to be executed with multithreading disabled, "
            "e.g. by running:\n\n>>> with torch.autograd.set_multithreading_enabled(False):\n...     torch.autograd.grad(...)\n"
        )
    return backward.execution_order()


class _WeakTensorRef:
    """Says whether a tensor still exists."""

    def __init__(self, tensor):
        import weakref

        self._ftorch_reference = weakref.ref(tensor)

    def expired(self) -> bool:
        """Whether it is gone."""
        return self._ftorch_reference() is None


def _get_cudnn_enabled() -> bool:
    """``torch.backends.cudnn.enabled``."""
    from ..backends import cudnn

    return cudnn.enabled


def parse_schema(schema: str):
    """An operator's schema, parsed.

    Raises:
        RuntimeError: the text is none.

    >>> import ftorch as torch
    >>> torch._C.parse_schema("foo::bar(Tensor(a!) x, *, int y=1) -> ()").arguments[1].name
    'y'
    """
    from ..library._custom_op import parse

    return parse(schema)


_has_xpu = False
_jit_settings: dict[str, bool] = {}


def _jit_setting(name: str, default: bool):
    """A setting of PyTorch's interpreter: kept, and without an effect on XLA's programs."""

    def set_to(value: bool):
        before = _jit_settings.get(name, default)
        _jit_settings[name] = value
        return before

    return set_to


_jit_set_profiling_executor = _jit_setting("profiling_executor", True)
_jit_set_profiling_mode = _jit_setting("profiling_mode", True)
_jit_set_texpr_fuser_enabled = _jit_setting("texpr_fuser", True)
_jit_set_nvfuser_enabled = _jit_setting("nvfuser", False)
_get_graph_executor_optimize = _jit_setting("graph_executor_optimize", True)
_jit_set_num_profiled_runs = _jit_setting("num_profiled_runs", 1)
_jit_override_can_fuse_on_cpu = _jit_setting("can_fuse_on_cpu", False)
_jit_override_can_fuse_on_gpu = _jit_setting("can_fuse_on_gpu", True)


_jit_set_nvfuser_guard_mode = _jit_setting("nvfuser_guard_mode", True)


def _jit_can_fuse_on_cpu() -> bool:
    """Whether scripts' elementwise calls are fused on the CPU: what was set; XLA fuses them in any case."""
    return _jit_settings.get("can_fuse_on_cpu", False)


def _jit_can_fuse_on_gpu() -> bool:
    """Whether scripts' elementwise calls are fused on GPUs: what was set."""
    return _jit_settings.get("can_fuse_on_gpu", True)


def _get_privateuse1_backend_name() -> str:
    """The name of the device type for other backends."""
    from ..utils.backend_registration import backend_name

    return backend_name()


def _are_functorch_transforms_active() -> bool:
    """Whether a call is made inside a function transform."""
    return bool(modes.transforming)


def _is_alias_of(tensor: object, other: object, /) -> bool:
    """Whether both are tensors of the same storage."""
    if not (isinstance(tensor, TensorBase) and isinstance(other, TensorBase)):
        return False
    return tensor._ftorch_storage is other._ftorch_storage


def _get_math_sdp_allow_fp16_bf16_reduction() -> bool:
    """Whether attention's sums may be of narrow numbers: never; they are float32."""
    return False


def _set_math_sdp_allow_fp16_bf16_reduction(allow: bool) -> None:
    """Does nothing: attention's sums are float32."""


def _get_cpu_capability() -> str:
    """The widest vector instructions of the CPU, by PyTorch's names: ``"AVX512"``, ``"AVX2"``, ``"DEFAULT"``."""
    from ..backends import cpu

    return cpu.get_cpu_capability()


def _get_default_device() -> str:
    """The type of the default device."""
    from ..eager.core.device import get_default_device

    return get_default_device().type


def _get_accelerator(check: bool | None = None):
    """The device type of the accelerator, or the CPU."""
    from ..accelerator import current_accelerator

    return current_accelerator() or device("cpu")


has_lapack = has_spectral = True
has_mkl = has_openmp = False  # as their modules of `torch.backends` say

# What `torch.library` and dispatch modes bring, found when it is first asked for.
_LIBRARY = {
    "DispatchKey": "_keys", "DispatchKeySet": "_keys",
    "_AutoDispatchBelowAutograd": "_keys.AutoDispatchBelowAutograd",
    "_ExcludeDispatchKeyGuard": "_keys.ExcludeKeys", "_dispatch_keys": "_queries",
    "_dispatch_key_name": "_queries", "_dispatch_key_parse": "_queries",
    "_dispatch_key_for_device": "_queries", "_dispatch_has_kernel": "_queries",
    "_dispatch_has_kernel_for_dispatch_key": "_queries", "_dispatch_dump": "_queries",
    "_dispatch_get_all_op_names": "_queries", "_dispatch_isTensorSubclassLike": "_queries",
    "_dispatch_get_registrations_for_dispatch_key": "_queries",
}


_TYPES = (
    "AnyType", "AwaitType", "BoolType", "ComplexType", "DeviceObjType", "DictType", "FloatType", "FutureType", "IntType",
    "ListType", "NoneType", "NumberType", "OptionalType", "PyObjectType", "RRefType", "StreamObjType", "StringType",
    "SymBoolType", "SymIntType", "TensorType", "TupleType", "Type", "UnionType",
)
_ELSEWHERE = {
    **dict.fromkeys(("ScriptFunction", "ScriptMethod"), "..jit.torchscript.program.modules"),
    **dict.fromkeys(("ScriptDict", "ScriptList"), "..jit.torchscript.program.containers"),
    **dict.fromkeys(
        ("_TorchFunctionState", "_get_torch_function_state", "_set_torch_function_state", "_pop_torch_function_stack",
         "_push_on_torch_function_stack"),
        "._torch_function",
    ),
    **dict.fromkeys(("AggregationType", "LockingLogger", "NoopLogger"), "..jit._logging"),
    "FileCheck": "..testing",
    "StorageBase": "..storage",
    **dict.fromkeys(
        ("_get_deterministic_fill_uninitialized_memory", "_set_deterministic_fill_uninitialized_memory"),
        "..utils.deterministic",
    ),
    **dict.fromkeys(_TYPES, "._types"),
    **dict.fromkeys(("Block", "Graph", "Node", "Value"), "..jit.torchscript.graph.ir"),
    **dict.fromkeys(("PyTorchFileReader", "PyTorchFileWriter"), ".._serialization.record_files"),
    "ScriptObject": ".._quantized._tensor",
    "Tag": ".._ops",
}


def _namespace(name: str):
    """The functions of ``torch.linalg`` as ``torch._C._linalg.linalg_det``, by which graphs call them; so of ``fft``."""
    import importlib
    import types

    public = importlib.import_module(f"..{name[1:]}", __name__)
    found = globals()[name] = types.ModuleType(f"{__name__}.{name}")
    for own, function in vars(public).items():
        if not own.startswith("_") and callable(function) and not isinstance(function, type):
            setattr(found, f"{name[1:]}_{own}", function)
    return found


def __getattr__(name: str):
    import importlib

    if name in ("_DisableTorchDispatch", "_disabled_torch_dispatch_impl"):
        from .._dispatch import python_dispatch as _python_dispatch

        own = {"_DisableTorchDispatch": "DisableTorchDispatch"}.get(name, "disabled")
        return getattr(_python_dispatch, own)
    if name in ("_nn", "_autograd", "_distributed_c10d", "_distributed_rpc", "_functions", "_functorch", "_profiler"):
        return importlib.import_module(f"{__name__}.{name}")
    if name in ("_fft", "_linalg", "_special"):
        return _namespace(name)
    if name == "_SDPBackend":
        return importlib.import_module(f"{__name__.partition('.')[0]}.nn.attention").SDPBackend
    if name in ("_show_config", "_parallel_info"):
        return getattr(importlib.import_module("..__config__", __name__), {"_show_config": "show"}.get(name, name[1:]))
    if name == "_cpu":
        return importlib.import_module("..cpu", __name__)
    if name in _ELSEWHERE:
        return getattr(importlib.import_module(_ELSEWHERE[name], __name__), name)
    if name not in _LIBRARY:
        raise AttributeError(f"module 'torch._C' has no attribute '{name}'")
    module, _, own = _LIBRARY[name].partition(".")
    return getattr(importlib.import_module(f"ftorch.library.{module}"), own or name)
