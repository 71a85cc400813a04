"""A tracer of rewritten source: asserts become calls that traces keep."""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType
from typing import Any

import ftorch

from ..._alias import is_own
from ...nn import Module
from .._symbolic_trace import Tracer
from ..graph import Graph

__all__ = ["AST_Rewriter", "RewritingTracer"]


class AST_Rewriter(ast.NodeTransformer):  # noqa: N801  (PyTorch's)
    """Writes ``assert a, b`` as ``torch._assert(a, b)`` and ``x: T = v`` as an annotated value."""

    def rewrite(self, fn: FunctionType) -> FunctionType:
        """A function with the rewritten source."""
        source = textwrap.dedent(inspect.getsource(fn))
        tree = ast.fix_missing_locations(self.visit(ast.parse(source)))
        for node in tree.body:
            node.decorator_list = []
        captured = {**_captured(fn), "_torch_assert": ftorch._assert}
        body = tree.body[0]
        for node in ast.walk(body.args):
            if isinstance(node, ast.arg):
                node.annotation = None  # the function has their values
        body.returns = None
        made_by = ast.parse(f"def _maker({', '.join(captured)}):\n    pass").body[0]
        made_by.body = [body, ast.Return(ast.Name(body.name, ast.Load()))]
        tree.body = [made_by]
        scope: dict[str, Any] = {}
        exec(compile(ast.fix_missing_locations(tree), inspect.getfile(fn), "exec", dont_inherit=True), scope)
        # It sees the globals of the function, where wrapped functions are replaced while a program is traced.
        made = FunctionType(scope["_maker"].__code__, fn.__globals__)(**captured)
        made.__defaults__, made.__kwdefaults__ = fn.__defaults__, fn.__kwdefaults__
        made.__annotations__ = dict(fn.__annotations__)
        made.__dict__.update(fn.__dict__)
        return made

    def visit_Assert(self, node):  # noqa: N802
        """The call for an assertion."""
        message = node.msg if node.msg is not None else ast.Constant("")
        call = ast.Call(ast.Name("_torch_assert", ast.Load()), [node.test, message], [])
        return ast.copy_location(ast.Expr(call), node)

    def visit_AnnAssign(self, node):  # noqa: N802
        """The assignment with `ftorch.fx.annotate.annotate` around its value."""
        if node.value is None or not isinstance(node.target, ast.Name):
            return node
        function = ast.Attribute(ast.Name("_fx_annotate", ast.Load()), "annotate", ast.Load())
        call = ast.Call(function, [node.value, node.annotation], [])
        return ast.copy_location(ast.Assign([node.target], call), node)


def _captured(fn) -> dict[str, Any]:
    """What a function has of the functions around it."""
    from .. import annotate

    found: dict[str, Any] = {"_fx_annotate": annotate}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


class RewritingTracer(Tracer):
    """A `Tracer` of the rewritten source of functions and of modules' ``forward``."""

    def trace(self, root: Module | Callable, concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module or function."""
        return super().trace(_rewritten(root), concrete_args)


def _rewritten(fn):
    """A function, or a module with all that it contains, rewritten."""
    if not isinstance(fn, Module):
        return AST_Rewriter().rewrite(fn)
    memo: dict[int, Module] = {}

    def module(m):
        if id(m) in memo:
            return memo[id(m)]
        made = memo[id(m)] = copy.copy(m)
        if not is_own(type(m).__module__, "nn"):
            forward = AST_Rewriter().rewrite(type(m).forward)
            made.__class__ = type(type(m).__name__, (type(m),), {"forward": forward})
        made._modules = {k: v if v is None else module(v) for k, v in m._modules.items()}
        return made

    return module(fn)
