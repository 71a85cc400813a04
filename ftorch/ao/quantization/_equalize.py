"""Layers that follow each other, with channels of equal ranges (``torch.ao.quantization._equalize``).

A channel of the first weight is divided by what the second weight's is multiplied by, so that one scale for each tensor
loses less. Between the layers there may be what is linear piece by piece, like ReLU.
"""

from __future__ import annotations

import copy
from itertools import chain, pairwise

import ftorch as torch

__all__ = [
    "channel_range", "converged", "cross_layer_equalization", "equalize", "expand_groups_in_paired_modules_list",
    "get_module_bias", "get_module_weight", "get_name_by_module", "has_bias", "max_over_ndim", "min_over_ndim",
    "process_paired_modules_list_to_name", "set_module_bias", "set_module_weight",
]

_supported_types = {torch.nn.Conv2d, torch.nn.Linear, torch.nn.Conv1d}
_supported_intrinsic_types = {
    torch.ao.nn.intrinsic.ConvReLU2d, torch.ao.nn.intrinsic.LinearReLU, torch.ao.nn.intrinsic.ConvReLU1d,
}
_all_supported_types = _supported_types.union(_supported_intrinsic_types)


def _layer(module):
    """The layer that has the weight: of fused ones, the first."""
    return module if type(module) in _supported_types else module[0]


def set_module_weight(module, weight) -> None:
    """Gives a layer another weight."""
    _layer(module).weight = torch.nn.Parameter(weight)


def set_module_bias(module, bias) -> None:
    """Gives a layer another bias."""
    _layer(module).bias = torch.nn.Parameter(bias)


def has_bias(module) -> bool:
    """Whether a layer has a bias."""
    return _layer(module).bias is not None


def get_module_weight(module):
    """A layer's weight."""
    return _layer(module).weight


def get_module_bias(module):
    """A layer's bias, or None."""
    return _layer(module).bias


def max_over_ndim(input, axis_list, keepdim=False):
    """The largest elements over several dimensions."""
    for axis in sorted(axis_list, reverse=True):
        input, _ = input.max(axis, keepdim)
    return input


def min_over_ndim(input, axis_list, keepdim=False):
    """The smallest elements over several dimensions."""
    for axis in sorted(axis_list, reverse=True):
        input, _ = input.min(axis, keepdim)
    return input


def channel_range(input, axis=0):
    """The largest less the smallest element of each index of a dimension: (channels,)."""
    others = [d for d in range(input.ndim) if d != axis]
    least, largest = min_over_ndim(input, others), max_over_ndim(input, others)
    if least.size(0) != input.size(axis):
        raise AssertionError("Dimensions of resultant channel range does not match size of requested axis")
    return largest - least


def get_name_by_module(model, module):
    """The path of a module in a model.

    Raises:
        ValueError: if it is not there.
    """
    for name, found in model.named_modules():
        if found is module:
            return name
    raise ValueError("module is not in the model")


def cross_layer_equalization(module1, module2, output_axis=0, input_axis=1):
    """Scales two layers so that results of the first have the range of inputs of the second.

    Raises:
        ValueError: for other layers than linear ones and convolutions.
        TypeError: if the numbers of channels differ.
    """
    if type(module1) not in _all_supported_types or type(module2) not in _all_supported_types:
        raise ValueError("module type not supported:", type(module1), " ", type(module2))
    first, second = get_module_weight(module1), get_module_weight(module2)
    if first.size(output_axis) != second.size(input_axis):
        raise TypeError(
            "Number of output channels of first arg do not match         number input channels of second arg"
        )
    factors = torch.sqrt(channel_range(first, output_axis) / (channel_range(second, input_axis) + 1e-9))
    inverse = torch.reciprocal(factors)

    def along(values, weight, axis):
        return values.reshape([-1 if d == axis else 1 for d in range(weight.ndim)])

    set_module_weight(module1, first * along(inverse, first, output_axis))
    if has_bias(module1):
        set_module_bias(module1, get_module_bias(module1) * inverse)
    set_module_weight(module2, second * along(factors, second, input_axis))


def process_paired_modules_list_to_name(model, paired_modules_list):
    """The lists with paths in the place of modules; they are changed.

    Raises:
        TypeError: for what is neither a module nor a path.
    """
    for group in paired_modules_list:
        for i, item in enumerate(group):
            if isinstance(item, torch.nn.Module):
                group[i] = get_name_by_module(model, item)
            elif not isinstance(item, str):
                raise TypeError("item must be a nn.Module or a string")
    return paired_modules_list


def expand_groups_in_paired_modules_list(paired_modules_list):
    """Lists of two from lists of two and more.

    Raises:
        ValueError: for a list of one.
    """
    made = []
    for group in paired_modules_list:
        if len(group) == 1:
            raise ValueError("Group must have at least two modules")
        made.extend([group] if len(group) == 2 else map(list, pairwise(group)))
    return made


def equalize(model, paired_modules_list, threshold=1e-4, inplace=True):
    """Equalizes layers that follow each other until they no longer change.

    Args:
        paired_modules_list: lists of modules, or of their paths, which follow each other.
        threshold: the change, as `converged` has it, at which it ends.
        inplace: whether the model itself is changed.

    Returns:
        The model, or a copy.
    """
    names = process_paired_modules_list_to_name(model, paired_modules_list)
    if not inplace:
        model = copy.deepcopy(model)
    pairs = expand_groups_in_paired_modules_list(names)
    taken = set(chain.from_iterable(pairs))
    current = {name: module for name, module in model.named_modules() if name in taken}
    previous = dict.fromkeys(current)
    while not converged(current, previous, threshold):
        for pair in pairs:
            for name in pair:
                previous[name] = copy.deepcopy(current[name])
            cross_layer_equalization(current[pair[0]], current[pair[1]])
    return model


def converged(curr_modules, prev_modules, threshold=1e-4):
    """Whether the norms of the changes of weights, added up, are below a threshold.

    Args:
        curr_modules, prev_modules: layers by name; None among the latter for those without an earlier state.

    Raises:
        ValueError: if the names differ.
    """
    if curr_modules.keys() != prev_modules.keys():
        raise ValueError("The keys to the given mappings must have the same set of names of modules")
    if None in prev_modules.values():
        return False
    total = torch.tensor(0.0)
    for name, module in curr_modules.items():
        total += torch.norm(get_module_weight(module).sub(get_module_weight(prev_modules[name])))
    return bool(total < threshold)
