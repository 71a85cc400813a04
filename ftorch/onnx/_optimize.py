"""Constant folding of ONNX models, by ONNX's own reference evaluator."""

from __future__ import annotations

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

_LARGEST = 1 << 20  # bytes of a constant that is worth keeping
_NOT_FOLDED = frozenset({"RandomNormal", "RandomUniform", "Bernoulli", "Multinomial"})


def _inner(node):
    return [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]


def names_in(node):
    """The names that a node uses, also in the graphs of its branches."""
    return {*node.input, *(n for g in _inner(node) for m in g.node for n in names_in(m))}


def _rename(node, names):
    for i, name in enumerate(node.input):
        node.input[i] = names.get(name, name)
    for graph in _inner(node):
        for inner in graph.node:
            _rename(inner, names)


def optimized(model):
    """The model with nodes of constants folded, identities passed and the rest that is unused gone."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    graph = out.graph
    constants = {t.name: t for t in graph.initializer}
    small = {n for n, t in constants.items() if len(t.raw_data) <= _LARGEST}
    outputs = {o.name for o in graph.output}
    kept, aliases = [], {}
    for node in graph.node:
        _rename(node, aliases)
        if node.op_type == "Identity" and node.output[0] not in outputs:
            aliases[node.output[0]] = node.input[0]
            continue
        names = [n for n in node.input if n]
        if names and not _inner(node) and all(n in small for n in names) and node.op_type not in _NOT_FOLDED and not (
            set(node.output) & outputs
        ):
            folded = _folded(node, constants, out)
            if folded is not None:
                for name, array in folded:
                    constants[name] = onnx.numpy_helper.from_array(array, name)
                    small.add(name)
                continue
        kept.append(node)
    used = {n for node in kept for n in names_in(node)} | outputs
    del graph.node[:]
    graph.node.extend(kept)
    del graph.initializer[:]
    graph.initializer.extend(t for n, t in constants.items() if n in used)
    onnx.checker.check_model(out)
    return out


def _folded(node, constants, model):
    arrays = {n: onnx.numpy_helper.to_array(constants[n]) for n in node.input if n}
    infos = [onnx.helper.make_tensor_value_info(n, constants[n].data_type, list(a.shape))
             for n, a in arrays.items()]
    graph = onnx.helper.make_graph(
        [node], "folded", infos, [onnx.ValueInfoProto(name=o) for o in node.output]
    )
    single = onnx.helper.make_model(graph, opset_imports=model.opset_import)
    try:
        results = ReferenceEvaluator(single).run(None, arrays)
    except Exception:  # noqa: BLE001  (what cannot be folded stays)
        return None
    results = [np.asarray(r) for r in results]
    if any(r.nbytes > _LARGEST or r.dtype == object for r in results):
        return None
    return list(zip(node.output, results))
