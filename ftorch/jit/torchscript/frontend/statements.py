"""Statements of functions that are compiled (`functions`)."""

from __future__ import annotations

import ast
import copy
import enum
import inspect

from ....nn import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from ..program.types import Type, type_of_annotation
from .context import Known, MethodRef, ModuleRef, NotSupportedError

__all__ = ["Statements"]


def _assigned(body) -> set[str]:
    """The names that statements assign to."""
    nodes = (node for statement in body for node in ast.walk(statement))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _typed(value, kind):
    """A returned list or dictionary that is written out has the declared type, where its own elements would not give it."""
    if isinstance(value, ast.IfExp):
        value.body, value.orelse = _typed(value.body, kind), _typed(value.orelse, kind)
        return value
    if kind.name == "Optional":
        kind = kind.args[0]
    literals = {"List": (ast.List, ast.ListComp), "Dict": (ast.Dict, ast.DictComp)}.get(kind.name)
    if literals is None or not isinstance(value, literals):
        return value
    is_empty = not getattr(value, "elts", getattr(value, "keys", True))
    if not is_empty and not any(element.name in ("Optional", "Union", "Any") for element in kind.args):
        return value
    note = ast.parse(str(kind), mode="eval").body
    made = ast.Call(ast.Name("annotate", ast.Load()), [note, value], [])
    made.origin = getattr(value, "origin", None)  # type: ignore[attr-defined]
    return made

# What loops may go over, and the method that gives the same with names.
_WALKS = {"modules": "named_modules", "children": "named_children", "named_modules": "named_modules",
          "named_children": "named_children", "named_buffers": "named_buffers"}


