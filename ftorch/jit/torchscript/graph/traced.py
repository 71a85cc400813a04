"""From a traced function's text to a graph: constants stand before their use, types have the example's sizes."""

from __future__ import annotations

import ast

import ftorch

from ..program.types import FLOAT, INT, TENSOR
from .statements import Emitter

__all__ = ["TracedEmitter"]

_TENSOR_OPERANDS = frozenset("add sub mul div floor_divide add_ sub_ mul_ div_".split())
_NAMES = {ftorch.int64: "Long", ftorch.float64: "Double", ftorch.bool: "Bool", ftorch.complex128: "ComplexDouble"}


class TracedEmitter(Emitter):
    """Writes one function of a trace: a run of calls without control flow."""

    def __init__(self, function):
        super().__init__(function)
        self.variables: dict = {}
        self.noted = function.notes
        self.where: tuple | None = None

    def emit(self):
        graph = super().emit()
        for value, (name, _, _) in zip(graph.parameters, self.function.schema.parameters):
            if value is getattr(self, "self_value", None):
                value.rename(f"{name}.1")
            value.detail = self.noted.get(name, ("", "", None))[1]
        return graph

    def place_of(self, e):
        return self.where

    def set(self, name, value):
        self.variables[name] = value
        self.frames[-1].types[name] = value.kind
        named, detail, _ = self.noted.get(name, ("", "", None))
        if named and value.name is None:
            value.rename(named)
        if detail and not value.detail and value.kind == TENSOR:
            value.detail = detail

    def load(self, name, kind):
        return self.variables[name]

    def statements(self, body):
        if callable(body):
            return body()
        for s in body:
            target = s.targets[0] if isinstance(s, ast.Assign) else None
            if isinstance(target, (ast.Tuple, ast.List)):
                target = target.elts[0]
            self.where = self.noted.get(getattr(target, "id", ""), ("", "", None))[2]
            getattr(self, f"_{type(s).__name__}")(s)

    def _Pass(self, s):
        pass

    def returning(self, e):
        self.where = None
        self.graph.returned = [self.constant(None) if e is None else self.expr(e)]
        self.exits.add(self.graph)

    def _UnaryOp_(self, e):
        if isinstance(e.op, ast.USub) and isinstance(e.operand, ast.Constant):
            return self.constant(-e.operand.value)
        return super()._UnaryOp_(e)

    def _Tuple_(self, e, wanted=None):
        made = super()._Tuple_(e, wanted)
        made.detail = f"({', '.join(v.shown for v in made.producer.operands)})"
        return made

    def number(self, value, place):
        return self.constant(value, place)

    def constant(self, value, place=None):
        made = super().constant(value, place if value is None else self.where)
        if value is None:
            made.producer.place = None
        if isinstance(value, ftorch.Tensor):
            shape = f"{', '.join(map(str, value.shape))}, strides={list(value.stride())}, " if value.dim() else ""
            made.detail = f"{_NAMES.get(value.dtype, 'Float')}({shape}requires_grad=0, device=cpu)"
        return made

    def call_operator(self, name, given, keywords, place, namespace="aten"):
        if name in _TENSOR_OPERANDS and len(given) > 1 and given[0].kind == TENSOR and given[1].kind in (INT, FLOAT):
            node = given[1].producer
            known = given[1].toIValue()
            if known is not None and not keywords:
                kind = ftorch.int64 if given[1].kind == INT else ftorch.float64
                node.block.body.remove(node)
                if given[1].number == self.graph.count - 1:  # nothing has been made since
                    self.graph.count -= 1
                number = ftorch.tensor(known, dtype=kind)
                self.graph.numbers[id(number)] = known
                given = [given[0], self.constant(number), *given[2:]]
        made = super().call_operator(name, given, keywords, place, namespace)
        if made.producer.op == "prim::TupleConstruct" and made.number == self.graph.count - 1:
            self.graph.count -= 1  # it is taken apart again
        return made
