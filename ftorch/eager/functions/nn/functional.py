"""torch.nn.functional where the public function is not the kernel itself.

Pooling that may return indices, normalization that keeps running statistics, embeddings that
renormalize their table, and losses built of other calls.
"""

from __future__ import annotations

import math

from ...autograd.mode_contexts import UncountedWrites
from ...call.op import hooks
from ...core import api as torch
from ...core import dtype as dtypes
from ...core.composite import composite
from ...core.user_warnings import warn_user
from ...tensor import modes


def _front_end(name):
    """`composite` for a function made in a loop, which is given the public name it stands for."""

    def register(function):
        function.__name__ = function.__qualname__ = name
        return composite(public="nn.functional", name=name)(function)

    return register


def _tuple(value, n):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * n


# --- pooling -----------------------------------------------------------------------------


def _declare_max_pool(nd):
    name = f"max_pool{nd}d"

    @_front_end(f"{name}_with_indices")
    def with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
                     return_indices=False):
        """Maxima over windows, and their flat indices in the spatial plane."""
        stride = () if stride is None else stride
        home = torch if nd == 1 else torch._C._nn
        pool = getattr(home, f"{name}_with_indices")
        return pool(input, kernel_size, stride, padding, dilation, ceil_mode)

    @_front_end(name)
    def max_pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
                 return_indices=False):
        """Maxima over windows; with ``return_indices`` also where they are."""
        if return_indices:
            return with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
        stride = () if stride is None else stride
        return getattr(torch, name)(input, kernel_size, stride, padding, dilation, ceil_mode)

    @_front_end(f"adaptive_{name}_with_indices")
    def adaptive_with_indices(input, output_size, return_indices=False):
        """Maxima over a given number of windows, and their flat indices."""
        if nd == 1:
            return torch.adaptive_max_pool1d(input, output_size)
        pool = getattr(torch._C._nn, f"adaptive_{name}")
        return pool(input, _sizes_like(input, output_size, nd))

    @_front_end(f"adaptive_{name}")
    def adaptive_max_pool(input, output_size, return_indices=False):
        """Maxima over a given number of windows; with ``return_indices`` also where they are."""
        both = adaptive_with_indices(input, output_size)
        return both if return_indices else both[0]


def _sizes_like(input, output_size, nd):
    """The output size, None standing for the input's."""
    if not isinstance(output_size, (tuple, list)):
        if output_size is not None:
            return (output_size,) * nd
        output_size = (None,) * nd
    if input.dim() <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    own = input.shape[-len(output_size) :]
    return tuple(n if o is None else o for o, n in zip(output_size, own))


for _nd in (1, 2, 3):
    _declare_max_pool(_nd)


@composite(public="nn.functional")
def adaptive_avg_pool2d(input, output_size):
    """Means over a given number of windows in each of two dimensions (None: as many as there are).

    >>> import ftorch as torch
    >>> torch.nn.functional.adaptive_avg_pool2d(torch.arange(4.).view(1, 2, 2), 1)
    tensor([[[1.5000]]])
    """
    return torch._C._nn.adaptive_avg_pool2d(input, _sizes_like(input, output_size, 2))


@composite(public="nn.functional")
def adaptive_avg_pool3d(input, output_size):
    """Means over a given number of windows in each of three dimensions."""
    return torch._C._nn.adaptive_avg_pool3d(input, _sizes_like(input, output_size, 3))


def _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, nd):
    kernel = _tuple(kernel_size, nd)
    pool = getattr(torch.nn.functional, f"avg_pool{nd}d")
    mean = pool(input.pow(norm_type), kernel, stride if stride is not None else (), 0, ceil_mode)
    total = (torch.sign(mean) * torch.nn.functional.relu(torch.abs(mean))).mul(math.prod(kernel))
    return total.pow(1.0 / norm_type)


@composite(public="nn.functional")
def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The ``norm_type``-norm of windows of one dimension."""
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 1)


@composite(public="nn.functional")
def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The ``norm_type``-norm of windows of two dimensions."""
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 2)


