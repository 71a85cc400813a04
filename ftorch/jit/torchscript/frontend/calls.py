"""Calls in functions that are compiled: of ops, functions, classes, submodules and builtins."""

from __future__ import annotations

import ast
import builtins
import collections
import enum
import inspect
import math
import typing
import warnings
from typing import TYPE_CHECKING

import ftorch

from ...._ops import OpOverloadPacket
from ....eager.dispatch.running_calls import own_signature
from ....eager.tensor_api.legacy_types import is_legacy_type
from ....fx import _targets
from ....nn.modules.batchnorm import check_dims
from ..program.builtins import fork, wait
from . import prelude
from .context import Known

if TYPE_CHECKING:
    from .functions import FunctionCompiler

__all__ = ["call"]

_BUILTINS = frozenset(
    "len range print int float bool str complex abs min max sum round all any sorted list dict tuple "
    "enumerate zip reversed ord chr hex oct bin hash divmod isinstance pow".split()
)
_ATEN_NAMES = {"input": "self", "axis": "dim", "keepdims": "keepdim"}
_OTHER_NAMES = {"x": "self"}


def _called(path: str, arguments=(), keywords=()):
    return ast.Call(ast.parse(path, mode="eval").body, list(arguments), list(keywords))


def call(c: FunctionCompiler, node: ast.Call):
    """What a call becomes: an expression, or a `Known`."""
    c.program.calls.append((c, node))
    try:
        return _call(c, node)
    finally:
        c.program.calls.pop()


def _call(c, node):
    from .context import MethodRef, ModuleRef

    found = c.value(node.func)
    if isinstance(found, ModuleRef):
        c.program.method(found.value, "forward")
        name = c.program.module_program(found.value).call_name()
        forward = ast.Attribute(found.node, name, ast.Load())
        return ast.Call(forward, *_arguments(c, node))
    if isinstance(found, MethodRef):
        return _method_call(c, found, node)
    if not isinstance(found, Known) or found.node is not None:
        if isinstance(found, Known):
            found = c.node_of(found, node.func)
        args, keywords = _arguments(c, node)
        found.origin = node.func  # type: ignore[attr-defined]
        if isinstance(found, ast.Attribute) and found.attr == "view" and len(node.args) == 1:
            if isinstance(c.static_value(node.args[0]), ftorch.dtype):
                keywords, args = [ast.keyword("dtype", args[0])], []
        return ast.Call(found, args, keywords)
    function = found.value
    special = _SPECIAL.get(_key(function))
    if special is not None:
        made = special(c, node)
        if made is not None:
            return made
    if isinstance(function, type):
        return _class_call(c, function, node)
    if getattr(builtins, getattr(function, "__name__", ""), None) is function:
        if function.__name__ not in _BUILTINS:
            raise c.error(f"Python builtin {function!r} is currently not supported in Torchscript", node)
        return ast.Call(ast.Name(function.__name__, ast.Load()), *_arguments(c, node))
    if getattr(math, getattr(function, "__name__", ""), None) is function:
        return _called(f"torch.{function.__name__}", *_arguments(c, node))
    return _function_call(c, function, node)


def _key(function):
    try:
        hash(function)
    except TypeError:
        return None
    return function


def _arguments(c, node):
    args = []
    for a in node.args:
        items = c.starred(a) if isinstance(a, ast.Starred) else None
        args += [c.expr(a)] if items is None else items
    for k in node.keywords:
        if k.arg is None:
            from .context import NotSupportedError

            raise NotSupportedError(
                "keyword-arg expansion is not supported", c.source, node
            )
    return args, [ast.keyword(k.arg, c.expr(k.value)) for k in node.keywords]


