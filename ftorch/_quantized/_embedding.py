"""Embeddings whose rows are bytes or half bytes, each row with a scale and an offset of its own."""

from __future__ import annotations

import numpy as np

from ..eager.core import api as torch
from ..eager.core import dtype as _dtype
from ._tensor import ScriptObject, integers


class EmbeddingPackedParamsBase(ScriptObject):
    """The rows of an embedding: quint8 or quint4x2, with a scale and a zero point for each."""

    _qualified = "__torch__.torch.classes.quantized.EmbeddingPackedParamsBase"

    def __init__(self, weight):
        self.weight = weight

    def __getstate__(self):
        return self.weight

    def __setstate__(self, weight):
        self.weight = weight

    def bit_rate(self):
        """The bits of an element."""
        return 8 if self.weight.dtype is _dtype.quint8 else 4

    @property
    def _table(self):
        found = self.__dict__.get("_numbers")
        if found is None:
            found = self.__dict__["_numbers"] = _numbers(self.weight)
        return found


def _numbers(weight):
    """The rows as numbers: ``scale * integer + offset``, the offset rounded first."""
    quantizer = weight._quantizer
    scale = quantizer.scales.to(_dtype.float32).unsqueeze(1)
    offset = quantizer.zero_points.to(_dtype.float32).unsqueeze(1) * scale * -1.0
    if weight.dtype is not _dtype.quint8:  # half bytes keep both in half precision
        scale, offset = (v.to(_dtype.float16).to(_dtype.float32) for v in (scale, offset))
    return integers(weight).to(_dtype.float32) * scale + offset


def embedding_bag_prepack(weight):
    """The packed rows of a quantized table.

    Raises:
        RuntimeError: unless it has rows with a scale each, and zero points that are no integers.
    """
    from ..eager.core import formats

    if weight.qscheme() is not formats.per_channel_affine_float_qparams:
        raise RuntimeError(
            "Expect embedding_bag weights to be quantized using kPerChannelAffineFloatQParams"
        )
    return EmbeddingPackedParamsBase(weight)


def embedding(weight, indices, pruned_weights=False):
    """The rows of some numbers."""
    if indices.dim() not in (1, 2):
        raise RuntimeError(f"Expected 1D or 2D indices, got {indices.dim()}D")
    return torch.nn.functional.embedding(indices, weight._table)


_OPERATORS = {8: "embedding_bag_byte", 4: "embedding_bag_4bit/embedding_bag_2bit", 2: "embedding_bag_4bit/embedding_bag_2bit"}


def embedding_bag(weight, indices, offsets=None, scale_grad_by_freq=False, mode=0, pruned_weights=False,
                  per_sample_weights=None, compressed_indices_mapping=None, include_last_offset=False, *,
                  bits=8):
    """The sum of the rows of each bag. Bags need not begin with the first index; with ``include_last_offset`` the last one
    ends at the last offset.

    Raises:
        RuntimeError: without offsets for 1-D indices, with some for 2-D ones.
    """
    per_sample_weights = None if per_sample_weights is None else per_sample_weights.detach()
    if indices.dim() == 2:
        if offsets is not None:
            raise RuntimeError(f"{_OPERATORS[bits]} operator: input is 2D, then offsets has to be None, as input is treated is "
                               "a mini-batch of fixed length sequences.")
        offsets = torch.arange(0, indices.numel(), indices.shape[1], dtype=indices.dtype)
        indices = indices.reshape(-1)
        per_sample_weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    elif offsets is None:
        kind = "" if bits == 8 else " operator"
        raise RuntimeError(f"{_OPERATORS[bits]}{kind} expects offsets to be set for 1D indices.")
    table = weight._table if isinstance(weight, EmbeddingPackedParamsBase) else weight
    if compressed_indices_mapping is not None and pruned_weights:
        indices = compressed_indices_mapping.to(indices.dtype)[indices]
        kept = indices >= 0
        weights = torch.ones_like(indices, dtype=_dtype.float32) if per_sample_weights is None else per_sample_weights
        per_sample_weights, indices = weights * kept, torch.clamp(indices, min=0)
    # What lies before the first bag and behind the last is in bags of its own, which are left out.
    bounds = torch.cat([offsets.new_zeros(1), offsets]).to(indices.dtype)
    bags = torch.nn.functional.embedding_bag(indices, table, bounds, mode="sum", per_sample_weights=per_sample_weights)
    return bags[1 : -1 if include_last_offset else None].clone()


