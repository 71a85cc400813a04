"""A fake quantizer that learns its scale and zero point (``torch.ao.quantization._learnable_fake_quantize``)."""

from __future__ import annotations

import ftorch as torch
from ftorch.nn.parameter import Parameter

__all__: list = []

_SWITCHES = "fake_quant_enabled", "observer_enabled", "static_enabled", "learning_enabled"


class _LearnableFakeQuantize(torch.ao.quantization.FakeQuantizeBase):
    """Rounds as quantization will, by a scale and a zero point that an observer finds or that gradients change.

    Args:
        observer: the observer's class; ``observer_kwargs`` are its arguments.
        quant_min, quant_max: the integers' limits.
        scale, zero_point: at first.
        channel_len: the number of channels that have their own; -1: one for the whole tensor.
        use_grad_scaling: whether gradients of both are divided by the root of elements times ``quant_max``.

    Raises:
        AssertionError: for limits that the dtype or each other does not allow.
    """

    def __init__(self, observer, quant_min=0, quant_max=255, scale=1.0, zero_point=0.0, channel_len=-1,
                 use_grad_scaling=False, **observer_kwargs):
        super().__init__()
        if quant_min >= quant_max:
            raise AssertionError("quant_min must be strictly less than quant_max.")
        self.quant_min, self.quant_max = quant_min, quant_max
        observer_kwargs["quant_min"], observer_kwargs["quant_max"] = quant_min, quant_max
        self.use_grad_scaling = use_grad_scaling
        if channel_len == -1:
            self.scale, self.zero_point = Parameter(torch.tensor([scale])), Parameter(torch.tensor([zero_point]))
        else:
            if not isinstance(channel_len, int) or channel_len <= 0:
                raise AssertionError("Channel size must be a positive integer.")
            self.scale = Parameter(torch.tensor([scale] * channel_len))
            self.zero_point = Parameter(torch.tensor([zero_point] * channel_len))
        self.activation_post_process = observer(**observer_kwargs)
        limits = torch.iinfo(self.activation_post_process.dtype)
        if limits.min > quant_min:
            raise AssertionError("quant_min out of bound")
        if quant_max > limits.max:
            raise AssertionError("quant_max out of bound")
        self.dtype, self.qscheme = self.activation_post_process.dtype, self.activation_post_process.qscheme
        self.ch_axis = getattr(self.activation_post_process, "ch_axis", -1)
        for name, value in zip(_SWITCHES, (1, 1, 1, 0), strict=True):
            self.register_buffer(name, torch.tensor([value], dtype=torch.uint8))
        self.bitwidth = (quant_max - quant_min + 1).bit_length() - 1
        self.register_buffer("eps", torch.tensor([torch.finfo(torch.float32).eps]))

    def enable_param_learning(self):
        """Gradients change the scale and the zero point; the observer does not."""
        return self.toggle_qparam_learning(True).toggle_fake_quant(True).toggle_observer_update(False)

    def enable_static_estimate(self):
        """The observer changes them."""
        self.toggle_qparam_learning(False).toggle_fake_quant(True).toggle_observer_update(True)

    def enable_static_observation(self):
        """The observer looks, and nothing is rounded."""
        self.toggle_qparam_learning(False).toggle_fake_quant(False).toggle_observer_update(True)

    def toggle_observer_update(self, enabled=True):
        """Whether the observer changes the scale and the zero point."""
        self.static_enabled[0] = int(enabled)
        return self

    def enable_observer(self, enabled=True):
        """The same."""
        self.toggle_observer_update(enabled)

    def toggle_qparam_learning(self, enabled=True):
        """Whether gradients change them."""
        self.learning_enabled[0] = int(enabled)
        self.scale.requires_grad = self.zero_point.requires_grad = enabled
        return self

    def toggle_fake_quant(self, enabled=True):
        """Whether numbers are rounded."""
        self.fake_quant_enabled[0] = int(enabled)
        return self

    def observe_quant_params(self):
        """Prints both."""
        print(f"_LearnableFakeQuantize Scale: {self.scale.detach()}")
        print(f"_LearnableFakeQuantize Zero Point: {self.zero_point.detach()}")

    def calculate_qparams(self):
        """(scale, zero point) as quantization takes them."""
        self.scale.data.clamp_(min=self.eps.item())
        point = self.zero_point.detach().round().clamp(self.quant_min, self.quant_max).long()
        return self.scale.detach(), point

    def forward(self, X):
        if self.static_enabled[0] == 1:
            self.activation_post_process(X.detach())
            scale, point = self.activation_post_process.calculate_qparams()
            self.scale.data.copy_(scale)
            self.zero_point.data.copy_(point)
        else:
            self.scale.data.clamp_(min=self.eps.item())
        if self.fake_quant_enabled[0] != 1:
            return X
        if self.qscheme in (torch.per_channel_symmetric, torch.per_tensor_symmetric):
            self.zero_point.data.zero_()
        factor = 1.0 / (X.numel() * self.quant_max) ** 0.5 if self.use_grad_scaling else 1.0
        limits = self.quant_min, self.quant_max, factor
        if self.qscheme in (torch.per_channel_symmetric, torch.per_channel_affine):
            return torch._fake_quantize_learnable_per_channel_affine(X, self.scale, self.zero_point, self.ch_axis, *limits)
        return torch._fake_quantize_learnable_per_tensor_affine(X, self.scale, self.zero_point, *limits)
