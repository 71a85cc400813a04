"""Batch normalisation."""

from __future__ import annotations

import ftorch

from ...autograd import no_grad
from ...eager.core import api as torch
from ...eager.core import dtype as dtypes
from ...eager.tensor import Tensor as Tensor
from .. import functional as F
from .. import init
from ..parameter import Parameter as Parameter
from ..parameter import UninitializedBuffer, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module
from .utils import new_parameter

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d",
    "LazyBatchNorm3d", "SyncBatchNorm",
]


def check_dims(input, allowed) -> None:
    """Raises PyTorch's ValueError unless the input has one of the numbers of dimensions."""
    if input.dim() not in allowed:
        expected = " or ".join(f"{n}D" for n in allowed)
        raise ValueError(f"expected {expected} input (got {input.dim()}D input)")


class _NormBase(Module):
    """What batch and instance normalisation share: scale, shift and running statistics."""

    _version = 2  # 2: num_batches_tracked
    _ftorch_dimensions: tuple[int, ...]  # numbers of dimensions that the input may have

    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True,
        device=None, dtype=None, *, bias=True,
    ):
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        factory = {"device": device, "dtype": dtype}
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            parameter = new_parameter(num_features, **factory) if wanted else None
            self.register_parameter(name, parameter)
        statistics = {"running_mean": None, "running_var": None, "num_batches_tracked": None}
        if track_running_stats:
            statistics["running_mean"] = torch.zeros(num_features, **factory)
            statistics["running_var"] = torch.ones(num_features, **factory)
            statistics["num_batches_tracked"] = self._ftorch_no_batches(device)
        for name, value in statistics.items():
            self.register_buffer(name, value)
        self.reset_parameters()

    @staticmethod
    def _ftorch_no_batches(device=None):
        return torch.tensor(0, dtype=dtypes.int64, device=device)

    def reset_running_stats(self) -> None:
        """Forgets the running statistics."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Forgets the statistics, and sets the scale to 1 and the shift to 0."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input):
        check_dims(input, self._ftorch_dimensions)

    def extra_repr(self):
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
        version = local_metadata.get("version")
        if (version is None or version < 2) and self.track_running_stats:
            count = self.num_batches_tracked
            if count is None or count.is_meta:
                count = self._ftorch_no_batches()
            state_dict.setdefault(prefix + "num_batches_tracked", count)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    def forward(self, input):
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the average of all batches
                factor = 1.0 / float(self.num_batches_tracked)
        mean, variance = self.running_mean, self.running_var
        use_batch = self.training or (mean is None and variance is None)
        if self.training and not self.track_running_stats:
            mean = variance = None
        return F.batch_norm(
            input, mean, variance, self.weight, self.bias, use_batch, factor, self.eps
        )


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of (N, C) or (N, C, L). See `BatchNorm2d`."""

    _ftorch_dimensions = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalises every channel of (N, C, H, W) to mean 0 and variance 1, then scales and shifts.

    In training the statistics are the batch's, and running ones are updated; in evaluation the
    running ones are used.

    Args:
        num_features: the number C of channels.
        eps: added to the variance.
        momentum: the weight of a new batch in the running statistics; None averages all batches.
        affine: whether there are scale and shift.
        track_running_stats: whether there are running statistics.
        bias: whether there is a shift.

    Raises:
        ValueError: an input with another number of dimensions.

    >>> import ftorch as torch
    >>> norm = torch.nn.BatchNorm2d(3)
    >>> norm(torch.randn(4, 3, 2, 2)).shape, norm.num_batches_tracked.item()
    (torch.Size([4, 3, 2, 2]), 1)
    """

    _ftorch_dimensions = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of (N, C, D, H, W). See `BatchNorm2d`."""

    _ftorch_dimensions = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation whose batch is spread over processes (``torch.nn.SyncBatchNorm``).

    In training, mean and variance are those of all processes' batches, whose sizes may differ, and so
    are their gradients. Unlike PyTorch's it also works on the CPU.

    Args:
        process_group: the processes; the default group's by default.
    """

    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True,
        process_group=None, device=None, dtype=None, *, bias=True,
    ):
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    def forward(self, input):
        dist = ftorch.distributed
        uses_batch = self.training or (self.running_mean is None and self.running_var is None)
        group = self.process_group
        if uses_batch and group is None and dist.is_initialized():
            group = dist.group.WORLD
        if not (uses_batch and group is not None and group.size() > 1):
            return super().forward(input)
        self._check_input_dim(input)
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        return self._ftorch_over(group, input)

    def _ftorch_over(self, group, x):
        """Normalisation with the statistics of a group's batches."""
        from ...distributed.nn.functional import all_reduce

        dims = [d for d in range(x.dim()) if d != 1]
        shape = [1, -1] + [1] * (x.dim() - 2)
        wide = x.float() if x.dtype in (ftorch.float16, ftorch.bfloat16) else x
        own = wide.new_full((1,), x.numel() // x.shape[1])
        total = all_reduce(ftorch.cat([wide.sum(dims), own]), group=group)
        count = total[-1:].detach()
        mean = total[:-1] / count
        centred = wide - mean.view(shape)
        variance = all_reduce(centred.square().sum(dims), group=group) / count
        if self.training and self.track_running_stats and self.running_mean is not None:
            with no_grad():
                share = self.momentum
                if share is None:
                    share = 1.0 / float(self.num_batches_tracked)
                unbiased = variance * (count / (count - 1))
                self.running_mean.mul_(1 - share).add_(mean * share)
                self.running_var.mul_(1 - share).add_(unbiased * share)
        out = centred * (variance + self.eps).rsqrt().view(shape)
        if self.weight is not None:
            out = out * self.weight.view(shape)
        if self.bias is not None:
            out = out + self.bias.view(shape)
        return out.to(x.dtype)

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """``module`` with every batch normalisation in it replaced by this class."""
        converted = module
        if isinstance(module, _BatchNorm):
            converted = SyncBatchNorm(
                module.num_features, module.eps, module.momentum, module.affine,
                module.track_running_stats, process_group, bias=module.bias is not None,
            )
            if module.affine:
                with no_grad():
                    converted.weight, converted.bias = module.weight, module.bias
            for name, buffer in module._buffers.items():
                setattr(converted, name, buffer)
            converted.training = module.training
            if hasattr(module, "qconfig"):
                converted.qconfig = module.qconfig
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted


class _LazyNormBase(LazyModuleMixin, _NormBase):
    def __init__(
        self, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None,
        dtype=None, *, bias=True,
    ):
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        factory = {"device": device, "dtype": dtype}
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(**factory)
            if bias:
                self.bias = UninitializedParameter(**factory)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**factory)
            self.running_var = UninitializedBuffer(**factory)
            self.num_batches_tracked = self._ftorch_no_batches(device)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input) -> None:
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        lazy = []
        if self.affine:
            lazy += [self.weight, self.bias]
        if self.track_running_stats:
            lazy += [self.running_mean, self.running_var]
        for value in lazy:
            if value is not None:
                value.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm1d` that learns ``num_features`` from its first input."""

    cls_to_become = BatchNorm1d
    _ftorch_dimensions = BatchNorm1d._ftorch_dimensions


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm2d` that learns ``num_features`` from its first input."""

    cls_to_become = BatchNorm2d
    _ftorch_dimensions = BatchNorm2d._ftorch_dimensions


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm3d` that learns ``num_features`` from its first input."""

    cls_to_become = BatchNorm3d
    _ftorch_dimensions = BatchNorm3d._ftorch_dimensions
