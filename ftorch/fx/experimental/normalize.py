"""Graphs whose calls are written in one way."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import ftorch

from ..graph_module import GraphModule
from ..interpreter import Transformer
from ..node import Argument, Node, Target, map_aggregate
from ..operator_schemas import create_type_hint, normalize_function, normalize_module
from ..proxy import Proxy

__all__ = ["NormalizeArgs", "NormalizeOperators"]


class NormalizeArgs(Transformer):
    """Writes the arguments of calls with their defaults, all by keyword.

    Args:
        normalize_to_only_use_kwargs: False leaves positional arguments positional.

    >>> import ftorch as torch
    >>> from ftorch.fx.experimental.normalize import NormalizeArgs
    >>> traced = torch.fx.symbolic_trace(lambda x: torch.relu(x))
    >>> print(NormalizeArgs(traced).transform().code.strip())
    def forward(self, x):
        relu = torch.relu(input = x);  x = None
        return relu
    """

    def __init__(self, module: GraphModule, normalize_to_only_use_kwargs: bool = True):
        super().__init__(module)
        self.node_map: dict[Proxy, Node] = {}
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs

    def run_node(self, n: Node) -> Any:
        """The node, its arguments normalized by the types that are known of them."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)

        def kind(value):
            return value.meta.get("type") if isinstance(value, Node) else type(value)

        if n.op == "call_function":
            kinds = tuple(create_type_hint(map_aggregate(a, kind)) for a in n.args)
            named = {k: create_type_hint(map_aggregate(v, kind)) for k, v in n.kwargs.items()}
            out = self.call_function(n.target, args, kwargs, kinds, named)
        else:
            out = super().run_node(n)
        if n.op != "output":
            self.node_map[out] = n
            out.node.meta = n.meta
            out.node.type = n.type
        return out

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any],
                      arg_types: tuple[Any, ...] | None = None,
                      kwarg_types: dict[str, Any] | None = None):
        """The call of a function, normalized if its signature is known."""
        assert callable(target)
        found = normalize_function(target, args, kwargs, arg_types, kwarg_types,
                                   self.normalize_to_only_use_kwargs)
        if found is not None:
            args, kwargs = found
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]):
        """The call of a module of PyTorch's, normalized."""
        assert isinstance(target, str)
        found = normalize_module(self.module, target, args, kwargs, self.normalize_to_only_use_kwargs)
        if found is not None:
            args, kwargs = found
        return super().call_module(target, args, kwargs)


class NormalizeOperators(Transformer):
    """Writes ``torch.add(x, y)`` and the like as operators: ``x + y``."""

    # The functions that Python has operators for.
    binary_magic_method_remap: dict[Callable, Callable] = {
        ftorch.add: operator.add, ftorch.mul: operator.mul, ftorch.sub: operator.sub,
        ftorch.div: operator.truediv, ftorch.floor_divide: operator.floordiv,
        ftorch.remainder: operator.mod, ftorch.eq: operator.eq, ftorch.ne: operator.ne,
        ftorch.lt: operator.lt, ftorch.le: operator.le, ftorch.gt: operator.gt,
        ftorch.ge: operator.ge,
    }

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]):
        """The call, as an operator's if there is one."""
        assert callable(target)
        if target in self.binary_magic_method_remap:
            if len(args) != 2:
                return super().call_function(target, args, kwargs)
            return super().call_function(self.binary_magic_method_remap[target], args, {})
        return super().call_function(target, args, kwargs)