def _method_call(c, found, node):
    owner, name = found.owner, found.name
    module = owner.value
    if name == "register_buffer" or name.startswith("__"):
        raise c.error(f"the method {name} cannot be called", node)
    modifier = getattr(found.value, "_torchscript_modifier", None)
    if modifier == "UNUSED":
        return _unused()
    if modifier == "IGNORE":
        c.program.leave_to_python(module, name)
        target = ast.Attribute(owner.node, name, ast.Load())
        return ast.Call(target, *_arguments(c, node))
    target = ast.Attribute(owner.node, c.program.method(module, name), ast.Load())
    return ast.Call(target, *_arguments(c, node))


def _unused():
    text = "This Python function is annotated to be ignored and cannot be run"
    return _called("ops.prim.RaiseException", [ast.Constant(text)])


def _class_call(c, cls, node):
    if issubclass(cls, ftorch.nn.Module):
        from .context import FrontendError

        raise FrontendError(
            f"Cannot instantiate class '{cls.__name__}' in a script function", c.source, node
        )
    if cls is dict and len(node.args) == 1 and not node.keywords:
        items = c.unrolled(node.args[0])
        if items and all(isinstance(item, tuple) for item in items):  # the buffers of a module by name
            return ast.Dict([c.node_of(name, node) for name, _ in items], [value for _, value in items])
    if cls in (list, dict, tuple, int, float, bool, str, complex, set, range, enumerate, zip,
               reversed):
        return ast.Call(ast.Name(cls.__name__, ast.Load()), *_arguments(c, node))
    if cls is collections.OrderedDict:
        return ast.Call(ast.Name("dict", ast.Load()), *_arguments(c, node))
    if is_legacy_type(cls):
        return _legacy_tensor(c, cls, node)
    if cls in (ftorch.device, ftorch.Size):
        return _called(f"torch.{cls.__name__}", *_arguments(c, node))
    if issubclass(cls, (BaseException, enum.Enum)):
        raise c.error(f"class '{cls.__name__}' cannot be called", node)
    if cls is ftorch.set_grad_enabled:
        return _called("torch.set_grad_enabled", *_arguments(c, node))
    guard = prelude.GUARDS.get(cls)
    if guard is not None:
        c.program.prelude_class(guard)
        return _called(guard, *_arguments(c, node))
    return _called(c.program.class_name(cls), *_arguments(c, node))


def _legacy_tensor(c, cls, node):
    """``torch.LongTensor([1, 2])``, or of sizes."""
    args, _ = _arguments(c, node)
    kind = [ast.keyword("dtype", c.node_of(Known(cls.dtype), node))]
    if not args:
        args = [ast.Constant(0)]  # of no elements
    whole = [isinstance(a, ast.Constant) and type(a.value) is int for a in args]
    if len(args) > 1 and not all(whole) and any(isinstance(a, (ast.List, ast.Tuple)) for a in args):
        raise c.error(
            "Legacy Tensor Constructor only supports two schemas in TorchScript: \n"
            "'new(IntArrayRef size, *, Device? device=None)',\n'new(PyObject* data, *, Device? device=None)\n"
            "'Got multiple positional arguments that were not all integers", node
        )
    sizes = len(args) != 1 or isinstance(args[0], ast.Constant) and type(args[0].value) is int
    return _called("torch.empty", [ast.List(args, ast.Load())], kind) if sizes else _called("torch.tensor", args, kind)


def _function_call(c, function, node):
    from ..program.modules import ScriptFunction

    if isinstance(function, ScriptFunction):
        name = c.program.adopt(function)
        return _called(name, *_arguments(c, node))
    if getattr(type(function), "_is_in_programs", False):  # an operator of quantized tensors
        return _called(f"ops.{function.namespace}.{function.__name__}", *_arguments(c, node))
    if isinstance(function, OpOverloadPacket) and function.namespace not in ("aten", "prims"):  # another package's operator
        return _called(f"ops.{function.namespace}.{function.__name__}", *_arguments(c, node))
    path = _targets.public_path(function) or _basic_path(function)
    if path is not None:
        return _op_call(c, path, function, node)
    modifier = getattr(function, "_torchscript_modifier", None)
    if modifier == "UNUSED":
        return _unused()
    if modifier == "IGNORE":
        return _called(c.program.python_function(function), *_arguments(c, node))
    if not inspect.isfunction(function):
        if not callable(function):
            kind = type(function).__name__
            raise c.error(f"python value of type '{kind}' cannot be used as a value", node)
        return _called(c.program.python_function(function), *_arguments(c, node))
    name = c.program.function(function)
    return _called(name, *_arguments(c, node))


