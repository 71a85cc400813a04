"""Loggers in graphs, and graphs with the parts of another beside theirs (``torch.ao.ns.fx.graph_passes``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ftorch as torch
from ftorch.ao.ns.fx.mappings import get_node_type_to_io_type_map
from ftorch.ao.quantization.fx.utils import get_new_attr_name_with_prefix
from ftorch.ao.quantization.observer import _is_activation_post_process
from ftorch.fx import GraphModule, map_arg
from ftorch.fx.graph import Graph, Node

from .ns_types import NSNodeTargetType, NSSingleResultValuesType, NSSubgraph
from .utils import (
    NodeInputOrOutputType,
    get_arg_indices_of_inputs_to_log,
    get_node_first_input_and_output_type,
    get_node_input_qparams,
    get_normalized_nth_input,
    get_number_of_non_param_args,
    get_target_type_str,
    getattr_from_fqn,
    normalized_arguments,
    op_type_supports_shadowing,
    return_first_non_observer_node,
)

_INPUT, _OUTPUT = NSSingleResultValuesType.NODE_INPUT.value, NSSingleResultValuesType.NODE_OUTPUT.value


def _maybe_get_fqn(node: Node, gm: GraphModule) -> str | None:
    """The path of the module that a node, or what it observes, is in; None if the tracer did not note that."""
    if not hasattr(gm, "_node_name_to_scope"):
        return None
    if node.op == "call_module" and _is_activation_post_process(getattr_from_fqn(gm, str(node.target))):
        node = get_normalized_nth_input(node, gm, 0)
    scopes: Any = gm._node_name_to_scope
    return scopes[node.name][0]


def _insert_logger_after_node(node: Node, gm: GraphModule, logger_cls: Callable, logger_node_name_suffix: str,
                              ref_node_name: str, model_name: str, ref_name: str, ref_node_target_type: str,
                              results_type: str, index_within_arg: int, index_of_arg: int, fqn: str | None) -> Node:
    name = get_new_attr_name_with_prefix(node.name + logger_node_name_suffix)(gm)
    setattr(gm, name, logger_cls(
        ref_node_name, node.name, model_name, ref_name, get_target_type_str(node, gm), ref_node_target_type,
        results_type, index_within_arg, index_of_arg, fqn,
    ))
    return node.graph.create_node("call_module", name, (node,), {})


def add_loggers_to_model(gm: GraphModule, node_to_instrument_inputs_to_ref_node_name: dict[Node, tuple[str, str]],
                         node_to_instrument_outputs_to_ref_node_name: dict[Node, tuple[str, str]],
                         logger_cls: Callable, model_name: str) -> GraphModule:
    """A graph module with loggers after some nodes, and on the inputs of some.

    Args:
        node_to_instrument_inputs_to_ref_node_name, node_to_instrument_outputs_to_ref_node_name: {node: (the name of
            its part, what the part calls)}.
    """
    inputs, outputs = node_to_instrument_inputs_to_ref_node_name, node_to_instrument_outputs_to_ref_node_name
    graph = Graph()
    env: dict[str, Any] = {}

    def load(arg):
        return map_arg(arg, lambda node: env[node.name])

    for node in gm.graph.nodes:
        if node.op == "output":
            graph.output(load(get_normalized_nth_input(node, gm, 0)))
            continue
        fqn = _maybe_get_fqn(node, gm) if node in inputs or node in outputs else None

        def logged(after, name_and_type, kind, within=0, at=0, node=node, fqn=fqn):
            return _insert_logger_after_node(
                after, gm, logger_cls, "_ns_logger_", node.name, model_name, *name_and_type, kind, within, at, fqn
            )

        if node in inputs:
            for at in get_arg_indices_of_inputs_to_log(node):
                given = get_normalized_nth_input(node, gm, at)
                if isinstance(given, Node):
                    env[given.name] = logged(env[given.name], inputs[node], _INPUT, at=at)
                elif isinstance(given, list):
                    for within, part in enumerate(given):
                        before = env[part.name]
                        env[before.name] = logged(before, inputs[node], _INPUT, within, at)
        env[node.name] = graph.node_copy(node, load)
        if node in outputs:
            env[node.name] = logged(env[node.name], outputs[node], _OUTPUT)
    return GraphModule(gm, graph)


def _new_name(gm: GraphModule, prefix: str) -> str:
    return get_new_attr_name_with_prefix(prefix)(gm)


class _Cast:
    """What turns the input of a node of the one graph into what a node of the other takes."""

    def __init__(self, node_a, node_c, gm_a, gm_b, logger_cls, types):
        kind = NodeInputOrOutputType
        a, _ = get_node_first_input_and_output_type(node_a, gm_a, logger_cls, types)
        c, _ = get_node_first_input_and_output_type(node_c, gm_b, logger_cls, types)
        self.node_a, self.gm = node_a, gm_b
        self.function: Any = None
        self.quantizer: tuple | None = None
        self.to_half = False
        if a == kind.FP32 and c in (kind.INT8, kind.FP16, kind.FP32_OR_INT8):
            self.function = torch.dequantize
        elif a == c and a != kind.UNKNOWN:
            pass
        elif a == kind.INT8 and c == kind.FP32:
            self.quantizer = get_node_input_qparams(node_a, gm_a, types)
            self.function = torch.quantize_per_tensor if self.quantizer else None
        elif a == kind.FP16 and c == kind.FP32:
            self.to_half = True
        else:
            raise AssertionError(
                f"dtype cast from {c} {node_c.format_node()} to {a} {node_a.format_node()} needs to be implemented"
            )

    def __call__(self, before: Node, graph: Graph, prefix: str) -> Node:
        name = _new_name(self.gm, prefix)
        if self.quantizer is not None:
            parameters = []
            for what, value in zip(("scale", "zero_point"), self.quantizer):
                own = _new_name(self.gm, f"{self.node_a.name}_input_{what}_")
                setattr(self.gm, own, value)
                parameters.append(graph.create_node("get_attr", own, (), {}, own))
            return graph.create_node(
                "call_function", torch.quantize_per_tensor, (before, *parameters, torch.quint8), {}, name
            )
        if self.function is not None:
            return graph.create_node("call_function", self.function, (before,), {}, name)
        if self.to_half:
            return graph.create_node("call_method", "to", (before, torch.float16), {}, name)
        setattr(self.gm, name, torch.nn.Identity())
        return graph.create_node("call_module", name, (before,), {}, name)


def _each(function: Callable, given: Any) -> Any:
    """A function of a node, or of each of a list of them."""
    return [function(part) for part in given] if isinstance(given, list) else function(given)


def _copy_node_from_a_to_c(node_a: Node, gm_a: GraphModule, gm_b: GraphModule, graph_c: Graph) -> Node:
    """A copy of a parameter's node, with the parameter, or of a change of its dtype."""
    name = _new_name(gm_b, node_a.name + "_shadow_copy_")
    if node_a.op == "get_attr":
        value = getattr_from_fqn(gm_a, str(node_a.target))
        setattr(gm_b, name, value.detach() if torch.is_tensor(value) else value)
        return graph_c.create_node("get_attr", name, (), {}, name)
    if node_a.op != "call_method":
        raise AssertionError(f"handling of node {node_a.format_node()} with op {node_a.op} is not implemented")
    if node_a.target not in ("dequantize", "to"):
        raise AssertionError(f"target {node_a.target} is not implemented")
    args = (_copy_node_from_a_to_c(get_normalized_nth_input(node_a, gm_a, 0), gm_a, gm_b, graph_c),)
    if node_a.target == "to":
        args = (*args, get_normalized_nth_input(node_a, gm_a, 1))
    name = _new_name(gm_b, node_a.name + "_shadow_copy_")
    return graph_c.create_node("call_method", node_a.target, args, {}, name)


