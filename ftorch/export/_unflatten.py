"""``unflatten``: an exported program as the modules that it was exported from."""

from __future__ import annotations

import operator
from typing import Any

from .._old_names import place_in
from ..eager.tensor import TensorBase
from ..fx.graph import Graph
from ..fx.node import Node, map_arg
from ..nn import Module, Parameter
from ..utils import _pytree as pytree
from .exported_program import ExportedProgram, SizeCheck, _InputHook, _register
from .graph_signature import InputKind, OutputKind


def _copied(value):
    if not isinstance(value, TensorBase):
        return value
    copy = value.detach().clone()
    return Parameter(copy, value.requires_grad) if isinstance(value, Parameter) else copy


class FlatArgsAdapter:
    """Changes arguments of one structure to those of another; a subclass defines `adapt`."""

    def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None) -> list[Any]:
        """The leaves for ``target_spec`` of the leaves of ``input_spec``."""
        raise NotImplementedError


class InterpreterModule(Module):
    """A part of an unflattened program: its graph runs on what goes in and gives what comes out."""

    def __init__(self, graph: Graph):
        super().__init__()
        self.graph = graph

    def forward(self, *args):
        env: dict[Node, Any] = {}
        given = iter(args)
        for node in self.graph.nodes:
            if node.op == "placeholder":
                env[node] = next(given)
            elif node.op == "get_attr":
                env[node] = _attribute(self, node.target)
            elif node.op == "call_module":
                args = map_arg(node.args, env.__getitem__)
                env[node] = _attribute(self, node.target)(*args)
            elif node.op == "call_function":
                args = map_arg(node.args, env.__getitem__)
                env[node] = node.target(*args, **map_arg(dict(node.kwargs), env.__getitem__))
            else:
                return map_arg(node.args[0], env.__getitem__)
        raise AssertionError("a graph without output")

    def print_readable(self, print_output=True) -> str:
        """The part's graph as code."""
        text = str(self.graph)
        if print_output:
            print(text)
        return text


def _attribute(module, path):
    for part in path.split("."):
        module = getattr(module, part)
    return module


class _Frame:
    """The graph of one call of a module, while it is built.

    Attributes:
        values: {node of the program: node here}.
        seen: the program's nodes in it and in calls inside.
    """

    def __init__(self, path: str):
        self.path, self.graph = path, Graph()
        self.values: dict[Node, Node] = {}
        self.inputs: list[Node] = []
        self.seen: set[Node] = set()


