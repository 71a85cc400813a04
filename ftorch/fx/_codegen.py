"""From a graph to Python: the source of ``forward`` and the globals it needs."""

from __future__ import annotations

import enum
import re
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ..utils import _pytree as pytree
from . import _targets
from ._namespace import Namespace, custom_builtins
from .node import Argument, Node, _type_repr, is_namedtuple

if TYPE_CHECKING:
    from .graph import Graph

_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truediv": "/", "mod": "%", "pow": "**",
    "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^", "matmul": "@",
}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">="}
_UNARY = {"neg": "-", "pos": "+", "invert": "~"}

# Operators whose operands may come in the other order (``__radd__``).
reflectable_magic_methods = {k: f"{{}} {v} {{}}" for k, v in _OPERATORS.items()}
magic_methods = {
    **{k: f"{{}} {v} {{}}" for k, v in _COMPARISONS.items()},
    **{k: f"{v}{{}}" for k, v in _UNARY.items()},
    "getitem": "{}[{}]",
    **reflectable_magic_methods,
}
inplace_methods = {
    f"i{k.rstrip('_')}": f"{{}} {v}= {{}}" for k, v in _OPERATORS.items()
} | {"setitem": "{}[{}] = {}"}

_GENERIC_OF = {list: typing.List, dict: typing.Dict, set: typing.Set,  # noqa: UP006
               frozenset: typing.FrozenSet, tuple: typing.Tuple}  # noqa: UP006
_FRAME = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d+), in (?P<name>.+)$')


@dataclass
class PythonCode:
    """Generated source and what it refers to.

    Attributes:
        src: the source of the function ``forward``.
        globals: the objects that its global names stand for.
    """

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = field(default=None, repr=False)


def tensor_annotation(value: Any, stride: bool = False, device: bool = False) -> str:
    """``"f32[4, 3]"`` for a tensor or its metadata, ``"Sym(s0)"`` for a symbolic size, else ""."""
    if isinstance(value, int) and hasattr(value, "expr"):
        return f"Sym({value})"
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None or not hasattr(dtype, "is_floating_point"):
        return ""
    text = f"{abbreviated(dtype)}{list(shape)}"
    if stride:
        steps = value.stride() if callable(value.stride) else value.stride
        text += str(list(steps))
    return text + (str(value.device) if device and hasattr(value, "device") else "")


def abbreviated(dtype) -> str:
    """``"f32"`` for ``torch.float32``."""
    name = str(dtype).removeprefix("torch.")
    if name in ("bool", "bfloat16"):
        return {"bool": "b8", "bfloat16": "bf16"}[name]
    for long, short in (("float", "f"), ("uint", "u"), ("int", "i"), ("complex", "c")):
        if name.startswith(long) and name.removeprefix(long)[:1].isdigit():
            return short + name.removeprefix(long)
    return name


def _frame_of(stack_trace: str) -> str:
    """``"File: a.py:3 in f, code: ..."``: the innermost frame of a stack trace."""
    lines = stack_trace.strip().split("\n")
    for i in range(len(lines) - 1, -1, -1):
        match = _FRAME.match(lines[i])
        if match:
            code = lines[i + 1].strip() if i + 1 < len(lines) else ""
            return f"File: {match['file']}:{match['line']} in {match['name']}, code: {code}"
    return ""


# --- the generator -------------------------------------------------------------------


class _Written(str):
    """Text that ``repr`` leaves as it is, as it does names of nodes."""

    __slots__ = ()
    __repr__ = str.__str__


class CodeGen:
    """Writes a graph as a function. Subclasses change its signature and its return."""

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The ``def`` line.

        Args:
            free_vars: the parameters, as they are written.
            maybe_return_annotation: ``" -> torch.Tensor"`` or "".
        """
        if not free_vars or free_vars[0] != "self":
            free_vars = ["self", *free_vars]
        return f"def forward({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Argument) -> str:
        """The ``return`` line."""
        return f"return {output_args}"

    def process_inputs(self, *args: Any) -> Any:
        """The graph's inputs for a call's arguments."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """A call's result for the graph's output."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """More (name, object) pairs that the function refers to."""
        return []

    def _gen_python_code(self, graph: Graph, root_module: str, namespace: Namespace, *,
                         verbose=False, include_stride=False, include_device=False) -> PythonCode:
        writer = _Writer(self, graph, root_module, namespace, verbose, include_stride,
                         include_device)
        return writer.write()


class PyTreeInfo(NamedTuple):
    """How a function with nested arguments was flattened: its parameters' names and the specs."""

    orig_args: list[str]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec | None


