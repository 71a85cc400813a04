"""``out=`` variants: which dtypes an operator accepts there, which memory it may share, and the write.

Elementwise operators and many reductions cast their result to ``out``; most others insist on the
result's dtype, in words of their own. The tables below hold what differs.
"""

from __future__ import annotations

from ..autograd.inplace_history import rebase
from ..call import op as _op
from ..call.operands import tensors_of
from ..core import api
from ..core import dtype as _dtype
from ..core.registry import STATIC
from ..core.user_warnings import warn_user
from ..dispatch import overrides, running_calls
from ..tensor import TensorBase, modes


def _override_out(operands, outs):
    """(True, the result) of a call with ``out=`` where an operand's class, or that of what is to be written to, has a say."""
    relevant = list(overrides.flat_arguments((*operands, *outs), {}))
    if not any(overrides.has_say(v.__class__) for v in relevant) or (call := running_calls.called()) is None:
        return False, None
    function, args, kwargs = call
    return True, overrides.handle(function, relevant, args, kwargs)


_op.hooks.override_out = _override_out

# Operators that promotion says nothing about, and which cast all the same.
_CASTING = frozenset(
    """addr cholesky cholesky_inverse cholesky_solve geqrf normalize outer ger cat stack kron
    logical_not logical_and logical_or logical_xor logsumexp all any mean nanmean sum nansum prod
    std var max min cumsum cumprod float_power lerp
    linalg_cond linalg_eig linalg_eigvals linalg_householder_product orgqr linalg_lstsq
    linalg_matrix_power matrix_power linalg_matrix_rank linalg_pinv linalg_tensorinv
    linalg_tensorsolve""".split()
)
_DEFAULT = "Expected out tensor to have dtype {result_c}, but got {out_c} instead"
# {result}, {out}: PyTorch's names of the dtypes; {result_c}, {out_c}: those of C++.
_MESSAGES = {
    "Found dtype {out} but expected {result}": "abs ceil conj_physical frac floor hardshrink "
    "softshrink gelu neg round sign sgn trunc softplus bitwise_not",
    "expected scalar_type {result} but found {out}": "cummax cummin diff logcumsumexp",
    "expected scalar type {result} but found {out}": "logsigmoid linalg_solve_triangular",
    "result dtype {out} does not match input dtype {result}": "dot vdot matmul linalg_matmul",
    "{name} does not support non-boolean outputs.": "signbit isposinf isneginf",
    "Expected object of scalar type {result} but got scalar type {out} for argument 'out'":
        "complex polar",
    "{name}(): self and result must have the same scalar type": "masked_select index_select",
    "Expected the dtype for input and out to match, but got {result} for input's dtype and {out} for "
    "out's dtype.": "amax amin",
    "linalg.matrix_norm expected out tensor dtype {result} but got: {out}": "linalg_matrix_norm",
    "self and mat2 must have the same dtype, but got {out} and {result}": "addbmm",
    "addmv input tensors must have the same dtype, but got {out}, {result}, and {result}": "mv",
    "torch.frexp() expects mantissa to have dtype {result_c} but got {out_c}": "frexp",
    "output values must be of same type as input": "kthvalue",
    "quantile() out tensor must be same dtype as the input tensor": "quantile nanquantile",
    "{name} is not yet implemented for tensors with different dtypes.": "heaviside",
    "expected scalar type '{result}' but got '{out}' for values output": "mode",
    "torch.ormqr: Expected input and result to have the same dtype, but input has dtype{result} and "
    "result has dtype {out}": "ormqr",
    "nan_to_num: dtype of out: {out} should be same as input: {result}": "nan_to_num",
    "take(): self and out expected to have the same dtype, but got self.dtype = {result} and "
    "out.dtype = {out}": "take",
    "torch.histogram: input tensor and hist tensor should have the same dtype, but got input "
    "{result_c} and hist {out_c}": "histogram histc",
    "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) "
    "depending on whether out_int32 flag is True, but we got output tensor's dtype {out} and "
    "out_int32 flag is {flag}": "searchsorted bucketize",
    "tensordot: Expected the output tensor to have dtype {result}, but got an output tensor with "
    "dtype {out}": "inner tensordot",
    "nonzero: Expected out tensor to have scalar type {result} but got scalar type{out}": "nonzero",
    "linalg.norm expected out tensor dtype {result} but got: {out}": "linalg_norm",
    "linalg.vecdot: Expected out of dtype{result} but found {out}": "linalg_vecdot",
    "multi_dot(): expected out tensor to have dtype {result_c} but got {out_c}": "linalg_multi_dot",
}
_WORDS = {name: text for text, names in _MESSAGES.items() for name in names.split()}

