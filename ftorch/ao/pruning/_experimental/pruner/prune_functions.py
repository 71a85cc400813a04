"""Masked rows taken out of a layer, and the next layer fitted to it (``…pruner.prune_functions``).

Each function takes the layers of one of the pruner's patterns, and changes them in place. Where a layer's bias is not
pruned, what the missing channels would still have given is added to the next layer's bias.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ftorch as torch
from ftorch import Tensor, nn
from ftorch.nn.utils import parametrize

from .parametrization import BiasHook, FakeStructuredSparsity


def _mask_of(module: Any) -> Tensor:
    """The mask of a layer's weight."""
    return [p for p in module.parametrizations.weight if isinstance(p, FakeStructuredSparsity)][-1].mask


def _remove_bias_handles(module: nn.Module) -> None:
    for key, hook in list(module._forward_hooks.items()):
        if isinstance(hook, BiasHook):
            del module._forward_hooks[key]


def _weight_of(module: Any, name: str = "weight") -> Tensor:
    if parametrize.is_parametrized(module, name):
        return getattr(module.parametrizations, name).original
    return getattr(module, name)


def _keep_columns(module: Any, mask: Tensor, name: str = "weight") -> Tensor:
    """Takes columns out of a weight, or of what is under its mask."""
    with torch.no_grad():
        kept = nn.Parameter(_weight_of(module, name)[:, mask])
        if parametrize.is_parametrized(module, name):
            getattr(module.parametrizations, name).original = kept
        else:
            setattr(module, name, kept)
    return kept


def _bias_of(module: Any) -> Tensor | None:
    """The bias that ``prepare`` took out of a layer, or that it has."""
    kept = getattr(module, "_bias", None)
    return module.bias if kept is None else kept


def _drop_kept_bias(module: Any) -> None:
    if hasattr(module, "_bias"):
        del module._bias


def _get_adjusted_next_layer_bias(next_layer: Any, pruned_biases: Tensor, mask: Tensor) -> nn.Parameter:
    """The bias of a layer whose input lacks channels that would have been ``pruned_biases`` everywhere."""
    weight = _weight_of(next_layer)[:, ~mask]
    if isinstance(next_layer, nn.Conv2d):
        product = torch.matmul(pruned_biases.reshape(1, -1), weight.transpose(1, 2))
        added = product.sum(list(range(product.dim()))[1:])
    elif isinstance(next_layer, nn.Linear):
        added = torch.matmul(pruned_biases, weight.transpose(0, 1))
    else:
        raise NotImplementedError(f"Type {type(next_layer)} not supported yet.")
    own = getattr(next_layer, "_bias", None) if parametrize.is_parametrized(next_layer) else next_layer.bias
    return nn.Parameter(added if own is None else added + own)


def _prune_module_bias(module: Any, mask: Tensor) -> None:
    bias = getattr(module, "_bias", module.bias)
    if bias is not None:
        module.bias = nn.Parameter(bias[mask])
    _drop_kept_bias(module)


def _propagate_module_bias(module: Any, mask: Tensor) -> Tensor | None:
    """Keeps the rows' biases; gives those of the rows that went."""
    kept = getattr(module, "_bias", None)
    bias = kept if module.bias is None else module.bias
    if bias is not None:
        module.bias = nn.Parameter(bias[mask])
    pruned = None if kept is None else kept[~mask]
    _drop_kept_bias(module)
    return pruned


def _keep_rows(module: Any, size: str) -> Tensor:
    """Takes the masked rows out of a layer's weight; gives the mask."""
    mask = _mask_of(module)
    with torch.no_grad():
        parametrize.remove_parametrizations(module, "weight", leave_parametrized=True)
        module.weight = nn.Parameter(module.weight[mask])
    setattr(module, size, module.weight.shape[0])
    _remove_bias_handles(module)
    return mask


def _prune_linear_helper(linear: nn.Linear) -> Tensor:
    return _keep_rows(linear, "out_features")


def _prune_conv2d_helper(conv2d: nn.Conv2d) -> Tensor:
    return _keep_rows(conv2d, "out_channels")


def _prune_alone(module: nn.Module, mask: Tensor) -> None:
    if getattr(module, "prune_bias", False):
        _prune_module_bias(module, mask)


def _hand_on(module: Any, activation: Callable[[Tensor], Tensor] | None, after: Any, mask: Tensor) -> None:
    """Prunes a layer's bias, or adds to the next layer's what it gave there."""
    if getattr(module, "prune_bias", False):
        _prune_module_bias(module, mask)
        return
    pruned = _propagate_module_bias(module, mask)
    if pruned is not None:
        after.bias = _get_adjusted_next_layer_bias(after, activation(pruned) if activation else pruned, mask)


def prune_linear(linear: nn.Linear) -> None:
    """A linear layer at the end of the model."""
    _prune_alone(linear, _prune_linear_helper(linear))


def prune_linear_linear(linear1: nn.Linear, linear2: nn.Linear) -> None:
    """Two linear layers."""
    prune_linear_activation_linear(linear1, None, linear2)


def prune_linear_activation_linear(linear1: nn.Linear, activation: Callable[[Tensor], Tensor] | None,
                                   linear2: nn.Linear) -> None:
    """Two linear layers with an elementwise function between them."""
    mask = _prune_linear_helper(linear1)
    _hand_on(linear1, activation, linear2, mask)
    linear2.in_features = _keep_columns(linear2, mask).shape[1]


def prune_conv2d(conv2d: nn.Conv2d) -> None:
    """A convolution at the end of the model."""
    _prune_alone(conv2d, _prune_conv2d_helper(conv2d))