class _PyTreeCodeGen(CodeGen):
    """A function whose arguments and results are trees; the graph sees their leaves."""

    def __init__(self, pytree_info: PyTreeInfo):
        self.pytree_info = pytree_info

    def process_inputs(self, *args: Any) -> Any:
        return pytree.tree_leaves(args)

    def process_outputs(self, outputs: Any) -> Any:
        if self.pytree_info.out_spec is None:
            return outputs
        if not isinstance(outputs, (list, tuple)):
            outputs = [outputs]
        return pytree.tree_unflatten(outputs, self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars, maybe_return_annotation):
        names = self.pytree_info.orig_args or ["self"]
        if names[0] != "self":
            names = ["self", *names]
        head = super().gen_fn_def(names, maybe_return_annotation)
        if not free_vars:
            return head
        # Annotations are no assignment targets: only names remain on the left.
        left = "".join(f"{v.split(' : ')[0].split(' = ')[0]}, " for v in free_vars)
        return (
            f"{head}\n    {left}= fx_pytree.tree_flatten_spec([{', '.join(names[1:])}], "
            "self._in_spec)"
        )

    def generate_output(self, output_args):
        if self.pytree_info.out_spec is None:
            return super().generate_output(output_args)
        return f"return pytree.tree_unflatten({output_args}, self._out_spec)"


