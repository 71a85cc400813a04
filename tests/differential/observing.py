"""What a program shows: each statement's value, exception, warnings and output, in either library.

A program is Python text that says ``torch``. `observe` runs it with one of the libraries, statement by
statement; a statement that raises does not end it. `differences` compares two such runs: values, dtypes,
strides, aliasing, versions, ``requires_grad``, names of ``grad_fn``, warnings and texts of exceptions.
"""

from __future__ import annotations

import ast
import contextlib
import io
import linecache
import math
import re
import sys
import types
import warnings
from dataclasses import dataclass, field

import numpy as np
import torch as pt

import ftorch as ft
from tests.oracle import TOLERANCE, array, is_tensor, name_of

_LIBRARY = {ft: "ftorch", pt: "torch"}
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_IMPORT = re.compile(r"^(\s*)(import|from) torch\b", re.MULTILINE)


@dataclass
class Step:
    """One statement's outcome."""

    line: str
    error: tuple[str, str] | None = None
    warned: list[tuple[str, str]] = field(default_factory=list)
    printed: str = ""
    values: dict[str, object] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)


def neutral(text: str) -> str:
    """A text without what names the library, addresses and places in PyTorch's C++ sources."""
    text = _ADDRESS.sub("0x", text.replace("ftorch", "torch"))
    text = re.sub(r"\(Triggered internally at [^)]*\)", "", text)
    # The order of a set of strings is each process's, and each pyc file's.
    text = re.sub(r"\{('[^']*'(?:, '[^']*')+)\}", lambda m: "{" + ", ".join(sorted(m[1].split(", "))) + "}", text)
    text = re.sub(r"\bj\d+\b", "j", text)  # ragged sizes, counted in each process
    # Of a missing operator's error the backends that have it are PyTorch's own.
    text = re.sub(r"(during the selective/custom build process).*", r"\1", text, flags=re.DOTALL)
    text = re.sub(r"Exception raised from .*", "", text, flags=re.DOTALL)
    return re.sub(r"[ \t]+\n", "\n", text).strip()


def observe(text: str, library, *, seed: int = 0) -> list[Step]:
    """Runs a program; ``torch``, ``np``, ``F`` and ``nn`` are there without imports."""
    name = _LIBRARY[library]
    source = _IMPORT.sub(lambda m: f"{m[1]}{m[2]} {name}", text) if library is ft else text
    source = re.sub(r"^(\s*)import ftorch$", r"\1import ftorch as torch", source, flags=re.MULTILINE)
    module = types.ModuleType("program")
    sys.modules["program"] = module  # where PyTorch's tracers look for what a program's functions name
    scope = module.__dict__
    scope.update(torch=library, np=np, math=math, F=library.nn.functional, nn=library.nn)
    file = f"<program {hash((text, name))}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    library.manual_seed(seed)
    np.random.seed(seed)
    safe = library.serialization.get_safe_globals()
    steps = []
    try:
        for statement in ast.parse(source).body:
            steps.append(_step(statement, scope, source, file))
    finally:
        _restore(library)
        sys.modules.pop("program", None)
        library.serialization.add_safe_globals(safe)  # a program may have cleared what modules add as they are imported
        linecache.cache.pop(file, None)
    return steps


def _restore(library):
    """Settings of the process that a program may have left."""
    library.set_default_dtype(library.float32)
    library.set_grad_enabled(True)
    library.use_deterministic_algorithms(False)
    library.set_printoptions(profile="default")


def _step(statement, scope, source, file):
    step = Step(ast.get_source_segment(source, statement) or "")
    if isinstance(statement, ast.Expr):
        code = compile(ast.Expression(statement.value), file, "eval")
    else:
        code = compile(ast.Module([statement], []), file, "exec")
    before = dict(scope)
    out = io.StringIO()
    with warnings.catch_warnings(record=True) as seen, contextlib.redirect_stdout(out):
        warnings.simplefilter("always")
        try:
            result = eval(code, scope)
            if isinstance(statement, ast.Expr):
                step.values["value"] = seen_as(result)
        except Exception as error:
            step.error = (type(error).__name__, neutral(str(error)))
    # PyTorch's own use of what it deprecates shows where it is called for the first time.
    step.warned = [
        (w.category.__name__, neutral(str(w.message)))
        for w in seen
        if "torch.jit.script` is deprecated" not in str(w.message)
        and "__array_wrap__ must accept" not in str(w.message)
    ]
    step.printed = neutral(out.getvalue())
    changed = _mentioned(statement)
    first: dict[int, str] = {}
    for name, value in scope.items():
        if name.startswith("__") or isinstance(value, types.ModuleType):
            continue
        if name in changed or before.get(name) is not value:
            step.values[name] = seen_as(value)
    for name, value in scope.items():  # when all values have been looked at, which may move them
        if is_tensor(value):
            pointer = _pointer(value)
            if pointer is not None:
                step.aliases[name] = first.setdefault(pointer, name)
    return step


def _mentioned(statement):
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}


