"""Sequences of different lengths: padded to a common length, or packed step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ...eager.core import api as torch
from ...eager.core import dtype as _dtype
from ...eager.tensor import Tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class PackedSequence_(NamedTuple):
    """The fields of `PackedSequence`."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


def _bind(optional: Tensor | None, function: Callable):
    return None if optional is None else function(optional)


class PackedSequence(PackedSequence_):
    """Sequences of different lengths in one tensor, which RNN modules take as they take padded ones.

    It is made by `pack_padded_sequence` and `pack_sequence`.

    Attributes:
        data: the first elements of all sequences, then all second elements, and so on; the
            sequences are in order of decreasing length.
        batch_sizes: how many sequences have a first element, a second one, ...: int64, on the CPU.
        sorted_indices: where each sequence was before they were sorted, None if they were not.
        unsorted_indices: the inverse of that permutation.

    Raises:
        ValueError: if ``batch_sizes`` is not on the CPU.
    """

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. "
                "Instances of PackedSequence should never be created manually. "
                "They should be instantiated by functions like pack_sequence "
                "and pack_padded_sequences in nn.utils.rnn. "
                "https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def pin_memory(self):
        """The same in page-locked memory."""
        return type(self)(
            self.data.pin_memory(), self.batch_sizes,
            _bind(self.sorted_indices, Tensor.pin_memory),
            _bind(self.unsorted_indices, Tensor.pin_memory),
        )

    def to(self, *args: Any, **kwargs: Any):
        """``data`` converted as by `Tensor.to`, the indices on its device; itself if nothing
        changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        sorted_indices = _bind(self.sorted_indices, lambda t: t.to(data.device))
        unsorted_indices = _bind(self.unsorted_indices, lambda t: t.to(data.device))
        return type(self)(data, self.batch_sizes, sorted_indices, unsorted_indices)

    def cuda(self, *args: Any, **kwargs: Any):
        """``to`` with a CUDA device."""
        return self._to_kind("cuda", *args, **kwargs)

    def cpu(self, *args: Any, **kwargs: Any):
        """``to`` with the CPU."""
        return self._to_kind("cpu", *args, **kwargs)

    def _to_kind(self, kind, *args, **kwargs):
        probe = torch.empty(0, dtype=self.data.dtype, device=self.data.device).to(*args, **kwargs)
        if probe.device.type != kind:
            kwargs["device"] = kind
        return self.to(*args, **kwargs)

    @property
    def is_cuda(self) -> bool:
        """Whether ``data`` is on a GPU."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether ``data`` is in page-locked memory."""
        return self.data.is_pinned()


def _conversion(name, dtype):
    def convert(self):
        return self.to(dtype=dtype)

    convert.__name__, convert.__doc__ = name, f"``to(dtype={dtype})``."
    convert.__qualname__ = f"PackedSequence.{name}"
    return convert


