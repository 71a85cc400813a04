"""Packed weights in programs and their files: the classes' names there, and the states that PyTorch writes and reads."""

from __future__ import annotations

from ..eager.core import api as torch
from ..eager.core import dtype as _dtype
from ._embedding import EmbeddingPackedParamsBase
from ._layers import (
    Conv2dPackedParamsBase,
    Conv3dPackedParamsBase,
    ConvPackedParamsBase,
    LinearPackedParamsBase,
    LinearPackedParamsFp16,
)
from ._recurrent import CellParamsBase
from ._tensor import QuantizedTensor

#: {qualified name: class}
CLASSES = {cls._qualified: cls for cls in (
    LinearPackedParamsBase, Conv2dPackedParamsBase, Conv3dPackedParamsBase, EmbeddingPackedParamsBase, CellParamsBase,
)}


def state_of(packed) -> tuple:
    """What a file has of packed weights: tuples and lists of tensors, numbers and other packed weights.

    Raises:
        RuntimeError: for a class whose objects are not saved.
    """
    if isinstance(packed, LinearPackedParamsBase) and packed._qualified in CLASSES:
        return packed.weight, packed.bias
    if isinstance(packed, ConvPackedParamsBase):
        settings = [packed._stride, packed._padding, packed._dilation, packed._output_padding]
        weight = packed.weight
        if len(packed._stride) == 1:  # files have them as those over two dimensions, the first of size one
            settings = [(first, *given) for first, given in zip((1, 0, 1, 0), settings)]
            weight = weight.unsqueeze(2)
        numbers = [len(settings[0]), *(n for given in settings for n in given), packed._groups, int(packed._transpose)]
        return "2", [torch.tensor(numbers, dtype=_dtype.int16), weight], [packed._bias]
    if isinstance(packed, EmbeddingPackedParamsBase):
        return 1, [packed.weight], [], [packed.bit_rate()]
    if isinstance(packed, CellParamsBase):
        products = [packed.w_ih, packed.w_hh]
        if isinstance(packed.w_ih, LinearPackedParamsFp16):
            return "quantized_fp16", [], [], [], products
        biases = [b for b in (packed.b_ih, packed.b_hh) if b is not None]
        return "quantized_dynamic", biases, [], [int(packed.reduce_range)], products
    raise RuntimeError(f"Cannot serialize custom bound C++ class {type(packed)._qualified}.")


def _checked(found: bool, name: str) -> None:
    if not found:
        raise RuntimeError(f"the state of {name} is none that is known")


def restored(name: str, state):
    """The packed weights of a class's name and a state.

    Raises:
        RuntimeError: for another state than `state_of` gives.
    """
    _checked(isinstance(state, tuple), name)
    if name == LinearPackedParamsBase._qualified:
        _checked(len(state) == 2 and isinstance(state[0], torch.Tensor), name)
        return (LinearPackedParamsBase if isinstance(state[0], QuantizedTensor) else LinearPackedParamsFp16)(*state)
    if name == EmbeddingPackedParamsBase._qualified:
        _checked(len(state) == 4 and len(state[1]) == 1 and isinstance(state[1][0], QuantizedTensor), name)
        return EmbeddingPackedParamsBase(state[1][0])
    if name == CellParamsBase._qualified:
        _checked(len(state) == 5 and len(state[4]) == 2
                 and all(isinstance(p, LinearPackedParamsBase) for p in state[4]), name)
        _, biases, _, numbers, products = state
        return CellParamsBase(*products, *([*biases, None, None][:2]), bool(numbers and numbers[0]))
    return _convolution(CLASSES[name], name, state)


def _convolution(cls, name, state):
    _checked(len(state) == 3 and str(state[0]) in ("2", "3"), name)
    version, first, optional = state
    if str(version) == "3":
        numbers, (_, weight, bias) = list(first), optional
    else:
        numbers, weight, bias = first[0].tolist(), first[1], optional[0]
    dims = numbers[0]
    _checked(isinstance(weight, QuantizedTensor) and len(numbers) == 4 * dims + 3, name)
    stride, padding, dilation, output_padding = (numbers[1 + i * dims: 1 + (i + 1) * dims] for i in range(4))
    groups, transpose = numbers[-2:]
    return cls(weight, bias, stride, padding, dilation, groups, bool(transpose), output_padding)
