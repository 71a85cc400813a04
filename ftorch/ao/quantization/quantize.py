"""Quantizing models module by module (``torch.ao.quantization.quantize``)."""

from __future__ import annotations

import copy
import itertools
import warnings

from typing_extensions import deprecated

import ftorch as torch
from ftorch import nn
from ftorch.ao.nn.intrinsic import _FusedModule
from ftorch.nn.utils.parametrize import type_before_parametrizations

from .observer import _is_activation_post_process
from .qconfig import (
    _add_module_to_qconfig_obs_ctr,
    default_dynamic_qconfig,
    float16_dynamic_qconfig,
    float_qparams_weight_only_qconfig,
    float_qparams_weight_only_qconfig_4bit,
)
from .quantization_mappings import (
    _get_special_act_post_process,
    _has_special_act_post_process,
    get_default_dynamic_quant_module_mappings,
    get_default_qat_module_mappings,
    get_default_qconfig_propagation_list,
    get_default_static_quant_module_mappings,
    get_default_static_quant_reference_module_mappings,
    no_observer_set,
)
from .stubs import DeQuantStub, QuantWrapper
from .utils import DEPRECATION_WARNING, get_qparam_dict, has_no_children_ignoring_parametrizations

__all__ = [
    "add_quant_dequant", "convert", "get_default_custom_config_dict", "prepare", "prepare_qat", "propagate_qconfig_",
    "quantize", "quantize_dynamic", "quantize_qat", "swap_module",
]

is_activation_post_process = _is_activation_post_process


def get_default_custom_config_dict():
    """The mappings of modules that have a quantizable form of their own."""
    from ftorch.ao.nn import quantizable, quantized

    return {
        "float_to_observed_custom_module_class": {
            nn.LSTM: quantizable.LSTM, nn.MultiheadAttention: quantizable.MultiheadAttention,
        },
        "observed_to_quantized_custom_module_class": {
            quantizable.LSTM: quantized.LSTM, quantizable.MultiheadAttention: quantized.MultiheadAttention,
        },
    }


def _propagate(module, qconfig_dict, parent, prefix, custom):
    qconfig = qconfig_dict.get(type_before_parametrizations(module), parent)
    qconfig = qconfig_dict.get(prefix, qconfig)
    qconfig = getattr(module, "qconfig", qconfig)
    from .qconfig import _assert_valid_qconfig

    _assert_valid_qconfig(qconfig, module)
    with_device = _add_module_to_qconfig_obs_ctr(qconfig, module)
    module.qconfig = with_device
    for name, child in module.named_children():
        path = f"{prefix}.{name}" if prefix else name
        skipped = custom.get("non_traceable_module_name", ())
        if custom is None or not (name in skipped or type(child) in custom.get("non_traceable_module_class", ())):
            _propagate(child, qconfig_dict, with_device, path, custom)


def propagate_qconfig_(module, qconfig_dict=None, prepare_custom_config_dict=None):
    """Gives each module the QConfig of its name, of its type, or of its parent.

    Args:
        qconfig_dict: by name ("" for the model) or by type.
    """
    _propagate(module, qconfig_dict or {}, None, "", prepare_custom_config_dict or {})


def _register_activation_post_process_hook(module, pre_hook=False):
    """The observer sees the module's results (its inputs, with ``pre_hook``) before other hooks."""
    if not hasattr(module, "activation_post_process"):
        raise AssertionError("Expect activation_post_process attribute already attached to the module")
    if pre_hook:
        module.register_forward_pre_hook(_observer_forward_pre_hook, prepend=True)
    else:
        module.register_forward_hook(_observer_forward_hook, prepend=True)


def _observer_forward_hook(self, input, output):
    return self.activation_post_process(output)


def _observer_forward_pre_hook(self, input):
    return self.activation_post_process(input[0])


def _device_of(module):
    devices = {p.device for p in module.parameters()} | {b.device for b in module.buffers()}
    if len(devices) > 1:
        raise AssertionError(
            f"_add_observer_ only works with cpu or single-device CUDA modules, but got devices {devices}"
        )
    return next(iter(devices), None)


