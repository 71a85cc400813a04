"""Expressions of functions that are compiled (`functions`)."""

from __future__ import annotations

import ast
import copy

from .context import _MISSING, FrontendError, Global, Known, MethodRef, NotSupportedError, beginning

__all__ = ["Expressions"]


class Expressions:
    """The part of `FunctionCompiler` that writes expressions for run time."""

    source: str
    locals: set
    statics: dict

    # --- expressions

    def expr(self, node) -> ast.expr:
        """An expression for run time."""
        made = self.node_of(self.value(node), node)
        if not hasattr(made, "origin"):
            made.origin = node  # for the errors of what is made
        return made

    def node_of(self, found, node) -> ast.expr:
        if not isinstance(found, Known):
            return found
        if found.node is not None:
            return found.node
        value = found.value
        if isinstance(value, MethodRef):
            raise self.error("methods are no values", node)
        closed = isinstance(found, Global) and not callable(value)
        text = None if closed else self.program.value_text(value)
        if text is None:
            kind = type(value).__name__
            raise self.error(
                f"python value of type '{kind}' cannot be used as a value. Perhaps it is a closed "
                "over global variable? If so, please consider passing it in as an argument or use a "
                "local variable instead.", node,
            )
        return ast.parse(text, mode="eval").body

    def made(self, node):
        handler = getattr(self, f"_{type(node).__name__}_", None)
        if handler is None:
            raise self.unsupported(node)
        return handler(node)

    def _Constant_(self, node):
        if node.value is Ellipsis:
            raise self.error("Cannot emit expr for: (dots)\n", node)
        if isinstance(node.value, bytes):
            raise FrontendError("Unknown Constant expression type", self.source, node)
        return node

    def _Tuple_(self, node):
        return ast.Tuple([self.expr(e) for e in node.elts], ast.Load())

    def _List_(self, node):
        return ast.List([self.expr(e) for e in node.elts], ast.Load())

    def _Dict_(self, node):
        if None in node.keys:
            raise NotSupportedError("Dict expansion (e.g. `{**dict}`) is not supported", self.source, beginning(node))
        return ast.Dict([self.expr(k) for k in node.keys], [self.expr(v) for v in node.values])

    def _Starred_(self, node):
        return ast.Starred(self.expr(node.value), ast.Load())

    def _BinOp_(self, node):
        return ast.BinOp(self.expr(node.left), node.op, self.expr(node.right))

    def _UnaryOp_(self, node):
        return ast.UnaryOp(node.op, self.expr(node.operand))

    def _BoolOp_(self, node):
        return ast.BoolOp(node.op, [self.expr(v) for v in node.values])

    def _Compare_(self, node):
        known = self.compare_truth(node) if len(node.ops) == 1 else None
        if known is not None:
            return ast.Constant(known)
        if len(node.ops) > 1:  # a < b < c
            parts, left = [], self.expr(node.left)
            for op, right in zip(node.ops, node.comparators):
                right = self.expr(right)
                parts.append(ast.Compare(left, [op], [right]))
                left = right
            return ast.BoolOp(ast.And(), parts)
        return ast.Compare(self.expr(node.left), node.ops, [self.expr(node.comparators[0])])

    def _IfExp_(self, node):
        known = self.truth(node.test)
        if known is not None:
            return self.expr(node.body if known else node.orelse)
        return ast.IfExp(self.expr(node.test), self.expr(node.body), self.expr(node.orelse))

    def _Subscript_(self, node):
        return ast.Subscript(self.expr(node.value), self.index(node.slice), ast.Load())

    def index(self, s):
        if isinstance(s, ast.Slice):
            return ast.Slice(*(p and self.expr(p) for p in (s.lower, s.upper, s.step)))
        if isinstance(s, ast.Tuple):
            return ast.Tuple([self.index(e) for e in s.elts], ast.Load())
        if isinstance(s, ast.Constant) and s.value is Ellipsis:
            return s
        if isinstance(s, ast.Name) and self.is_known(s, Ellipsis):
            return ast.Constant(...)
        if isinstance(s, ast.Call) and self.is_known(s.func, slice) and not s.keywords:
            bounds = [None, *s.args] if len(s.args) == 1 else s.args
            return self.index(ast.Slice(*bounds))
        return self.expr(s)

    def is_known(self, node, value):
        """Whether an expression stands for this Python value."""
        found = self.value(node)
        return isinstance(found, Known) and found.value is value

    def _JoinedStr_(self, node):
        template, values = "", []
        for part in node.values:
            if isinstance(part, ast.Constant):
                template += str(part.value)
            else:
                if part.conversion != -1:
                    raise NotSupportedError("Don't support conversion in JoinedStr", self.source, part)
                if part.format_spec is not None:
                    raise NotSupportedError("Don't support formatting in JoinedStr", self.source, part)
                template += "{}"
                values.append(self.expr(part.value))
        return ast.Call(ast.Attribute(ast.Constant(template), "format", ast.Load()), values, [])

    def _ListComp_(self, node):
        if len(node.generators) != 1:
            raise NotSupportedError(
                "Only a single generator is currently supported", self.source, node
            )
        g = node.generators[0]
        if g.ifs:
            raise NotSupportedError("Comprehension ifs are not supported yet", self.source, node)
        items = self.unrolled(g.iter)
        if items is not None:
            return self.unrolled_list(node, g, items)
        iterated = self.expr(g.iter)
        outer, statics = set(self.locals), dict(self.statics)
        target = self.target(g.target)
        made = ast.ListComp(self.expr(node.elt), [ast.comprehension(target, iterated, [], 0)])
        self.locals, self.statics = outer, statics
        return made

    _GeneratorExp_ = _ListComp_

    def unrolled_list(self, node, g, items):
        out, outer, statics = [], set(self.locals), dict(self.statics)
        for item in items:
            for target, value in zip(
                g.target.elts if isinstance(g.target, ast.Tuple) else [g.target],
                item if isinstance(item, tuple) else [item],
            ):
                self.locals.add(target.id)
                self.statics[target.id] = value if isinstance(value, Known) else Known(_MISSING, value)
            out.append(self.expr(copy.deepcopy(node.elt)))
        self.locals, self.statics = outer, statics
        return ast.List(out, ast.Load())

    def starred(self, node):
        """The items of ``*[...]`` where they are known to be so many, or None."""
        inner = node.value
        if isinstance(inner, ast.ListComp) and len(inner.generators) == 1:
            items = self.unrolled(inner.generators[0].iter)
            if items is not None:
                return self.unrolled_list(inner, inner.generators[0], items).elts
        found = self.value(inner)
        if isinstance(found, Known) and isinstance(found.value, (list, tuple)):
            return [self.node_of(Known(v), node) for v in found.value]
        return None

    def _DictComp_(self, node):
        g = node.generators[0]
        iterated = self.expr(g.iter)
        outer, statics = set(self.locals), dict(self.statics)
        target = self.target(g.target)
        made = ast.DictComp(self.expr(node.key), self.expr(node.value),
                            [ast.comprehension(target, iterated, [], 0)])
        self.locals, self.statics = outer, statics
        return made

    def _Call_(self, node):
        from .calls import call

        return call(self, node)
