"""Batches cut into microbatches, and results put together (``torch.distributed.pipelining.microbatch``)."""

from __future__ import annotations

import operator

import ftorch as torch

from ...utils._pytree import tree_flatten, tree_map, tree_unflatten
from ..tensor import DTensor
from ..tensor._redistribute import contiguous_strides

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]

DEFAULT_CHUNK_DIM = 0


class _CustomReducer:
    """A result that is no piece of a batch: microbatches' values are combined by a function."""

    def __init__(self, init_value, reduce_fn):
        self.init_value, self.reduce_fn = init_value, reduce_fn


class _LossReducer(_CustomReducer):
    pass


sum_reducer = _LossReducer(0.0, operator.add)


class TensorChunkSpec:
    """The dimension along which a tensor is cut.

    >>> TensorChunkSpec.from_tuple((0, 1))
    (TensorChunkSpec(0), TensorChunkSpec(1))
    """

    def __init__(self, split_dim: int):
        self.split_dim = split_dim

    def __repr__(self):
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims: tuple):
        """The specs of positional arguments."""
        return tree_map(TensorChunkSpec, chunk_dims)

    @staticmethod
    def from_dict(chunk_dims: dict):
        """The specs of keyword arguments."""
        return tree_map(TensorChunkSpec, chunk_dims)


class _Replicate:
    """A value that every microbatch gets whole."""


def _is_spec(x):
    return isinstance(x, (TensorChunkSpec, _Replicate, _CustomReducer)) or x is _Replicate


def _split_tensor(tensor, spec, num_chunks: int) -> list:
    if tensor.size(spec.split_dim) < num_chunks:
        raise AssertionError(f"Tensor size {tensor.size(spec.split_dim)} is smaller than num_chunks")
    if not isinstance(tensor, DTensor):
        chunks = list(torch.tensor_split(tensor, num_chunks, spec.split_dim))
        if tensor.requires_grad and tensor.is_leaf:
            for chunk in chunks:
                chunk.retain_grad()
        return chunks
    made = []
    size, more = divmod(tensor.shape[spec.split_dim], num_chunks)
    for i, local in enumerate(torch.tensor_split(tensor.to_local(), num_chunks, spec.split_dim)):
        shape = list(tensor.shape)
        shape[spec.split_dim] = size + (i < more)
        made.append(DTensor.from_local(
            local, tensor.device_mesh, tensor.placements, shape=torch.Size(shape), stride=contiguous_strides(shape)
        ))
    return made


def _specs(values, given):
    if given is None:
        return [
            TensorChunkSpec(DEFAULT_CHUNK_DIM) if isinstance(v, torch.Tensor) else _Replicate() for v in values
        ]
    return tree_flatten(given, is_leaf=_is_spec)[0]


def split_args_kwargs_into_chunks(args: tuple, kwargs: dict | None, chunks: int, args_chunk_spec=None,
                                  kwargs_chunk_spec=None):
    """(positional arguments, keyword arguments) of each of ``chunks`` microbatches.

    Args:
        args_chunk_spec: `TensorChunkSpec` of each (along dimension 0 by default; what is no tensor is given to all).

    Returns:
        two lists; shorter ones if a batch is too small.

    >>> import ftorch as torch
    >>> split_args_kwargs_into_chunks((torch.arange(4),), {"k": 2}, 2)
    ([(tensor([0, 1]),), (tensor([2, 3]),)], [{'k': 2}, {'k': 2}])
    """
    kwargs = kwargs or {}
    if args_chunk_spec is not None and len(args_chunk_spec) != len(args):
        raise AssertionError(f"{len(args)} args, but {len(args_chunk_spec)} chunk specs")
    if kwargs_chunk_spec is not None and set(kwargs_chunk_spec) != set(kwargs):
        raise AssertionError(
            f"args_dict.keys() = {list(kwargs)} args_chunk_spec.keys() = {list(kwargs_chunk_spec)}"
        )
    if kwargs_chunk_spec is not None:
        kwargs_chunk_spec = {k: kwargs_chunk_spec[k] for k in kwargs}
    flat, structure = tree_flatten((tuple(args), kwargs))
    positional = tree_flatten(tuple(args))[0]
    specs = _specs(positional, args_chunk_spec) + _specs(flat[len(positional) :], kwargs_chunk_spec)
    count = chunks
    for value, spec in zip(flat, specs):
        if isinstance(spec, TensorChunkSpec):
            if not isinstance(value, torch.Tensor):
                raise ValueError(f"Unsupported chunk spec: {spec} and value: {value} combination.")
            count = min(count, value.size(spec.split_dim))
    columns = [
        _split_tensor(value, spec, count) if isinstance(spec, TensorChunkSpec) else [value] * count
        for value, spec in zip(flat, specs)
    ]
    rows = [tree_unflatten([c[i] for c in columns], structure) for i in range(count)]
    return [row[0] for row in rows], [row[1] for row in rows]


def merge_chunks(chunks: list, chunk_spec=None):
    """The results of microbatches as one: tensors joined along their dimension (0 by default).

    Raises:
        ValueError: for results of another structure than ``chunk_spec``.
    """
    first, structure = tree_flatten(chunks[0])
    if chunk_spec is None:
        specs = [TensorChunkSpec(DEFAULT_CHUNK_DIM)] * len(first)
    else:
        specs, structure = tree_flatten(chunk_spec, is_leaf=_is_spec)
    rows = [tree_flatten(chunk)[0] for chunk in chunks]
    for chunk, row in zip(chunks, rows):
        if len(row) != len(specs):
            raise ValueError(f"Chunk {chunk} did not match chunk spec {chunk_spec}")
    return tree_unflatten([_joined(spec, list(column)) for spec, column in zip(specs, zip(*rows))], structure)


def _joined(spec, values):
    if isinstance(spec, TensorChunkSpec):
        if not isinstance(values[0], DTensor):
            return torch.cat(values, spec.split_dim)
        shape = list(values[0].shape)
        shape[spec.split_dim] = sum(v.shape[spec.split_dim] for v in values)
        local = torch.cat([v.to_local() for v in values], spec.split_dim)
        return DTensor.from_local(
            local, values[0].device_mesh, values[0].placements, shape=torch.Size(shape), stride=contiguous_strides(shape)
        )
    if isinstance(spec, _CustomReducer):
        total = spec.init_value
        for value in values:
            total = spec.reduce_fn(total, value)
        return total
    if any(v != values[0] for v in values[1:]):
        raise AssertionError(f"Expected {values[0]}, got {values}")
    return values[0]
