"""What ``torch.ops.aten`` has beside the kernels: ops that are compositions here, by ATen's signatures.

Most are the public function or method of the same name. The functions in this file are those whose
arguments ATen orders otherwise than Python does, and those that only exact graphs use.
"""

from __future__ import annotations

import functools

import ftorch as torch

from .._ops import OpOverload, OpOverloadPacket
from ..eager.call import op as _op
from ..eager.tensor import modes
from .aten_schemas import schema_of

_FUNCTIONS: dict = {}
_REDUCTIONS = ("none", "mean", "sum")
_MODES = ("constant", "reflect", "replicate", "circular")

# Names of `torch.Tensor` and of the top level that are no ops.
_NOT_OPS = frozenset(
    "as_tensor tensor save load grad manual_seed device backward cpu cuda random Size Generator "
    "values indices is_coalesced set_grad_enabled initial_seed seed data retain_grad Tensor float int "
    "bool double half long short dtype compile vmap cond ops nn fft linalg special no_grad is_tensor "
    "functional optim utils jit fx func export onnx profiler autograd grad_fn shape".split()
)


# Overloads of ATen that the registry does not tell apart: ``add.Scalar`` is ``add`` with a number.
_OVERLOAD_NAMES = frozenset(
    "default Tensor Scalar Scalar_mode Tensor_mode Tensor_Scalar Scalar_Tensor ScalarOther ScalarSelf "
    "Scalar_Other Scalar_Self dim dims dim_IntList dim_max dim_min int input data using_ints "
    "start start_step step memory_format m p float source_Tensor sizes array indices sections dtype other device layout "
    "dtype_layout prim_Device prim_dtype prim_other generator low low_dtype low_generator vec "
    "padding_idx decimals ScalarOpt_dim ScalarOpt_dim_dtype ScalarOpt_dtype IntList "
    "tensor_indices_or_sections periodic Sequence from to low_generator_dtype Tensor_hacked_twin "
    "float_Tensor Tensor_float Tensor_Tensor float_float no_stats correction stable values_stable "
    "center msg implicit unpack scalar".split()
)
_NORMS = frozenset("native_layer_norm native_group_norm native_batch_norm".split())
# Ops whose calls matter although nobody uses the result.
_EFFECTS = frozenset(
    "batch_norm instance_norm _native_batch_norm_legit native_batch_norm _batch_norm_with_update "
    "_assert_async _assert_scalar _assert_tensor_metadata sym_constrain_range "
    "sym_constrain_range_for_size".split()
)


class _Unbound:
    """Composites check their arguments themselves: packets do not choose among them."""

    @staticmethod
    def bind(args, kwargs):
        return None


class CompositeOverload(OpOverload):
    """An overload that is a function of tensors rather than one kernel."""

    _bound = _Unbound

    def __init__(self, packet, name, function):
        self._packet, self._overloadname, self._function = packet, name, function
        base = packet.__name__
        self._form = "inplace" if base.endswith("_") or base in _EFFECTS else "function"

    @functools.cached_property
    def _schema(self):
        return schema_of(self._packet.__name__, self._overloadname)

    def _call(self, args, kwargs):
        hook = _op.hooks.python_overload
        if hook is not None and (self._packet.__name__ in _FUNCTIONS or self._packet.__name__ in _NORMS):
            handled, result = hook(self, None, args, kwargs)
            if handled:
                return result
        if _op.special[0] and self._packet.__name__ in _MADE:
            level = next((level for level in reversed(modes.levels) if level.sees_aten), None)
            if level is not None:
                return level.made(self, args, kwargs)
        return self._function(*args, **kwargs)

    @property
    def is_view(self):
        return False


# ATen's arguments behind input and target; ``reduction`` is a number there.
_LOSSES = {
    "binary_cross_entropy": "weight reduction",
    "binary_cross_entropy_with_logits": "weight pos_weight reduction",
    "huber_loss": "reduction delta", "kl_div": "reduction", "l1_loss": "reduction",
    "mse_loss": "reduction", "multilabel_margin_loss": "reduction",
    "nll_loss": "weight reduction ignore_index", "smooth_l1_loss": "reduction beta",
    "soft_margin_loss": "reduction",
}


