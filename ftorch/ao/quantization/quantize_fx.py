"""Quantization of traced models (``torch.ao.quantization.quantize_fx``).

>>> import ftorch as torch
>>> from ftorch.ao.quantization import get_default_qconfig_mapping
>>> from ftorch.ao.quantization.quantize_fx import convert_fx, prepare_fx
>>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval()
>>> prepared = prepare_fx(model, get_default_qconfig_mapping("x86"), (torch.ones(1, 4),))
>>> prepared(torch.ones(1, 4)).shape
torch.Size([1, 4])
>>> type(convert_fx(prepared).get_submodule("0")).__name__
'LinearReLU'
"""

from __future__ import annotations

import copy
from typing import Any

from typing_extensions import deprecated

import ftorch as torch
from ftorch.fx import GraphModule, symbolic_trace

from .backend_config import BackendConfig, get_tensorrt_backend_config  # noqa: F401
from .fx import _decomposed as _decomposed
from .fx.convert import convert
from .fx.custom_config import ConvertCustomConfig, FuseCustomConfig, PrepareCustomConfig
from .fx.fuse import as_config, fuse
from .fx.graph_module import ObservedGraphModule  # noqa: F401
from .fx.prepare import prepare
from .fx.tracer import QuantizationTracer, Scope, ScopeContextManager
from .fx.utils import get_skipped_module_name_and_classes
from .qconfig_mapping import QConfigMapping
from .utils import DEPRECATION_WARNING

__all__ = [
    "Scope",
    "ScopeContextManager",
    "convert_fx",
    "convert_to_reference_fx",
    "fuse_fx",
    "prepare_fx",
    "prepare_qat_fx",
]



_ATTRIBUTES = "_user_preserved_attributes"


def attach_preserved_attrs_to_model(model, preserved_attrs: dict[str, Any]) -> None:
    """Gives a graph module attributes of the model it comes from; copies keep them."""
    model.meta[_ATTRIBUTES] = copy.copy(preserved_attrs)
    for name, value in model.meta[_ATTRIBUTES].items():
        setattr(model, name, value)


def _preserved(model, names) -> dict[str, Any]:
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


def _check_is_graph_module(model) -> None:
    if not isinstance(model, GraphModule):
        raise ValueError(
            f"input model must be a GraphModule, Got type:{type(model)} Please make sure to follow the tutorials."
        )


def _swap_ff_with_fxff(model) -> None:
    """Modules that stand for functions become ones that a trace goes through."""
    floats = torch.ao.nn.quantized
    for name, module in list(model.named_children()):
        if isinstance(module, floats.FloatFunctional):
            model._modules[name] = floats.FXFloatFunctional()
        else:
            _swap_ff_with_fxff(module)


def _fuse_fx(model, is_qat, fuse_custom_config=None, backend_config=None) -> GraphModule:
    _check_is_graph_module(model)
    return fuse(model, is_qat, fuse_custom_config, backend_config)


def _prepare_fx(model, qconfig_mapping, is_qat, example_inputs, prepare_custom_config=None, _equalization_config=None,
                backend_config=None, is_standalone_module=False) -> GraphModule:
    custom = as_config(prepare_custom_config, PrepareCustomConfig, "prepare_custom_config", "prepare")
    _swap_ff_with_fxff(model)
    names, classes = get_skipped_module_name_and_classes(custom, is_standalone_module)
    preserved = _preserved(model, custom.preserved_attributes)
    tracer = QuantizationTracer(names, classes)
    traced = GraphModule(model, tracer.trace(model))
    fusing = FuseCustomConfig().set_preserved_attributes(custom.preserved_attributes)
    traced = _fuse_fx(traced, is_qat, fusing, backend_config)
    prepared = prepare(
        traced, qconfig_mapping, is_qat, tracer.node_name_to_scope, example_inputs=example_inputs,
        prepare_custom_config=custom, _equalization_config=_equalization_config, backend_config=backend_config,
        is_standalone_module=is_standalone_module, _prepare_standalone=_prepare_standalone_module_fx,
    )
    attach_preserved_attrs_to_model(prepared, preserved)
    return prepared


def _prepare_standalone_module_fx(model, qconfig_mapping, is_qat, example_inputs, prepare_custom_config=None,
                                  backend_config=None) -> GraphModule:
    """Prepares a submodule that is quantized apart: its inputs are observed by the model around it."""
    return _prepare_fx(model, qconfig_mapping, is_qat, example_inputs, prepare_custom_config,
                       backend_config=backend_config, is_standalone_module=True)


