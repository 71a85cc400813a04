"""``freeze``: a module's parameters and attributes become constants, its submodules functions."""

from __future__ import annotations

import ast
import copy

from ...eager.tensor import TensorBase
from .deprecations import warn_use
from .frontend.emit import class_text, define, emit_function, literal
from .program.modules import RecursiveScriptModule, ScriptModule, make_parameters, wrap_module
from .program.objects import ClassType, CompilationUnitData, Function, ScriptObject, unparse
from .program.types import infer

__all__ = ["freeze", "optimize_for_inference", "run_frozen_optimizations"]


class _Mutation(Exception):
    """The program changes an attribute, so that it cannot be a constant."""


_DYNAMIC = object()


def freeze(mod, preserved_attrs=None, optimize_numerics: bool = True):
    """A copy of a compiled module whose parameters and attributes are constants (``jit.freeze``).

    Args:
        mod: a `RecursiveScriptModule` in eval mode.
        preserved_attrs: names of methods and attributes to keep beside ``forward``.
        optimize_numerics: has no effect: XLA optimises.

    Raises:
        RuntimeError: not compiled, or in training mode.

    >>> import ftorch as torch
    >>> traced = torch.jit.trace(torch.nn.Linear(2, 3).eval(), torch.zeros(1, 2))
    >>> len(list(torch.jit.freeze(traced).parameters()))
    0
    """
    warn_use("freeze")
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or "
            "torch.jit.trace to script your 'nn.Module'."
        )
    if not isinstance(mod, RecursiveScriptModule):
        mod = mod._script()
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on "
            "your module before freezing."
        )
    preserved = list(preserved_attrs or [])
    data = mod._c
    for name in preserved:
        if name not in data._type.methods and not data.hasattr(name):
            raise RuntimeError(f"Unknown name: {name}")
    kept = {n for n in preserved if n in data.__dict__}
    names = [n for n in ("forward", *preserved) if n in data._type.methods]
    freezer = _Freezer(data, kept)
    try:
        methods = {n: freezer.method(data, n) for n in names}
    except _Mutation:
        return wrap_module(copy.deepcopy(data))
    return wrap_module(freezer.module(data, methods, kept))


