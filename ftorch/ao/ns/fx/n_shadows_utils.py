"""Each part of a model beside quantized copies of it (``torch.ao.ns.fx.n_shadows_utils``)."""

from __future__ import annotations

import collections
import copy
import itertools
import operator
from collections.abc import Callable
from typing import Any

import ftorch as torch
from ftorch import fx, nn
from ftorch.ao.ns.fx._loggers import OutputComparisonLogger, OutputLogger
from ftorch.ao.ns.fx.graph_passes import _maybe_get_fqn
from ftorch.ao.ns.fx.ns_types import NSResultsType, NSSingleResultValuesType
from ftorch.ao.ns.fx.utils import compute_sqnr, get_normalized_nth_input, get_target_type_str
from ftorch.ao.quantization import QConfigMapping
from ftorch.ao.quantization.utils import getattr_from_fqn
from ftorch.fx import GraphModule, Node
from ftorch.utils._pytree import tree_map

SHADOW_NODE_NAME_PREFIX = "shadow"
SHADOW_WRAPPER_NODE_NAME_PREFIX = "shadow_wrapper"
BINARY_FUNCTIONS = {torch.add, torch.Tensor.add, operator.add, torch.mul, torch.Tensor.mul, operator.mul}


def _get_attr_name(subgraph_idx, subgraph_candidate_idx):
    return f"{SHADOW_NODE_NAME_PREFIX}_{subgraph_idx}_{subgraph_candidate_idx}"


def _get_attr_wrapper_name(subgraph_idx, subgraph_candidate_idx):
    return f"{SHADOW_WRAPPER_NODE_NAME_PREFIX}_{subgraph_idx}_{subgraph_candidate_idx}"


class OutputProp(fx.Interpreter):
    """Runs a graph module, and keeps each node's tensor as ``node.traced_result``."""

    def __init__(self, mod):
        super().__init__(mod)
        self.mod = mod

    def propagate(self, *args) -> None:
        """Runs the module."""
        self.run(*args)

    def run_node(self, n):
        result = super().run_node(n)
        if isinstance(result, torch.Tensor) and n.op != "output":
            n.traced_result = result
        return result


def _flat(nodes: Any) -> list[Node]:
    """The nodes of a match; AssertionError for what is neither a node nor a tuple of nodes."""
    if not isinstance(nodes, (Node, tuple)):
        raise AssertionError(f"Expected tuple, got {type(nodes)}")
    return [nodes] if isinstance(nodes, Node) else list(nodes)


def _in_order(nodes: list[Node]) -> list[Node]:
    """Three nodes, each the first argument of the next."""
    first = [n for n in nodes if n.args[0] not in nodes]
    last = [n for n in nodes if n not in first and next(iter(n.users)) not in nodes]
    middle = [n for n in nodes if n not in first + last]
    if not (first and middle and last):
        raise AssertionError("Expected all nodes to be non-None")
    if middle[0].args[0] is not first[0]:
        raise AssertionError("Expected mid_node.args[0] to be first_node")
    if last[0].args[0] is not middle[0]:
        raise AssertionError("Expected last_node.args[0] to be mid_node")
    return [first[0], middle[0], last[0]]


def _get_dedup_subgraphs(matches: dict[str, Any]) -> dict[str, list[Node]]:
    """{node's name: the nodes of its pattern, from the first on}, each pattern once, in the order of the graph."""
    seen: set[Node] = set()
    found: dict[str, list[Node]] = {}
    for name, match in reversed(list(matches.items())):
        parts = match[1]
        nodes = [node for part in parts for node in _flat(part)]
        was_seen = not seen.isdisjoint(nodes)
        seen.update(nodes)
        if was_seen:
            continue
        if len(parts) not in (1, 2):
            raise ValueError(f"Expected cur_match[1] to have length 2, got {len(parts)}")
        found[name] = _in_order(nodes) if len(nodes) == 3 else nodes[::-1]
    return found


