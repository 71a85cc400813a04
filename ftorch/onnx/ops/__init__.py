"""Operators of ONNX in programs: some that compute, and any other as a node of the model (``torch.onnx.ops``)."""

from __future__ import annotations

from ..._toplevel.basics import _check
from . import _impl, _symbolic_impl
from ._dtype_mappings import TORCH_DTYPE_TO_ONNX_DTYPE

__all__ = ["aten_decompositions", "symbolic", "symbolic_multi_out", "rotary_embedding", "attention"]


def aten_decompositions() -> dict:
    """{operator of ONNX: the function that computes it with PyTorch's}."""
    return _impl.ONNX_ATEN_DECOMP_TABLE


def _number(dtype) -> int:
    if isinstance(dtype, int):
        return dtype
    _check(dtype in TORCH_DTYPE_TO_ONNX_DTYPE, lambda: f"Unsupported dtype: {dtype}")
    return TORCH_DTYPE_TO_ONNX_DTYPE[dtype]


def _node(domain_op, attrs, metadata_props, version) -> tuple[str, dict]:
    """The operator's name, and the keywords that both forms of placeholders have."""
    domain, _, kind = domain_op.partition("::") if "::" in domain_op else ("", "", domain_op)
    props = metadata_props or {}
    encoded = _symbolic_impl.EncodedAttrs.from_dict(attrs or {})
    return kind, vars(encoded) | {
        "metadata_props_keys": list(props.keys()), "metadata_props_values": list(props.values()),
        "domain": domain, "version": version,
    }


def symbolic(domain_op: str, /, inputs, attrs=None, *, dtype, shape, version=None, metadata_props=None):
    """A node of any operator of ONNX with one result; the result is zeros until the model is run elsewhere.

    Args:
        domain_op: ``"domain::Operator"``, or ``"Operator"`` of ONNX's own.
        inputs: the tensors that go in, or None for those left out.
        attrs: ints, floats, strings and bools, or sequences of them, by name.
        dtype: of the result, or ONNX's number of it.
        shape: of the result.
        version: of the domain's operators.
        metadata_props: strings by name, for the node.

    Raises:
        RuntimeError: ONNX has no such dtype.
        ValueError: an attribute is nothing that ONNX has, or an empty sequence.

    >>> import ftorch as torch
    >>> torch.onnx.ops.symbolic("mine::Twice", (torch.ones(2),), {"n": 2}, dtype=torch.float32, shape=[2])
    tensor([0., 0.])
    """
    dtype = _number(dtype)
    kind, options = _node(domain_op, attrs, metadata_props, version)
    return _symbolic_impl._symbolic(inputs, kind, dtype, shape=shape, **options)


def symbolic_multi_out(domain_op: str, /, inputs, attrs=None, *, dtypes, shapes, version=None, metadata_props=None):
    """`symbolic` of an operator with several results, given by their dtypes and shapes.

    Raises:
        RuntimeError: there are not as many shapes as dtypes.

    >>> import ftorch as torch
    >>> x = torch.ones(2)
    >>> torch.onnx.ops.symbolic_multi_out("mine::Two", (x,), dtypes=[x.dtype, torch.int64], shapes=[[1], []])
    [tensor([0.]), tensor(0)]
    """
    _check(
        len(shapes) == len(dtypes),
        lambda: f"Number of shapes ({len(shapes)}) must match number of dtypes ({len(dtypes)})",
    )
    numbers = [_number(dtype) for dtype in dtypes]
    kind, options = _node(domain_op, attrs, metadata_props, version)
    return _symbolic_impl._symbolic_multi_out(inputs, kind, numbers, shapes=shapes, **options)


def rotary_embedding(X, cos_cache, sin_cache, position_ids=None, *, interleaved=False, num_heads=0, rotary_embedding_dim=0):
    """Positions as rotations, as https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html says.

    Args:
        X: (batch, heads, sequence, size), or (batch, sequence, heads * size) with ``num_heads``.
        cos_cache, sin_cache: (positions, size / 2) with ``position_ids``, else (batch, sequence, size / 2).
        position_ids: (batch, sequence).
        interleaved: pairs are neighbours, not elements of the two halves.
        rotary_embedding_dim: how many elements are rotated; 0 are all.

    Raises:
        RuntimeError: the shapes do not fit.

    >>> import ftorch as torch
    >>> one, zero = torch.ones(1, 1, 1), torch.zeros(1, 1, 1)
    >>> torch.onnx.ops.rotary_embedding(torch.tensor([[[[3.0, 4.0]]]]), zero, one)
    tensor([[[[-4.,  3.]]]])
    """
    return _impl.rotary_embedding_23(
        X, cos_cache, sin_cache, position_ids=position_ids, interleaved=interleaved, num_heads=num_heads,
        rotary_embedding_dim=rotary_embedding_dim,
    )


def attention(
    Q, K, V, attn_mask=None, past_key=None, past_value=None, *, is_causal=False, kv_num_heads=0, q_num_heads=0,
    qk_matmul_output_mode=0, scale=None, softcap=0.0, softmax_precision=None,
):
    """Scaled attention with caches, as https://onnx.ai/onnx/operators/onnx__Attention.html says.

    Args:
        Q, K, V: (batch, heads, sequence, size), or (batch, sequence, heads * size) with ``q_num_heads`` and
            ``kv_num_heads``; the queries' heads may be a multiple of the others'.
        attn_mask: bools (what takes part) or numbers (added), to be broadcast to (batch, heads, queries, keys).
        past_key, past_value: keys and values of what was before.
        qk_matmul_output_mode: what the last result is: 0 the products, 1 with the mask, 2 after the cap,
            3 after the softmax.
        softcap: keeps scores between its negative and itself; 0 does not.
        softmax_precision: ONNX's number of the dtype that the softmax is in.

    Returns:
        The output, the keys and the values with those of the past, and the scores.

    Raises:
        RuntimeError: the shapes or heads do not fit.

    >>> import ftorch as torch
    >>> q = torch.ones(1, 2, 3, 4)
    >>> [tuple(x.shape) for x in torch.onnx.ops.attention(q, q, q, is_causal=True)]
    [(1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 3)]
    """
    return _impl.attention_23(
        Q, K, V, attn_mask=attn_mask, past_key=past_key, past_value=past_value, is_causal=is_causal,
        kv_num_heads=kv_num_heads, q_num_heads=q_num_heads, qk_matmul_output_mode=qk_matmul_output_mode, scale=scale,
        softcap=softcap, softmax_precision=softmax_precision,
    )
