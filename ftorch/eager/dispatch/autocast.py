"""Autocast: what casts the arguments of which ops while ``torch.autocast`` is on.

The tables are PyTorch's. `levels` asks `_cast_call` for each call while a device type is enabled in the
thread; the call is then made again with cast arguments and autocast off, so that kernels and
derivatives know nothing of it.
"""

from __future__ import annotations

import threading

from ..call import op as _op
from ..core import dtype as _dtype
from ..kernels.linalg.contraction import pair_steps
from ..tensor import TensorBase, modes
from .autocast_products import COMPOSED

# The fast dtype: products of matrices, convolutions, recurrent layers.
_LOWER = """
    _lstm_layer _rnn_layer _scaled_dot_product_attention addbmm addmm baddbmm bmm chain_matmul conv1d
    conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d einsum
    inner linalg_matmul linalg_multi_dot linalg_vecdot linear matmul mm prelu rnn_relu_cell rnn_tanh_cell
    tensordot
""".split()
_LOWER_CUDA = "addmv addr convolution gru_cell lstm_cell mv".split()

# float32: what loses too much otherwise, or has no kernel in half precision.
_FLOAT32 = """
    cdist cosine_embedding_loss hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss
    mse_loss multi_margin_loss multilabel_margin_loss nll_loss poisson_nll_loss prod smooth_l1_loss
    soft_margin_loss triplet_margin_loss binary_cross_entropy_with_logits cross_entropy _ctc_loss
""".split()
_FLOAT32_CPU = """
    _lu_with_info adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy cholesky
    cholesky_inverse cholesky_solve fft_fft fft_fft2 fft_fftn fft_hfft fft_ifft fft_ifft2 fft_ifftn
    fft_ihfft fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftn fractional_max_pool2d
    fractional_max_pool3d geqrf grid_sample inverse linalg_cholesky linalg_cholesky_ex linalg_cond
    linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_householder_product
    linalg_inv linalg_inv_ex linalg_lstsq linalg_matrix_rank linalg_qr linalg_solve
    linalg_solve_ex linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve lu_solve
    max_pool3d max_pool3d_with_indices max_unpool2d max_unpool3d nanquantile orgqr ormqr pinverse
    polar qr quantile stft svd trace triangular_solve view_as_complex
""".split()
_FLOAT32_CUDA = """
    _interpolate acos asin cosh cosine_similarity cumprod cumsum dist erfinv exp expm1 group_norm
    layer_norm linalg_matrix_norm linalg_vector_norm log log10 log1p log2 log_softmax logsumexp pdist
    pow reciprocal renorm rsqrt sinh softmax softplus sum tan
""".split()

# The widest dtype among the arguments.
_WIDEST_CPU = "cat index_copy stack".split()
_WIDEST_CUDA = (
    "addcdiv addcmul atan2 bilinear cat cross dot grid_sample index_put linalg_cross scatter_add "
    "stack vdot"
).split()

# PyTorch's compiler casts calls in a block of a script by a table of its own (`jit.torchscript.program.autocasts`), where eager
# autocast is not on; that table's ops of the fast dtype are cast here.
_CAST_IN_SCRIPTS = frozenset("""
    addbmm addmm baddbmm bmm chain_matmul conv1d conv2d conv3d conv_tbc conv_transpose1d linear matmul mm prelu rnn_relu_cell
    rnn_tanh_cell
""".split())

_BANNED = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\nMany "
    "models use a sigmoid layer right before the binary cross entropy layer.\nIn this case, combine "
    "the two layers using torch.nn.functional.binary_cross_entropy_with_logits\nor "
    "torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\nsafe to "
    "autocast."
)


def _table(lower, float32, widest):
    return {
        **dict.fromkeys(lower, "lower"), **dict.fromkeys(float32, "float32"),
        **dict.fromkeys(widest, "widest"),
    }


_CPU_RULES = _table(_LOWER, _FLOAT32 + _FLOAT32_CPU, _WIDEST_CPU)
_ACCELERATOR_RULES = _table(_LOWER + _LOWER_CUDA, _FLOAT32 + _FLOAT32_CUDA, _WIDEST_CUDA)
_ACCELERATOR_RULES["binary_cross_entropy"] = "banned"


# --- the state of the thread ---------------------------------------------------------

DEVICE_TYPES = ("cpu", "cuda", "tpu")


