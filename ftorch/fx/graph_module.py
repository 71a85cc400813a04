"""``GraphModule``: a module whose ``forward`` is generated from a graph."""

from __future__ import annotations

import contextlib
import copy
import itertools
import linecache
import os
import re
import sys
import traceback
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .._alias import is_own
from ..eager.core import places
from ..eager.tensor import TensorBase
from ..nn import Module, Parameter
from ..serialization import save
from ._codegen import PyTreeCodeGen
from ._namespace import custom_builtins
from .graph import Graph

_count = itertools.count()
_PREFIX = "<eval_with_key>"
_OWN = __name__.partition(".")[0]  # what this package is called
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"  # in ``meta``: what transformations keep


# --- running generated source --------------------------------------------------------


def _execute(source: str, scope: dict[str, Any], traced: str | None = None) -> None:
    """Runs source so that tracebacks show its lines."""
    name = f"{_PREFIX}.{next(_count)}" + (f" from {traced}" if traced else "")
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec", dont_inherit=True), scope)


def _forward_from_src(source: str, scope: dict[str, Any], traced: str | None = None) -> Callable:
    scope = dict(scope)
    _execute(source, scope, traced)
    return scope["forward"]


def _portable_imports(scope: dict[str, Any]) -> str:
    """The imports that generated code needs, with the names that PyTorch has, which reads it, too."""
    return re.sub(rf"^(import|from) {_OWN}\b", r"\1 torch", _import_statements(scope), flags=re.MULTILINE)


def _import_statements(scope: dict[str, Any]) -> str:
    """The imports that generated code needs, as source."""
    builtin = custom_builtins()
    lines = []
    for name, obj in scope.items():
        if name in builtin:
            lines.append(builtin[name].import_str)
        elif isinstance(obj, types.ModuleType):
            lines.append(f"import {obj.__name__} as {name}")
        else:
            module, attribute = obj.__module__, getattr(obj, "__name__", name)
            same = attribute == name
            lines.append(f"from {module} import {attribute}" + ("" if same else f" as {name}"))
    return "\n".join(lines)


def _from_source(source: str, imports: str) -> Callable:
    scope: dict[str, Any] = {}
    imports = re.sub(r"^import torch$", f"import {_OWN} as torch", imports, flags=re.MULTILINE)
    imports = re.sub(r"^(import|from) torch\b", rf"\1 {_OWN}", imports, flags=re.MULTILINE)
    _execute(f"{imports}\n{source}", scope)
    return scope["forward"]


def reduce_graph_module(body: dict[str, Any], import_block: str) -> GraphModule:
    """The `GraphModule` of a pickle: its attributes, and its code, which is traced again."""
    forward = _from_source(body.get("_code"), import_block)  # type: ignore[arg-type]
    return _retrace(forward, body)


def reduce_package_graph_module(importer, body: dict[str, Any], generated_module_name: str) -> GraphModule:
    """The `GraphModule` of a pickle in a package, whose code is a module of the package."""
    return _retrace(importer.import_module(generated_module_name).forward, body)


def _retrace(forward, body):
    from ._symbolic_trace import Tracer

    holder = _CodeOnlyModule(body)
    holder_class = type("CodeOnlyModule", (_CodeOnlyModule,), {"forward": forward})
    holder.__class__ = holder_class
    base = body.get("_tracer_cls") or Tracer

    class KeepModules(base):  # type: ignore[misc, valid-type]
        """Every module of the graph was a leaf."""

        def is_leaf_module(self, m, module_qualified_name):
            return True

    codegen = body.get("_graphmodule_codegen")
    tracer = KeepModules(**(body.get("_tracer_extras") or {}))
    if isinstance(codegen, PyTreeCodeGen):
        graph = _trace_flat(tracer, holder, forward, codegen)
    else:
        graph = tracer.trace(holder)
    module = GraphModule(holder, graph, class_name=body.get("_graphmodule_cls_name", "GraphModule"))
    graph._tracer_cls = body.get("_tracer_cls")
    for name, value in body.items():
        if not hasattr(module, name) or name == "meta":
            setattr(module, name, value)
    return module


def _trace_flat(tracer, holder, forward, codegen):
    """The graph of code that takes nested arguments apart: of the function behind that."""
    info = codegen.pytree_info
    structure = info.in_spec.unflatten([_placeholder_mark()] * info.in_spec.num_leaves)
    names = [n for n in info.orig_args if n != "self"]
    graph = tracer.trace(holder, dict(zip(names, structure)))
    graph._codegen = codegen
    return graph