def _pointer(t):
    if type(t).__name__ == "MaskedTensor" or t.is_nested:  # wrappers, whose own memory says nothing
        return None
    try:
        return t.untyped_storage().data_ptr() or None if t.untyped_storage().nbytes() else None
    except Exception:
        return None


def seen_as(value, depth=0):
    """A value as plain data that both libraries share."""
    if is_tensor(value):
        try:
            return _tensor(value, depth)
        except Exception as error:  # a view whose history is forbidden, a tensor that left its transform
            return {"kind": "unreadable", "text": f"{type(error).__name__}: {neutral(str(error))}"}
    if depth > 6:
        return "..."
    if isinstance(value, np.ndarray):
        return {"kind": "ndarray", "dtype": str(value.dtype), "shape": value.shape, "data": value.copy()}
    if isinstance(value, np.generic):
        return {"kind": "numpy scalar", "dtype": str(value.dtype), "shape": (), "data": np.asarray(value)}
    if isinstance(value, (bool, int, str, bytes, type(None))):
        return neutral(value) if isinstance(value, str) else value
    if isinstance(value, (float, complex)):
        return {"kind": type(value).__name__, "data": np.asarray(value)}
    if isinstance(value, (pt.Size, ft.Size)):
        return {"kind": "Size", "items": [int(x) for x in value]}
    if isinstance(value, (tuple, list)):
        return {"kind": type(value).__name__, "items": [seen_as(x, depth + 1) for x in value]}
    if isinstance(value, dict):
        return {"kind": type(value).__name__,
                "keys": [neutral(repr(k)) if not is_tensor(k) else "" for k in value],
                "items": [seen_as(x, depth + 1) for x in value.values()]}
    if isinstance(value, (pt.nn.Module, ft.nn.Module)):
        return {"kind": type(value).__name__, "text": neutral(repr(value)), "training": getattr(value, "training", None),
                "items": [seen_as(value.state_dict(keep_vars=True), depth + 1)]}
    if any(c.__name__ == "ScriptObject" for c in type(value).__mro__):  # of packed weights, whose classes are C++'s there
        return "ScriptObject"
    if isinstance(value, type) or callable(value):
        return f"{type(value).__name__} {getattr(value, '__name__', '')}"
    if isinstance(value, types.GeneratorType):
        return "generator"
    if type(value).__repr__ is object.__repr__:
        return {"kind": type(value).__name__}
    return {"kind": type(value).__name__, "text": neutral(repr(value))}


def _tensor(t, depth):
    # Sparse and quantized tensors are of subclasses here.
    kind = re.sub("^(Sparse|Quantized)Tensor$", "Tensor", type(t).__name__)
    nested = t.is_nested
    if nested and t.layout in (pt.strided, ft.strided):
        kind = "Tensor"
    seen = {"kind": kind, "dtype": name_of(t.dtype), "shape": _shape(t),
            "layout": name_of(t.layout), "device": str(t.device), "requires_grad": t.requires_grad,
            "is_leaf": t.is_leaf}
    node = t.grad_fn
    seen["grad_fn"] = None if node is None else node.name()
    masked = kind == "MaskedTensor"
    strided = seen["layout"] == "strided" and not nested and not masked
    try:
        seen["version"] = t._version
    except Exception as error:
        seen["version"] = type(error).__name__
    if strided:
        seen["stride"] = tuple(t.stride())
        seen["is_view"] = t._is_view()
        seen["offset"] = t.storage_offset()
        seen["conj"], seen["neg"] = t.is_conj(), t.is_neg()
    else:
        seen["text"] = None
    if seen["device"] == "meta":
        return seen
    library = pt if isinstance(t, pt.Tensor) else ft
    with library.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen["data"] = _data(t.detach(), seen, library)
    if depth < 2 and t.is_leaf and t.grad is not None:
        seen["grad"] = seen_as(t.grad, depth + 1)
    return seen


def _shape(t):
    """Sizes; those that differ from row to row have a letter, and a strided nested tensor has a list of sizes."""
    if t.is_nested and t.layout in (pt.strided, ft.strided):
        return tuple(map(tuple, t._nested_tensor_size().tolist()))
    return tuple(int(n) if isinstance(n, int) else "j" for n in t.shape)


def _data(t, seen, library):
    if seen["kind"] == "MaskedTensor":
        return [seen_as(t.get_data()), seen_as(t.get_mask())]
    if seen["layout"] == "sparse_coo":
        seen["coalesced"] = t.is_coalesced()
        return [seen_as(t._indices()), seen_as(t._values())]
    if seen["layout"] in ("sparse_csr", "sparse_bsr"):
        return [seen_as(t.crow_indices()), seen_as(t.col_indices()), seen_as(t.values())]
    if seen["layout"] in ("sparse_csc", "sparse_bsc"):
        return [seen_as(t.ccol_indices()), seen_as(t.row_indices()), seen_as(t.values())]
    if t.is_nested:
        return [seen_as(x.clone()) for x in t.unbind()]  # where parts lie is each library's own
    if t.is_quantized:
        seen["quantizer"] = [name_of(t.qscheme()), *_quantizer(t)]
        return [seen_as(t.int_repr())]
    try:
        if type(t) not in (pt.Tensor, ft.Tensor):
            t = t.as_subclass(library.Tensor)
        return np.array(array(t))  # later statements may write into its memory
    except Exception as error:
        return f"unreadable: {type(error).__name__}"