class CompositePacket(OpOverloadPacket):
    """The overloads of a composite; all are the same function."""

    def _choose(self, args, kwargs):
        return getattr(self, "default")

    def arguments(self, definition, values):
        """ATen's (args, kwargs) for a kernel's, which has the op's name but not its signature."""
        given = dict(zip((a.name for a in definition.schema.arguments), values))
        if self.__name__ == "arange":
            start, step = given["start"], given["step"]
            return (start, start + step * given["length"], step), {"dtype": given["dtype"]}
        reduction = given.get("reduction")
        if reduction in _REDUCTIONS:  # "batchmean" has no number
            given["reduction"] = _REDUCTIONS.index(reduction)
        for old in ("size_average", "reduce"):
            given.pop(old, None)
        options = {
            k: given.pop(k) for k in ("dtype", "log_target", "memory_format") if k in given
        }
        options = {k: v for k, v in options.items() if v is not None}
        if self.__name__ in _LOSSES:
            names = [*list(given)[:2], *_LOSSES[self.__name__].split()]
            return tuple(given[name] for name in names), options
        return tuple(given.values()), options


def is_preferred(name: str) -> bool:
    """Whether ATen's signature differs from that of the kernel of the name."""
    return name == "clone" or name in _LOSSES or name in _CREATION or name in _NEW


def packet_of(name: str):
    """The packet of a composite, or None if there is none of the name."""
    return None if function_of(name) is None else CompositePacket(name)


def overload_of(packet, name: str):
    """The overload of a packet that is the same function as another, or None."""
    if name not in _OVERLOAD_NAMES:
        return None
    function = function_of(packet.__name__)
    if function is None:
        return None
    made = packet._overloads[name] = CompositeOverload(packet, name, function)
    return made


def aten(function):
    """Declares the function of an op of its name."""
    _FUNCTIONS[function.__name__] = function
    return function


def function_of(name: str):
    """What computes the ATen op of a name by ATen's arguments, or None if there is none."""
    found = _FUNCTIONS.get(name)
    if found is not None:
        return found
    if name in _NOT_OPS or name.startswith("__"):
        return None
    for prefix in ("special_", "linalg_", "fft_"):
        if name.startswith(prefix):
            found = getattr(getattr(torch, prefix[:-1]), name.removeprefix(prefix), None)
            if callable(found):
                return found
    for owner in (torch, torch.Tensor, torch.nn.functional):
        found = getattr(owner, name, None)
        if callable(found) and not isinstance(found, type):
            return found
    return None


# --- shapes and copies ----------------------------------------------------------------


@aten
def sym_size(self, dim=None):
    return self.size() if dim is None else self.size(dim)


@aten
def sym_stride(self, dim=None):
    return self.stride() if dim is None else self.stride(dim)


@aten
def sym_numel(self):
    return self.numel()


@aten
def sym_storage_offset(self):
    return self.storage_offset()


@aten
def sym_constrain_range_for_size(size, *, min=None, max=None):
    if (min is not None and size < min) or (max is not None and size > max):
        raise RuntimeError(f"Invalid value range for {size} between [{min}, {max}].")


_FUNCTIONS["sym_constrain_range"] = sym_constrain_range_for_size


@aten
def _assert_scalar(value, assert_msg):
    if not value:
        raise RuntimeError(assert_msg)


@aten
def _assert_async(self, assert_msg="Expected Tensor with single nonzero value, but got zero"):
    if not self:
        raise RuntimeError(assert_msg)


@aten
def _assert_tensor_metadata(a, size=None, stride=None, dtype=None, *, device=None, layout=None):
    if dtype is not None and a.dtype != dtype:
        raise RuntimeError(f"Tensor dtype mismatch! Expected: {dtype}, Got: {a.dtype}")


@aten
def _local_scalar_dense(self):
    return self.item()


@aten
def mH(self):
    return self.mH


@aten
def matrix_H(self):
    return self.H


@aten
def lift_fresh_copy(self):
    return self.clone()


@aten
def lift_fresh(self):
    return self


@aten
def alias(self):
    return self.view(self.shape)


@aten
def contiguous(self, *, memory_format=torch.contiguous_format):
    return self.contiguous(memory_format=memory_format)


@aten
def clone(self, *, memory_format=None):
    return self.clone(memory_format=memory_format)


@aten
def _unsafe_view(self, size):
    level = next((level for level in reversed(modes.levels) if level.sees_aten), None) if _op.special[0] else None
    if level is None:
        return self.view(size)
    level.is_unsafe = True
    try:
        return self.view(size)
    finally:
        level.is_unsafe = False


@aten
def _reshape_alias(self, size, stride):
    return self.as_strided(size, stride, self.storage_offset())


