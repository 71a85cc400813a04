"""Embeddings made sparse and quantized (``…data_sparsifier.quantization_utils``)."""

from __future__ import annotations

from typing import Any

import ftorch as torch
from ftorch import nn
from ftorch.ao.pruning.sparsifier.utils import fqn_to_module, module_to_fqn

SUPPORTED_MODULES = {nn.Embedding, nn.EmbeddingBag}


def _fetch_all_embeddings(model):
    """(path, module) of each embedding, the last child first."""
    found, stack = [], [model]
    while stack:
        for _, child in stack.pop().named_children():
            if type(child) in SUPPORTED_MODULES:
                found.append((module_to_fqn(model, child), child))
            else:
                stack.append(child)
    return found


def _selected(model, modules):
    if not isinstance(modules, list):
        raise AssertionError("the embedding_modules must be a list of embedding modules")
    found = []
    for module in modules:
        if type(module) not in SUPPORTED_MODULES:
            raise AssertionError("the embedding_modules list must be an embedding or embedding bags")
        name = module_to_fqn(model, module)
        if name is None:
            raise AssertionError("the embedding modules must be part of input model")
        found.append((name, module))
    return found


def _sparsify(sparsifier, named) -> None:
    for name, data in named:
        sparsifier.add_data(name=name.replace(".", "_"), data=data)
    sparsifier.step()
    sparsifier.squash_mask()


def _quantize(model, modules) -> None:
    for _, module in modules:
        module.qconfig = torch.ao.quantization.float_qparams_weight_only_qconfig
    torch.ao.quantization.prepare(model, inplace=True)
    torch.ao.quantization.convert(model, inplace=True)


def post_training_sparse_quantize(model, data_sparsifier_class, sparsify_first=True,
                                  select_embeddings: list[nn.Module] | None = None, **sparse_config):
    """Makes the embeddings of a model sparse and quantized, in place.

    Args:
        data_sparsifier_class: a subclass of ``BaseDataSparsifier``, called with ``sparse_config``.
        sparsify_first: whether the zeros are chosen before the weights are quantized.
        select_embeddings: which; None for all.

    Raises:
        AssertionError: for what is not a list of embeddings of this model.
    """
    sparsifier = data_sparsifier_class(**sparse_config)
    modules = _fetch_all_embeddings(model) if select_embeddings is None else _selected(model, select_embeddings)
    if sparsify_first:
        _sparsify(sparsifier, modules)
        _quantize(model, modules)
        return
    _quantize(model, modules)
    found: list[tuple[Any, Any, Any]] = []
    for name, _ in modules:
        quantized: Any = fqn_to_module(model, name)
        if quantized is None:
            raise AssertionError(f"quantized embedding {name} not found in model")
        weight = quantized.weight()
        found.append((quantized, weight, torch.dequantize(weight)))
    _sparsify(sparsifier, [(name, data) for (name, _), (_, _, data) in zip(modules, found)])
    for quantized, weight, data in found:
        quantized.set_weight(torch.quantize_per_channel(
            data, scales=weight.q_per_channel_scales(), zero_points=weight.q_per_channel_zero_points(),
            dtype=weight.dtype, axis=weight.q_per_channel_axis(),
        ))
