"""Linear layers that quantize their inputs by the inputs' range (``torch.ao.nn.quantized.dynamic.modules.linear``)."""

from __future__ import annotations

import ftorch as torch
from ftorch.ao.nn import intrinsic as nni
from ftorch.ao.nn.quantized.modules import linear as nnq
from ftorch.ao.nn.quantized.modules.utils import _quantize_weight

__all__ = ["Linear"]

ops = torch.ops.quantized


class Linear(nnq.Linear):
    """A linear layer of quantized weights whose input is quantized by its range; float32 results.

    >>> import ftorch as torch
    >>> torch.ao.nn.quantized.dynamic.Linear(3, 2)(torch.ones(4, 3)).shape
    torch.Size([4, 2])
    """

    _version = 4
    _relu = ""

    def __init__(self, in_features, out_features, bias_=True, dtype=torch.qint8):
        super().__init__(in_features, out_features, bias_, dtype=dtype)
        self.version = 4

    def forward(self, x):
        packed = self._packed_params
        if packed.dtype is torch.qint8:
            reduce_range = self.version is not None and self.version >= 4
            out = getattr(ops, f"linear{self._relu}_dynamic")(x, packed._packed_params, reduce_range=reduce_range)
        elif packed.dtype is torch.float16:
            out = getattr(ops, f"linear{self._relu}_dynamic_fp16")(x, packed._packed_params)
        else:
            raise RuntimeError("Unsupported dtype on dynamic quantized linear!")
        return out.to(x.dtype)

    def _get_name(self):
        return "DynamicQuantizedLinear"

    def extra_repr(self):
        text = f"in_features={self.in_features}, out_features={self.out_features}, dtype={self._packed_params.dtype}"
        if self._packed_params.dtype is torch.qint8:
            text += f", qscheme={self.weight().qscheme()}"
        return text

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        self.version = local_metadata.get("version")
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer of one in floating point that has a QConfig.

        Raises:
            AssertionError: for other modules, and without a QConfig.
            RuntimeError: for other dtypes of weights.
        """
        kinds = (torch.nn.Linear, torch.nn.modules.linear.NonDynamicallyQuantizableLinear, nni.LinearReLU,
                 torch.ao.nn.qat.dynamic.Linear)
        if type(mod) not in kinds:
            raise AssertionError("nn.quantized.dynamic.Linear.from_float only works for one of"
                                 f"{[k.__name__ for k in kinds]}, got {type(mod)}")
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        qconfig = mod.qconfig
        if type(mod) is nni.LinearReLU:
            mod = mod[0]
        if qconfig is not None and qconfig.weight is not None:
            observer = qconfig.weight()
        else:
            observer = torch.ao.quantization.default_dynamic_qconfig.weight()
        dtype = observer.dtype
        if dtype not in (torch.qint8, torch.float16):
            raise AssertionError(
                f"The only supported dtypes for dynamic quantized linear are qint8 and float16 got: {dtype}"
            )
        observer(mod.weight)
        weight = mod.weight.detach().float()
        if dtype is torch.qint8:
            weight = _quantize_weight(weight, observer)
        layer = cls(mod.in_features, mod.out_features, dtype=dtype)
        layer.set_weight_bias(weight, mod.bias)
        return layer

    @classmethod
    def from_reference(cls, ref_qlinear):
        if isinstance(ref_qlinear, nni._FusedModule):
            ref_qlinear = ref_qlinear[0]
        layer = cls(ref_qlinear.in_features, ref_qlinear.out_features, dtype=ref_qlinear.weight_dtype)
        layer.set_weight_bias(ref_qlinear.get_quantized_weight(),
                              None if ref_qlinear.bias is None else ref_qlinear.bias.detach())
        return layer