def _get_logger_for_subgraph(model: GraphModule, first_node: Node, last_node: Node, subgraph_idx: int,
                             subgraph_candidate_idx: int, qconfig_str: str, logger_cls: Callable,
                             fqn: str | None) -> nn.Module:
    logger = logger_cls(
        first_node.name, last_node.name, f"subgraph_{subgraph_idx}_{subgraph_candidate_idx}", "model",
        get_target_type_str(last_node, model), get_target_type_str(first_node, model),
        NSSingleResultValuesType.NODE_OUTPUT.value, 0, 0, fqn or "", qconfig_str,
    )
    # Observers see the data before the loggers do.
    logger.enabled = False
    return logger


def _place(model, name: str, module) -> str:
    if hasattr(model, name):
        raise AssertionError(f"Unexpected attribute '{name}' found in {model}")
    setattr(model, name, module)
    return name


def _only_user(node: Node) -> Node:
    if len(node.users) != 1:
        raise AssertionError(f"{node} has more than 1 users, not supported yet")
    return next(iter(node.users))


def create_submodule_from_subgraph(model: torch.nn.Module, first_node: Node, last_node: Node) -> GraphModule:
    """A copy of a chain of nodes as a module; its arguments are those of the first node that are nodes.

    Raises:
        AssertionError: for a node with several users, or with a second argument that is not a number.
    """
    gm = fx.symbolic_trace(nn.Identity())
    graph = gm.graph
    for node in reversed(list(graph.nodes)):
        graph.erase_node(node)
    names: set[str] = set()

    def placeholder(node: Node) -> Node:
        name = next(n for i in itertools.count() if (n := f"{node.name}_{i}") not in names)
        names.add(name)
        return graph.placeholder(name)

    def argument(arg):
        if isinstance(arg, Node):
            return placeholder(arg)
        if isinstance(arg, (list, tuple)):
            return [placeholder(part) if isinstance(part, Node) else part for part in arg]
        return arg

    node, copied, modules = first_node, None, itertools.count()
    for _ in range(101):
        if node is first_node:
            args: tuple = tuple(argument(arg) for arg in node.args)
            kwargs = {name: argument(arg) for name, arg in node.kwargs.items()}
        else:
            if node.target in BINARY_FUNCTIONS:
                raise AssertionError(f"Unexpected binary function target: {node.target}")
            for arg in node.args[1:]:
                if not isinstance(arg, (float, int, torch.dtype)):
                    raise AssertionError(f"arg of type {type(arg)} not handled yet")
            args = (copied, *node.args[1:])
        if node.op not in ("call_module", "call_function", "call_method"):
            raise AssertionError(f"{node.op} not supported yet")
        target: Any = node.target
        if node.op == "call_module":
            target = f"mod_{next(modules)}"
            setattr(gm, target, copy.deepcopy(getattr_from_fqn(model, str(node.target))))
        copied = graph.create_node(node.op, target, args, kwargs)
        if node is last_node:
            break
        node = _only_user(node)
    else:
        raise AssertionError("iteration limit exceeded")
    graph.output(copied)
    gm.recompile()
    return gm


