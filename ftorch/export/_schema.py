"""PyTorch's numbers and words for dtypes, formats, sizes and ops in ``.pt2`` files."""

from __future__ import annotations

import ast
import builtins
import functools
import operator

import ftorch as torch

from .._higher_order_ops import HigherOrderOperator
from .._ops import OpOverload
from ..fx.experimental.symbolic_shapes import Expr, SymBool, SymFloat, SymInt

_DTYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32",
    8: "float64", 9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16",
    28: "uint16", 29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz",
    32: "float8_e5m2fnuz", 33: "float8_e8m0fnu", 34: "uint32", 35: "uint64",
}
_NUMBERS = {name: number for number, name in _DTYPES.items()}
_FORMATS = {1: "contiguous_format", 2: "channels_last", 3: "channels_last_3d", 4: "preserve_format"}
STRIDED = 7


def dtype_number(dtype) -> int:
    """The number of a dtype."""
    return _NUMBERS[dtype.name]


def dtype_of(number: int):
    """The dtype of a number.

    Raises:
        RuntimeError: ftorch does not have it.
    """
    name = _DTYPES.get(number)
    found = getattr(torch, name, None) if name else None
    if found is None:
        raise RuntimeError(f"dtype {name or number} of the file is not supported")
    return found


def format_number(memory_format) -> int:
    """The number of a memory format."""
    return {v: k for k, v in _FORMATS.items()}[memory_format._name]


def format_of(number: int):
    """The memory format of a number."""
    return getattr(torch, _FORMATS[number])


# --- sizes ----------------------------------------------------------------------------


def expr_text(expr: Expr) -> str:
    """An expression as SymPy's ``srepr`` writes it."""
    if expr.kind == "symbol":
        name = expr.parts[0]
        if name.startswith("zuf"):
            return f"Symbol('{name}')"
        return f"Symbol('{name}', {'' if name.startswith('u') else 'positive=True, '}integer=True)"
    if expr.kind == "number":
        value = expr.parts[0]
        if isinstance(value, bool):
            return "true" if value else "false"
        return f"Float('{value!r}', precision=53)" if isinstance(value, float) else f"Integer({value})"
    parts = [*map(expr_text, expr.parts)]
    if expr.kind == "sub":
        return f"Add({parts[0]}, Mul(Integer(-1), {parts[1]}))"
    if expr.kind == "neg":
        return f"Mul(Integer(-1), {parts[0]})"
    return f"{_WORDS[expr.kind]}({', '.join(parts)})"


# SymPy's words, and PyTorch's for functions that SymPy has not.
_WORDS = {
    "add": "Add", "mul": "Mul", "floordiv": "FloorDiv", "mod": "Mod", "truediv": "IntTrueDiv", "pow": "Pow", "abs": "Abs",
    "max": "Max", "min": "Min", "sqrt": "OpaqueUnaryFn_sqrt", "float": "ToFloat", "trunc": "TruncToInt",
    "floor": "FloorToInt", "ceil": "CeilToInt", "round": "RoundToInt", "and_": "And", "or_": "Or", "not_": "Not",
    "eq": "Equality", "ne": "Unequality", "lt": "StrictLessThan", "le": "LessThan", "gt": "StrictGreaterThan",
    "ge": "GreaterThan",
}
_KINDS = {word: kind for kind, word in _WORDS.items()}
_FUNCTIONS = {"Add": operator.add, "Mul": operator.mul, "FloorDiv": operator.floordiv}


def expr_of(text: str) -> Expr:
    """The expression of SymPy's text; one with functions unknown here is a symbol of its own."""

    def build(node):
        if isinstance(node, ast.Call):
            name = node.func.id
            if name == "Symbol":
                return Expr.symbol(node.args[0].value)
            if name in ("Integer", "Float"):
                value = ast.literal_eval(node.args[0])
                return Expr.of(float(value) if name == "Float" else value)
            if name in ("Mod", "PythonMod"):
                left, right = map(build, node.args)
                return left._with("mod", right)
            if name not in _FUNCTIONS:
                return Expr(_KINDS[name], tuple(map(build, node.args)))
            return functools.reduce(_FUNCTIONS[name], map(build, node.args))
        if isinstance(node, ast.Name):
            if node.id in ("true", "false"):
                return Expr.of(node.id == "true")
            return Expr.symbol(node.id)
        return Expr.of(ast.literal_eval(node))

    try:
        return build(ast.parse(text, mode="eval").body)
    except (KeyError, ValueError, AttributeError, SyntaxError, TypeError):
        return Expr.symbol(f"u_{abs(hash(text)) % 10**6}")


def size_json(n):
    """A size, or another number or condition."""
    value = n.hint if isinstance(n, (SymInt, SymFloat, SymBool)) else n
    tag = "as_bool" if isinstance(value, bool) else "as_float" if isinstance(value, float) else "as_int"
    if value is not n:
        by_values = any(name.startswith(("u", "zuf")) for name in n.expr.free_symbols)  # whose example says nothing
        return {"as_expr": {"expr_str": expr_text(n.expr), "hint": None if by_values else {tag: value}}}
    return {tag: value if tag != "as_int" else int(value)}


def size_of(data, kind=SymInt):
    """The size of a description; ``kind`` is another class of numbers or conditions."""
    tag, example = {SymInt: ("as_int", 2), SymFloat: ("as_float", 2.0), SymBool: ("as_bool", True)}[kind]
    if "as_expr" not in data:
        return data[tag]
    found = data["as_expr"]
    return kind((found.get("hint") or {}).get(tag, example), expr_of(found["expr_str"]))


# --- what nodes call ------------------------------------------------------------------


def target_name(target) -> str:
    """The name of what a node calls."""
    if isinstance(target, OpOverload):
        return f"torch.ops.{target}"
    name = getattr(target, "__name__", "")
    if getattr(operator, name, None) is target:
        return f"_operator.{name}"
    if isinstance(target, HigherOrderOperator):
        return f"torch.ops.higher_order.{target}"
    for owner, prefix in ((builtins, "builtins"), (_Symbolic, "torch")):
        if getattr(owner, name, None) is target:
            return f"{prefix}.{name}"
    raise RuntimeError(
        f"{target} cannot be written to a file: it is no op of torch.ops. Call run_decompositions() "
        "first, or write the program with ops that have one."
    )


class _Symbolic:
    """``torch.sym_max`` and its sisters, on numbers."""

    sym_max, sym_min = staticmethod(max), staticmethod(min)
    sym_float, sym_int, sym_not = staticmethod(float), staticmethod(int), staticmethod(operator.not_)

    @staticmethod
    def sym_ite(condition, yes, no):
        return yes if condition else no

    @staticmethod
    def sym_sum(values):
        return sum(values)


def target_of(name: str):
    """What a node calls, by its name.

    Raises:
        RuntimeError: ftorch does not have it.
    """
    root, _, rest = name.partition(".")
    if root == "_operator":
        return getattr(operator, rest)
    if root in ("builtins", "math"):
        import math

        return getattr(builtins if root == "builtins" else math, rest)
    if name.startswith("torch.ops."):
        found = torch.ops
        for part in name.split(".")[2:]:
            found = getattr(found, part, None)
            if found is None:
                break
    else:
        found = getattr(_Symbolic, rest, None)
    if found is None:
        if name.startswith("torch.ops.") and name.split(".")[2] not in ("aten", "prims"):
            raise RuntimeError(f"The program calls {name}, which nobody has registered: import what does so first.")
        raise RuntimeError(
            f"The program calls {name}, which ftorch does not have. Export it in PyTorch after "
            "program.run_decompositions(), which takes such ops apart."
        )
    return found