class _Freezer:
    """Writes methods of objects as functions without them."""

    def __init__(self, root: ScriptObject, kept: set[str]):
        self.root, self.kept = root, kept
        self.source: CompilationUnitData = root._type.unit
        self.unit = CompilationUnitData()
        self.numbers: dict[int, int] = {}
        self.alive: list = []  # so that identities stay
        self.names: dict[tuple[int, str], str] = {}
        for i, c in enumerate(self.source.constants):
            self.numbers[id(c)] = i
            self.unit.constants.append(c)

    def constant(self, t) -> str:
        if id(t) not in self.numbers:
            self.numbers[id(t)] = len(self.unit.constants)
            self.unit.constants.append(t.detach())
            self.alive.append(t)
        return f"CONSTANTS.c{self.numbers[id(t)]}"

    def text(self, value) -> str | None:
        """A value's text as a constant, or None."""
        if isinstance(value, TensorBase):
            return self.constant(value)
        if isinstance(value, (list, tuple)):
            parts = [self.text(v) for v in value]
            if None in parts or (isinstance(value, list) and not parts):
                return None
            inner = ", ".join(parts)
            if isinstance(value, list):
                return f"[{inner}]"
            return f"({inner}{',' if len(parts) == 1 else ''})"
        if isinstance(value, dict):
            kind = infer(value)
            parts = [(self.text(k), self.text(v)) for k, v in value.items()]
            if kind is None or any(None in p for p in parts):
                return None
            return f"annotate({kind}, {{{', '.join(f'{k}: {v}' for k, v in parts)}}})"
        try:
            return literal(value)
        except RuntimeError:
            return None

    def method(self, obj: ScriptObject, name: str) -> ast.FunctionDef:
        """A method's tree without its object."""
        function = obj._type.methods.get(name)
        if function is None:
            raise _Mutation(name)
        node = copy.deepcopy(function.node)
        body = _Body(self, {node.args.args[0].arg: obj})
        if obj is not self.root:
            node.args.args.pop(0)
        node.body = body.block(node.body) or [ast.Pass()]
        return node

    def function(self, obj, name) -> str:
        """The qualified name of the function that a submodule's method becomes."""
        key = (id(obj), name)
        if key not in self.names:
            node = self.method(obj, name)
            node.name = f"{obj._type.short_name}_{name}_{len(self.names)}"
            self.names[key] = path = f"__torch__.frozen.{node.name}"
            emit_function(self.unit, unparse(node), path)
        return self.names[key]

    def carried(self, path: str) -> None:
        """Takes over a function or class that the program names."""
        if path in self.source.python:
            self.unit.python[path] = self.source.python[path]
            return
        name = path
        found = self.source.find(name)
        while found is None and "." in name:
            name = name.rpartition(".")[0]
            found = self.source.find(name)
        if found is None or name in self.unit.functions or name in self.unit.classes:
            return
        if isinstance(found, Function):
            made = emit_function(self.unit, found.code, name)
        else:
            made = define(self.unit, name, found.source)
            made.python = found.python
            if found.kind == "class":
                made.make_python()
        for node in ast.walk(ast.parse(found.code if isinstance(found, Function) else found.source)):
            path_ = _path(node)
            if path_ is not None and path_.startswith("__torch__") and path_ != name:
                self.carried(path_)

    def module(self, data, methods, kept):
        kind: ClassType = data._type
        values = {"training": False, **{n: data.__dict__[n] for n in kept}}
        types = {n: str(kind.attributes.get(n) or infer(v)) for n, v in values.items()}
        texts = []
        for name, node in methods.items():
            node.args.args[0].annotation = ast.parse(kind.name, mode="eval").body
            node.name = name
            texts.append(unparse(node))
            for inner in ast.walk(node):
                path = _path(inner)
                if path and path.startswith("__torch__.") and path != kind.name:
                    self.carried(path)
        for function in list(self.unit.functions.values()):
            for inner in ast.walk(function.node):
                path = _path(inner)
                if path and path.startswith("__torch__.") and not path.startswith("__torch__.frozen"):
                    self.carried(path)
        text = class_text(kind.short_name, "Module", types, texts,
                          [n for n in kept if n in kind.parameters],
                          [n for n in kept if n in kind.buffers])
        made = define(self.unit, kind.name, text).python()
        made.__dict__.update(values)
        make_parameters(made)
        return made


def _path(node) -> str | None:
    if isinstance(node, (ast.Attribute, ast.Name)):
        text = ast.unparse(node)
        return text if text.replace(".", "").replace("_", "a").isalnum() else None
    return None