def _basic_path(function):
    name = getattr(function, "__name__", "")
    if function is ftorch.nn.utils.rnn.pad_sequence:
        return "torch.nn.utils.rnn.pad_sequence"
    if getattr(ftorch, name, None) is function:
        return f"torch.{name}"
    for namespace in ("sparse", "autograd"):
        if getattr(getattr(ftorch, namespace), name, None) is function:
            return f"torch.{namespace}.{name}"
    return None


_SPARSE = {"mm": "_sparse_mm", "addmm": "_sparse_addmm", "softmax": "_sparse_softmax", "log_softmax": "_sparse_log_softmax",
           "sampled_addmm": "sparse_sampled_addmm", "spdiags": "_spdiags"}


def _op_call(c, path, function, node):
    """A call of a public function: an op, or one that the prelude writes with ops."""
    namespace, _, name = path.removeprefix("torch").removeprefix(".").rpartition(".")
    args, keywords = _arguments(c, node)
    direct = _DIRECT.get(name) if namespace == "nn.functional" or name in _BASIC_DIRECT else None
    if direct is not None:
        return direct(c, name, function, node)
    if not namespace and ("functional", name) in prelude.FUNCTIONS:
        namespace = "functional"  # where PyTorch writes it in Python, with other defaults than the op's
    written = prelude.FUNCTIONS.get((namespace, name))
    if written is not None and name != "multi_head_attention_forward":
        target = c.program.prelude_function(namespace, name)
        if name == "_assert":  # of a condition that may be a tensor
            given = _bound(c, function, node)
            return _called(target, [_called("bool", [given["condition"]]), given["message"]])
        return _called(target, args, keywords)
    if namespace in ("linalg", "fft", "special") and not name.startswith(f"{namespace}_"):
        name = f"{namespace}_{name}"
    elif namespace == "sparse":
        name = _SPARSE[name]
    elif namespace == "autograd":
        return _called(path, args, keywords)
    names = dict(_ATEN_NAMES)
    if namespace == "nn.functional" and name in ("linear", "one_hot", "conv1d", "conv2d", "conv3d"):
        names.pop("input")
    keywords = [
        ast.keyword(k.arg if name in _KEEP_INPUT else names.get(k.arg, k.arg), k.value)
        for k in keywords if not (k.arg == "inplace")
    ]
    return _called(f"torch.{name}", args, keywords)


def _bound(c, function, node):
    """{parameter: expression} of a call of a public function, defaults included."""
    args, keywords = _arguments(c, node)
    given = own_signature(function).bind(*args, **{k.arg: k.value for k in keywords}).arguments
    out = {}
    for name, p in own_signature(function).parameters.items():
        if name in given:
            out[name] = given[name]
        else:
            out[name] = ast.parse(repr(p.default), mode="eval").body
    return out


def _is(node, value):
    return isinstance(node, ast.Constant) and node.value is value


def _pool(c, name, function, node):
    given = _bound(c, function, node)
    indices = given.pop("return_indices", None)
    if "stride" in given and _is(given["stride"], None):
        given["stride"] = ast.List([], ast.Load())
    if name.startswith("adaptive_max"):
        made = _called(f"torch.{name}", given.values())
        return made if _is(indices, True) else ast.Subscript(made, ast.Constant(0), ast.Load())
    return _called(f"torch.{name}{'_with_indices' if _is(indices, True) else ''}", given.values())