def _nodes_of(part: NSSubgraph, gm: GraphModule) -> list[Node]:
    """A part's nodes, from its first on."""
    nodes = [part.end_node]
    while nodes[0] != part.start_node:
        nodes.insert(0, get_normalized_nth_input(nodes[0], gm, 0))
    return nodes


def _can_insert_copy_of_subgraph_a(subgraph_a: NSSubgraph, gm_a: GraphModule, num_non_param_args_node_a: int) -> bool:
    """Whether all but the inputs of a part's nodes are parameters and plain values."""

    def can(arg):
        if isinstance(arg, Node):
            arg = return_first_non_observer_node(arg, gm_a)
            return arg.op == "get_attr" or (arg.op == "call_method" and arg.target in ("dequantize", "to"))
        return not isinstance(arg, (list, tuple)) or all(isinstance(part, Node) for part in arg)

    for i, node in enumerate(_nodes_of(subgraph_a, gm_a)):
        args, kwargs = normalized_arguments(node, gm_a)
        inputs = 2 if i == 0 and num_non_param_args_node_a == 2 else 1
        if not all(map(can, [*args, *kwargs.values()][inputs:])):
            return False
    return True


def _insert_copy_of_subgraph_a_after_input_node_c(input_node_c: Any, input_node_c_2: Any, subgraph_a: NSSubgraph,
                                                  gm_a: GraphModule, gm_b: GraphModule,
                                                  node_name_prefix: str) -> Node:
    """Copies a part to behind its input (or list of inputs) in another graph; gives the last node."""
    if not isinstance(input_node_c, (Node, list)):
        raise AssertionError(f"Expected Node or list, got {type(input_node_c)}")
    for node in _nodes_of(subgraph_a, gm_a):
        input_node_c = _insert_copy_of_node_a_after_input_node_c(
            input_node_c, input_node_c_2, node, gm_a, gm_b, node_name_prefix
        )
        input_node_c_2 = None
    return input_node_c


