"""From a program's text to a graph: expressions."""

from __future__ import annotations

import ast
import itertools

from ....eager.core.device import device
from ..program.objects import Function as ProgramFunction
from ..program.types import (
    BOOL,
    DEVICE,
    INT,
    NONE,
    STR,
    TENSOR,
    Type,
    infer,
    parse_type,
    unify,
)
from .calls import Calls
from .ir import Function, Graph, Node, Value

__all__ = ["OPERATORS", "Expressions"]

OPERATORS = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "div", "FloorDiv": "floordiv", "Mod": "remainder", "Pow": "pow",
    "MatMult": "matmul", "BitAnd": "__and__", "BitOr": "__or__", "BitXor": "__xor__", "LShift": "__lshift__",
    "RShift": "__rshift__", "Eq": "eq", "NotEq": "ne", "Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge",
    "Is": "__is__", "IsNot": "__isnot__", "In": "__contains__", "NotIn": "__contains__", "USub": "neg",
    "Not": "__not__", "Invert": "bitwise_not", "UAdd": "pos",
}
_PRIM_ATTRIBUTES = frozenset("dtype device layout is_cuda is_cpu is_xla is_sparse is_sparse_csr is_mkldnn is_quantized "
                             "is_meta grad data requires_grad itemsize nbytes name".split())
_ATEN_ATTRIBUTES = {"shape": ("size", 13), "T": ("numpy_T", 5), "ndim": ("dim", 11), "mT": ("mT", None),
                    "H": ("matrix_H", 7), "mH": ("mH", None), "real": ("real", None), "imag": ("imag", None)}


def is_optional(kind) -> bool:
    return isinstance(kind, Type) and (kind.name == "Optional" or kind.name == "Union" and NONE in kind.args)


class Items:
    """What a loop is over: how many turns it has, and what each has."""

    unrolled = None

    def __init__(self, length, item):
        self.length, self.item = length, item