def _add_observer_(module, qconfig_propagation_list=None, non_leaf_module_list=None, device=None,
                   custom_module_class_mapping=None):
    """Attaches an observer to every leaf that has a QConfig."""
    taken = qconfig_propagation_list or get_default_qconfig_propagation_list()
    custom = custom_module_class_mapping or {}
    device = _device_of(module) if device is None else device

    def make(qconfig, special=None):
        observer = qconfig.activation() if special is None else special()
        return observer if device is None else observer.to(device)

    def needs(child):
        return hasattr(child, "qconfig") and child.qconfig is not None

    def insert(child, special=None):
        if needs(child) and not isinstance(child, DeQuantStub):
            child.add_module("activation_post_process", make(child.qconfig, special))
            _register_activation_post_process_hook(child)

    for name, child in module.named_children():
        kind = type_before_parametrizations(child)
        if kind is nn.Dropout:
            continue
        from ftorch.ao.nn import quantized as nnq

        if issubclass(kind, (nnq.FloatFunctional, nnq.QFunctional)):
            if needs(child):
                if not hasattr(child, "activation_post_process"):
                    raise AssertionError(f"functional class {kind} has no pre-defined `activation_post_process`")
                child.activation_post_process = make(child.qconfig)
        elif isinstance(child, _FusedModule):
            if needs(child):
                insert(child)
        elif non_leaf_module_list is not None and kind in non_leaf_module_list:
            if needs(child):
                insert(child)
                _add_observer_(child, taken, non_leaf_module_list, device, custom)
        elif _has_special_act_post_process(child):
            insert(child, _get_special_act_post_process(child))
        elif needs(child) and kind in custom:
            observed = custom[kind].from_float(child)
            setattr(module, name, observed)
            if custom[kind] not in no_observer_set():
                insert(observed)
        else:
            _add_observer_(child, taken, non_leaf_module_list, device, custom)
    if (
        has_no_children_ignoring_parametrizations(module)
        and not isinstance(module, torch.nn.Sequential)
        and type_before_parametrizations(module) in taken
    ):
        insert(module)
        # A weight's range is seen at conversion.


_add_observer = _add_observer_


@deprecated(DEPRECATION_WARNING)
def prepare(model, inplace=False, allow_list=None, observer_non_leaf_module_list=None,
            prepare_custom_config_dict=None):
    """A copy of a model whose layers with a QConfig are observed: run it on typical data, then `convert`.

    Args:
        allow_list: the types that are quantized.

    >>> import ftorch as torch
    >>> model = torch.ao.quantization.QuantWrapper(torch.nn.Linear(2, 2)).eval()
    >>> model.qconfig = torch.ao.quantization.default_qconfig
    >>> observed = torch.ao.quantization.prepare(model)
    >>> _ = observed(torch.ones(1, 2))
    >>> type(torch.ao.quantization.convert(observed).module).__name__
    'Linear'
    """
    config = get_default_custom_config_dict() if prepare_custom_config_dict is None else prepare_custom_config_dict
    custom = config.get("float_to_observed_custom_module_class", {})
    if not inplace:
        model = copy.deepcopy(model)
    taken = allow_list
    if allow_list is None:
        taken = get_default_qconfig_propagation_list()
    propagate_qconfig_(model, qconfig_dict=None)
    if not any(hasattr(m, "qconfig") and m.qconfig for m in model.modules()):
        warnings.warn(
            "None of the submodule got qconfig applied. Make sure you passed correct configuration through "
            "`qconfig_dict` or by assigning the `.qconfig` attribute directly on submodules",
            stacklevel=2,
        )
    _add_observer_(model, taken, observer_non_leaf_module_list, custom_module_class_mapping=custom)
    return model