def _quantizer(t):
    if "channel" in str(t.qscheme()):
        return [t.q_per_channel_scales().tolist(), t.q_per_channel_zero_points().tolist(), t.q_per_channel_axis()]
    return [t.q_scale(), t.q_zero_point()]


# --- comparing ------------------------------------------------------------------------


def differences(mine: list[Step], theirs: list[Step]) -> list[tuple[str, str]]:
    """(kind, text) of each difference between two runs of a program, ftorch's first."""
    found = []
    for a, b in zip(mine, theirs):
        if a.error != b.error:
            kind = ("accepted" if a.error is None else "raises" if b.error is None
                    else "exception" if a.error[0] != b.error[0] else "text")
            found.append((kind, f"{b.line}: {a.error} instead of {b.error}"))
            if kind in ("accepted", "raises") and "value" not in {**b.values, **a.values}:
                # What follows differs because of it.
                break
            continue
        if a.warned != b.warned:
            found.append(("warning", f"{b.line}: {a.warned} instead of {b.warned}"))
        if a.printed != b.printed:
            found.append(("printed", f"{b.line}:\n{a.printed}\ninstead of\n{b.printed}"))
        for name in b.values:
            if name not in a.values:
                found.append(("raises", f"{b.line}: no {name}"))
                continue
            for kind, text in _compare(a.values[name], b.values[name], name):
                found.append((kind, f"{b.line}: {text}"))
        if a.aliases != b.aliases:
            found.append(("aliasing", f"{b.line}: {a.aliases} instead of {b.aliases}"))
    return found


def _compare(a, b, where):
    if isinstance(b, dict) and isinstance(a, dict):
        for key in b:
            if key == "data":
                continue
            if key == "stride":
                if _telling(a, key) != _telling(b, key):
                    yield "stride", f"{where}: stride {a.get('stride')} instead of {b['stride']}"
                continue
            if key == "items":
                if len(a.get("items", ())) != len(b["items"]):
                    yield "value", (f"{where}: {len(a.get('items', ()))} items instead of {len(b['items'])}: "
                                    f"{str(a.get('items'))[:400]} and {str(b['items'])[:400]}")
                    continue
                for i, (x, y) in enumerate(zip(a["items"], b["items"])):
                    yield from _compare(x, y, f"{where}[{i}]")
            elif key == "grad":
                yield from _compare(a.get("grad"), b["grad"], f"{where}.grad")
            elif a.get(key) != b[key]:
                yield key, f"{where}: {key} {a.get(key)!r} instead of {b[key]!r}"
        if "grad" in a and "grad" not in b:
            yield "grad", f"{where}: a gradient"
        if "data" in b and a.get("shape") == b.get("shape"):
            yield from _compare_data(a.get("data"), b["data"], b.get("dtype", "float64"), where)
    elif a != b:
        yield "value", f"{where}: {a!r} instead of {b!r}"


def _telling(seen, key):
    """The strides that say where elements are: of dimensions with several, if there are any."""
    if key not in seen or 0 in seen["shape"]:
        return []
    return [s for n, s in zip(seen["shape"], seen[key]) if n > 1]


def _compare_data(a, b, dtype, where):
    if isinstance(b, list):
        for i, (x, y) in enumerate(zip(a or [], b)):
            yield from _compare(x, y, f"{where}<{i}>")
        return
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        if not (a is b is None) and not (isinstance(a, str) and isinstance(b, str)):
            yield "value", f"{where}: {a!r} instead of {b!r}"
        return
    rtol, atol = TOLERANCE.get(dtype, (0, 0)) if b.dtype.kind in "fc" else (0, 0)
    if dtype in ("float", "complex"):
        rtol, atol = 1e-5, 1e-6
    if a.dtype != b.dtype or a.shape != b.shape:
        if b.dtype.kind != "V":
            yield "value", f"{where}: {a.dtype}{a.shape} instead of {b.dtype}{b.shape}"
    elif b.dtype.kind in "biufc":
        with np.errstate(all="ignore"):
            same = np.allclose(a, b, rtol, atol, equal_nan=True)
        if not same:
            yield "value", f"{where}: {_short(a)} instead of {_short(b)}"


def _short(x):
    return np.array2string(x, threshold=24, precision=6, separator=", ").replace("\n", "")


def compare(text: str, *, seed: int = 0) -> list[tuple[str, str]]:
    """The differences between a program's runs in ftorch and in PyTorch."""
    theirs = observe(text, pt, seed=seed)
    return differences(observe(text, ft, seed=seed), theirs)