class UnflattenedModule(Module):
    """The program, as a tree of modules with the original's names and state.

    Calls take what the program takes. A module that is called several times has a copy for each call
    (``linear``, ``linear@1``).
    """

    def __init__(self, export_module: ExportedProgram, flat_args_adapter=None):
        super().__init__()
        self.flat_args_adapter = flat_args_adapter
        signature = export_module.graph_signature
        self.graph_signature = signature
        call = export_module.call_spec
        self._in_spec, self._out_spec = call.in_spec, call.out_spec
        self._names = export_module._argument_names()[0]
        specs = {s.arg.name: s for s in signature.input_specs}
        for entry in export_module.module_call_graph:
            if entry.fqn:
                self._place(entry.fqn)
        own: dict[int, Any] = {}  # the program's tensors stay as they are; what several names share stays shared
        for spec in signature.input_specs:
            if spec.kind is not InputKind.USER_INPUT:
                given = export_module._tensor_of(spec)
                if id(given) not in own:
                    own[id(given)] = _copied(given)
                _register(self, spec, own[id(given)])
        if any(s.kind is not OutputKind.USER_OUTPUT for s in signature.output_specs):
            raise RuntimeError("a program of run_decompositions() that writes cannot be unflattened")
        object.__setattr__(self, "_graphs", export_module.graph_module)
        self._build(export_module.graph, specs)
        del self._graphs
        self._hook = _InputHook(self._in_spec, self._names)
        self._checks = export_module._checks()

    # --- the tree

    def _place(self, path):
        """(the module that holds the last part of a path, that part); makes what is missing."""
        owner: Module = self
        *parents, leaf = path.split(".")
        for part in parents:
            if part not in owner._modules:
                owner.add_module(part, Module())
            owner = owner._modules[part]  # type: ignore[assignment]
        if leaf not in owner._modules:
            owner.add_module(leaf, Module())
        return owner, leaf

    def _build(self, graph, specs):
        root = _Frame("")
        stack = [root]
        self._counts: dict[str, int] = {}
        self._owner: dict[Node, _Frame] = {}
        self._specs = specs
        for node in graph.nodes:
            if node.op == "placeholder":
                if specs[node.name].kind is InputKind.USER_INPUT:
                    root.values[node] = root.graph.placeholder(node.target)
                continue
            if node.op == "output":
                while len(stack) > 1:
                    self._close(stack, node, graph)
                root.graph.output(map_arg(node.args[0], lambda n: self._value(n, [root])))
                break
            path = _path_of(node)
            if node.op == "get_attr":  # a graph in the graph
                owner = self.get_submodule(path) if path else self
                owner.add_module(node.target, getattr(self._graphs, node.target))
            wanted = path.split(".") if path else []
            self._move(stack, wanted, node, graph)
            frame = stack[-1]
            for each in stack:
                each.seen.add(node)
            frame.values[node] = frame.graph.node_copy(node, lambda n: self._value(n, stack))
        self.graph = root.graph

    def _move(self, stack, wanted, node, graph):
        """Closes and opens frames until the innermost is that of a node."""
        prefixes = [".".join(wanted[: i + 1]) for i in range(len(wanted))]
        prefixes = [p for p in prefixes if p in _paths_of(node)]
        current = [f.path for f in stack[1:]]
        common = 0
        while common < min(len(prefixes), len(current)) and prefixes[common] == current[common]:
            common += 1
        while len(stack) - 1 > common:
            self._close(stack, node, graph)
        for path in prefixes[common:]:
            stack.append(_Frame(path))

    def _value(self, node, stack):
        """A node's value in the innermost frame; inputs are handed down."""
        frame = stack[-1]
        found = frame.values.get(node)
        if found is not None:
            return found
        if node.op == "placeholder" and self._specs[node.name].kind is not InputKind.USER_INPUT:
            target = self._specs[node.name].target
            if frame.path and target.startswith(frame.path + "."):
                found = frame.graph.get_attr(target[len(frame.path) + 1 :])
            elif not frame.path:
                found = frame.graph.get_attr(target)
        if found is None:
            first = next((n for n in frame.graph.nodes if n.op != "placeholder"), None)
            if first is None:
                found = frame.graph.placeholder(node.name)
            else:
                with frame.graph.inserting_before(first):
                    found = frame.graph.placeholder(node.name)
            frame.inputs.append(node)
        frame.values[node] = found
        return found

    def _close(self, stack, node, graph):
        """Ends the innermost frame: what is used later are its outputs."""
        frame = stack.pop()
        made = set(frame.values) - set(frame.inputs)
        later = [
            n for n in graph.nodes if n in made and n.op != "placeholder"
            and any(u not in frame.seen for u in n.users)
        ]
        frame.graph.output(tuple(frame.values[n] for n in later))
        count = self._counts.get(frame.path, 0)
        self._counts[frame.path] = count + 1
        name = frame.path if not count else f"{frame.path}@{count}"
        self._install(frame, name)
        outer = stack[-1]
        inside = name[len(outer.path) + 1 :] if outer.path else name
        args = tuple(self._value(n, stack) for n in frame.inputs)
        called = outer.graph.call_module(inside, args)
        for i, n in enumerate(later):
            outer.values[n] = outer.graph.call_function(operator.getitem, (called, i))

    def _install(self, frame, name):
        made = InterpreterModule(frame.graph)
        owner, leaf = self._place(name)
        old = owner._modules[leaf.partition("@")[0]]
        for table in ("_parameters", "_buffers", "_modules"):
            getattr(made, table).update(getattr(old, table))
        made._non_persistent_buffers_set.update(old._non_persistent_buffers_set)
        owner._modules[leaf] = made

    # --- calls

    def forward(self, *args, **kwargs):
        """What the program computes."""
        if self.flat_args_adapter is not None:
            leaves, given = pytree.tree_flatten((args, kwargs))
            if given != self._in_spec:
                leaves = self.flat_args_adapter.adapt(self._in_spec, given, leaves)
                args, kwargs = pytree.tree_unflatten(leaves, self._in_spec)
        args, kwargs = self._hook(self, args, kwargs)
        keyed = pytree.tree_flatten_with_path((args, kwargs))[0]
        leaves, known = [leaf for _, leaf in keyed], {}
        places = [_place(path) for path, _ in keyed]
        for check in self._checks:
            if isinstance(check, SizeCheck):
                check.expect(leaves, places, known)
            else:
                check(leaves)
        outputs = InterpreterModule.forward(self, *leaves)
        return pytree.tree_unflatten(list(outputs), self._out_spec)


def _place(path):
    """How a user gives a leaf: ``*args[0]``, ``'name'[0]``."""
    if path[0].idx == 0:
        return f"*args{pytree.keystr(path[1:])}"
    return str(path[1])[1:-1] + pytree.keystr(path[2:])


def _paths_of(node):
    return [path for path, _ in node.meta.get("nn_module_stack", {}).values() if path]


def _path_of(node):
    paths = _paths_of(node)
    return paths[-1].partition("@")[0] if paths else ""


def unflatten(module: ExportedProgram, flat_args_adapter=None) -> UnflattenedModule:
    """A program as a tree of modules with the original's names.

    Args:
        flat_args_adapter: for calls with arguments of another structure.

    >>> import ftorch as torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    >>> tree = torch.export.unflatten(torch.export.export(net, (torch.ones(1, 2),)))
    >>> [name for name, _ in tree.named_children()], tree(torch.ones(1, 2)).shape
    (['0', '1'], torch.Size([1, 3]))
    """
    return UnflattenedModule(module, flat_args_adapter)


__all__ = ["FlatArgsAdapter", "InterpreterModule", "UnflattenedModule", "unflatten"]

place_in("export.unflatten", FlatArgsAdapter, UnflattenedModule)