def _remove_activation_post_process(module):
    if hasattr(module, "activation_post_process") and _is_activation_post_process(module.activation_post_process):
        delattr(module, "activation_post_process")
    for hooks, ours in ((module._forward_pre_hooks, _observer_forward_pre_hook),
                        (module._forward_hooks, _observer_forward_hook)):
        for key in [k for k, hook in hooks.items() if hook is ours]:
            hooks.pop(key)


def _remove_qconfig(module):
    for child in module.children():
        _remove_qconfig(child)
    if hasattr(module, "qconfig"):
        del module.qconfig
    _remove_activation_post_process(module)


@deprecated(DEPRECATION_WARNING)
def quantize(model, run_fn, run_args, mapping=None, inplace=False):
    """A quantized model: prepared, run on typical data by ``run_fn(model, *run_args)``, converted."""
    mapping = get_default_static_quant_module_mappings() if mapping is None else mapping
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    convert(model, mapping, inplace=True)
    return model


@deprecated(DEPRECATION_WARNING)
def quantize_dynamic(model, qconfig_spec=None, dtype=torch.qint8, mapping=None, inplace=False):
    """A model whose linear and recurrent layers have quantized weights; inputs are quantized as they come.

    Args:
        qconfig_spec: {name or type: QConfig}, or a set of names and types.
        dtype: ``torch.qint8``, ``torch.float16``, ``torch.quint8`` or ``torch.quint4x2`` (embeddings).

    Raises:
        ValueError: for other dtypes.

    >>> import ftorch as torch
    >>> model = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(2, 2)))
    >>> model[0]
    DynamicQuantizedLinear(in_features=2, out_features=2, dtype=torch.qint8, qscheme=torch.per_tensor_affine)
    """
    layers = (nn.Linear, nn.LSTM, nn.GRU)
    cells = (nn.LSTMCell, nn.RNNCell, nn.GRUCell)
    if qconfig_spec is None:
        if dtype is torch.qint8:
            qconfig_spec = dict.fromkeys((*layers, *cells), default_dynamic_qconfig)
        elif dtype is torch.float16:
            qconfig_spec = dict.fromkeys((*layers, *cells), float16_dynamic_qconfig)
        elif dtype is torch.quint8:
            qconfig_spec = dict.fromkeys((nn.EmbeddingBag, nn.Embedding), float_qparams_weight_only_qconfig)
        elif dtype is torch.quint4x2:
            qconfig_spec = {nn.EmbeddingBag: float_qparams_weight_only_qconfig_4bit}
        else:
            raise ValueError(
                f"Don't know how to quantize with default settings for {dtype}. Provide full qconfig please"
            )
    elif isinstance(qconfig_spec, set):
        known = {torch.qint8: default_dynamic_qconfig, torch.float16: float16_dynamic_qconfig,
                 torch.quint8: float_qparams_weight_only_qconfig,
                 torch.quint4x2: float_qparams_weight_only_qconfig_4bit}
        if dtype not in known:
            raise RuntimeError("Unknown dtype specified for quantize_dynamic: ", str(dtype))
        qconfig_spec = dict(zip(qconfig_spec, itertools.repeat(known[dtype])))
    mapping = get_default_dynamic_quant_module_mappings() if mapping is None else mapping
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, qconfig_spec)
    convert(model, mapping, inplace=True)
    return model


@deprecated(DEPRECATION_WARNING)
def prepare_qat(model, mapping=None, inplace=False):
    """A copy of a model that trains with rounded weights and results: train it, then `convert`.

    Raises:
        AssertionError: unless the model is in training.
    """
    if not model.training:
        raise AssertionError("prepare_qat only works on models in training mode")
    mapping = get_default_qat_module_mappings() if mapping is None else mapping
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model, qconfig_dict=None)
    convert(model, mapping=mapping, inplace=True, remove_qconfig=False)
    prepare(model, observer_non_leaf_module_list=set(mapping.values()), inplace=True)
    return model