def fuse_fx(model, fuse_custom_config=None, backend_config=None) -> GraphModule:
    """A traced model whose layers are joined: convolution, batch normalization and ReLU, and their like.

    Args:
        model: a module in evaluation.
        backend_config: which patterns are joined.
    """
    custom = as_config(fuse_custom_config, FuseCustomConfig, "fuse_custom_config", "fuse")
    preserved = _preserved(model, custom.preserved_attributes)
    fused = _fuse_fx(symbolic_trace(model), False, custom, backend_config)
    attach_preserved_attrs_to_model(fused, preserved)
    return fused


@deprecated(DEPRECATION_WARNING)
def prepare_fx(model, qconfig_mapping: QConfigMapping | dict[str, Any], example_inputs: tuple[Any, ...],
               prepare_custom_config=None, _equalization_config=None, backend_config=None) -> GraphModule:
    """A traced model with observers: run it on typical data, then `convert_fx`.

    Args:
        model: a module in evaluation; it is changed.
        qconfig_mapping: how which part is quantized.
        example_inputs: the inputs of a call.
        prepare_custom_config: what is treated apart.
        backend_config: what can be quantized.

    >>> import ftorch as torch
    >>> from ftorch.ao.quantization.quantize_fx import prepare_fx
    >>> mapping = torch.ao.quantization.get_default_qconfig_mapping("x86")
    >>> prepared = prepare_fx(torch.nn.Sequential(torch.nn.Linear(2, 2)).eval(), mapping, (torch.ones(1, 2),))
    >>> [n.name for n in prepared.graph.nodes]
    ['input_1', 'activation_post_process_0', '_0', 'activation_post_process_1', 'output']
    """
    return _prepare_fx(model, qconfig_mapping, False, example_inputs, prepare_custom_config, _equalization_config,
                       backend_config)


@deprecated(DEPRECATION_WARNING)
def prepare_qat_fx(model, qconfig_mapping: QConfigMapping | dict[str, Any], example_inputs: tuple[Any, ...],
                   prepare_custom_config=None, backend_config=None) -> GraphModule:
    """A traced model that trains with rounded weights and results: train it, then `convert_fx`.

    Args:
        model: a module in training; see `prepare_fx` for the others.
    """
    return _prepare_fx(
        model, qconfig_mapping, True, example_inputs, prepare_custom_config, backend_config=backend_config
    )


def _convert_fx(
    graph_module,
    is_reference,
    convert_custom_config=None,
    is_standalone_module=False,
    _remove_qconfig=True,
    qconfig_mapping=None,
    backend_config=None,
    is_decomposed=False,
    keep_original_weights=False,
) -> GraphModule:
    custom = as_config(convert_custom_config, ConvertCustomConfig, "convert_custom_config", "convert")
    _check_is_graph_module(graph_module)
    preserved = _preserved(graph_module, custom.preserved_attributes)
    quantized = convert(
        graph_module, is_reference, custom, is_standalone_module, _remove_qconfig_flag=_remove_qconfig,
        qconfig_mapping=qconfig_mapping, backend_config=backend_config, is_decomposed=is_decomposed,
        keep_original_weights=keep_original_weights,
    )
    attach_preserved_attrs_to_model(quantized, preserved)
    return quantized


@deprecated(DEPRECATION_WARNING)
def convert_fx(
    graph_module,
    convert_custom_config=None,
    _remove_qconfig=True,
    qconfig_mapping=None,
    backend_config=None,
    keep_original_weights=False,
) -> GraphModule:
    """A quantized model of one that `prepare_fx` or `prepare_qat_fx` gave.

    Args:
        qconfig_mapping: the one of `prepare_fx`, with None for parts that stay in floating point.

    Raises:
        ValueError: unless it is a graph module.
    """
    return _convert_fx(
        graph_module, is_reference=False, convert_custom_config=convert_custom_config, _remove_qconfig=_remove_qconfig,
        qconfig_mapping=qconfig_mapping, backend_config=backend_config, keep_original_weights=keep_original_weights,
    )


def convert_to_reference_fx(graph_module, convert_custom_config=None, _remove_qconfig=True, qconfig_mapping=None,
                            backend_config=None) -> GraphModule:
    """`convert_fx` without quantized layers: calls in floating point between dequantizations and quantizations."""
    return _convert_fx(
        graph_module, is_reference=True, convert_custom_config=convert_custom_config, _remove_qconfig=_remove_qconfig,
        qconfig_mapping=qconfig_mapping, backend_config=backend_config,
    )


def _convert_to_reference_decomposed_fx(graph_module, convert_custom_config=None, qconfig_mapping=None,
                                        backend_config=None) -> GraphModule:
    """`convert_to_reference_fx` with the operators of `torch.ops.quantized_decomposed`, on tensors of integers."""
    return _convert_fx(
        graph_module, is_reference=True, convert_custom_config=convert_custom_config, _remove_qconfig=False,
        qconfig_mapping=qconfig_mapping, backend_config=backend_config, is_decomposed=True,
    )