def _insert_copy_of_node_a_after_input_node_c(input_node_c: Any, input_node_c_2: Any, node_a: Node,
                                              gm_a: GraphModule, gm_b: GraphModule, node_name_prefix: str) -> Node:
    graph = (input_node_c if isinstance(input_node_c, Node) else input_node_c[0]).graph
    args, kwargs = normalized_arguments(node_a, gm_a)

    def copied(at, arg):
        if at == 0:
            return input_node_c
        if at == 1 and input_node_c_2 is not None:
            return input_node_c_2
        if isinstance(arg, Node):
            return _copy_node_from_a_to_c(return_first_non_observer_node(arg, gm_a), gm_a, gm_b, graph)
        if isinstance(arg, (int, float, torch.dtype)):
            return arg
        if isinstance(arg, (list, tuple)):
            if any(isinstance(part, Node) for part in arg):
                raise AssertionError("handling of Node inside list is not implemented")
            return arg
        raise AssertionError(f"handling for kwarg of type {type(arg)} is not implemented")

    new_args = tuple(copied(i, arg) for i, arg in enumerate(args))
    new_kwargs = {name: copied(len(args) + i, arg) for i, (name, arg) in enumerate(kwargs.items())}
    name = target = _new_name(gm_b, node_name_prefix)
    if node_a.op == "call_module":
        setattr(gm_b, target, getattr_from_fqn(gm_a, str(node_a.target)))
    elif node_a.op in ("call_function", "call_method"):
        target: Any = node_a.target
    else:
        raise AssertionError(f"Unexpected op: {node_a.op}")
    return graph.create_node(node_a.op, target, new_args, new_kwargs, name)


