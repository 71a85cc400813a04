"""``Graph``: a program as a list of nodes, and how it is edited."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..eager.native.contexts import contextmanager
from . import _targets
from ._codegen import (
    CodeGen,
    PythonCode,
    PyTreeCodeGen,
    PyTreeInfo,
    TransformCodeFunc,
    inplace_methods,
    magic_methods,
    reflectable_magic_methods,
    tensor_annotation,
)
from ._namespace import Namespace, snake_case
from .node import Argument, Node, Target, map_arg

if TYPE_CHECKING:
    from .graph_module import GraphModule

_Namespace, _PyTreeCodeGen, _PyTreeInfo, _snake_case = Namespace, PyTreeCodeGen, PyTreeInfo, snake_case


class _node_list:
    """The nodes of a graph, in order; a live view."""

    def __init__(self, graph: Graph, direction: str = "_next"):
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        # A node may be erased or moved while it is the current one: its links still lead on.
        root, direction = self.graph._root, self.direction
        current = getattr(root, direction)
        while current is not root:
            if not current._erased:
                yield current
            current = getattr(current, direction)

    def __reversed__(self) -> _node_list:
        return _node_list(self.graph, "_prev" if self.direction == "_next" else "_next")


class _InsertPoint:
    """Restores the place where a graph inserts nodes, when a ``with`` ends."""

    def __init__(self, graph, insert):
        self.graph, self.previous = graph, graph._insert
        graph._insert = insert

    def __enter__(self):
        return None

    def __exit__(self, *_):
        self.graph._insert = self.previous


class Graph:
    """A program: nodes in an order in which they can run.

    >>> import ftorch as torch
    >>> graph = torch.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(torch.relu, (x,))
    >>> graph.output(y)
    output
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})
        return relu
    """

    def __init__(self, owning_module: GraphModule | None = None, tracer_cls: type | None = None,
                 tracer_extras: dict[str, Any] | None = None):
        self._root = Node(self, "", "root", "", (), {})
        self._insert = self._root.prepend
        self._len = 0
        self._graph_namespace = Namespace()
        self._owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._traced_from: str | None = None  # where the function is that it was traced from
        self._codegen = CodeGen()
        self._positions: dict[Node, int] | None = None

    @property
    def owning_module(self):
        """The `GraphModule` that runs it, if there is one."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, module: GraphModule | None):
        self._owning_module = module

    @property
    def nodes(self) -> _node_list:
        """The nodes in order. Iterate, ``reversed``, ``len``."""
        return _node_list(self)

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of an opcode (and target), in order.

        Raises:
            AssertionError: for ``call_function`` without a target.
        """
        if op == "call_function" and target is None:
            raise AssertionError("target must not be None for call_function op")
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def output_node(self) -> Node:
        """The output node."""
        return next(n for n in reversed(self.nodes) if n.op == "output")

    def _position_of(self, node):
        if self._positions is None:
            self._positions = {n: i for i, n in enumerate(self.nodes)}
        return self._positions[node]

    # --- making nodes

    def create_node(self, op: str, target: Target, args: tuple[Argument, ...] | None = None,
                    kwargs: dict[str, Argument] | None = None, name: str | None = None,
                    type_expr: Any | None = None) -> Node:
        """Makes a node at the insertion point.

        Args:
            name: a wish; the node's name is unique.
            type_expr: the annotation of its value.

        Raises:
            AssertionError, ValueError: as `Node`.
        """
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        if not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        wish = name if name is not None else self._target_to_str(target)
        unique = self._graph_namespace.create_name(wish, None)
        node = Node(self, unique, op, target, args, kwargs, type_expr)
        self._graph_namespace.associate_name_with_obj(unique, node)
        self._insert(node)
        self._len += 1
        return node

    def _target_to_str(self, target: Target) -> str:
        if callable(target):
            is_public = _targets.public_path(target) is not None
            text = _targets.qualified_name(target).rpartition(".")[2] if is_public else target.__name__
        else:
            text = target[2:-2] if target.startswith("__") and target.endswith("__") else target
        return snake_case(text)

    def placeholder(self, name: str, type_expr: Any | None = None,
                    default_value: Any = ...) -> Node:
        """Makes a parameter of the graph; put all of them first."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any | None = None) -> Node:
        """Makes a node that reads a parameter, buffer or other attribute of the module.

        Warns if the owning module has none of the name.
        """
        if self.owning_module is not None and not _has_attribute(self.owning_module, qualified_name):
            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning "
                "GraphModule! Call GraphModule.add_submodule to add the necessary submodule, "
                "GraphModule.add_parameter to add the necessary Parameter, or "
                "nn.Module.register_buffer to add the necessary buffer",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name: str, args: tuple[Argument, ...] | None = None,
                    kwargs: dict[str, Argument] | None = None,
                    type_expr: Any | None = None) -> Node:
        """Makes a call of a submodule.

        Warns if what the owning module has under the name is None.

        Raises:
            AttributeError: it has nothing of the name, or something else than a module.
        """
        if self.owning_module is not None and self.owning_module.get_submodule(module_name) is None:
            warnings.warn(
                "Attempted to insert a call_module Node with no underlying reference in the owning "
                "GraphModule! Call GraphModule.add_submodule to add the necessary submodule",
                stacklevel=2,
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name: str, args: tuple[Argument, ...] | None = None,
                    kwargs: dict[str, Argument] | None = None, type_expr: Any | None = None,
                    name: str | None = None) -> Node:
        """Makes a call of a method of ``args[0]``."""
        return self.create_node("call_method", method_name, args, kwargs, name, type_expr)

    def call_function(self, the_function: Callable[..., Any],
                      args: tuple[Argument, ...] | None = None,
                      kwargs: dict[str, Argument] | None = None, type_expr: Any | None = None,
                      name: str | None = None) -> Node:
        """Makes a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Argument, type_expr: Any | None = None) -> Node:
        """Makes the output; its only argument is the result."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x) -> Node:
        """Makes a copy of a node, which may be another graph's.

        Args:
            arg_transform: gives this graph's argument for a node that is one of the copied node's.
        """
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        copy = self.create_node(node.op, node.target, args, dict(kwargs), node.name, node.type)
        copy.meta = dict(node.meta)
        return copy

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False):
        """Copies all nodes of a graph but its output to the insertion point.

        Args:
            val_map: {node of ``g``: node here}; nodes that are in it are not copied, the others are
                added.
            return_output_node: gives the output node of ``g`` as well.

        Returns:
            What the output of ``g`` returns, in nodes of this graph; None if it has no output.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo=None) -> Graph:
        copy = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        copy._codegen = self._codegen
        result = copy.graph_copy(self, val_map := {}, return_output_node=True)
        if result is not None:
            value, old = result
            new = copy.output(value, type_expr=old.type)
            new.meta = dict(old.meta)
            val_map[old] = new
        if memo is not None:
            memo[id(self)] = copy
        return copy

    # --- where nodes go

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Where new nodes go from now on, or in a ``with``: before a node, or at the beginning.

        Raises:
            AssertionError: the node is another graph's.
        """
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Where new nodes go from now on, or in a ``with``: behind a node, or at the end.

        Raises:
            AssertionError: the node is another graph's.
        """
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    # --- removing nodes

    def erase_node(self, to_erase: Node) -> None:
        """Removes a node.

        Raises:
            RuntimeError: it is used, or another graph's.
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the "
                f"graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", ()):
            hook(to_erase)
        to_erase._unlink()
        to_erase._erased = True
        # Numbers stay: passes read them from what they have replaced.
        to_erase._set_arguments(map_arg(to_erase.args, lambda _: None), map_arg(to_erase.kwargs, lambda _: None))
        self._len -= 1
        self._positions = None

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Removes the nodes that nobody uses and that do nothing else.

        Args:
            is_impure_node: says which nodes to keep; default `Node.is_impure`.

        Returns:
            Whether there were any.
        """
        self.lint()
        keeps = is_impure_node or (lambda n: n.is_impure())
        changed = False
        for node in reversed(self.nodes):
            if not node.users and not keeps(node):
                self.erase_node(node)
                changed = True
        return changed

    # --- checking and printing

    def lint(self) -> None:
        """Checks that the graph is sound.

        Raises:
            RuntimeError: a node is used before it is defined or is another graph's, a name is used
                twice, or the owning module lacks an attribute.
        """
        defined: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for used in node._input_nodes:
                if used.graph is not self:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' does not belong to this Graph, but was "
                        "used as an argument! If you are copying nodes from another graph, make "
                        f"sure to use ``arg_transform`` on node_copy() to remap values\n{self}"
                    )
                if used not in defined:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' was used before it has been defined! "
                        f"Please check that Nodes in the graph are topologically ordered\n{self}"
                    )
            defined.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
            if self.owning_module is not None and node.op in ("call_module", "get_attr"):
                self._lint_target(node)

    def _lint_target(self, node):
        owner, parts = self.owning_module, node.target.split(".")
        for i, part in enumerate(parts):
            if not hasattr(owner, part):
                where = ".".join(parts[:i]) or "the owning module"
                raise RuntimeError(
                    f"Node {node} target {node.target} references nonexistent attribute {part} of "
                    f"{where}"
                )
            owner = getattr(owner, part)

    def __str__(self) -> str:
        return "graph():" + "".join(f"\n    {n.format_node()}" for n in self.nodes)

    def print_tabular(self) -> None:
        """Prints the nodes as a table."""
        header = ("opcode", "name", "target", "args", "kwargs")
        rows = [tuple(map(str, (n.op, n.name, n.target, n.args, n.kwargs))) for n in self.nodes]
        # Two more than a heading, as `tabulate` does it.
        widths = [max(len(top) + 2, *map(len, rest)) for top, *rest in zip(header, *rows)]
        line = lambda row: "  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip()  # noqa: E731
        print("\n".join([line(header), "  ".join("-" * w for w in widths), *map(line, rows)]))

    # --- code

    def set_codegen(self, codegen: CodeGen) -> None:
        """Sets how the graph becomes Python."""
        self._codegen = codegen

    def on_generate_code(self, make_transformer: Callable[[Any], TransformCodeFunc]):
        """Registers a rewriting of the statements of the generated function.

        Args:
            make_transformer: takes the rewriting so far (or None), gives a function from lines to
                lines.

        Returns:
            A context manager that takes it back.
        """
        previous = getattr(self, "_transform_code", None)
        self._transform_code = make_transformer(previous)

        @contextmanager
        def restored():
            try:
                yield
            finally:
                self._transform_code = previous

        return restored()

    def python_code(self, root_module: str, *, verbose: bool = False, include_stride: bool = False,
                    include_device: bool = False, colored: bool = False,
                    expanded_def: bool = False) -> PythonCode:
        """The graph as a Python function.

        Args:
            root_module: the name of the module in it, usually ``"self"``.
            verbose: with shapes and the source lines of the traced program as comments.
            include_stride, include_device: with these in the shapes' annotations.
            colored, expanded_def: have no effect.
        """
        # Node names and global names must not clash: both come from one namespace.
        namespace = Namespace()
        nodes = list(self.nodes)
        saved = [n._repr_fn for n in nodes]
        try:
            for n in nodes:
                n._repr_fn = lambda n: namespace.create_name(n.name, n)
            code = self._codegen._gen_python_code(
                self, root_module, namespace, verbose=verbose, include_stride=include_stride,
                include_device=include_device,
            )
        finally:
            for n, function in zip(nodes, saved):
                n._repr_fn = function
        return code

    def process_inputs(self, *args):
        """The inputs of the graph for a call's arguments (nested ones are flattened)."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out):
        """The result of a call for the graph's output."""
        return self._codegen.process_outputs(out)


def _has_attribute(module, path: str) -> bool:
    for part in path.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True


__all__ = [
    "CodeGen", "Graph", "PythonCode", "inplace_methods", "magic_methods",
    "reflectable_magic_methods", "tensor_annotation",
]