class _State(threading.local):
    """dtypes: of each device type; cache: {id of a leaf: (the leaf, its cast)} until the outermost
    context ends. Which device types are on is ``modes.autocast``."""

    def __init__(self):
        self.dtypes = {"cpu": _dtype.bfloat16, "cuda": _dtype.float16, "tpu": _dtype.bfloat16}
        self.cache: dict[int, tuple] = {}
        self.cache_enabled = True
        self.nesting = 0
        self.in_script = False  # whether it is on by a block of a script only: see `_CAST_IN_SCRIPTS`


state = _State()


def is_enabled(device_type: str) -> bool:
    """Whether autocast is on for a device type in this thread."""
    return modes.autocast is not None and device_type in modes.autocast


def set_enabled(device_type: str, enabled: bool) -> None:
    """Switches autocast for a device type in this thread."""
    before = modes.autocast
    on = set(before or ())
    (on.add if enabled else on.discard)(device_type)
    modes.autocast = frozenset(on) if on else None
    _op.special[0] += (modes.autocast is not None) - (before is not None)


# --- casting -------------------------------------------------------------------------


def _is_eligible(t, device_type):
    g = t._ftorch_geometry
    return g.dtype.is_floating_point and g.dtype is not _dtype.float64 and g.device.type == device_type


def _cast(t, dtype, device_type):
    if not _is_eligible(t, device_type) or t._ftorch_geometry.dtype is dtype:
        return t
    # Weights are used again: they are cast once in a context.
    keeps = (
        state.cache_enabled and dtype is state.dtypes[device_type] and t._ftorch_requires_grad
        and t._ftorch_geometry.dtype is _dtype.float32 and t._grad_fn is None and t._base is None
    )
    if not keeps:
        return t.to(dtype)
    found = state.cache.get(id(t))
    if found is None or found[0] is not t or (modes.grad and not found[1]._ftorch_requires_grad):
        found = state.cache[id(t)] = (t, t.to(dtype))
    return found[1]


def _each(operands, function):
    """The operands with every tensor replaced by ``function(tensor)``; the same object if none is."""
    changed = False

    def one(o):
        nonlocal changed
        if isinstance(o, TensorBase):
            new = function(o)
            changed = changed or new is not o
            return new
        if isinstance(o, (list, tuple)):
            return tuple(one(item) for item in o)
        return o

    new = tuple(one(o) for o in operands)
    return new if changed else operands


def _tensors(operands):
    for o in operands:
        if isinstance(o, TensorBase):
            yield o
        elif isinstance(o, (list, tuple)):
            yield from (item for item in o if isinstance(item, TensorBase))


def _cast_call(op, operands, static):
    """(True, the result) of a call whose arguments are cast, or (False, None) where none are."""
    first = next(_tensors(operands), None)
    device_type = "cpu" if first is None else first._ftorch_geometry.device.type
    if device_type not in modes.autocast or (state.in_script and op.name not in _CAST_IN_SCRIPTS):
        return False, None
    if op.name == "einsum" and isinstance(operands[0], TensorBase):
        return False, None  # a level's own form of it, whose operands are cast already
    if op.name == "einsum" and len(operands[0]) > 2:
        result = _by_pairs(op, operands[0], static)
        return result is not None, result
    composed = COMPOSED.get(op.name)
    if composed is not None and not state.in_script:
        result = composed(operands, static)
        return result is not None, result
    dtype = _wanted_dtype(op.name, operands, static, device_type)
    if dtype is None:
        return False, None
    cast = _each(operands, lambda t: _cast(t, dtype, device_type))
    if cast is operands:
        return False, None
    outer, modes.autocast = modes.autocast, None
    try:
        return True, _op.call(op, cast, static)
    finally:
        modes.autocast = outer


def _wanted_dtype(name, operands, static, device_type):
    """The dtype to which an op's arguments are cast, or None."""
    rules = _CPU_RULES if device_type == "cpu" else _ACCELERATOR_RULES
    rule = rules.get(name)
    if name == "pad" and rules is _CPU_RULES and _is_padded_in_float32(operands, static):
        rule = "float32"
    if rules is _CPU_RULES and _has_wide_state(name, operands, static):
        rule = None
    if name in _CONTRACTIONS and not _CONTRACTIONS[name](operands, static):
        rule = None
    if rule is None or (rule == "float32" and _has_dtype(static)):
        return None
    if rule == "banned":
        raise RuntimeError(_BANNED)
    if rule == "float32":
        return _dtype.float32
    dtype = state.dtypes[device_type]
    if rule == "widest":
        for t in _tensors(operands):
            if _is_eligible(t, device_type):
                if t._ftorch_geometry.dtype not in (_dtype.float32, state.dtypes[device_type]):
                    raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
                dtype = _dtype.promote_types(dtype, t._ftorch_geometry.dtype)
    return dtype


