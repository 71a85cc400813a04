"""``FxGraphDrawer``: a graph as a picture, through Graphviz."""

from __future__ import annotations

from typing import Any

from .._codegen import tensor_annotation
from .._targets import qualified_name
from ..graph_module import GraphModule
from ..node import Node

_COLORS = {
    "placeholder": "AliceBlue", "call_module": "LemonChiffon1", "get_param": "Yellow2",
    "get_attr": "LightGrey", "output": "PowderBlue", "call_method": "LightGoldenrod1",
    "call_function": "LightSalmon1",
}


class FxGraphDrawer:
    """Draws a graph.

    Args:
        name: the title of the picture.
        ignore_getattr: leaves attributes out.
        ignore_parameters_and_buffers: leaves parameters out of the boxes of modules.
        parse_stack_trace: shows where nodes come from.
        dot_graph_shape: the shape of the boxes ("record").

    Raises:
        RuntimeError: pydot is not installed.
    """

    def __init__(self, graph_module: GraphModule, name: str, ignore_getattr: bool = False,
                 ignore_parameters_and_buffers: bool = False, skip_node_names_in_args: bool = True,
                 parse_stack_trace: bool = False, dot_graph_shape: str | None = None,
                 normalize_args: bool = False):
        try:
            import pydot  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]
        except ImportError as e:
            raise RuntimeError(
                "FXGraphDrawer requires the pydot package to be installed. Please install pydot "
                "through your favorite Python package manager."
            ) from e
        self._pydot = pydot
        self._name = name
        self._ignore_getattr = ignore_getattr
        self._ignore_parameters = ignore_parameters_and_buffers
        self._skip_names = skip_node_names_in_args
        self._stack_traces = parse_stack_trace
        self._shape = dot_graph_shape or "record"
        self._dot_graphs = {name: self._draw(graph_module, name)}
        for module_name, module in graph_module.named_children():
            if isinstance(module, GraphModule):
                path = f"{name}_{module_name}"
                self._dot_graphs[path] = self._draw(module, path)

    def get_dot_graph(self, submod_name: str | None = None) -> Any:
        """The ``pydot.Dot`` of the module, or of a submodule by ``"<name>_<submodule>"``."""
        return self._dot_graphs[self._name if submod_name is None else submod_name]

    def get_main_dot_graph(self) -> Any:
        """The ``pydot.Dot`` of the module."""
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name: str) -> Any:
        """The ``pydot.Dot`` of a submodule."""
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, Any]:
        """{name: ``pydot.Dot``}."""
        return self._dot_graphs

    def _draw(self, module, name):
        dot = self._pydot.Dot(name, rankdir="TB")
        drawn = [n for n in module.graph.nodes
                 if not (self._ignore_getattr and n.op == "get_attr")]
        for node in drawn:
            dot.add_node(self._pydot.Node(
                node.name, label=self._label(module, node), shape=self._shape,
                style='"filled,rounded"', fillcolor=_COLORS.get(node.op, "White"),
                fontcolor="#000000",
            ))
        for node in drawn:
            for user in node.users:
                dot.add_edge(self._pydot.Edge(node.name, user.name))
        return dot

    def _label(self, module, node: Node) -> str:
        rows = [f"name=%{node.name}", f"op_code={node.op}"]
        if node.op == "call_module":
            child = module.get_submodule(node.target)
            rows.append(f"{type(child).__module__}.{type(child).__name__}")
            rows.extend(_constants(child))
            if not self._ignore_parameters:
                rows.extend(f"{k}: {tensor_annotation(v)}" for k, v in child.named_parameters())
        else:
            target = node.target if isinstance(node.target, str) else qualified_name(node.target)
            rows.append(f"target={target}")
            for kind, values in (("args", node.args), ("kwargs", node.kwargs)):
                if values and not (kind == "args" and self._skip_names and all(
                    isinstance(v, Node) for v in node.args
                )):
                    rows.append(f"{kind}={values}")
            rows.append(f"num_users={len(node.users)}")
        meta = node.meta.get("tensor_meta", node.meta.get("val"))
        if text := tensor_annotation(meta):
            rows.append(text)
        if self._stack_traces and node.stack_trace:
            rows.append(node.stack_trace.strip().split("\n")[-1].strip())
        return "{" + "|".join(map(_escaped, rows)) + "}"


def _constants(module):
    for name in getattr(module, "__constants__", ()):
        yield f"{name}: {getattr(module, name, None)}"


def _escaped(text: str) -> str:
    for character in "\\{}<>|[]":
        text = text.replace(character, f"\\{character}")
    return text.replace('"', "'")


__all__ = ["FxGraphDrawer"]
