"""A model's operators for TensorBoard's graph page."""

from __future__ import annotations

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.config_pb2 import RunMetadata
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.step_stats_pb2 import DeviceStepStats, StepStats
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.versions_pb2 import VersionDef

from ... import jit
from ...eager.tensor import TensorBase

_PRODUCER = 22  # the version of the format, as PyTorch writes it


def graph_of(model, args, strict=True):
    """(the graph, what else TensorBoard wants to know) of a module called with example inputs.

    Args:
        args: a tensor, or a tuple of the inputs.
        strict: passed on to `torch.jit.trace`.
    """
    args = args if isinstance(args, tuple) else (args,)
    traced = jit.trace(model, args, strict=strict)
    graph = traced.inlined_graph
    names, nodes = {}, []
    for value, given in zip(graph.parameters[1:], args):
        names[value] = f"input/{value.debugName()}"
        nodes.append(_node(names[value], "IO Node", (), {}, _shape_of(given)))
    for node in graph.body:
        if node.op == "prim::GetAttr" and node.results[0].type().kind() != "TensorType":
            continue  # a module on the way to a parameter
        scope = _scope(model, node)
        if node.op == "prim::GetAttr":
            *inner, name = _path(node)
            scope = "/".join([_module_scope(model, ".".join(inner)), name])
        for value in node.results:
            names[value] = f"{scope}/{value.debugName()}"
        inputs = [names[v] for v in node.operands if v in names]
        for value in node.results:  # each result has a node of its own
            nodes.append(_node(names[value], node.op, inputs, node.attributes, value.type().sizes()))
    for i, value in enumerate(graph.returned):
        made = _node(f"output/output.{i + 1}", "IO Node", [names[value]], {}, value.type().sizes())
        nodes.append(made)
    stats = RunMetadata(step_stats=StepStats(dev_stats=[DeviceStepStats(device="/device:CPU:0")]))
    return GraphDef(node=nodes, versions=VersionDef(producer=_PRODUCER)), stats


def graph_of_onnx(path):
    """The graph of an ONNX file."""
    import onnx

    graph = onnx.load(path).graph
    ends = [
        NodeDef(name=v.name.encode("unicode_escape").decode(), op="Variable", attr={
            "dtype": AttrValue(type=v.type.tensor_type.elem_type),
            "shape": AttrValue(shape=TensorShapeProto(dim=[
                TensorShapeProto.Dim(size=d.dim_value) for d in v.type.tensor_type.shape.dim
            ])),
        })
        for v in (*graph.input, *graph.output)
    ]
    nodes = [
        NodeDef(name=n.output[0], op=n.op_type, input=n.input, attr={
            "parameters": AttrValue(s=", ".join(
                " = ".join(str(value) for _, value in a.ListFields()) for a in n.attribute
            ).encode()),
        })
        for n in graph.node
    ]
    return GraphDef(node=[*ends, *nodes], versions=VersionDef(producer=_PRODUCER))


def _node(name, op, inputs, attributes, shape):
    text = ", ".join(f"{k} :  {v}" for k, v in attributes.items())
    text = "" if op == "IO Node" else f"{{ {text} }}" if text else "{}"
    shown = {"attr": AttrValue(s=text.encode())}
    if shape is not None:
        dims = [TensorShapeProto.Dim(size=n) for n in shape]
        shown["_output_shapes"] = AttrValue(
            list=AttrValue.ListValue(shape=[TensorShapeProto(dim=dims)])
        )
    return NodeDef(name=name, op=op, input=inputs, attr=shown)


def _shape_of(value):
    return tuple(value.shape) if isinstance(value, TensorBase) else None


def _path(node) -> list[str]:
    """The names that lead from the model to an attribute."""
    names = []
    while node is not None and node.op == "prim::GetAttr":
        names.append(node.attributes["name"])
        node = node.operands[0].producer
    return names[::-1]


def _scope(model, node):
    inner = node.scope.rpartition("__module.")[2]
    return _module_scope(model, inner)


def _module_scope(model, path):
    """``"Net/Sequential[body]/Linear[0]"`` for the module ``"body.0"``."""
    parts, module = [type(model).__name__], model
    for name in path.split(".") if path else ():
        module = getattr(module, name)
        parts.append(f"{type(module).__name__}[{name}]")
    return "/".join(parts)
