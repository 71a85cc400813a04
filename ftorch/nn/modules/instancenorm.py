"""Instance normalisation."""

from __future__ import annotations

import warnings

from ...eager.tensor import Tensor as Tensor
from .. import functional as F
from ._state import quoted
from .batchnorm import _LazyNormBase, _NormBase, check_dims

__all__ = [
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d",
    "LazyInstanceNorm2d", "LazyInstanceNorm3d",
]


class _InstanceNorm(_NormBase):
    """``dimensions`` are those of an input without and with a batch."""

    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False,
        device=None, dtype=None, *, bias=True,
    ):
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _check_input_dim(self, input):
        check_dims(input, self._ftorch_dimensions)

    def _apply_instance_norm(self, input):
        return F.instance_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum, self.eps,
        )

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        if local_metadata.get("version") is None and not self.track_running_stats:
            names = [prefix + name for name in ("running_mean", "running_var")]
            found = [name for name in names if name in state_dict]
            if found:
                kind = type(self).__name__
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {quoted(' and ', found)} "
                    f"for {kind} with track_running_stats=False. If state_dict is a checkpoint "
                    f"saved before 0.4.0, this may be expected because {kind} does not track "
                    "running stats by default since 0.4.0. Please remove these keys from "
                    "state_dict. If the running stats are actually needed, instead set "
                    f"track_running_stats=True in {kind} to enable them. See the documentation of "
                    f"{kind} for details."
                )
                for name in found:
                    state_dict.pop(name)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def forward(self, input):
        self._check_input_dim(input)
        unbatched = input.dim() == self._ftorch_dimensions[0]
        channels = 0 if unbatched else 1
        if input.size(channels) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={channels} to match num_features "
                    f"({self.num_features}), but got: {input.size(channels)}."
                )
            warnings.warn(
                f"input's size at dim={channels} does not match num_features. You can silence this "
                "warning by not passing in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        if unbatched:
            return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)
        return self._apply_instance_norm(input)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of (N, C, L) or (C, L). See `InstanceNorm2d`."""

    _ftorch_dimensions = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalises every channel of every sample of (N, C, H, W) or (C, H, W) by itself.

    The arguments are those of `BatchNorm2d`, with neither scale and shift nor running statistics
    unless they are asked for.
    """

    _ftorch_dimensions = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of (N, C, D, H, W) or (C, D, H, W). See `InstanceNorm2d`."""

    _ftorch_dimensions = (4, 5)


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An `InstanceNorm1d` that learns ``num_features`` from its first input."""

    cls_to_become = InstanceNorm1d
    _ftorch_dimensions = InstanceNorm1d._ftorch_dimensions


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An `InstanceNorm2d` that learns ``num_features`` from its first input."""

    cls_to_become = InstanceNorm2d
    _ftorch_dimensions = InstanceNorm2d._ftorch_dimensions


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An `InstanceNorm3d` that learns ``num_features`` from its first input."""

    cls_to_become = InstanceNorm3d
    _ftorch_dimensions = InstanceNorm3d._ftorch_dimensions