class _Writer:
    """One run of a `CodeGen` over a graph."""

    def __init__(self, codegen, graph, root_module, namespace, verbose, stride, device):
        self.codegen, self.graph, self.root = codegen, graph, root_module
        self.namespace, self.verbose = namespace, verbose
        self.stride, self.device = stride, device
        self.globals: dict[str, Any] = {}
        self.wrapped: dict[str, None] = {}  # functions marked by `wrap`
        self.parameters: list[str] = []
        self.body: list[str] = []
        self.returns = ""
        self.last_frame: str | None = None
        for name, (_, obj) in custom_builtins().items():
            self._global(name, obj)

    def write(self) -> PythonCode:
        dead = _last_uses(self.graph.nodes)
        for node in self.graph.nodes:
            if self.verbose:
                self._comment(node)
            self._statement(node)
            self._forget(node, dead.get(node, []))
        for name, obj in self.codegen.additional_globals():
            self._global(name, obj)
        head = self.codegen.gen_fn_def(self.parameters, self.returns)
        transform = getattr(self.graph, "_transform_code", None)
        parts = self.body or ["pass\n"]
        body = "".join(parts if transform is None else transform(parts))
        lines = "\n".join(f"    {line}" if line.strip() else "    " for line in body.split("\n"))
        wraps = "\n".join(f'torch.fx._symbolic_trace.wrap("{name}")' for name in self.wrapped)
        return PythonCode(f"\n{wraps}\n\n{head}\n{lines}", self.globals)

    # --- names

    def _global(self, hint: str, obj: Any) -> str:
        """The name that the object has in the generated code."""
        if hint not in custom_builtins() and _targets.is_of_torch(obj):
            return _targets.qualified_name(obj)
        hint = hint.replace(".", "_")
        if self.globals.get(hint, self) is obj:
            return hint
        name = self.namespace.create_name(hint, obj)
        self.globals[name] = obj
        return name

    def _type(self, t: Any) -> str:
        if t == ():
            return "()"
        args = getattr(t, "__args__", None)
        origin = getattr(t, "__origin__", None)
        if isinstance(t, types.UnionType):
            return "|".join(map(self._type, t.__args__))
        if origin is None or args is None:
            if isinstance(t, str):
                return repr(t)
            return self._named(t)
        if not isinstance(t, types.GenericAlias):
            origin = _GENERIC_OF.get(origin, origin)
        if not args:
            return self._named(origin)
        return f"{self._named(origin)}[{','.join(self._type(a) for a in args)}]"

    def _named(self, t):
        return self._global(_type_repr(t), t) if t is not ... else "..."

    def _repr(self, arg: Any) -> str:
        if isinstance(arg, Node):
            return repr(arg)
        if is_namedtuple(arg):
            name = self._global(_type_repr(type(arg)), type(arg))
            return f"{name}({', '.join(map(self._repr, arg))})"
        if isinstance(arg, (tuple, list)):
            inner = ", ".join(map(self._repr, arg))
            if isinstance(arg, list):
                return f"[{inner}]"
            return f"({inner}{',' if len(arg) == 1 else ''})"
        if isinstance(arg, dict):
            return "{" + ", ".join(f"{k!r}: {self._repr(v)}" for k, v in arg.items()) + "}"
        if isinstance(arg, slice):
            return f"slice({self._repr(arg.start)}, {self._repr(arg.stop)}, {self._repr(arg.step)})"
        if isinstance(arg, enum.Enum):
            cls = type(arg)
            return f"{self._global(cls.__name__, cls)}.{arg.name}"
        if isinstance(arg, (type, types.FunctionType, types.BuiltinFunctionType)) or hasattr(
            arg, "overloadpacket"
        ):
            return self._global(_targets.qualified_name(arg), arg)
        return repr(arg)

    def _arguments(self, args, kwargs) -> str:
        return ", ".join([*map(self._repr, args), *(f"{k} = {self._repr(v)}"
                                                    for k, v in kwargs.items())])

    # --- statements

    def _statement(self, node: Node) -> None:
        getattr(self, f"_{node.op}")(node)

    def _assign(self, node: Node, value: str) -> None:
        self.body.append(f"{node!r}{self._annotation(node)} = {value}")

    def _annotation(self, node: Node) -> str:
        if self.verbose:
            text = _annotation_of(node, self.stride, self.device)
            if text:
                return f': "{text}"'
        return "" if node.type is None else f" : {self._type(node.type)}"

    def _placeholder(self, node):
        default = f" = {self._repr(node.args[0])}" if node.args else ""
        target = str(node.target)
        if self.verbose and (text := _annotation_of(node, self.stride, self.device)):
            typed = f': "{text}"'
        else:
            typed = "" if node.type is None else f" : {self._type(node.type)}"
        self.parameters.append(f"{target}{typed}{default}")
        raw = target.lstrip("*")
        if raw != repr(node):
            self.body.append(f"{node!r} = {raw}")

    def _call_method(self, node):
        owner, *args = node.args
        arguments = self._arguments(args, node.kwargs)
        self._assign(node, f"{_attribute(self._repr(owner), node.target)}({arguments})")

    def _call_function(self, node):
        name = _targets.qualified_name(node.target)
        base = name.removeprefix("_operator.")
        args = node.args
        if name.startswith("_operator.") and not node.kwargs:
            template = magic_methods.get(base)
            if template is not None and template.count("{}") == len(args):
                return self._assign(node, template.format(*map(self._repr, args)))
            template = inplace_methods.get(base)
            if template is not None and template.count("{}") == len(args):
                done = template.format(*map(self._repr, args))
                self.body.append(f"{done};  ")
                return self._assign(node, self._repr(args[0]))
        if node.target is getattr and len(args) == 2 and not node.kwargs and (
            isinstance(args[1], str) and args[1].isidentifier()
        ):
            return self._assign(node, f"{self._repr(args[0])}.{args[1]}")
        shown = self._global(name, node.target)
        self._assign(node, f"{shown}({self._arguments(args, node.kwargs)})")
        if node.meta.get("is_wrapped", False):
            self.wrapped.setdefault(shown)

    def _call_module(self, node):
        module = _path(self.root, node.target)
        self._assign(node, f"{module}({self._arguments(node.args, node.kwargs)})")

    def _get_attr(self, node):
        self._assign(node, _path(self.root, node.target))

    def _output(self, node):
        if node.type is not None:
            self.returns = f" -> {self._type(node.type)}"
        self.body.append(self.codegen.generate_output(_Written(self._repr(node.args[0]))))

    def _forget(self, node, dead):
        if node.op == "placeholder":
            # Its statement, if it has one, is on a line of its own.
            if self.body and not self.body[-1].endswith("\n"):
                self.body.append("\n")
        elif node.op == "output":
            self.body.append("\n")
        else:
            gone = [*dead, *([] if node.users else [node])]
            self.body.append(f";  {' = '.join(map(repr, gone))} = None\n" if gone else "\n")

    def _comment(self, node):
        """The source line of a node, where it differs from the one before."""
        if node.op in ("placeholder", "output"):
            return
        trace = node.stack_trace
        if not trace:
            text = "No stacktrace found for following nodes"
        else:
            text = _frame_of(trace) or self.last_frame
        if text != self.last_frame:
            self.last_frame = text
            gap = "\n" if self.body else ""
            self.body.append(f"{gap}# {text}\n")


def _annotation_of(node, stride, device) -> str:
    value = node.meta.get("val", node.meta.get("tensor_meta", node.meta.get("example_value")))
    return tensor_annotation(value, stride, device)


def _attribute(owner: str, name: str) -> str:
    return f"{owner}.{name}" if name.isidentifier() else f'getattr({owner}, "{name}")'


def _path(root: str, target: str) -> str:
    path = root
    for part in target.split("."):
        path = _attribute(path, part)
    return path


def _last_uses(nodes) -> dict[Node, list[Node]]:
    """For each node the nodes whose values nobody needs behind it."""
    seen: set[Node] = set()
    found: dict[Node, list[Node]] = {}
    for user in reversed(nodes):
        for used in user._input_nodes:
            if used not in seen:
                seen.add(used)
                found.setdefault(user, []).append(used)
    return found


TransformCodeFunc = Callable[[list[str]], list[str]]


PyTreeCodeGen = _PyTreeCodeGen
