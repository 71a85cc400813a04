"""Quantization of compiled modules (``torch.ao.quantization.quantize_jit``).

A module that `torch.jit.script` or `torch.jit.trace` made is prepared (observers look at its values), run on data that say
what is typical, and converted: its ``forward`` then computes with quantized tensors.
"""

from __future__ import annotations

import copy

import ftorch as torch

from ...jit.torchscript.program.modules import (
    RecursiveScriptModule,
    ScriptModule,
    is_compiled,
    wrap_module,
)
from ._jit_converting import convert
from ._jit_folding import fold_batch_norms
from ._jit_modules import Rewriter
from ._jit_observing import Observing
from .qconfig import QConfig
from .quant_type import QuantType

__all__ = [
    "script_qconfig", "script_qconfig_dict", "fuse_conv_bn_jit", "prepare_jit", "prepare_dynamic_jit", "convert_jit",
    "convert_dynamic_jit", "quantize_jit", "quantize_dynamic_jit",
]


def _check_is_script_module(model):
    if not isinstance(model, ScriptModule):
        raise ValueError("input must be a script module, got: " + str(type(model)))


def _check_forward_method(model):
    if "forward" not in model._c._type.methods:
        raise ValueError("input script module does not have forward method")


def script_qconfig(qconfig):
    """A `QConfig` of compiled observers, of which `prepare_jit` puts copies into a module."""
    return QConfig(activation=torch.jit.script(qconfig.activation())._c, weight=torch.jit.script(qconfig.weight())._c)


def script_qconfig_dict(qconfig_dict):
    """`script_qconfig` of each value of a dict that is not None."""
    return {name: script_qconfig(config) if config else None for name, config in qconfig_dict.items()}


def _result(model, data, inplace):
    if not inplace:
        return wrap_module(data)
    if isinstance(model, RecursiveScriptModule):
        model.__dict__.clear()
        model.__init__(data)
    return model


def _object(model, inplace):
    data = model._c if is_compiled(model) else model._script()._c
    return data if inplace else copy.deepcopy(data)


def fuse_conv_bn_jit(model, inplace=False):
    """A compiled module in eval mode whose batch normalizations behind convolutions are part of these.

    >>> import ftorch as torch
    >>> layers = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2)).eval()
    >>> fused = torch.ao.quantization.fuse_conv_bn_jit(torch.jit.trace(layers, torch.zeros(1, 1, 4, 4)))
    >>> fused.graph.findNode("aten::batch_norm") is None
    True
    """
    rewriter = Rewriter(_object(model, inplace))
    data = rewriter.module({}) if fold_batch_norms(rewriter) else rewriter.data
    return _result(model, data, inplace)


def _prepare_jit(model, qconfig_dict, inplace=False, quant_type=QuantType.STATIC):
    _check_is_script_module(model)
    _check_forward_method(model)
    if not all(isinstance(name, str) for name in qconfig_dict):
        raise ValueError("qconfig_dict should only contain names(str) as keys.")
    scripted = script_qconfig_dict(qconfig_dict)
    rewriter = Rewriter(_object(model, inplace))
    fold_batch_norms(rewriter)
    observing = Observing(rewriter, scripted, quant_type == QuantType.DYNAMIC)
    observing.run()
    return _result(model, observing.insert(), inplace)


def prepare_jit(model, qconfig_dict, inplace=False):
    """A compiled module in which observers look at what static quantization quantizes.

    Args:
        qconfig_dict: {name of a submodule: its `QConfig`, or None}; "" is the name of the module itself.

    Raises:
        ValueError: for what is no compiled module, and for keys that are no names.
    """
    return _prepare_jit(model, qconfig_dict, inplace, QuantType.STATIC)


def prepare_dynamic_jit(model, qconfig_dict, inplace=False):
    """A compiled module in which observers look at the weights that dynamic quantization quantizes."""
    return _prepare_jit(model, qconfig_dict, inplace, QuantType.DYNAMIC)


def _convert_jit(model, inplace=False, debug=False, quant_type=QuantType.STATIC, preserved_attrs=None):
    _check_is_script_module(model)
    model.eval()
    if not debug:
        model.cpu()
    return _result(model, convert(model._c, debug, quant_type == QuantType.DYNAMIC, preserved_attrs or []), inplace)


def convert_jit(model, inplace=False, debug=False, preserved_attrs=None):
    """The quantized module of one that `prepare_jit` made and that has seen data.

    Args:
        debug: keep float operators between quantized and dequantized values, and the weights as parameters.
        preserved_attrs: names of attributes and methods that stay.
    """
    return _convert_jit(model, inplace, debug, QuantType.STATIC, preserved_attrs)


def convert_dynamic_jit(model, inplace=False, debug=False, preserved_attrs=None):
    """The quantized module of one that `prepare_dynamic_jit` made."""
    return _convert_jit(model, inplace, debug, QuantType.DYNAMIC, preserved_attrs)


def _quantize_jit(model, qconfig_dict, run_fn=None, run_args=None, inplace=False, debug=False, quant_type=QuantType.STATIC):
    if quant_type == QuantType.DYNAMIC:
        return convert_dynamic_jit(prepare_dynamic_jit(model, qconfig_dict, inplace), True, debug)
    if not run_fn:
        raise AssertionError("Must provide calibration function for post training static quantization")
    if not run_args:
        raise AssertionError("Must provide calibration dataset for post training static quantization")
    model = prepare_jit(model, qconfig_dict, inplace)
    run_fn(model, *run_args)
    return convert_jit(model, True, debug)


def quantize_jit(model, qconfig_dict, run_fn, run_args, inplace=False, debug=False):
    """The quantized module of a compiled one: `prepare_jit`, ``run_fn(model, *run_args)`` and `convert_jit`.

    Args:
        run_fn: runs the prepared module on data that say what is typical.

    >>> import ftorch as torch
    >>> q = torch.ao.quantization
    >>> traced = torch.jit.trace(torch.nn.Linear(4, 2).eval(), torch.zeros(1, 4))
    >>> data = [torch.randn(8, 4)]
    >>> quantized = q.quantize_jit(traced, {"": q.get_default_qconfig("x86")}, lambda m, xs: [m(x) for x in xs], [data])
    >>> quantized.graph.findNode("quantized::linear") is not None
    True
    """
    return _quantize_jit(model, qconfig_dict, run_fn, run_args, inplace, debug, QuantType.STATIC)


def quantize_dynamic_jit(model, qconfig_dict, inplace=False, debug=False):
    """The module of a compiled one whose linear layers quantize what comes as it comes.

    >>> import ftorch as torch
    >>> traced = torch.jit.trace(torch.nn.Linear(4, 2).eval(), torch.zeros(1, 4))
    >>> configs = {"": torch.ao.quantization.default_dynamic_qconfig}
    >>> torch.ao.quantization.quantize_dynamic_jit(traced, configs)(torch.zeros(3, 4)).shape
    torch.Size([3, 2])
    """
    return _quantize_jit(model, qconfig_dict, inplace=inplace, debug=debug, quant_type=QuantType.DYNAMIC)