# --- rows with their scale and offset behind them ------------------------------------


def _bytes(array, dtype):
    return np.ascontiguousarray(array.astype(dtype)).view(np.uint8)


def _array(t):
    return np.asarray(t.detach().numpy(), np.float32)


def _range(weight, rowwise_min_max):
    x = _array(weight)
    if rowwise_min_max is None:
        return x, x.min(-1, keepdims=True), x.max(-1, keepdims=True)
    bounds = _array(rowwise_min_max)
    return x, bounds[..., :1], bounds[..., 1:]


def byte_prepack(weight, rowwise_min_max=None):
    """Rows as bytes, each followed by its scale and smallest number in single precision."""
    f32 = np.float32
    x, low, high = _range(weight, rowwise_min_max)
    span = (high - low).astype(f32)
    inverse = f32(255) / (span + f32(1e-8))
    levels = np.rint((x - low) * inverse).astype(np.uint8)
    packed = np.concatenate([levels, _bytes(span / f32(255), f32), _bytes(low, f32)], -1)
    return torch.from_numpy(packed)


def byte_unpack(weight):
    """The numbers of `byte_prepack`'s rows."""
    rows = np.ascontiguousarray(weight.numpy())
    scale, low = (np.ascontiguousarray(rows[..., a:b]).view(np.float32) for a, b in ((-8, -4), (-4, rows.shape[-1])))
    return torch.from_numpy((rows[..., :-8].astype(np.float32) * scale + low).astype(np.float32))


def sub_byte_prepack(bits):
    """The function that packs rows of elements of two or four bits, with two numbers of half precision behind."""
    count, top = 8 // bits, (1 << bits) - 1

    def prepack(weight, *args, optimized_qparams=False, nbins=200, ratio=0.16, rowwise_min_max=None):
        if args and hasattr(args[0], "numpy"):
            rowwise_min_max, args = args[0], args[1:]
        settings = (*args, *(optimized_qparams, nbins, ratio)[len(args) :])
        f32 = np.float32
        x, low, high = _range(weight, rowwise_min_max)
        if settings[0]:
            from ._creation import choose_qparams_optimized

            pairs = [
                choose_qparams_optimized(torch.from_numpy(row), row.size, settings[1], settings[2], bits) for row in x
            ]
            high = np.array([[p[0].item()] for p in pairs], f32)
            low = np.array([[p[1].item()] for p in pairs], f32)
        low = low.astype(np.float16).astype(f32)
        span = (high - low).astype(f32)
        scale = np.where(span == 0, f32(1), span / f32(top)).astype(np.float16).astype(f32)
        scale = np.where(scale == 0, f32(1), scale)
        inverse = f32(1) / scale
        broken = np.isinf(inverse)
        scale, inverse = np.where(broken, f32(1), scale), np.where(broken, f32(1), inverse)
        levels = np.clip(np.rint((x - low) * inverse), 0, top).astype(np.uint8)
        levels = np.pad(levels, ((0, 0), (0, -levels.shape[1] % count)))
        parts = levels.reshape(levels.shape[0], -1, count)
        packed = sum((parts[..., i] << (bits * i) for i in range(count)), np.zeros(parts.shape[:2], np.uint8))
        return torch.from_numpy(np.concatenate(
            [packed.astype(np.uint8), _bytes(scale, np.float16), _bytes(low, np.float16)], -1))

    return prepack


def sub_byte_unpack(bits):
    """The inverse of `sub_byte_prepack`: numbers."""
    count, top = 8 // bits, (1 << bits) - 1

    def unpack(weight):
        rows = np.ascontiguousarray(weight.numpy())
        scale, low = (
            np.ascontiguousarray(rows[..., a:b]).view(np.float16).astype(np.float32)
            for a, b in ((-4, -2), (-2, rows.shape[-1]))
        )
        packed = rows[..., :-4]
        levels = np.stack([(packed >> (bits * i)) & top for i in range(count)], -1).reshape(len(rows), -1)
        return torch.from_numpy((levels.astype(np.float32) * scale + low).astype(np.float32))

    return unpack


def rowwise_offsets(unpack, bits):
    """The sum of bags of rows that are packed with their scales."""

    def run(weight, indices, offsets=None, *args, **kwargs):
        return embedding_bag(unpack(weight), indices, offsets, *args, **kwargs, bits=bits)

    return run