@composite(public="nn.functional")
def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The ``norm_type``-norm of windows of three dimensions."""
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 3)


def _unpooled_size(input, kernel, stride, padding, output_size):
    """The spatial size that max pooling came from: the smallest, or the one asked for."""
    nd = len(kernel)
    smallest = [
        (n - 1) * s + k - 2 * p
        for n, k, s, p in zip(input.shape[-nd:], kernel, stride, padding)
    ]
    if output_size is None:
        found = smallest
    else:
        found = tuple(output_size)[-nd:] if len(output_size) == nd + 2 else output_size
        if len(found) != nd:
            raise ValueError(
                f"output_size should be a sequence containing {nd} or {nd + 2} elements, but it "
                f"has a length of '{len(found)}'"
            )
        for d, (n, base, s) in enumerate(zip(found, smallest, stride)):
            if not base - s < n < base + s:
                raise ValueError(
                    f'invalid output_size "{found}" (dim {d} must be between {base - s} and '
                    f"{base + s})"
                )
    for d, n in enumerate(found):
        if n < 0:
            raise ValueError(
                "max_unpooling: output_size must contain non-negative spatial dimensions, but got "
                f"output_size[{d}]={n}"
            )
    return tuple(found)


def _max_unpool(nd, input, indices, kernel_size, stride, padding, output_size):
    kernel, padding = _tuple(kernel_size, nd), _tuple(padding, nd)
    stride = kernel if stride is None else _tuple(stride, nd)
    size = _unpooled_size(input, kernel, stride, padding, output_size)
    if nd == 1:
        plane = torch._C._nn.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), (*size, 1))
        return plane.squeeze(-1)
    if nd == 2:
        return torch._C._nn.max_unpool2d(input, indices, size)
    return torch._C._nn.max_unpool3d(input, indices, size, stride, padding)


@composite(public="nn.functional")
def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Puts values back to where `max_pool1d` found them; zero elsewhere."""
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


@composite(public="nn.functional")
def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Puts values back to where `max_pool2d` found them; zero elsewhere."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


@composite(public="nn.functional")
def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Puts values back to where `max_pool3d` found them; zero elsewhere."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)


def _declare_fractional(nd):
    name = f"fractional_max_pool{nd}d"

    @_front_end(f"{name}_with_indices")
    def with_indices(input, kernel_size, output_size=None, output_ratio=None,
                     return_indices=False, _random_samples=None):
        """Maxima over randomly spaced windows, and their flat indices."""
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
        if output_size is None:
            if len(output_ratio) > nd:
                raise ValueError(
                    f"{name} requires output_ratio to either be a single Int or tuple of Ints."
                )
            extent = input.shape[-nd:]
            output_size = [int(n * r) for n, r in zip(extent, _tuple(output_ratio, nd))]
        if _random_samples is None:
            samples = 1 if input.dim() == nd + 1 else input.size(0)
            channels = input.size(-nd - 1)
            _random_samples = torch.rand(
                samples, channels, nd, dtype=input.dtype, device=input.device
            )
        return getattr(torch._C._nn, name)(input, kernel_size, output_size, _random_samples)

    @_front_end(name)
    def fractional_max_pool(input, kernel_size, output_size=None, output_ratio=None,
                            return_indices=False, _random_samples=None):
        """Maxima over randomly spaced windows."""
        both = with_indices(
            input, kernel_size, output_size, output_ratio, return_indices, _random_samples
        )
        return both if return_indices else both[0]


for _nd in (2, 3):
    _declare_fractional(_nd)


# --- normalization -----------------------------------------------------------------------