# Operators that write while they read: not even the same memory will do. Exclusive ones copy their first argument before.
_NO_OVERLAP = frozenset("cat gather index_select kthvalue masked_select take take_along_dim".split())


def check_overlap(op, operands, out):
    """Raises where ``out`` shares memory with what the operator reads.

    Raises:
        RuntimeError: in PyTorch's words.
    """
    definition = op.definition
    if definition.name in _NO_OVERLAP:
        overlaps, read = _op.overlaps, operands
    elif definition.exclusive:
        overlaps, read = _op.overlaps, operands[1:]
    elif definition.promote is not None or definition.layout == "pointwise":
        overlaps, read = _op.partly_overlaps, operands
    else:
        return
    for t in tensors_of(read):
        if t._ftorch_storage is out._ftorch_storage and overlaps(t, out):
            raise RuntimeError(_op.OVERLAP)


# Reductions that compute in the dtype of ``out`` where no other is asked for.
_COMPUTED_FOR_OUT = frozenset("sum prod cumsum cumprod".split())


def static_for_out(op, static, out):
    """The static arguments of a call whose result goes to ``out``.

    Raises:
        RuntimeError: for a ``dtype`` that is not that of ``out``.
    """
    if op.name not in _COMPUTED_FOR_OUT:
        return static
    arguments = [
        a for a, k in zip(op.definition.schema.arguments, op.definition.kinds) if k == STATIC
    ]
    for i, argument in enumerate(arguments):
        if argument.name == "dtype":
            asked = static[i]
            if asked is None:
                return (*static[:i], out.dtype, *static[i + 1 :])
            if asked is not out.dtype:
                raise RuntimeError(_words(_DEFAULT, asked, out.dtype))
    return static


def check_dtype(op, result, out, of_indices=False):
    """Raises where an operator's result cannot go to a tensor of the dtype of ``out``.

    Args:
        of_indices: whether the result are indices, of values that are another result.

    Raises:
        RuntimeError: in PyTorch's words, which are different for many operators.
    """
    given, wanted = out.dtype, result.dtype
    if given is wanted:
        return
    definition = None if op is None else op.definition
    name = None if op is None else op.name
    if name is not None and name.startswith("fft_"):
        text = _of_transform(name.removeprefix("fft_"), wanted, given)
        if text is not None:
            raise RuntimeError(text)
    if name == "mode" and of_indices:
        raise RuntimeError(f"expected scalar type '{wanted.scalar_name}' but got '{given.scalar_name}' for indices output")
    if name in ("all", "any"):
        if given is not _dtype.uint8:
            raise RuntimeError(
                f"{name} only supports bool tensor for result, got: {given.scalar_name}"
            )
    elif name == "logsumexp" and given.category < 2:
        raise RuntimeError(
            "logsumexp(): Expected floating point type for result tensor, but got: "
            f"{given.scalar_name}"
        )
    elif name in ("cat", "stack") and not _dtype.can_cast(wanted, given):
        raise TypeError(
            "torch.cat(): input types can't be cast to the desired output type "
            f"{given.scalar_name}"
        )
    if definition is not None and definition.promote is None and (
        definition.name not in _CASTING or definition.full_name in ("max.dim", "min.dim")
    ):
        raise RuntimeError(_words(_WORDS.get(op.name, _DEFAULT), wanted, given, op.name))
    if not _dtype.can_cast(wanted, given):
        raise RuntimeError(
            f"result type {wanted.scalar_name} can't be cast to the desired output type "
            f"{given.scalar_name}"
        )


def _of_transform(name, wanted, given):
    """What a Fourier transform says of an ``out`` of another dtype; None if it casts to it."""
    name = f"{name[:-1]}n" if name.endswith("2") else name
    if wanted.is_complex and not given.is_complex:
        return f"{name} expects a complex output tensor, but got {given.scalar_name}"
    if not wanted.is_complex and not given.is_floating_point:
        return f"{name} expects a floating point output tensor, but got {given.scalar_name}"
    return f"Found dtype {given.scalar_name} but expected {wanted.scalar_name}" if name == "ihfft" else None


