"""The types of expressions in functions that are compiled, as far as they are known.

An expression is what the compiler made of the source: names are resolved, ops are ``torch.name``.
What has no known type has None, about which nothing is said: so this refuses nothing that runs.
"""

from __future__ import annotations

import ast
import functools

from ...._ops import ops
from ....eager.core.return_values import of_all_ops
from ..program.aten import ATTRIBUTES, DTYPE_CASTS, OVERLOADS, operator_named
from ..program.types import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    TENSOR,
    Type,
    parse_type,
    unify,
)
from .result_types import CONVERSIONS, METHOD_ARGUMENTS, METHODS, attribute_kind, op_result

__all__ = ["Inference", "accepts", "is_optional"]

_NUMBERS = ("bool", "int", "float", "complex", "number")
_OF_LISTS = ("int", "float", "bool", "str", "Tensor")  # what lists hold that are compared and joined
_OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv",
    ast.Mod: "remainder", ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "__and__",
    ast.BitOr: "__or__", ast.BitXor: "__xor__", ast.LShift: "__lshift__", ast.RShift: "__rshift__",
    ast.Lt: "lt", ast.Gt: "gt", ast.LtE: "le", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}


def is_optional(kind: Type | None) -> bool:
    """Whether None is one of several values of a type."""
    return kind is not None and (
        kind.name == "Optional" or kind.name == "Union" and NONE in kind.args
    )


def accepts(wanted: Type | None, found: Type | None) -> bool:
    """Whether a value of a type fits another one, as far as both are known."""
    if wanted is None or found is None or wanted == found or wanted.name == "Any":
        return True
    if wanted.name == "Optional":
        inner = found.args[0] if found.name == "Optional" else found
        return found == NONE or accepts(wanted.args[0], inner)
    if wanted.name == "Union":
        return found.name == "Union" or any(accepts(a, found) for a in wanted.args)
    if found.name in ("Any", "number", "Union") or wanted.is_class or found.is_class:
        return True  # what a class is, or an interface allows, is seen at run time
    if wanted.name == "number":
        return found.name in _NUMBERS
    if wanted.name == "Tuple" == found.name:
        return not wanted.args or len(wanted.args) == len(found.args) and all(
            map(accepts, wanted.args, found.args)
        )
    if wanted.name == found.name and wanted.args and found.args:
        return all(a == b or None in (a, b) for a, b in zip(wanted.args, found.args))
    return wanted.name == found.name and not (wanted.args and found.args)


def is_empty(e) -> bool:
    """Whether an expression is an empty list or dictionary that is written out."""
    return isinstance(e, ast.List) and not e.elts or isinstance(e, ast.Dict) and not e.keys


def fits_key(owner: Type, found: Type | None) -> bool:
    """Whether a dictionary can be asked for a key of a type."""
    wanted = owner.args[0] if owner.args else None
    known = {"int", "float", "complex", "bool", "str", "Tensor"}
    return wanted is None or found is None or wanted == found or not {wanted.name, found.name} <= known


def _takes(owner: Type, method: str, found: list) -> bool:
    """Whether a method of a list or dictionary takes arguments of these types, as far as they are known."""
    first = found[0]
    if owner.name == "List" and method == "pop":
        return first is None or first.name not in ("str", "float")
    if owner.name == "List" and method == "index":
        return fits_key(owner, first)
    if owner.name == "Dict" and method in ("get", "pop", "setdefault"):
        given = found[1] if len(found) > 1 else None
        return fits_key(owner, first) and (given is None or accepts(owner.args[1], given) or given == NONE)
    if owner.name == "Dict" and method == "update" and first is not None and first.name == "Dict":
        return accepts(owner, first)
    return True


@functools.cache
def _names_of_results(count):
    """What the results of ops with so many are called: ``values``, ``indices``."""
    return {
        name
        for made in of_all_ops().values()
        if made.n_fields == count
        for name in made.__match_args__
    }