def _placeholder_mark():
    from ._symbolic_trace import PH

    return PH


class _CodeOnlyModule(Module):
    """The attributes of a graph module, without its code."""

    def __init__(self, body):
        super().__init__()
        self.__dict__.update(body)


# --- attributes ----------------------------------------------------------------------


def _owner(module: Module, path: str, make: bool = False):
    """(the module that holds the last part of a dotted path, that part)."""
    *parts, field = path.split(".")
    for part in parts:
        child = getattr(module, part, None)
        if child is None and make:
            child = Module()
            setattr(module, part, child)
        module = child  # type: ignore[assignment]
    return module, field


def _assign_attr(value: Any, to_module: Module, path: str) -> None:
    owner, field = _owner(to_module, path, make=True)
    if isinstance(value, TensorBase) and not isinstance(value, Parameter):
        owner.register_buffer(field, value)
    else:
        setattr(owner, field, value)


def _copy_attr(from_module: Module, to_module: Module, path: str) -> None:
    source = from_module
    parts = path.split(".")
    for part in parts[:-1]:
        child = getattr(source, part)
        if child is getattr(to_module, part, None):
            return  # shared as a whole
        source = child
    _assign_attr(getattr(source, parts[-1]), to_module, path)


class _WrappedCall:
    """Calls ``forward``; where generated code fails, shows the line."""

    def __init__(self, cls, cls_call):
        self.cls, self.cls_call = cls, cls_call

    @staticmethod
    def _explanation(frame: traceback.FrameSummary) -> str:
        lines = linecache.getlines(frame.filename)
        number = frame.lineno or 1
        before = "".join(lines[max(0, number - 3) : number])
        after = "".join(lines[number : number + 2])
        failed = lines[number - 1].strip() if number <= len(lines) else ""
        marker = "~" * len(failed) + "~~~ <--- HERE"
        intro = (
            f"Call using an FX-traced Module, line {number} of the traced Module's generated forward "
            "function:"
        )
        return "\n".join([intro, before, marker, after])

    def __call__(self, obj, *args, **kwargs):
        try:
            if self.cls_call is not None:
                return self.cls_call(obj, *args, **kwargs)
            return super(self.cls, obj).__call__(*args, **kwargs)
        except Exception as e:
            if not e.__traceback__:
                raise
            frames = traceback.StackSummary.extract(traceback.walk_tb(e.__traceback__))
            generated = [f for f in frames if f.filename.startswith(_PREFIX)]
            own = [f for f in frames if not f.filename.startswith(places.PACKAGE)]
            # Operators raise no AssertionError: it is of the Python that they call, as PyTorch's is.
            is_of_operator = not isinstance(e, AssertionError) or frames[-1] is own[-1]
            if generated and own[-1] is generated[-1] and is_of_operator:
                print(self._explanation(generated[-1]), file=sys.stderr)
            raise


# --- the module ----------------------------------------------------------------------


