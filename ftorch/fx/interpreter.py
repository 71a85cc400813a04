"""``Interpreter`` runs a graph node by node; ``Transformer`` makes a new graph on the way."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from ..nn import Module
from . import traceback as fx_traceback
from ._symbolic_trace import Tracer
from .graph import Graph
from .graph_module import GraphModule
from .node import Argument, Node, Target, map_arg
from .proxy import Proxy

_MORE = (
    "Use tlparse to see full graph. "
    "(https://github.com/pytorch/tlparse?tab=readme-ov-file#tlparse-parse-structured-pt2-logs)"
)


class Interpreter:
    """Runs a graph. Override its methods to change what nodes do.

    Args:
        garbage_collect_values: forgets values as soon as nobody needs them.
        graph: runs this graph instead of the module's own.

    Attributes:
        env: {node: value}, while it runs.

    >>> import ftorch as torch
    >>> class Count(torch.fx.Interpreter):
    ...     calls = 0
    ...     def call_function(self, target, args, kwargs):
    ...         self.calls += 1
    ...         return super().call_function(target, args, kwargs)
    >>> count = Count(torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1))
    >>> count.run(torch.ones(2)), count.calls
    (tensor([2., 2.]), 2)
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True,
                 graph: Graph | None = None):
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = module.graph if graph is None else graph  # type: ignore[assignment]
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            seen: set[Node] = set()
            for node in reversed(self.graph.nodes):
                for used in node._input_nodes:
                    if used not in seen:
                        seen.add(used)
                        self.user_to_last_uses.setdefault(node, []).append(used)

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None,
            enable_io_processing: bool = True) -> Any:
        """Runs the graph.

        Args:
            args: the values of the placeholders.
            initial_env: values of nodes that need not run.
            enable_io_processing: takes nested arguments apart, puts nested results together.
        """
        self.env = {} if initial_env is None else initial_env
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter: Iterator[Any] = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as e:
                if self.extra_traceback:
                    self._explain(e, node)
                raise
            for used in self.user_to_last_uses.get(node, ()):
                self.env.pop(used, None)
            if node.op == "output":
                value = self.env[node]
                return self.graph.process_outputs(value) if enable_io_processing else value
        return None

    @staticmethod
    def _explain(e, node):
        text = f"While executing {node.format_node()}"
        text = f"{e.args[0]}\n\n{text}" if e.args else text
        e.args = (f"{text}\nOriginal traceback:\n{node.stack_trace}\n{_MORE}", *e.args[1:])
        if isinstance(e, KeyError):  # its text would be shown as a repr
            raise RuntimeError(*e.args) from e

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Runs the graph on a list of values, which is emptied: they are freed when used up.

        Raises:
            RuntimeError: unless there is one for each placeholder.
        """
        args, self.env = list(args_list), {}
        placeholders = [n for n in self.graph.nodes if n.op == "placeholder"]
        if len(args) != len(placeholders):
            kind = "missing" if len(args) < len(placeholders) else "extra"
            raise RuntimeError(
                f"Interpreter.boxed_run expected {len(placeholders)} arguments for placeholders but received "
                f"{len(args)} ({kind} arguments)"
            )
        args_list.clear()
        env = dict(zip(placeholders, args))
        del args
        return self.run(initial_env=env, enable_io_processing=False)

    def run_node(self, n: Node) -> Any:
        """The value of one node."""
        with fx_traceback.set_current_meta(n, f"Interpreter_{type(self).__name__}"):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    # --- what nodes do

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The next argument, or the default.

        Raises:
            RuntimeError: there is neither.
        """
        if str(target).startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """An attribute of the module."""
        return self.fetch_attr(target)  # type: ignore[arg-type]

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a function."""
        return target(*args, **kwargs)  # type: ignore[operator]

    def call_method(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a method of the first argument."""
        owner, *rest = args
        return getattr(owner, target)(*rest, **kwargs)  # type: ignore[arg-type]

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a submodule."""
        return self.fetch_attr(target)(*args, **kwargs)  # type: ignore[arg-type]

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The result."""
        return args[0]

    # --- values

    def fetch_attr(self, target: str) -> Any:
        """An attribute of the module by its dotted path.

        Raises:
            RuntimeError: there is none.
        """
        owner = self.module
        parts = target.split(".")
        for i, part in enumerate(parts):
            if not hasattr(owner, part):
                raise RuntimeError(
                    f"Node referenced nonexistent target {'.'.join(parts[: i + 1])}"
                )
            owner = getattr(owner, part)
        return owner

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple, dict]:
        """The values of a node's arguments."""
        args, kwargs = self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)
        return args, kwargs

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """Values in place of the nodes in nested arguments.

        Raises:
            RuntimeError: a node has not run yet.
        """

        def value(used: Node) -> Any:
            if used not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {used}! Run Graph.lint() to diagnose "
                    "such issues"
                )
            return self.env[used]

        return map_arg(args, value)


class Transformer(Interpreter):
    """Makes a new module of a graph. Override the methods of `Interpreter`: values are proxies.

    >>> import ftorch as torch
    >>> class Softer(torch.fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         if target is torch.relu:
    ...             target = torch.sigmoid
    ...         return super().call_function(target, args, kwargs)
    >>> soft = Softer(torch.fx.symbolic_trace(lambda x: torch.relu(x))).transform()
    >>> soft(torch.zeros(1))
    tensor([0.5000])
    """

    def __init__(self, module: GraphModule):
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)

        class TransformerTracer(Tracer):
            def __init__(self, graph: Graph):
                super().__init__()
                self.graph = graph
                self.tensor_attrs = {}

            def is_leaf_module(self, m, module_qualified_name):
                return True

        self.tracer = TransformerTracer(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target, args, kwargs) -> Proxy:
        """A placeholder of the new graph."""
        default = args[0] if args else inspect.Signature.empty
        arguments = () if default is inspect.Signature.empty else (default,)
        return Proxy(self.new_graph.create_node("placeholder", target, arguments), self.tracer)

    def get_attr(self, target, args, kwargs) -> Proxy:
        """A get_attr of the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target, args, kwargs) -> Any:
        """A call of the submodule in the new graph."""
        module = self.fetch_attr(target)
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(self, target, args, kwargs) -> Any:
        """A call of the function in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The new module.

        Raises:
            RuntimeError: the module is no `GraphModule`.
        """
        if not isinstance(self.module, GraphModule):
            raise RuntimeError("Expected self.module to be a GraphModule")
        with fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            old = self.graph.output_node()
            new = self.new_graph.output(
                map_proxies(result), type_expr=old.type
            )
            new.meta = dict(old.meta)
        return GraphModule(self.module, self.new_graph)


def map_proxies(result: Any) -> Any:
    """Nodes in place of the proxies in nested values."""
    from .node import map_aggregate

    return map_aggregate(result, lambda a: a.node if isinstance(a, Proxy) else a)


__all__ = ["Interpreter", "Transformer"]