def _floats(node):
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return ast.List([ast.Constant(float(node.value))] * 1, ast.Load())
    if isinstance(node, (ast.List, ast.Tuple)):
        return ast.List([
            ast.Constant(float(e.value)) if isinstance(e, ast.Constant) else e for e in node.elts
        ], ast.Load())
    return node


def _interpolate(c, name, function, node):
    given = _bound(c, function, node)
    scale = given["scale_factor"]
    if isinstance(scale, ast.Constant) and type(scale.value) in (int, float):
        given["scale_factor"] = ast.Constant(float(scale.value))
    else:
        given["scale_factor"] = _floats(scale)
    names = ("input", "size", "scale_factor", "mode", "align_corners", "recompute_scale_factor",
             "antialias")
    return _called("torch.__interpolate", [given[n] for n in names])


def _fold(c, name, function, node):
    given = _bound(c, function, node)
    names = ["input", *(["output_size"] if name == "fold" else []), "kernel_size", "dilation",
             "padding", "stride"]
    args = [given[names[0]]]
    for n in names[1:]:
        value = given[n]
        args.append(ast.List([value, value], ast.Load()) if isinstance(value, ast.Constant) else value)
    return _called("torch.col2im" if name == "fold" else "torch.im2col", args)


def _tensordot(c, name, function, node):
    """ATen's form has the dimensions of both operands."""
    given = _bound(c, function, node)
    dims = given["dims"]
    if isinstance(dims, ast.Constant) and type(dims.value) is int:
        dims = ast.parse(repr([[*range(-dims.value, 0)], [*range(dims.value)]]), mode="eval").body
    if isinstance(dims, (ast.List, ast.Tuple)):
        pairs = dims.elts
    else:
        pairs = [ast.Subscript(dims, ast.Constant(i), ast.Load()) for i in (0, 1)]
    return _called("torch.tensordot", [given["a"], given["b"], *pairs])


def _unique(c, name, function, node):
    """Which function it is depends on constants, which are looked for where PyTorch looks: in ``unique_consecutive`` the
    places by position are not those of the parameters.
    """
    prefix, places = ("", (2, 3)) if name == "unique" else ("_consecutive", (2, 1))
    inverse, counts = (
        _flag(c, node, word, place) for word, place in zip(("return_inverse", "return_counts"), places))
    chosen = "_and_".join(word for word, given in (("inverse", inverse), ("counts", counts)) if given) or "output"
    return _called(c.program.prelude_function("functional", f"{prefix}_return_{chosen}"), *_arguments(c, node))


def _flag(c, node, word, place):
    """A boolean that is written in a call, by its name or at its place."""
    given = next((k.value for k in node.keywords if k.arg == word), None)
    what = f"Keyword argument '{word}' for boolean dispatch at position"
    if given is None:
        if place >= len(node.args):
            return False
        given, what = node.args[place], f"Argument for boolean dispatch at position {place}"
    value = c.static_value(given)
    if type(value) is not bool:
        raise c.error(f"{what} was not constant", node)
    return value


_DIRECT: dict = {
    **{f"{k}max_pool{n}d": _pool for k in ("", "adaptive_") for n in (1, 2, 3)},
    "interpolate": _interpolate, "fold": _fold, "unfold": _fold, "tensordot": _tensordot,
    "unique": _unique, "unique_consecutive": _unique,
}


_BASIC_DIRECT = ("tensordot", "unique", "unique_consecutive")
# Ops whose first argument ATen calls "input" as well.
_KEEP_INPUT = frozenset(
    "layer_norm group_norm batch_norm dropout linear conv1d conv2d conv3d embedding bilinear "
    "instance_norm rms_norm feature_dropout alpha_dropout conv_transpose1d conv_transpose2d".split()
)


# --- functions that mean something to the compiler --------------------------------------


