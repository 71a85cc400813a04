"""What a module has, and which of its modules are being called, while it is recorded."""

from __future__ import annotations

import collections
import inspect
from typing import Any

from ..eager.native.contexts import contextmanager
from ..eager.tensor import TensorBase
from ..nn import Module
from ..utils import _pytree as pytree
from .dynamic_shapes import combined_args
from .graph_signature import InputKind


def state_of(module):
    """[(kind, name, tensor, persistent)] of parameters, buffers and other tensor attributes."""
    found, seen = [], set()
    for name, p in module.named_parameters(remove_duplicate=False):
        found.append((InputKind.PARAMETER, name, p, None))
    for prefix, m in module.named_modules(remove_duplicate=False):
        for key, b in m._buffers.items():
            if b is not None:
                name = f"{prefix}.{key}" if prefix else key
                persistent = key not in m._non_persistent_buffers_set
                found.append((InputKind.BUFFER, name, b, persistent))
    for prefix, m in module.named_modules():
        for key, value in vars(m).items():
            if isinstance(value, TensorBase) and id(value) not in seen:
                seen.add(id(value))
                name = f"{prefix}.{key}" if prefix else key
                found.append((InputKind.CONSTANT_TENSOR, name, value, None))
    return found


PREFIXES = {InputKind.PARAMETER: "p", InputKind.BUFFER: "b", InputKind.CONSTANT_TENSOR: "c"}


@contextmanager
def module_stack(module, level, called):
    """Keeps ``level.stack``: which modules are being called, by keys that say how often they were before."""
    handles = []
    calls: dict[str, int] = {}

    def watch(path, m):
        name = f"{type(m).__module__}.{type(m).__qualname__}".replace("ftorch.", "torch.", 1)

        def enter(*_):
            called.setdefault(path, name)
            before = calls[path] = calls.get(path, -1) + 1
            level.stack[f"L__self__{path}" + (f"@{before}" if before else "")] = (path, name)

        def leave(*_):
            level.stack.popitem()

        handles.append(m.register_forward_pre_hook(enter, prepend=True))
        handles.append(m.register_forward_hook(leave))

    for path, m in module.named_modules():
        watch(path, m)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def attributes_as(module, values):
    """Other tensors for the module's attributes that are no parameters and buffers."""
    undo = []
    try:
        for name, value in values.items():
            path, _, key = name.rpartition(".")
            owner = module.get_submodule(path) if path else module
            undo.append((vars(owner), key, vars(owner)[key]))
            vars(owner)[key] = value
        yield
    finally:
        for scope, key, value in undo:
            scope[key] = value


def input_names(module, args, kwargs) -> list[str]:
    """The placeholder's name of each leaf: ``x``, ``d_k_0``."""
    names: list[str] = []
    combined = combined_args(module, args, kwargs)
    signature = inspect.signature(module.forward).parameters
    ordered = []
    for name, value in combined.items():
        if name in signature and signature[name].kind is inspect.Parameter.VAR_POSITIONAL:
            ordered += [(f"{name}_{i}", v) for i, v in enumerate(value)]
        elif name in signature and signature[name].kind is inspect.Parameter.VAR_KEYWORD:
            ordered += value.items()
        else:
            ordered.append((name, value))
    given = [*ordered[: len(args)]]
    by_name = dict(ordered)
    given += [(k, by_name.get(k, v)) for k, v in kwargs.items()]
    for name, value in given:
        for path, _ in pytree.tree_flatten_with_path(value)[0]:
            parts = [str(getattr(k, "key", getattr(k, "idx", getattr(k, "name", k)))) for k in path]
            names.append(identifier("_".join([name, *parts])))
    return names


def order_state(traces, strict: bool) -> None:
    """Orders constants as they are read first.

    Args:
        strict: removes the parameters and buffers that no node reads, and orders the others, too; constants that no module
            has are behind those that one has.
    """
    nodes = {n.name: n for n in traces.graph.nodes if n.op == "placeholder"}
    firsts: dict[Any, int] = {}
    for i, n in enumerate(m for user in traces.graph.nodes for m in user.all_input_nodes):
        firsts.setdefault(n, i)

    def place(spec):
        if spec.kind is InputKind.CONSTANT_TENSOR:
            return spec.kind.value, strict and spec.target.startswith("lifted_tensor_"), firsts.get(nodes[spec.arg.name], -1)
        return spec.kind.value, False, firsts[nodes[spec.arg.name]] if strict else -1

    users = [s for s in traces.inputs if s.kind is InputKind.USER_INPUT]
    state = [s for s in traces.inputs if s.kind is not InputKind.USER_INPUT]
    for spec in [s for s in state if strict and nodes[s.arg.name] not in firsts]:
        traces.graph.erase_node(nodes[spec.arg.name])
        traces.constants.pop(spec.target, None)
        state.remove(spec)
    for spec in state:
        if strict and spec.kind is InputKind.CONSTANT_TENSOR and not spec.target.startswith("lifted_tensor_"):
            spec.persistent = True
    state.sort(key=place)
    traces.inputs[:] = [*state, *users]
    for spec in reversed(state):
        traces.graph._root.append(nodes[spec.arg.name])


def identifier(text: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in text).lower()


@contextmanager
def attributes_kept(module, fake):
    """Gives a module and its submodules their attributes back, those of `_CONTAINERS` with what they held.

    Attributes that are new stay; tensors in them are ``fake`` ones. Gives a list that has, at the end, the names of those
    that were given a tensor.
    """
    assigned: list[str] = []
    kept = {}
    held: dict[int, tuple] = {}
    for path, m in module.named_modules():
        own = {k: v for k, v in vars(m).items() if k not in _TABLES}
        _hold(own.values(), held)
        absent = [k for k, b in m._buffers.items() if b is None]
        kept[f"self.{path}." if path else "self."] = m, own, absent
    try:
        yield assigned
    finally:
        for prefix, (m, own, absent) in kept.items():
            for name in absent:  # those that are there belong to whoever gave the module its state
                if m._buffers.get(name) is not None:
                    assigned.append(prefix + name)
                    m._buffers[name] = None
            for name, value in list(vars(m).items()):
                if name in _TABLES:
                    continue
                if isinstance(value, TensorBase) and value is not own.get(name):
                    assigned.append(prefix + name)
                if name not in own:
                    vars(m)[name] = pytree.tree_map_only(TensorBase, fake, value)
            vars(m).update(own)
        for container, copy in held.values():
            container.clear()
            (container.update if isinstance(container, dict) else container.extend)(copy)


def _hold(values, held):
    """Notes containers, and those in them, with copies: {id: (container, copy)}."""
    for value in values:
        if type(value) in _CONTAINERS and id(value) not in held:
            held[id(value)] = value, value.copy()
            _hold(value.values() if isinstance(value, dict) else value, held)
        elif type(value) is tuple:
            _hold(value, held)


_TABLES = frozenset(vars(Module()))
_CONTAINERS = (list, dict, collections.OrderedDict, collections.defaultdict, collections.deque)  # not their subclasses

__all__ = ["PREFIXES", "attributes_as", "attributes_kept", "identifier", "input_names", "module_stack", "order_state",
           "state_of"]