class Inference:
    """The part of `Checker` that gives expressions types. ``env`` has those of the variables."""

    env: dict

    def kind(self, e) -> Type | None:
        """The type of an expression, or None.

        Raises:
            RuntimeError: if it has none, as PyTorch's compiler does.
        """
        handler = getattr(self, f"_{type(e).__name__}_", None)
        return None if handler is None else handler(e)

    def _Constant_(self, e):
        return {bool: BOOL, int: INT, float: FLOAT, complex: COMPLEX, str: STR,
                type(None): NONE}.get(type(e.value))

    def _Name_(self, e):
        if e.id in ("inf", "nan"):
            return FLOAT
        return self.env.get(e.id) if e.id in self.env else self.absent(e)

    def _Tuple_(self, e):
        kinds = [self.kind(x) for x in e.elts]
        return None if None in kinds else Type("Tuple", tuple(kinds))

    def _List_(self, e):
        for x in e.elts:
            if isinstance(x, ast.Starred) and self.kind(x.value) == TENSOR:
                raise self.error(f"Tensor{' (inferred)' if self.is_inferred(x.value) else ''} cannot be used as a tuple", x)
        kinds = [self.kind(x) for x in e.elts]
        inner = unify(kinds) if kinds else TENSOR
        return inner and Type("List", (inner,))

    def _Dict_(self, e):
        keys, values = [self.kind(k) for k in e.keys], [self.kind(v) for v in e.values]
        if not keys:
            return Type("Dict", (STR, TENSOR))
        for node, found in zip(e.keys, keys):
            first = keys[0]
            if first is not None and found is not None and not first.is_class and not accepts(first, found):
                raise self.error(f"Dict keys must contain only a single type. Expected: {first} but found {found} instead",
                                 node)
        key, value = unify(keys), unify(values)
        return Type("Dict", (key, value)) if key and value else None

    def _ListComp_(self, e):
        inner = self.in_comprehension(e, lambda: self.kind(e.elt))
        return inner and Type("List", (inner,))

    def _DictComp_(self, e):
        key, value = self.in_comprehension(e, lambda: (self.kind(e.key), self.kind(e.value)))
        return Type("Dict", (key, value)) if key and value else None

    def in_comprehension(self, e, inner):
        outer = dict(self.env)
        for g in e.generators:
            self.assign(g.target, self.element(self.kind(g.iter), g.iter))
        made = inner()
        self.env = outer
        return made

    def element(self, kind, node) -> Type | None:
        """What iterating over a value of a type gives."""
        if kind is None:
            return None
        if kind.name in ("int", "float", "bool", "complex", "NoneType", "Optional"):
            raise self.error(f"'{kind}' object is not iterable", node)
        if kind.name in ("Tensor", "str"):
            return kind
        if kind.name in ("List", "Dict") and kind.args:
            return kind.args[0]
        return unify(kind.args) if kind.name == "Tuple" and kind.args else None

    # --- operators

    def _BinOp_(self, e):
        left, right = self.kind(e.left), self.kind(e.right)
        if isinstance(e.op, ast.Mod) and left == STR:
            return STR
        return self.operator(_OPERATORS[type(e.op)], [left, right], e)

    def operator(self, name, kinds, e) -> Type | None:
        """The type of an operator's result.

        Raises:
            RuntimeError: if an operand may be None, or none of the operator's forms takes it.
        """
        left, right = kinds
        if left is not None and left.is_class and name in ("add", "sub", "mul"):
            return self.method_of_class(left, f"__{name}__")
        if any(k is None or k.is_class or k.name in ("Any", "Union") for k in kinds):
            return None
        if any(is_optional(k) or k == NONE for k in kinds):
            if name in ("eq", "ne"):
                return BOOL
            raise self.no_variant(name, kinds, e)
        if TENSOR in kinds:
            other = right if left == TENSOR else left
            if other.name in (*_NUMBERS, "Tensor"):
                return TENSOR
            raise self.no_variant(name, kinds, e)
        if name in ("lt", "gt", "le", "ge", "eq", "ne"):
            listed = [_elements_kind(k) for k in kinds]
            if (left.name in _NUMBERS) != (right.name in _NUMBERS) or None not in listed and listed[0] != listed[1]:
                raise self.no_variant(name, kinds, e)
            return BOOL
        if left.name in _NUMBERS and right.name in _NUMBERS:
            return _arithmetic(name, left, right)
        return self.of_containers(name, left, right, e)

    def of_containers(self, name, left, right, e):
        if name == "add" and left.name == right.name == "Tuple":
            return Type("Tuple", (*left.args, *right.args))
        if name == "add" and left == right and left.name in ("str", "List"):
            return left
        if name == "mul" and {left.name, right.name} == {"List", "int"}:
            return left if left.name == "List" else right
        if name == "add" and _elements_kind(left) is not None and _elements_kind(left) == _elements_kind(right):
            return left if left.name == "List" else right
        if "Tuple" in (left.name, right.name):
            return None
        raise self.no_variant(name, [left, right], e)

    def _UnaryOp_(self, e):
        kind = self.kind(e.operand)
        if isinstance(e.op, ast.Not):
            self.condition(kind, e.operand)
            return BOOL
        if kind == BOOL or kind is None:
            return None
        if kind.name not in (*_NUMBERS, "Tensor") and not kind.is_class:
            name = {"USub": "neg", "Invert": "bitwise_not"}.get(type(e.op).__name__, "neg")
            raise self.no_variant(name, [kind], e)
        return kind

    def condition(self, kind, node):
        """Complains of what cannot be a condition."""
        if kind == NONE or is_optional(kind):
            raise self.error(f"Could not cast value of type {kind} to bool", node)

    def _BoolOp_(self, e):
        """Each operand is typed under what the ones before it say of variables."""
        outer = dict(self.env)
        for i, value in enumerate(e.values):
            kind = self.kind(value)
            self.condition(kind, value)
            if self.settled(value) is isinstance(e.op, ast.Or):
                break
            if kind is not None and kind != BOOL:  # what ``and`` and ``or`` give is a truth, not an operand
                e.values[i] = ast.Call(ast.Name("bool", ast.Load()), [value], [])
                e.values[i].origin = getattr(value, "origin", None)
            self.refine(value, isinstance(e.op, ast.And))
        self.env = outer
        return BOOL

    def _Compare_(self, e):
        left, right = self.kind(e.left), self.kind(e.comparators[0])
        op = e.ops[0]
        if isinstance(op, (ast.In, ast.NotIn)):
            item = right.args[0] if right is not None and right.name == "List" and right.args else None
            plain = ("int", "float", "str")
            other = item is not None and left is not None and item.name in plain and left.name in plain and item != left
            if other or right is not None and right.name == "Dict" and not fits_key(right, left):
                raise self.no_variant("__contains__", [right, left], e)
            return BOOL
        if isinstance(op, (ast.Is, ast.IsNot)):
            return BOOL
        if any(isinstance(side, ast.List) and not side.elts for side in (e.left, e.comparators[0])):
            return BOOL  # an empty list is one of what the other holds
        return self.operator(_OPERATORS[type(op)], [left, right], e)

    def _IfExp_(self, e):
        self.condition(self.kind(e.test), e.test)
        settled = self.settled(e.test)
        if settled is not None:
            return self.kind(e.body if settled else e.orelse)
        outer = dict(self.env)
        self.refine(e.test, True)
        body = self.kind(e.body)
        self.env = dict(outer)
        self.refine(e.test, False)
        orelse = self.kind(e.orelse)
        self.env = outer
        if body is None or orelse is None:
            return None
        joined = unify([body, orelse])
        if joined is None and "number" in (body.name, orelse.name) and {body.name, orelse.name} <= {*_NUMBERS}:
            return NUMBER
        if joined is None and not any(k.is_class or k.name in ("Any", "Union") for k in (body, orelse)):
            raise self.error(f"if-expression's true branch has type {body} but false branch has type "
                             f"{orelse}", e)
        return joined

    def _Subscript_(self, e):
        kind = self.kind(e.value)
        if kind is None:
            return None
        if kind.name in ("int", "float", "bool") or is_optional(kind):
            raise self.error(f"'{kind}' object is not subscriptable", e)
        if kind == TENSOR:
            self.tensor_index(e.slice, e)
        if kind.name in ("Tensor", "str"):
            return kind
        if kind.name == "Dict" and kind.args:
            found = self.kind(e.slice)
            if not fits_key(kind, found):
                raise self.no_variant("__getitem__", [kind, found], e)
            return kind.args[1]
        if kind.name == "List" and kind.args:
            found = None if isinstance(e.slice, ast.Slice) else self.kind(e.slice)
            if found is not None and found.name in ("str", "float"):
                raise self.no_variant("__getitem__", [kind, found], e)
            return kind if isinstance(e.slice, ast.Slice) else kind.args[0]
        if kind.name == "Tuple":
            return self.tuple_item(kind, e)
        return None

    def tensor_index(self, index, e):
        """Complains of what no tensor is indexed with."""
        if isinstance(index, ast.Tuple):
            for part in index.elts:
                self.tensor_index(part, e)
        elif not isinstance(index, ast.Slice):
            found = self.kind(index)
            if found is not None and found.name in ("str", "float", "complex", "Dict"):
                raise self.error(f"Unsupported operation: indexing tensor with unsupported index type '{found}'. Only ints, "
                                 "slices, lists and tensors are supported", e)

    def tuple_item(self, kind, e):
        count = len(kind.args)
        try:
            index = ast.literal_eval(e.slice)
        except ValueError:
            if isinstance(e.slice, ast.Slice):
                try:
                    bounds = [p and ast.literal_eval(p) for p in (e.slice.lower, e.slice.upper, e.slice.step)]
                except ValueError:
                    return None
                return Type("Tuple", kind.args[slice(*bounds)])
            raise self.error(f"Cannot index into a {kind} with a non-integer literal because we cannot "
                             "resolve the output type", e) from None
        if type(index) is not int:
            raise self.error("tuple index must be an integer", e)
        if not -count <= index < count:
            raise self.error(f"Tuple index out of range. Tuple is length {count} and index is {index}", e)
        return kind.args[index]

    # --- attributes and calls

    def _Attribute_(self, e):
        known, found = self.member(e)
        if known:
            return found
        if isinstance(e.value, ast.Attribute) and not self.member(e.value)[0]:
            owner = self.kind(e.value.value)
            if owner == TENSOR and e.value.attr not in ATTRIBUTES and self.is_method(owner, e.value.attr):
                raise self.error("attribute lookup is not defined on builtin", e)
        kind = self.kind(e.value)
        if isinstance(e.value, ast.Call) and e.attr in ("values", "indices", "sign") and not (kind and kind.is_class):
            return TENSOR  # of the named results of max, sort, topk
        if kind is None or kind.is_class or kind.name in ("Any", "Future", "Union"):
            return self.attribute_of_class(kind, e.attr)
        if kind == TENSOR and e.attr in ATTRIBUTES:
            return attribute_kind(e.attr)
        if kind.name == "Device":
            return {"type": STR, "index": Type("Optional", (INT,))}.get(e.attr)
        if is_optional(kind) or kind == COMPLEX:
            raise self.no_attribute(kind, e)
        if kind.name == "Tuple" and e.attr in _names_of_results(len(kind.args)):
            return TENSOR
        if self.is_method(kind, e.attr):
            raise self.error("builtin cannot be used as a value", e)
        if kind.name in ("complex", "Tuple", "number") or e.attr.startswith("__"):
            return None
        raise self.no_attribute(kind, e)

    def no_attribute(self, kind, e):
        shown = f"{kind} (inferred)" if self.is_inferred(e.value) else kind
        return self.error(f"'{shown}' object has no attribute or method '{e.attr}'.", e)

    def is_method(self, kind, name) -> bool:
        if kind == TENSOR:
            return name in OVERLOADS or operator_named(name) is not None or (
                name in ("cpu", "cuda", "tolist", "view")
            )
        return name in METHODS.get(kind.name, {}) or operator_named(name) is not None

    def _Call_(self, e):
        f = e.func
        if isinstance(f, ast.Name):
            return self.builtin_call(f.id, e)
        path = ast.unparse(f) if isinstance(f, ast.Attribute) else ""
        if path.startswith("__torch__."):
            return self.program_call(path, e)
        kinds = [self.kind(a) for a in e.args]
        for k in e.keywords:
            self.kind(k.value)
        head = path.partition(".")[0]
        if head in ("torch", "ops") and head not in self.env:
            return self.op_call(path, kinds, e)
        return self.method_call(f, kinds, e) if path or isinstance(f, ast.Attribute) else None

    def op_call(self, path, kinds, e):
        name = path.rpartition(".")[2]
        if path.startswith("ops.") and path.count(".") == 2:
            return _declared_result(*path.split(".")[1:])
        if path.count(".") != 1 and not path.startswith("torch.autograd."):
            return None
        operands = [*kinds, *(self.kind(k.value) for k in e.keywords)]
        if name in OVERLOADS and kinds and (is_optional(kinds[0]) or kinds[0] == NONE):
            first = OVERLOADS[name][0].schema.arguments[0].type
            if first.base == "Tensor" and not first.suffixes:
                raise self.no_variant(name, kinds, e.func)
        if not path.startswith("ops."):
            self.check_op(name, kinds, {k.arg: self.kind(k.value) for k in e.keywords}, e)
        return op_result(name, kinds, operands)

    def method_call(self, f, kinds, e):
        known, returned = self.module_method(f, e)
        if known:
            return returned
        kind = self.kind(f.value)
        if kind is None or kind.is_class or kind.name in ("Any", "Future", "Union"):
            return self.method_of_class(kind, f.attr)
        if kind == TENSOR:
            # What PyTorch's compiler writes for them.
            if f.attr in DTYPE_CASTS and not e.args and not e.keywords:
                number = ast.Constant(DTYPE_CASTS[f.attr])
                number.origin = getattr(f, "origin", f)  # type: ignore[attr-defined]
                f.attr, e.args, kinds = "to", [number], [INT]
            elif f.attr == "type":
                f.attr = "to"
            elif f.attr == "tolist" and not getattr(e, "is_hinted", False):
                raise self.error("Expected type hint for result of tolist()", f)
            elif f.attr in ATTRIBUTES:
                raise self.error(f"cannot call a value of type '{attribute_kind(f.attr)}'", e)
        if is_optional(kind) or kind == NONE or not self.is_method(kind, f.attr):
            raise self.no_attribute(kind, f)
        if kind == TENSOR:
            self.check_op(f.attr, [kind, *kinds], {k.arg: self.kind(k.value) for k in e.keywords}, e, True)
            return op_result(
                f.attr, [kind, *kinds], [kind, *kinds, *(self.kind(k.value) for k in e.keywords)]
            )
        wanted = METHOD_ARGUMENTS.get((kind.name, f.attr))
        if wanted is not None and kind.args and kinds:
            inner = kind.args[wanted]
            if not accepts(inner, kinds[-1]) and not (inner == FLOAT and kinds[-1] == INT):
                raise self.no_item(f.attr, inner, kinds[-1], e)
        if kind.args and kinds and not _takes(kind, f.attr, kinds):
            raise self.no_variant(f.attr, [kind, *kinds], e)
        made = METHODS.get(kind.name, {}).get(f.attr)
        return made(kind, kinds) if callable(made) else made

    def builtin_call(self, name, e):
        if name in self.env:
            kind = self.env[name]
            if kind is not None and kind.name in ("int", "float", "bool", "str", "Tensor", "List", "Dict"):
                raise self.error(f"cannot call a value of type '{kind}'", e)
            return None
        if name == "annotate":
            e.args[1].is_hinted = True
            self.annotated(parse_type(e.args[0]), self.kind(e.args[1]), e.args[1])
            return parse_type(e.args[0])
        if name in ("isinstance", "hasattr"):
            return BOOL
        if name in ("fork", "getattr", "wait"):
            return None
        kinds = [self.kind(a) for a in e.args]
        self.counted(name, e)
        if name == "tuple":
            return self.as_tuple(kinds, e)
        if name == "range":
            return Type("List", (INT,))
        if name in ("enumerate", "zip"):
            return self.pairs(name, kinds, e)
        made = CONVERSIONS.get(name)
        return made(kinds) if callable(made) else made

    def as_tuple(self, kinds, e):
        """The type of ``tuple(x)``: of what is one, which it becomes, since programs' texts have no such function."""
        if len(kinds) != 1:
            raise self.error(f"tuple expected exactly 1 arguments but found {len(kinds)}", e)
        kind = kinds[0]
        if kind is not None and kind.name == "List":
            raise self.error("cannot statically infer the expected size of a list in this context", e)
        if kind is not None and kind.name != "Tuple":
            raise self.error(f"{kind} cannot be used as a tuple", e)
        if kind is not None:
            e.func, e.args = ast.Name("annotate", ast.Load()), [ast.parse(str(kind), mode="eval").body, e.args[0]]
        return kind

    def counted(self, name, e):
        """Complains of too few or too many arguments of what is iterated over."""
        count = len(e.args) + len(e.keywords)
        if name in ("range", "enumerate", "zip") and not count:
            raise self.error(f"{name} expected at least 1 arguments, got 0", e)
        most = {"range": 3, "enumerate": 2}.get(name, count)
        if count > most:
            raise self.error(f"{name} expected at most {most} arguments, got {count}", e)

    def pairs(self, name, kinds, e):
        if name == "enumerate":
            items = [INT, self.element(kinds[0], e.args[0])]
        else:
            items = [self.element(k, a) for k, a in zip(kinds, e.args)]
        return None if None in items else Type("List", (Type("Tuple", tuple(items)),))