def create_one_transformed_and_logged_copy_of_subgraph(
    mt: GraphModule, subgraph_idx: int, subgraph_candidate_idx: int, first_node: Node, last_node: Node,
    fqn: str | None, list_of_node_name_to_qconfig: list[dict[str, Any]], example_inputs: Any,
    last_added_shadow_node_list: list[Node | None], custom_prepare_fn: Callable | None = None,
    custom_prepare_kwargs: dict[str, Any] | None = None,
) -> None:
    """Adds a logger of a part (for the candidate 0), or a prepared copy of the part with a logger that compares.

    Args:
        last_added_shadow_node_list: with the node behind which the next one goes, in place.

    Raises:
        AssertionError: if ``custom_prepare_kwargs`` says what this function says.
    """
    if subgraph_candidate_idx == 0:
        logger = _get_logger_for_subgraph(mt, first_node, last_node, subgraph_idx, 0, "", OutputLogger, fqn)
        name = _place(mt, _get_attr_name(subgraph_idx, 0), logger)
        with mt.graph.inserting_after(last_node):
            last_added_shadow_node_list[0] = mt.graph.call_module(name, args=(last_node,), kwargs={})
        mt.recompile()
        return
    qconfig = list_of_node_name_to_qconfig[subgraph_candidate_idx - 1][first_node.name]
    if qconfig is None:
        return
    mapping = QConfigMapping().set_global(qconfig)
    wrapped = create_submodule_from_subgraph(mt, first_node, last_node)
    own: dict[str, Any] = {"example_inputs": example_inputs, "qconfig_mapping": mapping}
    if custom_prepare_fn is None:
        wrapped = torch.ao.quantization.quantize_fx.prepare_fx(wrapped, **own)
    else:
        given = custom_prepare_kwargs or {}
        for name in ("example_inputs", "prepare_custom_config", "qconfig_mapping"):
            if name in given:
                raise AssertionError(f"cannot specify {name} in custom_prepare_kwargs")
        wrapped = custom_prepare_fn(wrapped, **own, **given)
    name = _place(mt, _get_attr_wrapper_name(subgraph_idx, subgraph_candidate_idx), wrapped)
    args: list = []
    kwargs = {}
    for arg in first_node.args:
        if isinstance(arg, Node):
            args.append(arg)
        elif isinstance(arg, (list, tuple)) and len(arg) and isinstance(arg[0], Node):
            args += [part for part in arg if isinstance(part, Node)]
    for key, arg in first_node.kwargs.items():
        if isinstance(arg, Node):
            kwargs[key] = arg
        elif isinstance(arg, (list, tuple)):
            args += arg
    after: Any = last_added_shadow_node_list[0]
    with mt.graph.inserting_after(after):
        shadow = mt.graph.call_module(name, args=tuple(args), kwargs=kwargs)
    logger = _get_logger_for_subgraph(
        mt, first_node, last_node, subgraph_idx, subgraph_candidate_idx, str(qconfig), OutputComparisonLogger, fqn
    )
    name = _place(mt, _get_attr_name(subgraph_idx, subgraph_candidate_idx), logger)
    with mt.graph.inserting_after(shadow):
        last_added_shadow_node_list[0] = mt.graph.call_module(name, args=(shadow, last_node), kwargs={})
    mt.recompile()


def create_n_transformed_and_logged_copies_of_subgraph(
    mt: GraphModule, subgraph_idx: int, match_name: str, nodes_in_this_subgraph: list[Any],
    qconfig_mappings: list[QConfigMapping], list_of_node_name_to_qconfig: list[dict[str, Any]],
    custom_prepare_fn: Callable | None = None, custom_prepare_kwargs: dict[str, Any] | None = None,
) -> None:
    """Adds a logger of a part, and a prepared copy with a logger for each mapping that has a QConfig for it."""
    if any(not isinstance(node, Node) for node in nodes_in_this_subgraph):
        return
    first_node, last_node = nodes_in_this_subgraph[0], nodes_in_this_subgraph[-1]
    before: Any = get_normalized_nth_input(first_node, mt, 0)
    if isinstance(before, (list, tuple)):
        example_inputs: Any = type(before)(x.traced_result for x in before)
    elif hasattr(before, "traced_result"):
        example_inputs = (before.traced_result,)
    else:
        print(f"unable to get example input for node {first_node.format_node()}, skipping")
        return
    if all(qconfigs[first_node.name] is None for qconfigs in list_of_node_name_to_qconfig[:len(qconfig_mappings)]):
        print(f"unable to find at least one qconfig for node {first_node.format_node()}, skipping")
        return
    fqn = _maybe_get_fqn(first_node, mt)
    last_added: list[Node | None] = [None]
    for i in range(len(qconfig_mappings) + 1):
        create_one_transformed_and_logged_copy_of_subgraph(
            mt, subgraph_idx, i, first_node, last_node, fqn, list_of_node_name_to_qconfig, example_inputs, last_added,
            custom_prepare_fn, custom_prepare_kwargs,
        )


