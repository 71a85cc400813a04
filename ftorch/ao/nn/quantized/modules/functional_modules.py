"""Arithmetic as modules, so that its results are observed (``torch.ao.nn.quantized.modules.functional_modules``)."""

from __future__ import annotations

import ftorch as torch
from ftorch import Tensor

__all__ = ["FXFloatFunctional", "FloatFunctional", "QFunctional"]

ops = torch.ops.quantized


class _Operations(torch.nn.Module):
    def forward(self, x):
        raise RuntimeError("FloatFunctional is not intended to use the 'forward'. Please use the underlying operation")

    def _observed(self, x):
        return x

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """``torch.add``."""
        return self._observed(torch.add(x, y))

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """``torch.add`` of a number; its result is not observed."""
        return torch.add(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """``torch.mul``."""
        return self._observed(torch.mul(x, y))

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """``torch.mul`` by a number; its result is not observed."""
        return torch.mul(x, y)

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        """``torch.cat``."""
        return self._observed(torch.cat(x, dim=dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """``torch.add`` and ReLU."""
        return self._observed(torch.nn.functional.relu(torch.add(x, y)))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """``torch.matmul``."""
        return self._observed(torch.matmul(x, y))


class FXFloatFunctional(_Operations):
    """`FloatFunctional` for graphs, which insert the observers themselves."""


class FloatFunctional(_Operations):
    """Additions, products and joints whose results an observer sees.

    >>> import ftorch as torch
    >>> torch.ao.nn.quantized.FloatFunctional().add(torch.tensor([1.0]), torch.tensor([2.0]))
    tensor([3.])
    """

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = torch.nn.Identity()

    def _observed(self, x):
        return self.activation_post_process(x)


class QFunctional(torch.nn.Module):
    """The quantized counterpart of `FloatFunctional`.

    Attributes:
        scale, zero_point: the results' quantizer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.scale = 1.0
        self.zero_point = 0
        self.activation_post_process = torch.nn.Identity()

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = torch.tensor(self.scale)
        destination[prefix + "zero_point"] = torch.tensor(self.zero_point)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        self.scale = float(state_dict.pop(prefix + "scale"))
        self.zero_point = int(state_dict.pop(prefix + "zero_point"))
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def _get_name(self):
        return "QFunctional"

    def extra_repr(self):
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def forward(self, x):
        raise RuntimeError("Functional is not intended to use the 'forward'. Please use the underlying operation")

    def _observed(self, x):
        return self.activation_post_process(x)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum, quantized."""
        return self._observed(ops.add(x, y, scale=self.scale, zero_point=self.zero_point))

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """The sum with a number."""
        return ops.add_scalar(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """The product, quantized."""
        return self._observed(ops.mul(x, y, scale=self.scale, zero_point=self.zero_point))

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """The product with a number."""
        return ops.mul_scalar(x, y)

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        """Tensors one after the other, quantized."""
        return self._observed(ops.cat(x, scale=self.scale, zero_point=self.zero_point, dim=dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum, no number below zero, quantized."""
        return self._observed(ops.add_relu(x, y, scale=self.scale, zero_point=self.zero_point))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """The matrix product, quantized."""
        return self._observed(ops.matmul(x, y, scale=self.scale, zero_point=self.zero_point))

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized counterpart of a `FloatFunctional` that was prepared."""
        if type(mod) is not FloatFunctional:
            raise AssertionError("QFunctional.from_float expects an instance of FloatFunctional")
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        made = cls()
        made.scale, made.zero_point = float(scale), int(zero_point)
        return made
