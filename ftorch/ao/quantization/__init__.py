"""Quantization of models (``torch.ao.quantization``).

In eager mode a model says with `QuantStub` and `DeQuantStub` where it is quantized; `prepare` puts observers into it,
`convert` quantized layers. `quantize_dynamic` needs neither.

>>> import ftorch as torch
>>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
>>> torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear})(torch.ones(1, 4)).shape
torch.Size([1, 4])
"""

# ruff: noqa: F401

from __future__ import annotations

from .fake_quantize import *  # noqa: F403
from .fuse_modules import fuse_modules, fuse_modules_qat
from .fuser_method_mappings import *  # noqa: F403
from .observer import *  # noqa: F403
from .observer import _PartialWrapper as _PartialWrapper
from .qconfig import *  # noqa: F403
from .qconfig_mapping import *  # noqa: F403
from .quant_type import *  # noqa: F403
from .quantization_mappings import *  # noqa: F403
from .quantize import *  # noqa: F403
from .quantize_jit import *  # noqa: F403
from .stubs import *  # noqa: F403
from .utils import (
    MatchAllNode,
    get_combined_dict,
)

ObserverOrFakeQuantize = ObserverBase | FakeQuantizeBase  # noqa: F405
Pattern = object


def default_eval_fn(model, calib_data):
    """Runs a model on data that say what is typical: (input, target) pairs."""
    for data, _target in calib_data:
        model(data)


__all__ = sorted(
    name for name in globals()
    if not name.startswith("_") and name not in ("annotations", "utils", "stubs", "observer")
)