class Statements:
    """The part of `FunctionCompiler` that writes statements."""

    source: str
    locals: set
    statics: dict
    types: dict
    attributes: dict
    class_name: str | None

    # --- statements

    def block(self, statements) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for s in statements:
            handler = getattr(self, f"_{type(s).__name__}", None)
            if handler is None:
                raise self.unsupported(s)
            made = handler(s)
            made = made if isinstance(made, list) else [made]
            for m in made:
                m.origin = getattr(m, "origin", s)
            out.extend(made)
            if made and isinstance(out[-1], (ast.Return, ast.Raise, ast.Break, ast.Continue)):
                break
        return out

    def _Pass(self, s):
        return []

    def _Break(self, s):
        return ast.Break()

    def _Continue(self, s):
        return ast.Continue()

    def _Expr(self, s):
        if isinstance(s.value, ast.Constant):
            return []  # a docstring
        return ast.Expr(self.expr(s.value))

    def _Return(self, s):
        value = self.expr(s.value) if s.value is not None else None
        return ast.Return(_typed(value, self.returns) if self.returns is not None else value)

    def _Assign(self, s):
        if len(s.targets) == 1 and isinstance(s.targets[0], ast.Name):
            found = self.value(s.value)
            name = s.targets[0].id
            if isinstance(found, Known) and self._stays(found):
                self.statics[name] = found
                self.locals.add(name)
                return []
            node = self.node_of(found, s.value)
            if not hasattr(node, "origin"):
                node.origin = s.value  # type: ignore[attr-defined]
            self.bind(name)
            return ast.Assign([ast.Name(name, ast.Store())], node, lineno=1)
        node = self.expr(s.value)
        if len(s.targets) == 1:
            starred = isinstance(s.targets[0], (ast.Tuple, ast.List)) and (
                any(isinstance(t, ast.Starred) for t in s.targets[0].elts))
            return self.starred_targets(s, node) if starred else ast.Assign([self.target(s.targets[0], s)], node, lineno=1)
        # The value is computed once: a variable that it has anyhow, or one of its own, holds it for the other targets.
        holder = next((t for t in s.targets if isinstance(t, ast.Name)), None) or ast.Name(f"_assigned{s.lineno}", ast.Store())
        out = [ast.Assign([self.target(holder, s)], node, lineno=1)]
        return out + [ast.Assign([self.target(t, s)], ast.Name(holder.id, ast.Load()), lineno=1)
                      for t in s.targets if t is not holder]

    def starred_targets(self, s, node):
        """``a, *b, c = value``, of a tuple: its elements, and the part between them."""
        targets = s.targets[0].elts
        star = next(i for i, t in enumerate(targets) if isinstance(t, ast.Starred))
        holder = ast.Name(f"_assigned{s.lineno}", ast.Store())
        first = ast.Assign([self.target(holder)], node, lineno=1)
        first.is_starred = True  # type: ignore[attr-defined]
        out = [first]
        for i, t in enumerate(targets):
            behind = i - len(targets)
            if i == star:
                end = ast.Constant(behind + 1) if behind < -1 else None
                part: ast.expr = ast.Slice(ast.Constant(i) if i else None, end)
            else:
                part = ast.Constant(i if i < star else behind)
            value = ast.Subscript(ast.Name(holder.id, ast.Load()), part, ast.Load())
            out.append(ast.Assign([self.target(t.value if i == star else t)], value, lineno=1))
        return out

    def _stays(self, found):
        """Whether a variable for a known value is only that: modules and functions are no values."""
        return isinstance(found, (ModuleRef, MethodRef)) or (
            found.node is None and (callable(found.value) or inspect.ismodule(found.value))
        )

    def bind(self, name):
        self.locals.add(name)
        self.statics.pop(name, None)
        self.narrowed.pop(name, None)

    def target(self, t, s=None):
        if isinstance(t, ast.Name):
            self.bind(t.id)
            return ast.Name(t.id, ast.Store())
        if isinstance(t, (ast.Tuple, ast.List)):
            made = ast.Tuple([self.target(e) for e in t.elts], ast.Store())
            made.origin = t  # type: ignore[attr-defined]
            return made
        if isinstance(t, ast.Attribute):
            if self.class_name and isinstance(t.value, ast.Name) and s is not None:
                value = getattr(s, "value", None)
                self.attributes.setdefault(t.attr, self.guess(value))
            self.check_attribute(t)
            return ast.Attribute(self.expr(t.value), t.attr, ast.Store())
        if isinstance(t, ast.Subscript):
            made = ast.Subscript(self.expr(t.value), self.index(t.slice), ast.Store())
            made.origin = t  # type: ignore[attr-defined]
            return made
        if isinstance(t, ast.Starred):
            return ast.Starred(self.target(t.value), ast.Store())
        raise self.unsupported(t)

    def check_attribute(self, t):
        """Complains of an assignment to what a module does not have."""
        owner = self.value(t.value)
        if isinstance(owner, ModuleRef) and not hasattr(owner.value, t.attr):
            raise self.error(f"Tried to set nonexistent attribute: {t.attr}. Did you forget to "
                             "initialize it in __init__()?", t)

    def guess(self, node) -> Type:
        """The type of a value that a script class gives itself."""
        if isinstance(node, ast.Name) and node.id in self.types:
            return self.types[node.id]
        if isinstance(node, ast.Constant):
            return type_of_annotation(type(node.value)) or Type("Tensor")
        if isinstance(node, ast.BinOp):
            return self.guess(node.left)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            cls = self.lookup(node.func.id)
            if isinstance(cls, type):
                return type_of_annotation(cls, self.program.class_name) or Type("Tensor")
        return Type("Tensor")

    def _AnnAssign(self, s):
        kind = self.type(s.annotation)
        if s.value is None:
            raise self.error("Expected an initial value of a declared variable", s)
        value = self.expr(s.value)
        note = ast.parse(str(kind), mode="eval").body
        if isinstance(s.target, ast.Attribute):
            if self.class_name:
                self.attributes[s.target.attr] = kind
            made = ast.Call(ast.Name("annotate", ast.Load()), [note, value], [])
            return ast.Assign([self.target(s.target)], made, lineno=1)
        self.bind(s.target.id)
        self.types[s.target.id] = kind
        target = ast.Name(s.target.id, ast.Store())
        target.origin = s.target  # type: ignore[attr-defined]
        return ast.AnnAssign(target, note, value, 1)

    def _AugAssign(self, s):
        value = self.expr(s.value)
        if isinstance(s.target, ast.Name):
            if s.target.id not in self.locals:
                raise self.error(f"undefined value {s.target.id}", s.target)
            known = self.statics.get(s.target.id)
            before = []
            if known is not None:
                before = [ast.Assign([ast.Name(s.target.id, ast.Store())],
                                     self.node_of(known, s.target), lineno=1)]
                self.bind(s.target.id)
            return [*before, ast.AugAssign(ast.Name(s.target.id, ast.Store()), s.op, value)]
        return ast.AugAssign(self.target(s.target), s.op, value)

    def _If(self, s):
        known = self.truth(s.test)
        if known is not None:
            return self.block(s.body if known else s.orelse)
        test = self.expr(s.test)
        before = dict(self.statics)
        names = set(self.locals)
        narrowed, (holds, fails) = self.narrowed, self.branches(s.test)
        self.narrowed = dict(holds)
        body = self.block(s.body)
        after, self.statics = self.statics, dict(before)
        in_body, self.locals = self.locals, names
        self.narrowed = dict(fails)
        orelse = self.block(s.orelse)
        # What a branch assigns to has its declared type behind it.
        assigned = _assigned(s.body) | _assigned(s.orelse)
        self.narrowed = {k: v for k, v in narrowed.items() if k not in assigned}
        self.statics = {k: v for k, v in self.statics.items() if after.get(k) is v}
        self.locals = self.locals | in_body
        return ast.If(test, body or [ast.Pass()], orelse)

    def _While(self, s):
        if s.orelse:
            raise NotSupportedError("else branches of while loops aren't supported", self.source, s)
        self.forget_assigned(s.body)
        return ast.While(self.expr(s.test), self.block(s.body) or [ast.Pass()], [])

    def forget_assigned(self, body):
        for name in _assigned(body):
            self.statics.pop(name, None)
            self.narrowed.pop(name, None)

    def sliced(self, node):
        """The modules of ``self.layers[1:]``, or None."""
        owner = self.value(node.value)
        if not (isinstance(owner, ModuleRef) and isinstance(owner.value, (ModuleList, Sequential))):
            return None
        part = node.slice
        bounds = [None if b is None else self.static_value(b) for b in (part.lower, part.upper, part.step)]
        if any(b is not None and type(b) is not int for b in bounds):
            raise self.error("the bounds of a slice of modules must be constants", node)
        return [self.child(owner, n) for n in list(owner.value._modules)[slice(*bounds)]]

    def _For(self, s):
        if s.orelse:
            raise NotSupportedError("else branches of for loops aren't supported", self.source, s)
        items = self.unrolled(s.iter)
        if items is not None:
            return self.unroll(s, items)
        iterated = self.expr(s.iter)
        self.forget_assigned(s.body)
        target = self.target(s.target)
        return ast.For(target, iterated, self.block(s.body) or [ast.Pass()], [], lineno=1)

    def unroll(self, s, items):
        out = []
        for n in (n for x in s.body for n in ast.walk(x)):
            if isinstance(n, (ast.Break, ast.Continue)):
                raise self.error("'break' and 'continue' in a loop over modules aren't supported", n)
        for item in items:
            out += self.assign_known(s.target, item)
            out += self.block(copy.deepcopy(s.body))
        return out

    def assign_known(self, target, item) -> list[ast.stmt]:
        """Gives names to the values of one turn of an unrolled loop."""
        if isinstance(target, (ast.Tuple, ast.List)):
            if not isinstance(item, tuple):
                raise self.error("Provided tuple of values cannot be unpacked", target)
            return [x for t, i in zip(target.elts, item) for x in self.assign_known(t, i)]
        if isinstance(item, ModuleRef):
            self.locals.add(target.id)
            self.statics[target.id] = item
            return []
        node = self.node_of(item, target) if isinstance(item, Known) else item
        self.bind(target.id)
        return [ast.Assign([ast.Name(target.id, ast.Store())], node, lineno=1)]

    def unrolled(self, node):
        """The items of a loop that is unrolled (over modules), or None."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            name = node.func.id
            inner = [self.unrolled(a) for a in node.args]
            if name == "enumerate" and inner and inner[0] is not None:
                return [(Known(i), item) for i, item in enumerate(inner[0])]
            if name == "zip" and inner and any(i is not None for i in inner):
                count = min(len(i) for i in inner if i is not None)
                columns = [
                    i if i is not None else [
                        ast.Subscript(self.expr(a), ast.Constant(k), ast.Load()) for k in range(count)
                    ] for i, a in zip(inner, node.args)
                ]
                return list(zip(*columns))
            if name == "reversed" and inner and inner[0] is not None:
                return inner[0][::-1]
            if name in ("list", "tuple") and inner and inner[0] is not None:
                return inner[0]
            return None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            receiver, inside = node.func.value, False
            if isinstance(receiver, ast.Attribute) and receiver.attr in ("_modules", "_parameters"):
                receiver, inside = receiver.value, True
            owner = self.value(receiver)
            if isinstance(owner, ModuleRef) and node.func.attr in _WALKS:
                if node.keywords:
                    raise self.error(f"{node.func.attr} method does not accept any arguments", node)
                return self.walked(owner, node.func.attr)
            if isinstance(owner, ModuleRef) and (
                inside or isinstance(owner.value, (ModuleDict, ParameterDict))
            ):
                names = list(getattr(owner.value, node.func.value.attr) if inside else owner.value.keys())
                values = [self.child(owner, n) for n in names]
                return {"items": [(Known(n), v) for n, v in zip(names, values)], "values": values,
                        "keys": [Known(n) for n in names]}.get(node.func.attr)
            return None
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            return self.sliced(node)
        found = self.value(node) if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) else None
        if isinstance(found, ModuleRef) and isinstance(found.value, (ModuleList, Sequential)):
            return [self.child(found, n) for n in found.value._modules]
        if isinstance(found, ModuleRef) and isinstance(found.value, ParameterList):
            return [self.attribute(found, str(i), node) for i in range(len(found.value))]
        if isinstance(found, Known) and isinstance(found.value, enum.EnumMeta):
            return [Known(member) for member in found.value]
        if isinstance(found, ModuleRef) and isinstance(found.value, ModuleDict):
            return [Known(n) for n in found.value._modules]
        if type(found) is Known and isinstance(found.value, tuple):
            return [Known(v) for v in found.value]
        return None

    def walked(self, owner: ModuleRef, method: str):
        """The modules, or buffers, that a method of modules gives; with their names, where it gives them."""
        found = []
        for name in [n for n, _ in getattr(owner.value, _WALKS[method])()]:
            at = owner
            for part in filter(None, name.split(".")):
                at = self.child(at, part)
            found.append((Known(name), at) if method.startswith("named_") else at)
        return found

    def child(self, owner: ModuleRef, name: str):
        """A submodule or parameter by name."""
        return self.attribute(owner, name, None)

    def _With(self, s):
        items = []
        for item in s.items:
            node = self.expr(item.context_expr)
            items.append(ast.withitem(node, item.optional_vars and self.target(item.optional_vars)))
        return ast.With(items, self.block(s.body) or [ast.Pass()], lineno=1)

    def _Assert(self, s):
        known = self.truth(s.test)
        if known:
            return []
        message = self.expr(s.msg) if s.msg is not None else ast.Constant("")
        return ast.Assert(self.expr(s.test), message)

    def _Raise(self, s):
        arguments = [ast.Constant("")]
        if isinstance(s.exc, ast.Call):
            raised = self.value(s.exc.func)
            cls = raised.value if isinstance(raised, Known) else None
            if len(s.exc.args) == 1:
                arguments = [self.expr(s.exc.args[0])]
            elif s.exc.args:  # shown as an exception shows them
                several = ast.Tuple([self.expr(a) for a in s.exc.args], ast.Load())
                arguments = [ast.Call(ast.Name("str", ast.Load()), [several], [])]
            if isinstance(cls, type):
                arguments.append(ast.Constant(f"{cls.__module__}.{cls.__name__}"))
        function = ast.parse("ops.prim.RaiseException", mode="eval").body
        return ast.Expr(ast.Call(function, arguments, []))

    def _Delete(self, s):
        return ast.Delete([
            ast.Subscript(self.expr(t.value), self.index(t.slice), ast.Del())
            if isinstance(t, ast.Subscript) else ast.Name(t.id, ast.Del()) for t in s.targets
        ])