def create_add_loggers_graph(model: GraphModule, subgraphs_dedup: dict[str, list[Node]],
                             qconfig_mapping: QConfigMapping, node_name_to_qconfig: dict[str, Any]) -> None:
    """Adds a second, quantized chain to a graph, beside its own, with loggers on both, in place.

    The copy of each part takes the results of the copies before it, so that errors add up; what has no QConfig is
    copied as it is.
    """
    part_of = {node: part for part in reversed(list(subgraphs_dedup.values())) for node in part}
    shadow_in: dict[Node, Any] = {}
    shadow_out: dict[Node, Any] = {}
    parts: list[list[Node]] = []
    for node in model.graph.nodes:
        if node.op not in ("placeholder", "get_attr", "output") and not any(node in part for part in parts):
            parts.append(part_of.get(node, [node]))
    for i, part in enumerate(parts):
        first, last = part[0], part[-1]
        if first in part_of and node_name_to_qconfig[first.name] is not None:
            create_n_transformed_and_logged_copies_of_subgraph(
                model, i, first.name, part, [qconfig_mapping], [node_name_to_qconfig], None, None
            )
            target = _get_attr_wrapper_name(i, 1)
            shadow = next((n for n in model.graph.nodes if n.op == "call_module" and n.target == target), None)
            if shadow is None:
                raise AssertionError("Expected new_shadow_mod to be non-None")
            shadow_in[first] = shadow_out[first] = shadow
            continue
        fqn = _maybe_get_fqn(first, model)
        logger = _get_logger_for_subgraph(model, first, last, i, 0, "", OutputLogger, fqn)
        name = _place(model, _get_attr_name(i, 0), logger)
        with model.graph.inserting_after(last):
            after = model.graph.call_module(name, args=(last,), kwargs={})
        copied: Any = None
        for node in part:
            args = node.args if node is first else (copied, *node.args[1:])
            with model.graph.inserting_after(after):
                after = copied = model.graph.create_node(node.op, node.target, args, node.kwargs)
            shadow_in.setdefault(first, copied)
        logger = _get_logger_for_subgraph(model, first, last, i, 1, "", OutputComparisonLogger, fqn)
        name = _place(model, _get_attr_name(i, 1), logger)
        with model.graph.inserting_after(after):
            model.graph.call_module(name, args=(copied, last), kwargs={})
        shadow_out[first] = copied
    model.recompile()

    def in_shadow(node):
        if not isinstance(node, Node) or node.op in ("placeholder", "get_attr"):
            return node
        return shadow_out[part_of.get(node, [node])[0]]

    for part in parts:
        shadow = shadow_in[part[0]]
        shadow.args = tree_map(in_shadow, shadow.args)
        shadow.kwargs = tree_map(in_shadow, shadow.kwargs)
    model.recompile()


def _get_weight_info_from_shadow_wrapper(shadow_wrapper: Any) -> tuple[Any, tuple] | None:
    """What quantizes the second argument of a converted copy, and the arguments behind the tensor; or None."""
    placeholders = [n for n in shadow_wrapper.graph.nodes if n.op == "placeholder"]
    if len(placeholders) < 2:
        return None
    if len(placeholders[1].users) != 1:
        raise AssertionError(f"Expected exactly 1, got {len(placeholders[1].users)}")
    quantize = next(iter(placeholders[1].users))
    if quantize.target not in (torch.quantize_per_channel, torch.quantize_per_tensor):
        raise AssertionError(f"Expected torch.quantize_per_tensor, but got {quantize.target}")
    _, scale, zero_point, *rest = quantize.args
    values = [getattr_from_fqn(shadow_wrapper, n.target) for n in (scale, zero_point)]
    return quantize.target, (*values, *rest)