class Expressions(Calls):
    """The part of `Emitter` that writes expressions."""

    graph: Graph
    at: list
    constants: dict

    def place_of(self, e):
        """(file, line, column) of what a part of the text comes from, or None."""
        origin = self.origins.get(e)
        source = self.source
        if origin is None or source is None or not getattr(source, "file", "") or not hasattr(origin, "lineno"):
            return None
        return source.file, source.first + origin.lineno - 1, origin.col_offset + source.indent

    def insert(self, node: Node) -> Node:
        block, index = self.at[-1]
        if index is None:
            block.append(node)
        else:
            block.insert(index, node)
            self.at[-1][1] = index + 1
        return node

    def before(self, node):
        """Nodes go in front of another one while this is entered."""
        return self.inside_at(node.block, node.block.body.index(node))

    def inside_at(self, block, index):
        from .statements import _Inside

        return _Inside(self, block, index)

    def node(self, op, operands, kinds, place=None, **attributes) -> Node:
        return self.insert(self.graph.create(op, operands, kinds, place, **attributes))

    # --- constants

    def constant(self, value, place=None) -> Value:
        """A constant where nodes go."""
        if isinstance(value, Function):
            kind = Type("Function")
        else:
            kind = DEVICE if isinstance(value, device) else infer(value) or TENSOR
        return self.node("prim::Constant", (), [kind], place, value=value).results[0]

    def number(self, value, place) -> Value:
        """The constant of a number, at the beginning of the graph; one for all places where it is written."""
        key = type(value), value
        found = self.constants.get(key)
        if found is None:
            node = self.graph.create("prim::Constant", (), [infer(value)], place, value=value)
            self.graph.insert(0, node)
            for entry in self.at:
                if entry[0] is self.graph and entry[1] is not None:
                    entry[1] += 1
            found = self.constants[key] = node.results[0]
        return found

    # --- expressions

    def expr(self, e, wanted=None) -> Value:
        handler = getattr(self, f"_{type(e).__name__}_", None)
        if handler is None:
            return self.node("prim::Unknown", (), [TENSOR], self.place_of(e), value=ast.unparse(e)).results[0]
        if wanted is not None and isinstance(e, (ast.List, ast.Dict, ast.ListComp, ast.Tuple)):
            return handler(e, wanted)
        return handler(e)

    def variable(self, e) -> Value:
        if e.id == getattr(self, "self_name", None):
            return self.self_value
        kind = self.type_of(e.id)
        if kind is None:
            plain = {"inf": float("inf"), "nan": float("nan"), "infj": complex(0, float("inf"))}
            if e.id in plain:
                return self.number(plain[e.id], self.place_of(e))
            return self.constant(None)
        return self.load(e.id, kind)

    _Name_ = variable

    def _Constant_(self, e):
        place = self.place_of(e)
        written = isinstance(self.origins.get(e), (ast.Constant, ast.UnaryOp, type(None)))
        if type(e.value) in (int, float, complex) and written:
            return self.number(e.value, place)
        return self.constant(e.value, place)

    def _Tuple_(self, e, wanted=None):
        inner = list(wanted.args) if wanted is not None and wanted.name == "Tuple" else []
        parts = [self.expr(x, k) for x, k in itertools.zip_longest(e.elts, inner[: len(e.elts)])]
        kinds = [k if k is not None and k.name == "Optional" else p.kind for p, k in itertools.zip_longest(
            parts, inner[: len(parts)])]
        return self.node("prim::TupleConstruct", parts, [Type("Tuple", tuple(kinds))]).results[0]

    def _List_(self, e, wanted=None):
        inner = wanted.args[0] if wanted is not None and wanted.name == "List" else None
        parts = [self.expr(x, inner) for x in e.elts]
        kind = inner or (unify([p.kind for p in parts]) if parts else TENSOR) or parts[0].kind
        return self.node("prim::ListConstruct", parts, [Type("List", (kind,))]).results[0]

    def _Dict_(self, e, wanted=None):
        pairs = [(self.expr(k), self.expr(v)) for k, v in zip(e.keys, e.values)]
        kind = wanted if wanted is not None and wanted.name == "Dict" else Type("Dict", (
            (pairs[0][0].kind, pairs[0][1].kind) if pairs else (STR, TENSOR)))
        return self.node("prim::DictConstruct", [v for p in pairs for v in p], [kind]).results[0]

    def _BinOp_(self, e):
        place = self.place_of(e)
        left, right = self.expr(e.left), self.expr(e.right)
        name = OPERATORS[type(e.op).__name__]
        if name == "remainder" and left.kind == STR:
            return self.operator("percentFormat", [left, right], place=place, kinds=[STR])
        return self.call_operator(name, [left, right], {}, place)

    def _UnaryOp_(self, e):
        place = self.place_of(e)
        if isinstance(e.op, ast.Not):
            value, _, _ = self.condition(e.operand)
            return self.operator("__not__", [value], place=place, kinds=[BOOL])
        operand = self.expr(e.operand)
        name = OPERATORS[type(e.op).__name__]
        known = operand.toIValue()
        if name == "neg" and type(known) in (int, float, complex):
            self.graph.count += 1  # of the operator, which is evaluated
            return self.constant(-known, place)
        return self.call_operator(name, [operand], {}, place)

    def _Compare_(self, e):
        return self.comparison(e, self.place_of(e))[0]

    def _BoolOp_(self, e):
        return self.condition(e)[0]

    def _IfExp_(self, e):
        condition = self.condition(e.test)
        if condition[1] is not None:
            return self.expr(e.body if condition[1] else e.orelse)
        return self.choice(condition, lambda: self.expr(e.body), lambda: self.expr(e.orelse), self.place_of(e))

    def choice(self, condition, body, orelse, place) -> Value:
        """The value of one of two expressions."""
        node = self.node("prim::If", [condition[0]], (), place)
        blocks = [node.add_block(), node.add_block()]
        for block, made, holds in zip(blocks, (body, orelse), (True, False)):
            self.push(block)
            with self.inside(block):
                self.refine(condition[2], holds)
                block.returned.append(made())
            self.pop()
        kinds = [b.returned[0].kind for b in blocks]
        return node.add_result(unify(kinds) or kinds[0])

    # --- conditions: (value, True or False where types settle it, what each outcome says of variables)

    def condition(self, e):
        place = self.place_of(e)
        if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.Not):
            value, settled, refinements = self.condition(e.operand)
            if settled is not None:
                return self.constant(not settled, place), not settled, ([], [])
            made = self.operator("__not__", [value], place=place, kinds=[BOOL])
            return made, None, (refinements[1], refinements[0])
        if isinstance(e, ast.BoolOp):
            return self.logical(e.op, e.values, place)
        if isinstance(e, ast.Compare):
            value, settled, refinements = self.comparison(e, place)
            plain = isinstance(e.ops[0], (ast.Is, ast.IsNot)) and isinstance(e.comparators[0], ast.Constant)
            return value if settled is not None or plain else self.truth(value, place), settled, refinements
        if isinstance(e, ast.Call) and isinstance(e.func, ast.Name) and e.func.id == "isinstance":
            return self.instance(e, place)
        value = self.expr(e)
        known = value.toIValue() if isinstance(e, ast.Constant) else None
        return self.truth(value, place), known if isinstance(known, bool) else None, ([], [])

    def dead(self):
        """What the compiler writes around a cast and nobody uses."""
        self.node("prim::Constant", (), [NONE], None, value=None)

    def truth(self, value, place):
        self.dead()
        return value if value.kind == BOOL else self.operator("Bool", [value], place=place, kinds=[BOOL])

    def logical(self, op, values, place):
        if len(values) == 1:
            return self.condition(values[0])
        is_or = isinstance(op, ast.Or)
        first, last = values[:-1], values[-1]
        left = self.logical(op, first, place)
        if left[1] is not None:
            if left[1] == is_or:
                return left
            return self.condition(last)
        found: list = []

        def more():
            found.append(self.condition(last))
            return found[0][0]

        def rest():
            return self.constant(is_or, place)

        made = self.choice(left, *((rest, more) if is_or else (more, rest)), place)
        right = found[0]
        if right[1] is not None and right[1] == is_or:
            return made, is_or, ([], [])
        both = 1 if is_or else 0
        refinements: list = [[], []]
        refinements[both] = left[2][both] + right[2][both]
        return made, None, tuple(refinements)

    def comparison(self, e, place):
        op, right_node = e.ops[0], e.comparators[0]
        left, right = self.expr(e.left), self.expr(right_node)
        name = OPERATORS[type(op).__name__]
        none: tuple = ([], [])
        if isinstance(op, (ast.Is, ast.IsNot)) and right.kind == NONE:
            positive = isinstance(op, ast.Is)
            if left.kind == NONE or not is_optional(left.kind) and left.kind.name not in ("Any", "Union"):
                settled = (left.kind == NONE) == positive
                return self.constant(settled, place), settled, none
            value = self.operator(name, [left, right], place=place, kinds=[BOOL])
            if isinstance(e.left, ast.Name) and left.kind.name == "Optional":
                yes, no = [(e.left.id, NONE)], [(e.left.id, left.kind.args[0])]
                return value, None, (yes, no) if positive else (no, yes)
            return value, None, none
        if isinstance(op, (ast.In, ast.NotIn)):
            value = self.operator(name, [right, left], place=place, kinds=[BOOL])
            if isinstance(op, ast.NotIn):
                value = self.operator("__not__", [value], place=place, kinds=[BOOL])
            return value, None, none
        return self.call_operator(name, [left, right], {}, place), None, none

    def instance(self, e, place):
        value = self.expr(e.args[0])
        kinds = [parse_type(k) for k in (e.args[1].elts if isinstance(e.args[1], ast.Tuple) else [e.args[1]])]
        kind = value.kind
        candidates = [kind.args[0], NONE] if is_optional(kind) and kind.name == "Optional" else (
            list(kind.args) if kind.name == "Union" else [kind])
        holds = [any(_is(c, k) for k in kinds) for c in candidates]
        single = [(e.args[0].id, kinds[0])] if isinstance(e.args[0], ast.Name) and len(kinds) == 1 else []
        if kind.name != "Any" and (all(holds) or not any(holds)):
            refined = single if all(holds) and kinds[0].args == kind.args else []
            return self.constant(all(holds), place), all(holds), (refined, [])
        rest = [c for c, h in zip(candidates, holds) if not h]
        other = [(e.args[0].id, rest[0])] if isinstance(e.args[0], ast.Name) and len(rest) == 1 else []
        made = self.node("prim::isinstance", [value], [BOOL], place, types=kinds).results[0]
        return made, None, (single, other if kind.name != "Any" else [])

    # --- indexing

    def item_kind(self, kind):
        if kind.name == "Dict":
            return kind.args[1] if kind.args else TENSOR
        if kind.name == "List":
            return kind.args[0] if kind.args else TENSOR
        return kind

    def _Subscript_(self, e):
        place = self.place_of(e)
        value = self.expr(e.value)
        kind = value.kind
        if kind == TENSOR:
            view, indices = self.sliced(value, e.slice, place)
            if not indices:
                return view
            made = self.node("prim::ListConstruct", indices, [Type("List", (Type("Optional", (TENSOR,)),))])
            return self.operator("index", [view, made.results[0]], place=place, kinds=[TENSOR])
        named = self.unit.classes.get(kind.name)
        if kind.name == "Tuple" or named is not None and named.kind == "namedtuple":
            return self.tuple_item(value, e.slice, None, named)
        if isinstance(e.slice, ast.Slice):
            return self.operator("slice", [value, *self.bounds(e.slice)], place=place, kinds=[kind])
        index = self.expr(e.slice)
        found = self.unit.classes.get(kind.name)
        if found is not None and "__getitem__" in found.methods:
            return self.method(value, "__getitem__", found, [index], {}, place)
        return self.operator("__getitem__", [value, index], place=place, kinds=[self.item_kind(kind)])

    def tuple_item(self, value, index, place, named=None):
        kinds = tuple(named.attributes.values()) if named is not None else value.kind.args
        if isinstance(index, ast.Slice):
            bounds = [None if p is None else ast.literal_eval(p) for p in (index.lower, index.upper, index.step)]
            chosen = range(len(kinds))[slice(*bounds)]
            node = self.node("prim::TupleSlice", [value], [Type("Tuple", tuple(kinds[i] for i in chosen))], place,
                             beg=chosen.start, end=chosen.stop)
            return node.results[0]
        number = self.expr(index)
        known = number.toIValue()
        kind = kinds[known] if isinstance(known, int) and -len(kinds) <= known < len(kinds) else kinds[0]
        return self.node("prim::TupleIndex", [value, number], [kind], place).results[0]

    def bounds(self, s):
        given = [None if isinstance(p, ast.Constant) and p.value is None else p for p in (s.lower, s.upper, s.step)]
        values = [self.constant(None) if p is None else self.expr(p) for p in given[:2]]
        return [*values, self.constant(1) if given[2] is None else self.expr(given[2])]

    def sliced(self, value, index, place):
        """(the view that numbers, slices and None give, the tensors by which to index it)."""
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        dims, given = [0] * len(parts), [None] * len(parts)
        if len(parts) > 1:
            self.dead()

        def walk(i, dim, backwards):
            dims[i] = dim
            step = -1 if backwards else 1
            if isinstance(parts[i], ast.Slice):
                return dim + step
            found = given[i] = self.expr(parts[i])
            if found.kind == NONE:
                return dim if backwards else dim + 1
            if found.kind == INT:
                return dim - 1 if backwards else dim
            return dim + step

        def is_dots(p):
            return isinstance(p, ast.Constant) and p.value is Ellipsis

        dots = next((i for i, p in enumerate(parts) if is_dots(p)), len(parts))
        dim = 0
        for i in range(dots):
            dim = walk(i, dim, False)
        dim = -1
        for i in range(len(parts) - 1, dots, -1):
            dim = walk(i, dim, True)
        tensors: list = []
        for i, p in enumerate(parts):
            if i == dots:
                continue
            if isinstance(p, ast.Slice):
                at = self.constant(dims[i])
                value = self.operator("slice", [value, at, *self.bounds(p)], place=place, kinds=[TENSOR])
            elif given[i].kind == NONE:
                value = self.operator("unsqueeze", [value, self.constant(dims[i])], place=place, kinds=[TENSOR])
            elif given[i].kind == INT:
                value = self.operator("select", [value, self.constant(dims[i]), given[i]], place=place,
                                      kinds=[TENSOR])
            else:
                found = given[i]
                if found.kind.name == "List":
                    none, no = self.constant(None), self.constant(False)
                    found = self.operator("tensor", [found, none, none, no], place=place, kinds=[TENSOR])
                tensors += [None] * (dims[i] + 1 - len(tensors))
                tensors[dims[i]] = found
        return value, [self.constant(None) if t is None else t for t in tensors]

    # --- attributes

    def _Attribute_(self, e):
        path = ast.unparse(e)
        if path.startswith("CONSTANTS."):
            return self.constant(self.unit.constants[int(e.attr[1:])], self.place_of(e))
        if path.startswith("__torch__") and isinstance(e.value, ast.Attribute):
            owner = self.unit.find(path.rpartition(".")[0])
            if owner is not None and getattr(owner, "kind", "") == "enum":
                return self.node("prim::Constant", (), [Type(owner.name)], None, value=f"{owner.name}.{e.attr}"
                                 ).results[0]
            found = self.unit.find(path)
            if isinstance(found, ProgramFunction):
                return self.constant(Function(e.attr, found))
        return self.attribute(self.expr(e.value), e.attr, self.place_of(e))

    def attribute(self, owner, name, place) -> Value:
        """An attribute of a value."""
        kind = owner.kind if isinstance(owner.kind, Type) else Type(owner.kind)
        if kind == TENSOR:
            if name in _ATEN_ATTRIBUTES:
                op, line = _ATEN_ATTRIBUTES[name]
                result = Type("List", (INT,)) if name == "shape" else INT if name == "ndim" else TENSOR
                return self.operator(op, [owner], place=("<string>", line, 9) if line else place, kinds=[result])
            if name in _PRIM_ATTRIBUTES:
                result = {"dtype": INT, "device": DEVICE, "layout": INT, "grad": Type("Optional", (TENSOR,)),
                          "data": TENSOR, "itemsize": INT, "nbytes": INT}.get(name, BOOL)
                return self.node(f"prim::{name}", [owner], [result]).results[0]
            return self.operator(name, [owner], place=place, kinds=[BOOL if name.startswith("is_") else TENSOR])
        if kind == DEVICE:
            return self.node(f"prim::{name}", [owner], [STR if name == "type" else Type("Optional", (INT,))]).results[0]
        found = self.unit.classes.get(kind.name)
        if found is not None and found.kind == "namedtuple":
            names = list(found.attributes)
            number = self.constant(names.index(name))
            return self.node("prim::TupleIndex", [owner, number], [found.attributes[name]], place).results[0]
        if found is not None and found.kind == "enum":
            return self.node(f"prim::Enum{name.capitalize()}", [owner], [STR if name == "name" else INT]).results[0]
        if found is not None and name in found.constants:
            return self.constant(found.constants[name])
        if found is not None and found.accessor(name, "getter") is not None:
            return self.method(owner, f"__{name}_getter", found, [], {}, place)
        known = found.attributes.get(name, TENSOR) if found is not None else TENSOR
        node = self.node("prim::GetAttr", [owner], [known], None, name=name)
        node.results[0].rename(f"_{name}" if name.isdigit() else name)
        return node.results[0]

    # --- comprehensions and loops

    def _ListComp_(self, e, wanted=None):
        place = self.place_of(e)
        made = self.node("prim::ListConstruct", (), [wanted or Type("List", (TENSOR,))]).results[0]
        generator = e.generators[0]
        items = self.iterable(generator.iter, place)
        self.dead()

        def body():
            value = self.expr(e.elt)
            if wanted is None:
                made.kind = Type("List", (value.kind,))
            self.operator("append", [made, value], place=place, kinds=[made.kind])

        self.loop(items, generator.target, body, None, place)
        return made

    _GeneratorExp_ = _ListComp_

    def _DictComp_(self, e):
        place = self.place_of(e)
        made = self.node("prim::DictConstruct", (), [Type("Dict", (STR, TENSOR))]).results[0]
        generator = e.generators[0]

        def body():
            key, value = self.expr(e.key), self.expr(e.value)
            made.kind = Type("Dict", (key.kind, value.kind))
            self.node("aten::_set_item", [made, key, value], [], place)

        self.loop(self.iterable(generator.iter, place), generator.target, body, None, place)
        return made

    def iterable(self, e, place) -> Items:
        """What a loop is over."""
        name = e.func.id if isinstance(e, ast.Call) and isinstance(e.func, ast.Name) else None
        if name == "range":
            return self.counted([self.expr(a) for a in e.args], place)
        if name == "enumerate":
            most = self.number(9223372036854775807, self.place_of(e) or place)
            counter = Items(lambda: most, lambda i: i)
            return self.together([counter, self.iterable(e.args[0], place)], place)
        if name == "zip":
            return self.together([self.iterable(a, place) for a in e.args], place)
        value = self.expr(e)
        kind = value.kind
        if kind.name == "Dict":
            value = self.operator("keys", [value], place=place, kinds=[Type("List", (kind.args[0],))])
            kind = value.kind
        if kind.name == "Tuple":
            made = Items(None, None)
            made.unrolled = [
                lambda i=i: self.node("prim::TupleIndex", [value, self.constant(i)], [kind.args[i]], place).results[0]
                for i in range(len(kind.args))
            ]
            return made

        def item(i):
            if kind == TENSOR:
                return self.operator("select", [value, self.constant(0), i], place=place, kinds=[TENSOR])
            return self.operator("__getitem__", [value, i], place=place, kinds=[self.item_kind(kind)])

        return Items(lambda: self.operator("len", [value], place=place, kinds=[INT]), item)

    def counted(self, given, place) -> Items:
        if len(given) == 1:
            self.graph.count += 2  # of a beginning and a step that nobody uses
            return Items(lambda: given[0], lambda i: i)
        step = given[2] if len(given) > 2 else self.constant(1, place)
        start, end = given[:2]
        return Items(
            lambda: self.operator("__range_length", [start, end, step], place=place, kinds=[INT]),
            lambda i: self.operator("__derive_index", [i, start, step], place=place, kinds=[INT]),
        )

    def together(self, parts, place) -> Items:
        def length():
            counts = [p.length() for p in parts]
            made = self.node("prim::ListConstruct", counts, [Type("List", (INT,))]).results[0]
            return self.node("prim::min", [made], [INT], place).results[0]

        def item(i):
            values = [p.item(i) for p in parts]
            kind = Type("Tuple", tuple(v.kind for v in values))
            return self.node("prim::TupleConstruct", values, [kind]).results[0]

        return Items(length, item)


def _is(kind: Type, wanted: Type) -> bool:
    if wanted.name == "Any" or kind == wanted:
        return True
    if wanted.name in ("list", "dict", "tuple"):
        return kind.name.lower() == wanted.name
    return wanted.name == "float" and kind.name == "float"