def _verify_batch_size(size):
    if size[0] * math.prod(size[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {size}"
        )


def _track(running, new):
    if running is None:
        return
    if getattr(new, "_bdim", None) is not None and getattr(running, "_bdim", None) is None:
        raise RuntimeError(
            "Batch norm got a batched tensor as input while the running_mean or running_var, which "
            "will be updated in place, were not batched.\nIf you are using a module and do not need "
            "eval mode, please set `track_running_stats` to be False.If you are using a prebuilt "
            "module and do not need eval mode, please see the functorch website for resources on how "
            "to patch your module to work with vmap"
        )
    if not modes.differentiating or hasattr(running, "_ftorch_level"):
        running.copy_(new.detach())
        return
    # PyTorch's kernel writes them itself: no transform of a function that captured them sees it, or refuses it.
    new = new.detach()
    while hasattr(new, "_tangent"):
        new = new._inner
    outer, modes.differentiating = modes.differentiating, []
    try:
        running.copy_(new)
    finally:
        modes.differentiating = outer


def _track_uncounted(running, new):
    """`_track` for batch normalization, whose schema does not say that it writes: backward of calls in evaluation mode goes on
    with what the statistics are then."""
    if running is not None:
        with UncountedWrites([running]):
            _track(running, new)


@composite(public="nn.functional")
def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False,
               momentum=0.1, eps=1e-5):
    """Normalizes each channel of (N, C, ...) over the batch, or by running statistics.

    In training the running statistics are updated in place.

    Raises:
        ValueError: for a training batch with one value per channel, or an ``eps`` out of range.
        RuntimeError: in evaluation without running statistics, or for sizes that do not fit.

    >>> import ftorch as torch
    >>> torch.nn.functional.batch_norm(torch.tensor([[1.], [3.]]), None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    if training:
        _verify_batch_size(input.size())
    if not input.numel() and input.dim() < 2:  # no channels to ask for
        return input.clone()
    if training and eps <= 0.0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    if eps < 0.0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    if training:
        return _batch_norm_train(
            input, running_mean, running_var, weight, bias, momentum, eps
        )
    for name, statistic in (("running_mean", running_mean), ("running_var", running_var)):
        if statistic is None:
            raise RuntimeError(f"{name} must be defined in evaluation mode")
    return torch._batch_norm_eval(input, running_mean, running_var, weight, bias, eps)


def _batch_norm_train(input, running_mean, running_var, weight, bias, momentum, eps):
    if not isinstance(momentum, (int, float)):
        raise TypeError(
            "batch_norm(): argument 'momentum' (position 7) must be float, not "
            f"{type(momentum).__name__}"
        )
    for name, statistic in (("running_mean", running_mean), ("running_var", running_var)):
        if statistic is not None and statistic.requires_grad:
            raise RuntimeError(
                "The function 'native_batch_norm' is not differentiable with respect to argument "
                f"'{name}'. This input cannot have requires_grad True."
            )
    out, mean, var = torch._batch_norm_train(
        input, running_mean, running_var, weight, bias, momentum, eps
    )
    _track_uncounted(running_mean, mean)
    _track_uncounted(running_var, var)
    return out


@composite(public="nn.functional")
def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None,
                  use_input_stats=True, momentum=0.1, eps=1e-5):
    """Normalizes each channel of each sample of (N, C, ...).

    Raises:
        ValueError: for one spatial element per channel.
    """
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "Expected running_mean and running_var to be defined when use_input_stats is false"
            )
        if modes.grad:  # backward needs them as they are now
            running_mean, running_var = running_mean.clone(), running_var.clone()
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if math.prod(input.shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {input.size()}"
        )
    out, mean, var = torch._instance_norm_train(
        input, running_mean, running_var, weight, bias, momentum, eps
    )
    _track(running_mean, mean)
    _track(running_var, var)
    return out


# --- embeddings --------------------------------------------------------------------------


@composite()
def embedding_renorm_(input, indices, max_norm, norm_type):
    """Scales the named rows of a table down to ``max_norm``, in place and unseen by autograd."""
    table, rows = input.detach(), indices.reshape(-1)
    picked = table.index_select(0, rows)
    norm = picked.norm(norm_type, 1, keepdim=True)
    # Rows named twice are written twice, with the same values.
    scaled = torch.where(norm > max_norm, picked * (max_norm / (norm + 1e-7)), picked)
    table.index_copy_(0, rows.to(dtypes.int64), scaled)
    return input


@composite(public="nn.functional")
def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0,
              scale_grad_by_freq=False, sparse=False):
    """Rows of ``weight`` by index.

    Args:
        padding_idx: the row that gets no gradient.
        max_norm: rows that are used are first scaled down to this norm, in place.
        scale_grad_by_freq: divides gradients by how often a row occurs.

    Raises:
        IndexError: for an index that is not a row.

    >>> import ftorch as torch
    >>> torch.nn.functional.embedding(torch.tensor([1, 0]), torch.eye(2))
    tensor([[0., 1.],
            [1., 0.]])
    """
    if padding_idx is None:
        padding_idx = -1
    else:
        if not -weight.size(0) <= padding_idx < weight.size(0):
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= weight.size(0)
    if max_norm is not None:
        embedding_renorm_(weight, input, max_norm, norm_type)
    if sparse and weight.requires_grad and modes.grad:
        return hooks.sparse()._embedding_rows(weight, input, padding_idx, scale_grad_by_freq)
    return torch.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def _check_bag(input, weight, offsets, mode, per_sample_weights, scale_grad_by_freq, sparse):
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then "
            f"it must have the same shape as the input ({input.shape})"
        )
    if weight.dim() != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    if input.dim() == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of "
            f"fixed length sequences. However, found offsets of type {type(offsets)}"
        )
    if input.dim() == 1 and offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if input.dim() == 1 and offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    if input.dim() not in (1, 2):
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
        )


@composite(public="nn.functional")
def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2,
                  scale_grad_by_freq=False, mode="mean", sparse=False, per_sample_weights=None,
                  include_last_offset=False, padding_idx=None):
    """Sums, means or maxima of the rows of ``weight`` in each bag of indices.

    Args:
        input: (B, n): bags of n; or all indices in one dimension, ``offsets`` saying where bags
            start.

    Raises:
        ValueError: for ranks and modes that do not fit.
    """
    if weight.dtype == dtypes.int64 and input.is_floating_point():
        warn_user(
            "Argument order of nn.functional.embedding_bag was changed. Usage "
            "`embedding_bag(weight, input, ...)` is deprecated, and should now be "
            "`embedding_bag(input, weight, ...)`.",
        )
        input, weight = weight, input
    _check_bag(input, weight, offsets, mode, per_sample_weights, scale_grad_by_freq, sparse)
    length = None
    if input.dim() == 2:
        length = input.shape[1]
        include_last_offset = False
        if not length or sparse:  # else bags are known to be of one length
            offsets = torch.arange(len(input), dtype=input.dtype, device=input.device) * length
            input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    if max_norm is not None:
        embedding_renorm_(weight, input, max_norm, norm_type)
    operands = (
        weight, input, offsets, mode, scale_grad_by_freq, per_sample_weights, include_last_offset,
        padding_idx,
    )
    if sparse and weight.requires_grad and modes.grad:
        return hooks.sparse()._embedding_bag(*operands)
    return torch._embedding_bag(*operands, length)


# --- products in groups ------------------------------------------------------------------


@composite(public="nn.functional")
def grouped_mm(mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """Products of matrices in groups, as of experts (``torch.nn.functional.grouped_mm``).

    Args:
        mat_a, mat_b: (M, K) and (G, K, N): rows ``offs[g - 1]`` to ``offs[g]`` times matrix g, (M, N);
            (G, M, K) and (K, N): columns by group, (M, N); (M, K) and (K, N): the sum's terms by group,
            (G, M, N); (G, M, K) and (G, K, N): `torch.bmm`, without ``offs``.
        offs: where the groups end, int32.

    Raises:
        RuntimeError: for other shapes or dtypes, a bias, and an ``out_dtype`` that is not theirs.

    >>> import ftorch as torch
    >>> rows, experts = torch.ones(4, 4), torch.ones(2, 4, 4)
    >>> torch.nn.functional.grouped_mm(rows, experts, offs=torch.tensor([1, 4], dtype=torch.int32)).shape
    torch.Size([4, 4])
    """
    return torch._grouped_mm(mat_a, mat_b, offs=offs, bias=bias, out_dtype=out_dtype)