def prune_conv2d_padded(conv2d_1: nn.Conv2d) -> None:
    """A convolution before one with padding: its channels stay, since padding is zero and their biases are not."""
    mask = _mask_of(conv2d_1)
    with torch.no_grad():
        parametrize.remove_parametrizations(conv2d_1, "weight", leave_parametrized=True)
    kept: Any = getattr(conv2d_1, "_bias", None)
    if kept is not None:
        bias = kept
        if conv2d_1.bias is not None:
            bias = torch.zeros(conv2d_1.bias.shape)
            bias[mask] = conv2d_1.bias[mask]
            bias[~mask] = kept[~mask]
        conv2d_1.bias = nn.Parameter(bias)
    elif conv2d_1.bias is not None:
        conv2d_1.bias.data[~mask] = 0
    _drop_kept_bias(conv2d_1)


def prune_conv2d_conv2d(conv2d_1: nn.Conv2d, conv2d_2: nn.Conv2d) -> None:
    """Two convolutions."""
    prune_conv2d_activation_conv2d(conv2d_1, None, conv2d_2)


def prune_conv2d_activation_conv2d(conv2d_1: nn.Conv2d, activation: Callable[[Tensor], Tensor] | None,
                                   conv2d_2: nn.Conv2d) -> None:
    """Two convolutions with an elementwise function between them."""
    padding: Any = getattr(conv2d_2, "padding", (0, 0))
    padded = padding > (0, 0)
    if padded and _bias_of(conv2d_1) is not None:
        mask = _mask_of(conv2d_1)
        prune_conv2d_padded(conv2d_1)
    else:
        mask = _prune_conv2d_helper(conv2d_1)
        _hand_on(conv2d_1, activation, conv2d_2, mask)
    if not padded or conv2d_1.bias is None:
        conv2d_2.in_channels = _keep_columns(conv2d_2, mask).shape[1]


def prune_conv2d_pool_activation_conv2d(c1: nn.Conv2d, pool: nn.Module,
                                        activation: Callable[[Tensor], Tensor] | None, c2: nn.Conv2d) -> None:
    """Two convolutions with pooling and an elementwise function between them."""
    prune_conv2d_activation_conv2d(c1, activation, c2)


def prune_conv2d_activation_pool_conv2d(c1: nn.Conv2d, activation: Callable[[Tensor], Tensor] | None,
                                        pool: nn.Module, c2: nn.Conv2d) -> None:
    """Two convolutions with an elementwise function and pooling between them."""
    prune_conv2d_activation_conv2d(c1, activation, c2)


def prune_conv2d_pool_flatten_linear(conv2d: nn.Conv2d, pool: nn.Module,
                                     flatten: Callable[[Tensor], Tensor] | None, linear: nn.Linear) -> None:
    """A convolution, pooling, and a linear layer of its flat result: each channel is several of its columns."""
    mask = _prune_conv2d_helper(conv2d)
    columns, channels = _weight_of(linear).shape[1], len(mask)
    if columns % channels != 0:
        raise AssertionError(f"Flattening from dimensions {channels} to {columns} not supported")
    scale = columns // channels
    flat = mask.repeat_interleave(scale)
    if getattr(conv2d, "prune_bias", False):
        _prune_module_bias(conv2d, mask)
    else:
        pruned: Any = _propagate_module_bias(conv2d, mask)
        linear.bias = _get_adjusted_next_layer_bias(linear, pruned.detach().repeat_interleave(scale), flat)
    linear.in_features = _keep_columns(linear, flat).shape[1]


def prune_lstm_output_linear(lstm: nn.LSTM, getitem: Callable, linear: nn.Linear) -> None:
    """An LSTM whose output a linear layer takes."""
    prune_lstm_output_layernorm_linear(lstm, getitem, None, linear)


def _unmasked(lstm: Any, name: str) -> Tensor | None:
    """Makes the zeros of an LSTM's weight real, and gives its mask; None if it has none."""
    if not parametrize.is_parametrized(lstm, name):
        return None
    mask = lstm.parametrizations[name][0].mask
    with torch.no_grad():
        parametrize.remove_parametrizations(lstm, name, leave_parametrized=True)
    return mask


def _keep(module: Any, name: str, mask: Tensor) -> None:
    with torch.no_grad():
        setattr(module, name, nn.Parameter(getattr(module, name)[mask]))


def prune_lstm_output_layernorm_linear(lstm: nn.LSTM, getitem: Callable, layernorm: nn.LayerNorm | None,
                                       linear: nn.Linear) -> None:
    """An LSTM whose output a layer norm and a linear layer take."""
    for i in range(lstm.num_layers):
        mask = _unmasked(lstm, f"weight_ih_l{i}")
        if mask is not None:
            _keep(lstm, f"weight_ih_l{i}", mask)
            _keep(lstm, f"bias_ih_l{i}", mask)
        mask = _unmasked(lstm, f"weight_hh_l{i}")
        if mask is None:
            continue
        with torch.no_grad():
            gates = zip(getattr(lstm, f"weight_hh_l{i}").split(lstm.hidden_size), mask.split(lstm.hidden_size))
            setattr(lstm, f"weight_hh_l{i}", nn.Parameter(torch.cat([gate[kept][:, kept] for gate, kept in gates])))
        _keep(lstm, f"bias_hh_l{i}", mask)
        first, *_, last = mask.split(lstm.hidden_size)
        if i + 1 < lstm.num_layers:
            _keep_columns(lstm, last, f"weight_ih_l{i + 1}")
            continue
        lstm.hidden_size = int(first.sum())
        linear.in_features = _keep_columns(linear, last).shape[1]
        if layernorm is not None:
            layernorm.normalized_shape = (linear.in_features,)
            _keep(layernorm, "weight", last)
            _keep(layernorm, "bias", last)
