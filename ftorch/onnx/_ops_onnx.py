"""Nodes of ONNX that programs name themselves (`ftorch.onnx.ops`)."""

from __future__ import annotations

from ._builder import onnx
from ._table import Value, translation
from .ops._symbolic_impl import EncodedAttrs


def _attributes(given, defaults):
    """Those that are not what they are anyway; bools as numbers, which ONNX has for them."""
    known = {k: int(v) if isinstance(v, bool) else v for k, v in given.items()}
    return {k: v for k, v in known.items() if v is not None and v != defaults.get(k, 0)}


def _node(g, kind, inputs, count, attributes):
    names = ["" if i is None else i.name for i in inputs]
    while names and not names[-1]:
        names.pop()
    made = g.raw(kind, *names, outputs=count)
    g.nodes[-1].attribute.extend(onnx.helper.make_attribute(k, v) for k, v in sorted(attributes.items()))
    named = zip([made] if count == 1 else made, g.results)
    return [None if r is None else Value(n, tuple(r.shape), r.dtype) for n, r in named]  # None: nobody needs it


@translation("onnx_symbolic::_symbolic onnx_symbolic::_symbolic_multi_out")
def _symbolic(
    g, inputs, op_type, _, *, attr_keys, attr_types, attr_pos, attr_ints, attr_floats, attr_strs,
    metadata_props_keys, metadata_props_values, domain="", version=None, **shapes,
):
    lists = (attr_keys, attr_types, attr_pos, attr_ints, attr_floats, attr_strs)
    attributes = _attributes(EncodedAttrs(*map(list, lists)).to_dict(), {name: None for name in attr_keys})
    values = _node(g, op_type, inputs, len(g.results), attributes)
    if domain:
        g.nodes[-1].domain = domain
        g.domains[domain] = max(g.domains.get(domain, 1), version or 1)
    for key, value in zip(metadata_props_keys, metadata_props_values):
        g.nodes[-1].metadata_props.add(key=key, value=value)
    return values[0] if "shape" in shapes else values


@translation("onnx::RotaryEmbedding")
def _rotary_embedding(g, x, cos, sin, position_ids=None, **attributes):
    return _node(g, "RotaryEmbedding", (x, cos, sin, position_ids), 1, _attributes(attributes, {}))[0]


@translation("onnx::Attention")
def _attention(g, q, k, v, attn_mask=None, past_key=None, past_value=None, **attributes):
    inputs = (q, k, v, attn_mask, past_key, past_value)
    return _node(g, "Attention", inputs, 4, _attributes(attributes, {"scale": None}))