def _words(template, wanted, given, name=""):
    names = {"result": wanted.scalar_name, "out": given.scalar_name}
    return template.format(
        name=name, flag=wanted is _dtype.int32, **names,
        result_c=wanted.c_name, out_c=given.c_name,
    )


def write_out(op, result, out, operands=(), of_indices=False):
    """Puts a result into an ``out=`` tensor: cast, and the tensor resized if its shape differs."""
    if op is not None and op.name == "clamp" and out.dtype is not result.dtype:
        if not any(isinstance(bound, TensorBase) for bound in operands[1:]):
            raise RuntimeError(
                f"Found dtype {out.dtype.scalar_name} but expected {result.dtype.scalar_name}"
            )
    check_dtype(op, result, out, of_indices)
    if operands:
        check_overlap(op, operands, out)
    if result.shape != out.shape:
        if out.numel():
            warn_user(
                f"An output with one or more elements was resized since it had shape "
                f"{list(out.shape)}, which does not match the required output shape "
                f"{list(result.shape)}. This behavior is deprecated, and in a future PyTorch release "
                "outputs will not be resized unless they have zero elements. You can explicitly "
                "reuse an out tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
            )
        out.resize_(result.shape)
        if result._ftorch_geometry.stride != out._ftorch_geometry.stride and result._ftorch_geometry.is_dense:
            out.as_strided_(result.shape, result.stride())  # memory that is made anew has the result's order
    _op.call_inplace(_op.op_named("copy"), (out, result), (False,))


def write_made(name, result, out, flat=False):
    """Puts what a creation function made into ``out=``, which takes its shape without a warning.

    Args:
        flat: a tensor of as many elements keeps its shape and is filled in its logical order.

    Raises:
        RuntimeError: for an ``out`` that requires grad.
    """
    if modes.grad and _op.is_in_graph(out):
        raise RuntimeError(
            f"aten::{name}(): functions with out=... arguments don't support automatic "
            "differentiation, but one of the arguments requires grad."
        )
    if flat and out.numel() == result.numel():
        result = result.reshape(out.shape)
    elif out.shape != result.shape:
        if name == "arange" and out.numel():
            warn_user(
                f"The number of elements in the out tensor of shape {list(out.shape)} is "
                f"{out.numel()} which does not match the computed number of elements "
                f"{result.numel()}. Note that this may occur as a result of rounding error. The out "
                f"tensor will be resized to a tensor of shape ({result.numel()},).",
            )
        out.resize_(result.shape)
    _op.call_inplace(_op.op_named("copy"), (out, result), (False,))


def write_resized(op, operands, static):
    """An in-place call whose target takes the shape of the result; views of it keep theirs."""
    target = operands[0]
    if modes.grad:
        _op.hooks.check_inplace(target)
    result = _op.call(op, operands, static)
    alias = target.detach()
    alias.resize_(result.shape)
    target._ftorch_geometry = alias._ftorch_geometry
    _op.call_inplace(_op.op_named("copy"), (alias, result.detach()), (False,))
    if result._ftorch_requires_grad:
        rebase(target, result._grad_fn)
    return target


def write_overlapping(op, operands, static):
    """An in-place call whose target is expanded: of elements in one place the last that the call changes is written there."""
    target = old = operands[0]
    new = _op.call(op, operands, static)
    for d, (size, stride) in enumerate(zip(target.shape, target.stride())):
        if size > 1 and not stride:
            changed = (new != old) & ((new == new) | (old == old))
            places = api.arange(size, device=target.device).reshape([-1] + [1] * (target.dim() - d - 1))
            last = (changed * places).amax(d, keepdim=True)
            new, old, target = new.gather(d, last), old.narrow(d, 0, 1), target.narrow(d, 0, 1)
    target.copy_(new)
    return operands[0]


def write_same(result, out):
    """`write_out` for functions that take no other dtype than the result's.

    Raises:
        RuntimeError: for another one.
    """
    if result.dtype is not out.dtype:
        raise RuntimeError(_words(_DEFAULT, result.dtype, out.dtype))
    write_out(None, result, out)


_op.hooks.write_out = write_out
_op.hooks.write_made = write_made
_op.hooks.static_for_out = static_for_out
_op.hooks.resized = write_resized
_op.hooks.overlapping = write_overlapping