class _Shadowing:
    """Builds the graph of b with the parts of a beside those that they match."""

    def __init__(self, name_a, gm_a, name_b, gm_b, pairs, logger_cls, should_log_inputs, types):
        self.name_a, self.gm_a, self.name_b, self.gm_b = name_a, gm_a, name_b, gm_b
        self.logger_cls, self.should_log_inputs, self.types = logger_cls, should_log_inputs, types
        self.starts = {b.start_node: (name, a, b) for name, (a, b) in pairs.items()}
        self.ends = {b.end_node: (name, a, b) for name, (a, b) in pairs.items()}
        self.graph = Graph()
        self.env: dict[str, Any] = {}

    def load(self, arg):
        return map_arg(arg, lambda node: self.env[node.name])

    def run(self) -> GraphModule:
        for node in self.gm_b.graph.nodes:
            if node.op == "output":
                self.graph.output(self.load(node.args[0]))
                continue
            found = self.starts.get(node) or self.ends.get(node)
            reason = None if found is None else self.why_not(node, found[1])
            if reason is not None:
                print(f"skipping shadow loggers for node_b: {get_target_type_str(node, self.gm_b)}"
                      f", start_node_a: {get_target_type_str(found[1].start_node, self.gm_a)}, {reason}")
            if found is None or reason is not None:
                self.env[node.name] = self.graph.node_copy(node, self.load)
            else:
                self.shadow(node, *found)
        return GraphModule(self.gm_b, self.graph)

    def why_not(self, node, part_a) -> str | None:
        """Why a node gets no shadow, or None."""
        kind, start = NodeInputOrOutputType, part_a.start_node
        if not (op_type_supports_shadowing(start) and op_type_supports_shadowing(node)):
            return "unsupported"
        a = get_node_first_input_and_output_type(start, self.gm_a, self.logger_cls, self.types)
        b = get_node_first_input_and_output_type(node, self.gm_b, self.logger_cls, self.types)
        if kind.UNKNOWN in (*a, *b):
            return "unknown dtype cast"
        if (a[0], b[0]) == (kind.INT8, kind.FP32) and not get_node_input_qparams(start, self.gm_a, self.types):
            return "unknown input qparams"
        if not _can_insert_copy_of_subgraph_a(part_a, self.gm_a, get_number_of_non_param_args(start, self.gm_a)):
            return "unhandled logic in subgraph copy"
        return None

    def shadow(self, node, match, part_a, part_b) -> None:
        a = (self.name_a, match, get_target_type_str(part_a.base_op_node, self.gm_a))
        b = (self.name_b, match, get_target_type_str(part_b.base_op_node, self.gm_b))
        fqn_a = _maybe_get_fqn(part_a.base_op_node, self.gm_a)
        fqn_b = _maybe_get_fqn(part_b.base_op_node, self.gm_b)

        def logged(after, suffix, ref, whose, kind, fqn, within=0):
            return _insert_logger_after_node(
                after, self.gm_b, self.logger_cls, suffix, ref, *whose, kind, within, 0, fqn
            )

        is_start = node in self.starts
        if is_start and self.should_log_inputs:
            given = get_normalized_nth_input(node, self.gm_b, 0)
            for within, before in enumerate(given if isinstance(given, list) else [given]):
                if not isinstance(before, Node):
                    raise AssertionError(f"type {type(before)} is not handled yet")
                now = self.env[before.name]
                self.env[now.name] = logged(now, "_ns_logger_b_inp_", node.name, b, _INPUT, fqn_b, within)
        copy = self.env[node.name] = self.graph.node_copy(node, self.load)
        if is_start:
            before = get_normalized_nth_input(copy, self.gm_b, 0)
            if self.should_log_inputs:
                before = _each(lambda n: get_normalized_nth_input(n, self.gm_b, 0), before)
            cast = _Cast(part_a.start_node, copy, self.gm_a, self.gm_b, self.logger_cls, self.types)
            given = _each(lambda n: cast(n, self.graph, node.name + "_dtype_cast_"), before)
            if self.should_log_inputs:
                several = isinstance(given, list)
                loggers = [logged(n, "_ns_logger_a_inp_", "", a, _INPUT, fqn_a, i)
                           for i, n in enumerate(given if several else [given])]
                given = loggers if several else loggers[0]
            second = None
            if get_number_of_non_param_args(part_a.start_node, self.gm_a) == 2:
                second = get_normalized_nth_input(copy, self.gm_b, 1)
            last = _insert_copy_of_subgraph_a_after_input_node_c(
                given, second, part_a, self.gm_a, self.gm_b, copy.name + "_shadow_copy_"
            )
            if self.should_log_inputs:
                first = last
                while get_normalized_nth_input(first, self.gm_b, 0) != given:
                    first = get_normalized_nth_input(first, self.gm_b, 0)
                for logger in given if isinstance(given, list) else [given]:
                    getattr(self.gm_b, logger.name).ref_node_name = first.name
            self.env[last.name] = logged(last, "_ns_logger_a_", last.name, a, _OUTPUT, fqn_a)
        if node in self.ends:
            self.env[node.name] = logged(copy, "_ns_logger_b_", node.name, b, _OUTPUT, fqn_b)


def create_a_shadows_b(
    name_a: str, gm_a: GraphModule, name_b: str, gm_b: GraphModule,
    matched_subgraph_pairs: dict[str, tuple[NSSubgraph, NSSubgraph]], logger_cls: Callable, should_log_inputs: bool,
    node_type_to_io_type_map: dict[str, set[NSNodeTargetType]] | None = None,
) -> GraphModule:
    """The module b in which each part of a runs on the inputs of the part of b that it matches, with loggers on both.

    Parts that cannot be copied are named on standard output, and left out.
    """
    types = node_type_to_io_type_map or get_node_type_to_io_type_map()
    return _Shadowing(
        name_a, gm_a, name_b, gm_b, matched_subgraph_pairs, logger_cls, should_log_inputs, types
    ).run()