# What traces of functions write down, by the name of the op here; other ops are written by the name that the table has.
_WRITTEN = {
    "_convolution": "conv2d", "_convolution_mode": "conv2d", "cross_entropy_loss": "cross_entropy",
    "nll_loss_nd": "nll_loss", "scaled_dot_product_attention": "_scaled_dot_product_attention",
}
# Compositions: their parts are cast as they run, and a trace has the whole.
_WRITTEN_WHOLE = frozenset("einsum inner tensordot linalg_multi_dot chain_matmul linalg_vecdot".split())


def casts_written(name: str, arguments: list, named: dict) -> dict[int, _dtype.dtype]:
    """{id of an argument of a traced call: the dtype to which autocast, which is on, casts it}."""
    first = next(_tensors(arguments), None)
    device_type = "cpu" if first is None else first._ftorch_geometry.device.type
    if device_type not in (modes.autocast or ()) or name in _WRITTEN_WHOLE:
        return {}
    static = [a for a in (*arguments, *named.values()) if not isinstance(a, TensorBase)]
    dtype = _wanted_dtype(_WRITTEN.get(name, name), arguments, static, device_type)
    if dtype is None:
        return {}
    return {
        id(t): dtype for t in _tensors([*arguments, *named.values()])
        if _is_eligible(t, device_type) and t._ftorch_geometry.dtype is not dtype
    }


def _is_padded_in_float32(operands, static):
    """Whether padding is one of PyTorch's `reflection_pad1d`, `reflection_pad2d` and `replication_pad1d` to `3d`."""
    sizes = next((len(value) for value in static if isinstance(value, (list, tuple))), 0)
    return "replicate" in static or ("reflect" in static and sizes <= 4)


def _sums_a_pair(operands, static):
    """Whether an einsum sums over a letter of two operands, longer than one in both; PyTorch multiplies elementwise without."""
    terms, arrow, result = next(v for v in static if isinstance(v, str)).replace(" ", "").partition("->")
    letters = [_long_letters(term, t.shape) for term, t in zip(terms.split(","), _tensors(operands))]
    shared = {x for i, a in enumerate(letters) for b in letters[i + 1 :] for x in a & b}
    return bool(shared - set(result)) if arrow else bool(shared)


def _by_pairs(op, tensors, static):
    """An einsum of several operands as PyTorch's products of two, each of which is cast or not."""
    equation, path = static
    path = None if path is None else tuple(path)
    steps = pair_steps(equation, tuple(tuple(t.shape) for t in tensors), path)
    if steps is None:
        return None
    tensors = list(tensors)
    for step, places, to in steps:
        given = [tensors[place] for place in places]
        result = _op.call(op, (given,), (step, None))
        if to is None:
            for place in reversed(places):
                del tensors[place]
            tensors.append(result)
        else:
            tensors[to] = result
    return tensors[0]


def _long_letters(term, sizes):
    """The letters of an operand's term whose dimension has not size one."""
    before, _, after = term.partition("...")
    dims = [*zip(before, sizes), *zip(after, sizes[len(sizes) - len(after) :])]
    return {letter for letter, size in dims if size != 1}


def _keeps_a_dim(operands, static):
    """Whether a tensordot leaves a dimension longer than one; PyTorch multiplies elementwise and sums where it leaves none."""
    dims = [v for v in static if isinstance(v, (list, tuple))]
    return any(
        size != 1 for t, summed in zip(_tensors(operands), dims)
        for i, size in enumerate(t.shape) if i not in summed and i - t.dim() not in summed
    )


# Products that are no products of matrices for some arguments, and then keep their dtype.
def _has_rows(operands, static):
    """Whether ``inner`` leaves a dimension longer than one, and is no product with a number."""
    shapes = [t.shape for t in _tensors(operands)]
    return all(shapes) and any(n != 1 for shape in shapes for n in shape[:-1])


_CONTRACTIONS = {"einsum": _sums_a_pair, "tensordot": _keeps_a_dim, "inner": _has_rows}


def _has_wide_state(name, operands, static):
    """Whether a recurrent layer is one whose state PyTorch adds, as wide as it is, to what is cast (on the CPU)."""
    return name == "_rnn_layer" and "gru" in static or name == "_lstm_layer" and operands[8] is not None  # batch_sizes


def _has_dtype(static):
    """Whether the call names the dtype it wants."""
    return any(isinstance(value, _dtype.dtype) for value in static)


_op.hooks.autocast = _cast_call