class _Body(ast.NodeTransformer):
    """Evaluates what a method reads of its object."""

    def __init__(self, freezer: _Freezer, objects: dict):
        self.freezer, self.objects = freezer, objects

    def block(self, statements):
        out = []
        for s in statements:
            made = self.visit(s)
            if made is None:
                continue
            out += made if isinstance(made, list) else [made]
        return out

    def known(self, e):
        """The object that an expression is at compile time, or _DYNAMIC."""
        if isinstance(e, ast.Name):
            return self.objects.get(e.id, _DYNAMIC)
        name, owner = None, _DYNAMIC
        if isinstance(e, ast.Attribute):
            owner, name = self.known(e.value), e.attr
        elif isinstance(e, ast.Call) and isinstance(e.func, ast.Name) and e.func.id == "getattr":
            owner, name = self.known(e.args[0]), ast.literal_eval(e.args[1])
        if isinstance(owner, ScriptObject):
            if owner is self.freezer.root and name in self.freezer.kept:
                return _DYNAMIC
            if name in owner.__dict__:
                return owner.__dict__[name]
            if name in owner._type.constants:
                return owner._type.constants[name]
        return _DYNAMIC

    def truth(self, e):
        """Whether a condition holds, or None."""
        if isinstance(e, ast.Constant):
            return bool(e.value)
        if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.Not):
            inner = self.truth(e.operand)
            return None if inner is None else not inner
        if isinstance(e, ast.Call) and ast.unparse(e.func) == "torch.__not__":
            inner = self.truth(e.args[0])
            return None if inner is None else not inner
        found = self.known(e)
        return found if isinstance(found, bool) else None

    def visit_Assign(self, s):
        target = s.targets[0]
        found = self.known(s.value)
        if isinstance(target, ast.Name):
            if isinstance(found, (ScriptObject, bool)):
                self.objects[target.id] = found
                return None if isinstance(found, ScriptObject) else self.generic_visit(s)
            self.objects.pop(target.id, None)
        if isinstance(target, ast.Attribute) and isinstance(self.known(target.value), ScriptObject):
            owner = self.known(target.value)
            if not (owner is self.freezer.root and target.attr in self.freezer.kept):
                raise _Mutation(target.attr)
        return self.generic_visit(s)

    def visit_AugAssign(self, s):
        if isinstance(s.target, ast.Attribute) and isinstance(self.known(s.target.value), ScriptObject):
            raise _Mutation(s.target.attr)
        return self.generic_visit(s)

    def visit_If(self, s):
        holds = self.truth(s.test)
        if holds is not None:
            return self.block(s.body if holds else s.orelse)
        before = dict(self.objects)
        s.test = self.visit(s.test)
        s.body = self.block(s.body) or [ast.Pass()]
        self.objects = dict(before)
        s.orelse = self.block(s.orelse)
        self.objects = before
        return s

    def visit_Call(self, e):
        if isinstance(e.func, ast.Attribute):
            owner = self.known(e.func.value)
            if isinstance(owner, ScriptObject):
                if owner is self.freezer.root and e.func.attr in self.freezer.names:
                    raise _Mutation(e.func.attr)
                path = self.freezer.function(owner, e.func.attr)
                e.func = ast.parse(path, mode="eval").body
                e.args = [self.visit(a) for a in e.args]
                for k in e.keywords:
                    k.value = self.visit(k.value)
                return e
        return self.constant(e) or self.generic_visit(e)

    def visit_Attribute(self, e):
        if isinstance(e.ctx, ast.Load):
            return self.constant(e) or self.generic_visit(e)
        return self.generic_visit(e)

    def visit_Name(self, e):
        if isinstance(self.objects.get(e.id), ScriptObject):
            if self.objects[e.id] is self.freezer.root:
                return e
            raise _Mutation(e.id)
        return e

    def constant(self, e):
        found = self.known(e)
        if found is _DYNAMIC:
            return None
        text = None if isinstance(found, ScriptObject) else self.freezer.text(found)
        if text is None:
            raise _Mutation(ast.unparse(e))
        return ast.parse(text, mode="eval").body


def run_frozen_optimizations(mod, optimize_numerics: bool = True, preserved_methods=None) -> None:
    """Does nothing more: a frozen module is optimised when XLA compiles it."""


def optimize_for_inference(mod, other_methods=None):
    """A frozen copy of a compiled module, unless it is frozen (``jit.optimize_for_inference``).

    >>> import ftorch as torch
    >>> traced = torch.jit.trace(torch.nn.Linear(2, 3).eval(), torch.zeros(1, 2))
    >>> torch.jit.optimize_for_inference(traced)(torch.zeros(1, 2)).shape
    torch.Size([1, 3])
    """
    warn_use("optimize_for_inference")
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "optimize_for_inference expects a ScriptModule as input. Please use torch.jit.script or "
            "torch.jit.trace to script your 'nn.Module'."
        )
    if "training" in getattr(mod, "_c", mod).__dict__ and mod.training:
        return freeze(mod.eval(), other_methods)
    return freeze(mod, other_methods)