def _annotate(c, node):
    kind = c.type(node.args[0])
    note = ast.parse(str(kind), mode="eval").body
    return _called("annotate", [note, c.expr(node.args[1])])


def instance_types(c, given) -> list[str]:
    """The types that ``isinstance`` is asked for, as TorchScript writes them."""
    if isinstance(given, (ast.Tuple, ast.List)):  # also one within another
        return [kind for n in given.elts for kind in instance_types(c, n)]
    known = None if isinstance(given, (ast.Subscript, ast.BinOp)) else c.static_value(given)
    if known in (list, dict, tuple):
        return [known.__name__]
    if known in (typing.List, typing.Dict, typing.Tuple):  # noqa: UP006
        return [known.__name__.lower()]
    return [str(c.type(given))]


def _isinstance(c, node):
    known = c.call_truth(node)
    if known is not None:
        return ast.Constant(known)
    kinds = instance_types(c, node.args[1])
    notes = [ast.parse(k, mode="eval").body for k in kinds]
    note = notes[0] if len(notes) == 1 else ast.Tuple(notes, ast.Load())
    return _called("isinstance", [c.expr(node.args[0]), note])


def _constant(value):
    return lambda c, node: ast.Constant(value)


def _getattr(c, node):
    name = c.static_value(node.args[1])
    if not isinstance(name, str):
        raise c.error("getattr's second argument must be a string literal", node)
    owner = c.value(node.args[0])
    try:
        return c.attribute(owner, name, node)
    except (RuntimeError, AttributeError):
        if len(node.args) > 2:
            return c.value(node.args[2])
        raise


def _hasattr(c, node):
    known = c.call_truth(node)
    if known is None:
        raise c.error("hasattr's first argument must be an object or NamedTuple", node)
    return ast.Constant(known)


def _fork(c, node):
    from .context import MethodRef, ModuleRef

    first = c.value(node.args[0])
    rest = ast.Call(node.args[0], node.args[1:], node.keywords)
    made = call(c, rest)
    if isinstance(first, (ModuleRef, MethodRef)) or isinstance(first, Known):
        return _called("fork", [made.func, *made.args], made.keywords)
    raise c.error("fork's first argument must be a function", node)


def _wait(c, node):
    return _called("torch.wait", *_arguments(c, node))


def _unwrap(c, node):
    return _called("torch._unwrap_optional", *_arguments(c, node))


def _warn(c, node):
    return _called("torch.warn", [c.expr(node.args[0])])


def _len(c, node):
    items = c.unrolled(node.args[0]) if len(node.args) == 1 else None
    return None if items is None else ast.Constant(len(items))


def _check_dims(c, node):
    allowed = c.static_value(node.args[1])
    expected = " or ".join(f"{n}D" for n in sorted(allowed))
    path = c.program.prelude_function("nn.functional", "_check_dims")
    numbers = ast.parse(repr(sorted(allowed)), mode="eval").body
    return _called(path, [c.expr(node.args[0]), numbers, ast.Constant(expected)])


def _super(c, node):
    raise c.error("super() is not supported: call the base class's function by its name", node)


def _type(c, node):
    """A Python function to scripts, of a tensor, as PyTorch's is; it fails when it is called."""
    return _called(c.program.python_function(type), *_arguments(c, node))


_SPECIAL: dict = {
    isinstance: _isinstance, getattr: _getattr, hasattr: _hasattr, fork: _fork, wait: _wait,
    check_dims: _check_dims, warnings.warn: _warn, len: _len, super: _super, type: _type,
    typing.cast: _annotate, ftorch.is_tensor: lambda c, node: _called(
        "isinstance", [c.expr(node.args[0]), ast.Name("Tensor", ast.Load())]),
}


def register(function, handler) -> None:
    """Makes the compiler treat a function's calls by a handler."""
    _SPECIAL[function] = handler


annotate, constant, unwrap = _annotate, _constant, _unwrap
checked_isinstance = _isinstance