class GraphModule(Module):
    """A module that runs a graph, by the Python generated from it.

    Args:
        root: a module, or a dict from dotted paths, whose attributes the graph refers to; they are
            shared, not copied.
        graph: the graph; it belongs to this module from now on (a copy, if another module owns it).
        class_name: the name of the class in print.

    Attributes:
        graph: assignment generates new code. After editing it in place, call `recompile`.
        code: the generated Python.
        meta: what passes write down about the module.

    Raises:
        RuntimeError: a name that the graph refers to is not in the dict ``root``.

    >>> import ftorch as torch
    >>> module = torch.fx.symbolic_trace(lambda x: x + 1)
    >>> for node in module.graph.nodes:
    ...     if node.op == "call_function":
    ...         node.args = (node.args[0], 10)
    >>> _ = module.recompile()
    >>> module(torch.zeros(2))
    tensor([10., 10.])
    """

    def __new__(cls, *args, **kwargs):
        # Each instance has a class of its own, which holds its ``forward``.
        for base in cls.__mro__:
            if base.__qualname__ != "GraphModule.__new__.<locals>.GraphModuleImpl":
                break

        class GraphModuleImpl(base):  # type: ignore[misc, valid-type]
            pass

        return super().__new__(GraphModuleImpl)

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"):
        super().__init__()
        self.__class__.__name__ = class_name
        targets = [n.target for n in graph.nodes if n.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            for target in targets:
                try:
                    _copy_attr(root, self, target)
                except AttributeError:
                    if not isinstance(root, _CodeOnlyModule):  # a copy lacks what its original lacks
                        raise
        elif isinstance(root, dict):
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module") and node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not "
                        "provided in ``root``!"
                    )
            # Outer modules first: inner attributes go into them.
            for target in sorted(dict.fromkeys(targets), key=lambda t: t.count(".")):
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.meta: dict[str, Any] = {}
        if isinstance(root, GraphModule):
            self.meta.update(root.meta)
        self._replace_hooks: list[Callable] = []
        self._create_node_hooks: list[Callable] = []
        self._erase_node_hooks: list[Callable] = []
        self._tracer_cls = None
        if graph._tracer_cls and "<locals>" not in graph._tracer_cls.__qualname__:
            self._tracer_cls = graph._tracer_cls
        self._tracer_extras = graph._tracer_extras or {}
        self.graph = graph

    __jit_unused_properties__ = ["graph"]

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self.__dict__["_graph"] = g
        g.owning_module = self
        self.recompile()

    def __setattr__(self, name, value):
        if name == "graph":  # a property: Module's own would look for parameters first
            type(self).graph.fset(self, value)  # type: ignore[attr-defined]
        else:
            super().__setattr__(name, value)

    @property
    def code(self) -> str:
        """The generated Python.

        Raises:
            RuntimeError: there is none yet.
        """
        if not hasattr(self, "_code"):
            raise RuntimeError(
                "Code has not been generated! Please report a bug to PyTorch"
            )
        return self._code

    def recompile(self):
        """Generates the code of the graph again; returns it as ``PythonCode``."""
        codegen = self._graph._codegen
        if isinstance(codegen, PyTreeCodeGen):
            self._in_spec = codegen.pytree_info.in_spec
            self._out_spec = codegen.pytree_info.out_spec
        python_code = self._graph.python_code(root_module="self")
        self._code = python_code.src
        cls = type(self)
        cls.forward = _forward_from_src(self._code, python_code.globals, self._graph._traced_from)  # type: ignore[method-assign]
        if "_wrapped_call" not in vars(cls):
            cls._wrapped_call = _WrappedCall(cls, vars(cls).get("__call__"))  # type: ignore[attr-defined]

            def call_wrapped(self, *args, **kwargs):
                return type(self)._wrapped_call(self, *args, **kwargs)

            cls.__call__ = call_wrapped  # type: ignore[method-assign]
        return python_code

    # --- submodules

    def add_submodule(self, target: str, m: Module) -> bool:
        """Adds a submodule at a dotted path, and empty modules on the way; says whether it could."""
        *prefix, field = target.split(".")
        owner: Module = self
        for part in prefix:
            child = getattr(owner, part, None)
            if child is None:
                child = Module()
                setattr(owner, part, child)
            if not isinstance(child, Module):
                return False
            owner = child
        owner.add_module(field, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Removes a submodule; says whether it was there."""
        *prefix, field = target.split(".")
        owner: Any = self
        for part in prefix:
            owner = getattr(owner, part, None)
            if not isinstance(owner, Module):
                return False
        if not isinstance(getattr(owner, field, None), Module):
            return False
        delattr(owner, field)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Removes the submodules that the graph does not use."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            parts = node.target.split(".")
            used.update(".".join(parts[: i + 1]) for i in range(len(parts)))
            if node.op == "call_module":
                with contextlib.suppress(AttributeError):
                    module = self.get_submodule(node.target)
                    used.update(f"{node.target}.{name}" for name, _ in module.named_modules() if name)
        for name in [name for name, _ in self.named_modules()]:
            if name and name not in used:
                self.delete_submodule(name)

    # --- copies and pickles

    def _state_without_graph(self):
        state = self.__dict__.copy()
        codegen = state.pop("_graph")._codegen
        if isinstance(codegen, PyTreeCodeGen):
            state["_graphmodule_codegen"] = codegen
        state["_graphmodule_cls_name"] = type(self).__name__
        return state

    def __reduce__(self):
        state = self._state_without_graph()
        python_code = self.graph.python_code(root_module="self")
        return reduce_graph_module, (state, _portable_imports(python_code.globals))

    def __reduce_package__(self, exporter):
        """The pickle's parts in a `torch.package`, where the code is a module."""
        name = f"fx-generated._{exporter.get_unique_id()}"
        python_code = self.graph.python_code(root_module="self")
        exporter.save_source_string(name, f"{_portable_imports(python_code.globals)}\n{self.code}")
        return reduce_package_graph_module, (self._state_without_graph(), name)

    def __deepcopy__(self, memo):
        state = {k: v for k, v in self.__dict__.items() if k != "_graph"}
        holder = _CodeOnlyModule({})
        memo[id(self)] = copied = type(self).__new__(type(self))
        holder.__dict__.update(copy.deepcopy(state, memo))
        copied.__init__(holder, copy.deepcopy(self._graph, memo))
        for name, value in holder.__dict__.items():
            # Hooks, users' attributes, and the tables of modules that the graph does not mention.
            if name not in ("_code", "_parameters", "_buffers", "_modules"):
                copied.__dict__[name] = value
        return copied

    def _replicate_for_data_parallel(self):
        replica = self.__copy__()
        replica._is_replica = True
        return replica

    def __copy__(self):
        copied = GraphModule(self, self.graph)
        copied.meta = getattr(self, "meta", {})
        for name, value in copied.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(copied, name, value)
        return copied

    # --- printing

    def __str__(self) -> str:
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([repr(self), self._code, hint])

    def print_readable(self, print_output: bool = True, include_stride: bool = False,
                       include_device: bool = False, colored: bool = False, *,
                       fast_sympy_print: bool = False, expanded_def: bool = False) -> str:
        """The code of this module and those in it, with shapes and source lines where known.

        Args:
            print_output: prints it as well.
            include_stride, include_device: shows these with the shapes.
            colored, fast_sympy_print, expanded_def: have no effect.
        """
        text = self._readable(self._get_name(), include_stride, include_device)
        if print_output:
            print(text)
        return text

    def _readable(self, name, include_stride, include_device):
        code = self._graph.python_code(
            root_module="self", verbose=True, include_stride=include_stride,
            include_device=include_device,
        ).src
        parts = [f"class {name}(torch.nn.Module):", _indent(code.lstrip("\n").rstrip(" "))]
        for child_name, child in self._modules.items():
            if isinstance(child, GraphModule):
                child_text = child._readable(child_name, include_stride, include_device)
                parts.append(_indent(child_text))
        return "\n".join(parts)

    # --- files

    def to_folder(self, folder: str | os.PathLike, module_name: str = "FxModule") -> None:
        """Writes the module as a Python package: code, state and pickled submodules.

        Args:
            module_name: the name of the class in it.
        """
        folder = Path(folder)
        folder.mkdir(exist_ok=True)
        save(self.state_dict(), folder / "state_dict.pt")
        tab = " " * 4
        python_code = self.graph.python_code(root_module="self")
        lines = [
            "import ftorch", _import_statements(python_code.globals), "", "from ftorch.nn import *",
            f"class {module_name}(torch.nn.Module):", f"{tab}def __init__(self):",
            f"{tab * 2}super().__init__()",
        ]
        pickled = []
        for name, module in self._modules.items():
            if is_own(type(module).__module__, "nn.modules") and not module._modules and (
                type(module).__name__ in _PRINTABLE
            ):
                lines.append(f"{tab * 2}self.{name} = {module!r}" if name.isidentifier() else
                             f"{tab * 2}self.add_module({name!r}, {module!r})")
                continue
            file = folder / f"{name}.pt"
            save(module, file)
            pickled.append(name)
            description = repr(module).replace("\r", " ").replace("\n", " ")
            lines.append(f"{tab * 2}setattr(self, {name!r}, torch.load(r'{file}', "
                         f"weights_only=False)) # {description}")
        for kind, table in (("torch.nn.Parameter", self._parameters), ("", self._buffers)):
            for name, value in table.items():
                if value is None:
                    continue
                made = f"torch.empty({list(value.shape)}, dtype={value.dtype})"
                if kind:
                    lines.append(f"{tab * 2}setattr(self, {name!r}, {kind}({made}))")
                else:
                    lines.append(f"{tab * 2}self.register_buffer({name!r}, {made})")
        state = folder / "state_dict.pt"
        lines.append(f"{tab * 2}self.load_state_dict(torch.load(r'{state}'))")
        (folder / "module.py").write_text("\n".join(lines) + "\n" + _indent(self.code) + "\n")
        (folder / "__init__.py").write_text("from .module import *")
        if pickled:
            warnings.warn(
                "Was not able to save the following children modules as reprs -saved as pickled "
                f"files instead: {pickled}",
                stacklevel=2,
            )


# Modules whose ``repr`` makes them again.
_PRINTABLE = frozenset({
    "Linear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
    "ReLU", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d",
})


def _indent(text: str) -> str:
    return "\n".join("    " + line if line.strip() else "" for line in text.split("\n"))


__all__ = ["GraphModule", "reduce_graph_module", "reduce_package_graph_module"]
