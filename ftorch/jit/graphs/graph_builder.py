"""FX graph construction from recorded calls (`ftorch.jit.graphs.call_recorder`)."""

from __future__ import annotations

import contextlib
import enum
import operator
import re
import types
from typing import Any

from ...eager.core.device import device
from ...eager.core.dtype import dtype
from ...eager.core.formats import layout, memory_format
from ...eager.tensor import TensorBase
from ...fx import Graph, GraphModule
from ...utils import _pytree as pytree
from ..capture.python_state import SCALARS
from .call_recorder import VALUES, autocast_now, has_values

_CONSTANTS = (*SCALARS, type(...), dtype, device, layout, memory_format)
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType)  # code says their names


_LAYERS = "ftorch.nn.modules."


class Unsayable(Exception):
    """A value or call that a graph cannot hold."""


class Builder:
    """Makes a graph of some calls.

    Args:
        is_made: whether a storage was made while the calls were recorded (by something that is no call).
        is_read_first: whether a tensor is an attribute of a module: of a call's inputs they come first.
        name_input: gives the name of the input that a tensor is.
        grad: whether operations record where the graph begins and ends.
        lenient: the graph is only to be read: it may hold arguments that code cannot say.
        stores: the variables that results were stored in (`call_sites.Store`).
        name_module: gives PyTorch's name of a module.

    Attributes:
        inputs: the tensors that the graph takes, in order.
    """

    def __init__(self, calls, *, is_made=lambda t: False, is_read_first=lambda t: False, name_input,
                 grad, lenient=False, stores=(), name_module=None):
        self.graph = Graph()
        self.inputs: list[TensorBase] = []
        self._nodes: dict[int, Any] = {}
        self._held: list = []
        self._objects: dict[int, Any] = {}  # by their ids: (name, object)
        self._anchor = None  # the first node that is no placeholder
        self._is_made, self._name_input, self._now = is_made, name_input, grad
        self._outside = self._autocast = autocast_now()
        self._entered: Any = None
        self._is_read_first, self._lenient = is_read_first, lenient
        self._names: dict[str, int] = {}
        self._stores, self._name_module = list(reversed(stores)), name_module
        for i, call in enumerate(calls):
            self._rename(i)
            self._add(call)
        self._rename(len(calls))
        self._set_grad(grad)
        self._set_autocast(self._outside)

    def module(self, outputs) -> GraphModule:
        """The graph with some tensors as its results."""
        from ...nn import Module

        self.graph.output(tuple(self.node(t) for t in outputs))
        for node in list(reversed(self.graph.nodes)):
            unused = node.op == "call_function" and node.target is operator.getitem and not node.users
            if unused and node.meta.pop("part", False):
                self.graph.erase_node(node)
        root = Module()
        for name, value in self._objects.values():
            setattr(root, name, value)
        return GraphModule(root, self.graph, "GraphModule")

    def last(self, wanted):
        """The results that no call takes; of calls with several, those whose ids are wanted."""
        nodes = [self._nodes[id(t)] for t in self._held]
        return [
            t for t, n in zip(self._held, nodes) if n.op != "placeholder"
            and (id(t) in wanted or not n.users and "part" not in n.meta)
        ]

    def has(self, t) -> bool:
        """Whether a tensor is an input, or the result of a call."""
        return id(t) in self._nodes

    def _rename(self, count):
        """Names nodes after the variables that had their values before a number of calls."""
        while self._stores and self._stores[-1].before <= count:
            store = self._stores.pop()
            node = self._nodes.get(store.value)
            if node is not None and node.op != "placeholder":
                node._rename(store.name)

    def _describe(self, node, origin):
        """What PyTorch's graphs say in ``node.meta`` of where a call comes from."""
        stack = {}
        for module in origin.modules[1:] if self._name_module else ():
            name = self._name_module(module)
            if name is not None:
                stack[str(id(module))] = (name, type(module))
        if stack:
            node.meta["nn_module_stack"] = stack
        layer = origin.modules[-1] if origin.modules else None
        of_layer = layer is not None and stack and type(layer).__module__.startswith(_LAYERS)
        node.meta["source_fn_stack"] = [(node.name, type(layer) if of_layer else node.target)]
        node.meta["stack_trace"] = origin.stack_trace()

    def _create(self, *what):
        node = self.graph.create_node(*what)
        self._anchor = self._anchor or node
        return node

    def _set_grad(self, grad):
        if grad is not self._now:
            from ...autograd.grad_mode import _set_grad_enabled

            self._create("call_function", _set_grad_enabled, (grad,), {})
            self._now = grad

    def _set_autocast(self, autocast):
        if autocast == self._autocast:
            return
        from ...amp.autocast_mode import _enter_autocast, _exit_autocast

        if self._entered is not None:
            self._create("call_function", _exit_autocast, (self._entered,), {})
            self._entered = None
        if autocast != self._outside:
            self._entered = self._create("call_function", _enter_autocast, ("cpu", *autocast), {})
        self._autocast = autocast

    def _add(self, call):
        self._set_grad(call.grad)
        self._set_autocast(call.autocast)
        for t in pytree.tree_leaves((call.args, call.kwargs)):
            if isinstance(t, TensorBase) and id(t) not in self._nodes and self._is_read_first(t):
                self.node(t)
        args, kwargs = self._argument(call.args), self._argument(call.kwargs)
        node = self._create(call.op, call.target, args, kwargs)
        if call.origin is not None:
            self._describe(node, call.origin)
        renames = call.op == "call_function" and getattr(call.target, "__module__", "") == "_operator"
        self._know(call.result, node, renames, call.origin)

    def _know(self, result, node, renames, origin=None):
        if isinstance(result, VALUES):
            if renames or id(result) not in self._nodes:
                self._nodes[id(result)] = node
                self._held.append(result)
                if isinstance(result, TensorBase):
                    node.meta["example_value"] = _example(result)
        elif isinstance(result, (tuple, list)) and has_values(result):
            for i, part in enumerate(result):
                if has_values(part):
                    item = self._create("call_function", operator.getitem, (node, i), {})
                    item.meta["part"] = True
                    if origin is not None:
                        self._describe(item, origin)
                    self._know(part, item, renames, origin)

    def _argument(self, a):
        if isinstance(a, VALUES):
            return self.node(a)
        if isinstance(a, enum.Enum) and isinstance(a, (int, float, str)):
            return a.value  # as PyTorch's graphs have them; combined flags have no name that code could say
        if isinstance(a, _CONSTANTS):
            return a
        if isinstance(a, tuple):
            parts = [self._argument(v) for v in a]
            return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
        if isinstance(a, list):
            return [self._argument(v) for v in a]
        if isinstance(a, dict):
            return {k: self._argument(v) for k, v in a.items()}
        if isinstance(a, slice):
            return slice(*map(self._argument, (a.start, a.stop, a.step)))
        if self._lenient:
            return a if isinstance(a, _NAMED) or _is_said(a) else self._object(a)
        raise Unsayable(f"a {type(a).__name__} is an argument")

    def _object(self, a):
        """An object that code cannot say, packed weights for instance, as an attribute of the graph's module."""
        name, _ = self._objects.setdefault(id(a), (f"_object_{len(self._objects)}", a))
        return self._create("get_attr", name, (), {})

    def node(self, t):
        """The node of a tensor: of the call that gave it, or an input."""
        found = self._nodes.get(id(t))
        if found is None:
            found = self._made(t) if self._is_made(t) else self._input(t)
            self._nodes[id(t)] = found
            self._held.append(t)
        return found

    def _input(self, t):
        name = self._name_input(t)
        count = self._names[name] = self._names.get(name, 0) + 1
        name = name if count == 1 else f"{name}{count - 1}_"
        with contextlib.nullcontext() if self._anchor is None else (
            self.graph.inserting_before(self._anchor)
        ):
            node = self.graph.placeholder(name, type(t))
        node.meta["example_value"] = _example(t)
        self.inputs.append(t)
        return node

    def _made(self, t):
        """A small tensor that Python numbers made is made of them again."""
        from ...eager.tensor_api.from_data import tensor

        if t._ftorch_storage.trace is not None or t.numel() > 64 or t._ftorch_requires_grad:
            raise Unsayable("a tensor is made by something that is no call")
        values = t._ftorch_storage.array.tolist()
        kwargs = {} if tensor(values).dtype is t.dtype else {"dtype": t.dtype}
        return self._create("call_function", tensor, (values,), kwargs)


def _is_said(a):
    """Whether what an object prints is an expression."""
    try:
        compile(repr(a), "", "eval")
    except SyntaxError:
        return False
    return True


def _example(t):
    """The tensor without its elements, for ``node.meta``."""
    from ..._subclasses.fake_tensor import fake_like

    return fake_like(t)


def input_name(source: str) -> str:
    """``L['x'][0]`` as the name of an input, ``L_x_0_``."""
    return re.sub(r"[^a-zA-Z0-9]+", "_", source)