@deprecated(DEPRECATION_WARNING)
def quantize_qat(model, run_fn, run_args, inplace=False):
    """A quantized model: prepared, trained by ``run_fn(model, *run_args)``, converted."""
    if not inplace:
        model = copy.deepcopy(model)
    model.train()
    prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    convert(model, inplace=True)
    return model


@deprecated(DEPRECATION_WARNING)
def convert(module, mapping=None, inplace=False, remove_qconfig=True, is_reference=False,
            convert_custom_config_dict=None, use_precomputed_fake_quant=False):
    """A copy of a prepared model with quantized layers in place of the observed ones.

    Args:
        mapping: {class in floating point: quantized class}.
    """
    if not inplace:
        module = copy.deepcopy(module)
    _convert(module, mapping, True, is_reference, convert_custom_config_dict, use_precomputed_fake_quant)
    if remove_qconfig:
        _remove_qconfig(module)
    return module


def _convert(module, mapping=None, inplace=False, is_reference=False, convert_custom_config_dict=None,
             use_precomputed_fake_quant=False):
    if mapping is None:
        mapping = (get_default_static_quant_reference_module_mappings() if is_reference
                   else get_default_static_quant_module_mappings())
    config = get_default_custom_config_dict() if convert_custom_config_dict is None else convert_custom_config_dict
    custom = config.get("observed_to_quantized_custom_module_class", {})
    if not inplace:
        module = copy.deepcopy(module)
    new = {}
    for name, child in module.named_children():
        kind = type_before_parametrizations(child)
        if not isinstance(child, _FusedModule) and kind not in custom:
            _convert(child, mapping, True, is_reference, convert_custom_config_dict, use_precomputed_fake_quant)
        new[name] = swap_module(child, mapping, custom, use_precomputed_fake_quant)
    for name, child in new.items():
        module._modules[name] = child
    return module


def swap_module(mod, mapping, custom_module_class_mapping, use_precomputed_fake_quant=False):
    """The quantized module of one with a QConfig; others as they are."""
    qconfig = getattr(mod, "qconfig", None)
    if qconfig is None:
        return mod
    kind = type_before_parametrizations(mod)
    if kind in custom_module_class_mapping:
        new, swapped = custom_module_class_mapping[kind].from_observed(mod), True
    elif kind in mapping:
        target = mapping[kind]
        new = _from_float(target, mod, qconfig, use_precomputed_fake_quant)
        swapped = True
    else:
        return mod
    if swapped:
        for hook in mod._forward_pre_hooks.values():
            new.register_forward_pre_hook(hook)
        for hook in mod._forward_hooks.values():
            if hook is not _observer_forward_hook:
                new.register_forward_hook(hook)
        devices = {p.device for p in mod.parameters()} | {b.device for b in mod.buffers()}
        if len(devices) == 1:
            new.to(next(iter(devices)))
    return new


def _from_float(target, mod, qconfig, use_precomputed_fake_quant):
    import inspect

    if getattr(target, "_IS_REFERENCE", False):
        observer = qconfig.weight()
        observer(mod.weight)
        return target.from_float(mod, get_qparam_dict(observer))
    names = inspect.signature(target.from_float).parameters
    if "use_precomputed_fake_quant" in names:
        return target.from_float(mod, use_precomputed_fake_quant=use_precomputed_fake_quant)
    return target.from_float(mod)


def _get_observer_dict(mod, target_dict, prefix=""):
    """Collects the observers of a model by name."""
    path = prefix + "." if prefix else prefix
    if hasattr(mod, "activation_post_process"):
        target_dict[path + "activation_post_process"] = mod.activation_post_process
    for name, child in mod.named_children():
        _get_observer_dict(child, target_dict, path + name if path else name)


def add_quant_dequant(module):
    """Puts leaves with a QConfig between the two stubs."""
    if has_no_children_ignoring_parametrizations(module) and hasattr(module, "qconfig") and module.qconfig:
        return QuantWrapper(module)
    for name, child in module.named_children():
        module._modules[name] = add_quant_dequant(child)
    return module