def _elements_kind(kind: Type) -> Type | None:
    """What a list, or a tuple that is one where an operator wants it, holds; None if that is not the same or not known."""
    kinds = set(kind.args) if kind.name in ("List", "Tuple") else ()
    found = next(iter(kinds)) if len(kinds) == 1 else None
    return found if found is not None and found.name in _OF_LISTS else None


def _arithmetic(name, left, right) -> Type | None:
    kinds = {left.name, right.name}
    if "number" in kinds:
        return None
    if "complex" in kinds:
        return COMPLEX
    if name == "div":
        return FLOAT
    if name == "pow":
        return FLOAT if "float" in kinds or kinds == {"int"} else None
    if name in ("__and__", "__or__", "__xor__"):
        return BOOL if kinds == {"bool"} else INT if kinds == {"int"} else None
    if "float" in kinds:
        return None if "bool" in kinds else FLOAT
    return INT


_SIMPLE = {"Tensor": TENSOR, "int": INT, "SymInt": INT, "float": FLOAT, "bool": BOOL, "str": STR}


def _declared_result(namespace: str, name: str) -> Type | None:
    """The type of what another package's operator gives, as its schema says; None where it says none of the simple ones."""
    packet = getattr(getattr(ops, namespace, None), name, None)
    overloads = packet.overloads() if packet is not None else []
    schema = getattr(packet, overloads[0])._schema if overloads else None
    kinds = [_SIMPLE.get(r.type.base) for r in getattr(schema, "returns", ())]
    if not kinds or None in kinds:
        return None
    made = tuple(
        functools.reduce(lambda kind, suffix: Type("List" if "[" in suffix else "Optional", (kind,)), r.type.suffixes, kind)
        for r, kind in zip(schema.returns, kinds)
    )
    return made[0] if len(made) == 1 else Type("Tuple", made)