for _name, _target in {
    "double": _dtype.float64, "float": _dtype.float32, "half": _dtype.float16,
    "long": _dtype.int64, "int": _dtype.int32, "short": _dtype.int16, "char": _dtype.int8,
    "byte": _dtype.uint8,
}.items():
    setattr(PackedSequence, _name, _conversion(_name, _target))


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The inverse of a permutation, None of None."""
    if permutation is None:
        return None
    positions = torch.arange(permutation.numel(), device=permutation.device)
    return torch.empty_like(permutation).scatter_(0, permutation, positions)


def _steps_of(batch_sizes: np.ndarray, batch: int) -> np.ndarray:
    """Where in a (time, batch) grid, read row by row, the elements of packed data are."""
    return np.flatnonzero(np.arange(batch) < batch_sizes[:, None])


def _index(positions: np.ndarray, like: Tensor) -> Tensor:
    return torch.tensor(positions, dtype=_dtype.int64, device=like.device)


def _pack_padded_sequence(input: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """What is packed of sequences of decreasing lengths, and the sizes of the steps."""
    if batch_first:
        input = input.transpose(0, 1)
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    if lengths.dim() != 1 or lengths.device.type != "cpu" or lengths.dtype is not _dtype.int64:
        raise RuntimeError(
            "'lengths' argument should be a 1D CPU int64 tensor, but got "
            f"{lengths.dim()}D {lengths.device.type} {lengths.dtype.scalar_name} tensor"
        )
    time, batch = input.size(0), input.size(1)
    counts = np.asarray(lengths.tolist(), np.int64)
    if len(counts) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(counts)} "
            f"(batch_size={batch})"
        )
    if counts[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if (np.diff(counts) > 0).any():
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. "
            "You can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    batch_sizes = (np.arange(counts[0])[:, None] < counts).sum(1)
    positions = _index(_steps_of(batch_sizes[:time], batch), input)  # lengths may say more than there is
    data = input.reshape(time * batch, *input.shape[2:]).index_select(0, positions)
    return data, torch.tensor(batch_sizes)


def _pad_packed_sequence(data: Tensor, batch_sizes: Tensor, batch_first: bool, padding_value: float,
                         total_length: int) -> tuple[Tensor, Tensor]:
    """What is packed as padded sequences in the same order, and their lengths."""
    sizes = np.asarray(batch_sizes.tolist(), np.int64)
    time = len(sizes)
    if total_length > 0:
        if total_length < time:
            raise RuntimeError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {time}"
            )
        time = total_length
    batch = int(sizes[0])
    positions = _index(_steps_of(sizes, batch), data)
    padded = torch.full(
        (time * batch, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device
    )
    padded = padded.index_copy(0, positions, data).view(time, batch, *data.shape[1:])
    lengths = torch.tensor((sizes[:, None] > np.arange(batch)).sum(0))
    return (padded.transpose(0, 1) if batch_first else padded), lengths


def batch_of(batch_sizes: Tensor) -> int:
    """How many sequences are packed. Traces, which have it computed, ask by this name."""
    return int(batch_sizes[0])


def pack_padded_sequence(input: Tensor, lengths: Tensor | list[int], batch_first: bool = False,
                         enforce_sorted: bool = True) -> PackedSequence:
    """Packs padded sequences (``torch.nn.utils.rnn.pack_padded_sequence``).

    Args:
        input: ``(time, batch, *)``, or ``(batch, time, *)`` with ``batch_first``.
        lengths: how much of each sequence counts; on the CPU.
        enforce_sorted: demand that the lengths decrease, instead of sorting by them.

    Raises:
        RuntimeError: if the lengths do not fit, are not positive, or increase.

    >>> import ftorch as torch
    >>> padded = torch.tensor([[1, 2, 0], [3, 0, 0], [4, 5, 6]])
    >>> packed = torch.nn.utils.rnn.pack_padded_sequence(
    ...     padded, [2, 1, 3], batch_first=True, enforce_sorted=False)
    >>> packed.data, packed.batch_sizes
    (tensor([4, 1, 3, 5, 2, 6]), tensor([3, 2, 1]))
    """
    if not isinstance(lengths, Tensor):
        lengths = torch.tensor([int(n) for n in lengths], dtype=_dtype.int64, device="cpu")
    lengths = lengths.to(dtype=_dtype.int64)
    sorted_indices = None
    if not enforce_sorted:
        lengths, sorted_indices = torch.sort(lengths, descending=True)
        sorted_indices = sorted_indices.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    data, batch_sizes = _pack_padded_sequence(input, lengths, batch_first)
    return PackedSequence(data, batch_sizes, sorted_indices, None)


def pad_packed_sequence(sequence: PackedSequence, batch_first: bool = False,
                        padding_value: float = 0.0,
                        total_length: int | None = None) -> tuple[Tensor, Tensor]:
    """Pads packed sequences (``torch.nn.utils.rnn.pad_packed_sequence``).

    Args:
        total_length: how long to pad, at least as long as the longest sequence.

    Returns:
        The padded sequences, ``(time, batch, *)`` or ``(batch, time, *)``, in the order that they
        were packed from, and their lengths.

    Raises:
        ValueError: if ``total_length`` is too short.
    """
    longest = sequence.batch_sizes.size(0)
    if total_length is not None and total_length < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in "
            f"input, but got total_length={total_length} and max sequence length being {longest}"
        )
    padded, lengths = _pad_packed_sequence(
        sequence.data, sequence.batch_sizes, batch_first, padding_value, longest if total_length is None else total_length
    )
    order = sequence.unsorted_indices
    if order is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]


def pad_sequence(sequences: Tensor | Iterable[Tensor], batch_first: bool = False,
                 padding_value: float = 0.0, padding_side: str = "right") -> Tensor:
    """Stacks sequences of different lengths (``torch.nn.utils.rnn.pad_sequence``).

    Args:
        sequences: tensors ``(length, *)``.
        padding_side: where the padding goes, "left" or "right".

    Returns:
        ``(time, batch, *)``, or ``(batch, time, *)`` with ``batch_first``; the dtype is the first
        sequence's.

    Raises:
        RuntimeError: if there are no sequences, or if their other dimensions differ.

    >>> import ftorch as torch
    >>> torch.nn.utils.rnn.pad_sequence([torch.ones(2), torch.ones(1)], batch_first=True)
    tensor([[1., 1.],
            [1., 0.]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(  # noqa: TRY004  (PyTorch's)
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    sequences = tuple(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}."
        )
    first = sequences[0]
    for sequence in sequences:
        if sequence.dim() != first.dim() or sequence.dim() == 0:
            raise RuntimeError(
                f"output with shape {list(first.shape)} doesn't match the broadcast shape "
                f"{list(sequence.shape)}"
            )
        for d, (a, b) in enumerate(zip(first.shape[1:], sequence.shape[1:]), 1):
            if a != b:
                raise RuntimeError(
                    f"The size of tensor a ({a}) must match the size of tensor b ({b}) at "
                    f"non-singleton dimension {d}"
                )
    lengths = np.array([sequence.size(0) for sequence in sequences])
    time, batch = int(lengths.max()), len(sequences)
    steps = np.arange(time)
    within = steps < lengths[:, None] if padding_side == "right" else (
        steps >= time - lengths[:, None]
    )
    packed = torch.cat([sequence.to(first.dtype) for sequence in sequences])
    padded = torch.full(
        (batch * time, *first.shape[1:]), padding_value, dtype=first.dtype, device=first.device
    )
    padded = padded.index_copy(0, _index(np.flatnonzero(within), first), packed)
    padded = padded.view(batch, time, *first.shape[1:])
    return padded if batch_first else padded.transpose(0, 1).contiguous()


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor,
                   batch_first: bool = False) -> list[Tensor]:
    """The sequences that were padded (``torch.nn.utils.rnn.unpad_sequence``)."""
    if not batch_first:
        padded_sequences.transpose_(0, 1)  # PyTorch's, too, changes what it is given
    positions = torch.arange(padded_sequences.size(1), device=lengths.device)
    return [sequence[positions < length] for sequence, length in zip(padded_sequences, lengths, strict=True)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences of different lengths (``torch.nn.utils.rnn.pack_sequence``).

    >>> import ftorch as torch
    >>> torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]).data
    tensor([1, 3, 2])
    """
    lengths = torch.tensor([sequence.size(0) for sequence in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that were packed (``torch.nn.utils.rnn.unpack_sequence``)."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