@aten
def _unsafe_index(self, indices):
    for index in indices:
        if index is not None and index.dtype not in (torch.int64, torch.int32):
            raise RuntimeError(
                f"_unsafe_index found unexpected index type {index.dtype.scalar_name}"
            )
    return torch.ops.aten.index.Tensor(self, indices)


@aten
def _unsafe_index_put(self, indices, values, accumulate=False):
    return torch.ops.aten.index_put.default(self, indices, values, accumulate)


@aten
def _index_put_impl_(self, indices, values, accumulate=False, unsafe=False):
    return torch.ops.aten.index_put_.default(self, indices, values, accumulate)


@aten
def reshape(self, shape):
    return self.reshape(shape)


@aten
def view(self, size):
    return self.view(size)


@aten
def copy_(self, src, non_blocking=False):
    return self.copy_(src)


@aten
def fill_(self, value):
    return self.fill_(value)


@aten
def to(self, *args, copy=False, **kwargs):
    """Every overload of ``to``; a dtype or device may be None."""
    kwargs.pop("layout", None), kwargs.pop("pin_memory", None)
    args = [a for a in args if a is not None]
    first = [a for a in args if not isinstance(a, bool)]
    flags = [a for a in args if isinstance(a, bool)]
    copy = copy or (len(flags) > 1 and flags[1])
    return self.to(*first, copy=copy, **{k: v for k, v in kwargs.items() if v is not None})


@aten
def _to_copy(self, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False,
             memory_format=None):
    out = self.to(device=device, dtype=dtype, copy=True)
    return out if memory_format is None else out.contiguous(memory_format=memory_format)


def _creation(name):
    function = getattr(torch, name)

    def call(*args, layout=None, pin_memory=None, memory_format=None, **kwargs):
        return function(*args, **{k: v for k, v in kwargs.items() if v is not None})

    _FUNCTIONS[name] = call


_CREATION = frozenset(
    "arange empty empty_like empty_strided eye full full_like hamming_window hann_window linspace "
    "logspace ones ones_like rand rand_like randint randint_like randn randn_like randperm "
    "scalar_tensor tril_indices triu_indices zeros zeros_like".split()
)
for _name in _CREATION:
    _creation(_name)


def _new(name):
    def call(self, *args, layout=None, pin_memory=None, **kwargs):
        return getattr(self, name)(*args, **{k: v for k, v in kwargs.items() if v is not None})

    call.__name__ = name
    _FUNCTIONS[name] = call


_NEW = frozenset("new_empty new_full new_ones new_zeros new_empty_strided".split())
_MADE = _CREATION | _NEW
for _name in _NEW:
    _new(_name)


@aten
def add_(self, other, alpha=1):
    return self.add_(other, alpha=alpha)


@aten
def sub_(self, other, alpha=1):
    return self.sub_(other, alpha=alpha)


@aten
def rsub(self, other, alpha=1):
    return torch.rsub(self, other, alpha=alpha)


@aten
def add(self, other, alpha=1):
    return torch.add(self, other, alpha=alpha)


@aten
def sub(self, other, alpha=1):
    return torch.sub(self, other, alpha=alpha)


@aten
def _pin_memory(self, device=None):
    return self.pin_memory()


@aten
def _is_all_true(self):
    return self.all()


@aten
def _is_any_true(self):
    return self.any()


def _fft(name, function, inverse):
    def call(self, dim, normalization, *rest):
        norm = ("backward", "ortho", "forward")[normalization]
        forward = rest[0] if name == "_fft_c2c" else not inverse
        if name == "_fft_c2r":
            (size,) = rest
            norm = ("forward", "ortho", "backward")[normalization]
            if len(dim) == 1:
                return torch.fft.irfft(self, size, dim[0], norm)
            shape = [self.shape[d] for d in dim[:-1]] + [size]
            return torch.fft.irfftn(self, shape, tuple(dim), norm)
        if name == "_fft_r2c":
            out = torch.fft.rfftn(self, None, tuple(dim), norm)
            return out if rest[0] else torch.fft.fftn(self, None, tuple(dim), norm)
        if forward:
            return torch.fft.fftn(self, None, tuple(dim), norm)
        return torch.fft.ifftn(self, None, tuple(dim), ("forward", "ortho", "backward")[normalization])

    call.__name__ = name
    _FUNCTIONS[name] = call


for _name in ("_fft_c2c", "_fft_r2c", "_fft_c2r"):
    _fft(_name, None, _name == "_fft_c2r")


from . import aten_attention, aten_gradients, aten_layers, aten_sparse  # noqa: E402, F401