def extract_weight_comparison(m: GraphModule) -> NSResultsType:
    """The weights of the linear functions of a converted model, in floating point and quantized."""
    kind = NSSingleResultValuesType.WEIGHT.value
    by_name: dict[str, list] = {}
    for n in m.graph.nodes:
        if not (n.op == "call_function" and n.target is nn.functional.linear):
            continue
        shadow = next((user for user in n.args[0].users
                       if user.op == "call_module" and user.target.startswith(SHADOW_WRAPPER_NODE_NAME_PREFIX)), None)
        found = None if shadow is None else _get_weight_info_from_shadow_wrapper(getattr_from_fqn(m, shadow.target))
        if shadow is None or found is None:
            continue
        quantize, args = found
        weight = getattr_from_fqn(m, n.args[1].target).detach()
        quantized = quantize(weight, *args)
        name, scopes = get_target_type_str(n, m), getattr(m, "_node_name_to_scope", None)
        comparison = compute_sqnr(weight, quantized)
        place = shadow.target.split("_")[2]
        for i, value in enumerate((weight, quantized)):
            by_name[f"subgraph_{place}_{i}"] = [{
                "res_type": kind, "values": [value], "prev_node_name": n.name, "prev_node_target_type": name,
                "ref_node_name": n.name, "ref_node_target_type": name, "index_within_arg": 0, "index_of_arg": 0,
                "fqn": None if scopes is None else scopes[n.name][0], "qconfig_str": "", "comparisons": [comparison],
                "comparison_fn_name": "sqnr",
            }]
    return {"model": {kind: by_name}}


_GROUPED = (
    "ref_node_name", "ref_node_target_type", "fqn", "values", "qconfig_str", "comparisons", "comparison_fn_name",
)


def group_results_by_subgraph(results: NSResultsType) -> Any:
    """{"subgraph_1": {"0": the part, "1": its first copy, …}} of {"subgraph_1_0": [the part], …}."""
    found: Any = collections.defaultdict(dict)
    by_name = next(iter(results["model"].values()))
    for name, candidates in by_name.items():
        part, _, candidate = name.rpartition("_")
        found[part][candidate] = {key: candidates[0][key] for key in _GROUPED}
    return dict(found)


def create_results_comparison(results_grouped) -> Any:
    """For each part its names, and for each copy the comparisons and their mean."""
    found = {}
    for part, by_candidate in results_grouped.items():
        candidates = {}
        for name, result in by_candidate.items():
            if name != "0":
                values = torch.stack(result["comparisons"])
                candidates[name] = {
                    "qconfig_str": result["qconfig_str"], "comparison_fn_name": result["comparison_fn_name"],
                    "cmp_raw": values, "cmp_mean": torch.mean(values),
                }
        own = by_candidate["0"]
        found[part] = {key: own[key] for key in ("ref_node_name", "ref_node_target_type", "fqn")}
        found[part]["candidates"] = candidates
    return found


def print_n_shadows_summary(results_comparison) -> None:
    """Prints a table of the means, if ``tabulate`` is installed."""
    try:
        from tabulate import tabulate
    except ImportError:
        print("`print_tabular` relies on the library `tabulate`, which could not be found on this machine. "
              "Run `pip install tabulate` to install the library.")
        return
    rows = [[data["ref_node_name"], data["ref_node_target_type"], data["fqn"],
             *(candidate["cmp_mean"] for candidate in data["candidates"].values())]
            for data in results_comparison.values()]
    # As many numbers as the longest type has letters, as in PyTorch.
    numbers = range(max((len(row[1]) for row in rows), default=-1))
    print(tabulate(rows, headers=["node_name", "node_type", "fqn", *map(str, numbers)]))
