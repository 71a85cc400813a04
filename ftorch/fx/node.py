"""``Node``: one operation of a graph, and what it uses and is used by."""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..eager.core.device import device
from ..eager.core.dtype import dtype
from ..eager.core.formats import layout, memory_format
from . import _targets
from .immutable_collections import immutable_dict, immutable_list

if TYPE_CHECKING:
    from .graph import Graph

base_types = (str, int, float, bool, complex, bytes, dtype, device, layout, memory_format)
BaseArgumentTypes = str | int | float | bool | complex | None
Target = Callable[..., Any] | str
Argument = Any

_legal_ops = frozenset(
    ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
)
_OPERATOR_NAMES = {"_operator": "operator"}


def _get_qualified_name(func: Callable[..., Any]) -> str:
    return _targets.qualified_name(func)


_side_effectful_functions: set[Callable] = set()


def has_side_effect(fn: Callable) -> Callable:
    """Marks a function as one whose calls are kept even if nobody uses the result."""
    _side_effectful_functions.add(fn)
    return fn


# --- mapping over arguments ----------------------------------------------------------


def is_namedtuple(a: Any) -> bool:
    """Whether a value is a named tuple: ``torch.return_types`` are not, they are plain tuples here."""
    return isinstance(a, tuple) and hasattr(a, "_fields") and not hasattr(a, "n_fields")


def map_aggregate(a: Argument, fn: Callable[[Argument], Argument]) -> Argument:
    """Applies ``fn`` to the leaves of nested tuples, lists, dicts and slices."""
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return type(a)(*items) if is_namedtuple(a) else tuple(items)
    if isinstance(a, list):
        return immutable_list(map_aggregate(item, fn) for item in a)
    if isinstance(a, dict):
        return immutable_dict((k, map_aggregate(v, fn)) for k, v in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(part, fn) for part in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Argument, fn: Callable[[Node], Argument]) -> Argument:
    """Applies ``fn`` to the nodes in nested tuples, lists, dicts and slices.

    >>> from ftorch import fx
    >>> x = fx.Graph().placeholder("x")
    >>> fx.node.map_arg((x, [x, 1]), lambda node: node.name)
    ('x', ['x', 1])
    """
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def _format_arg(arg) -> str:
    """An argument as the print of a graph shows it: nodes as ``%name``, strings bare."""
    if hasattr(arg, "_custom_fx_repr_fn"):
        return arg._custom_fx_repr_fn()
    if isinstance(arg, (list, tuple)):
        inner = ", ".join(map(_format_arg, arg))
        if isinstance(arg, list):
            return f"[{inner}]"
        return f"({inner}{',' if len(arg) == 1 else ''})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{k}: {_format_arg(v)}" for k, v in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


def _type_repr(obj: object) -> str:
    """A type as annotations write it: ``int``, ``torch.Tensor``, ``typing.List[int]``."""
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        if obj.__module__ == "builtins":
            return obj.__qualname__
        module = obj.__module__
        if module.partition(".")[0] == "ftorch":
            module = "torch" + module[len("ftorch") :]
        return f"{module}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    if isinstance(obj, (types.FunctionType, types.BuiltinFunctionType)):
        return obj.__name__
    return repr(obj).replace("ftorch.", "torch.")


# --- the node ------------------------------------------------------------------------


class Node:
    """One operation of a `Graph`.

    ==================  ====================================  =================================
    ``op``              ``target``                            ``args``
    ==================  ====================================  =================================
    ``placeholder``     the argument's name                   its default, if it has one
    ``get_attr``        the dotted path of a parameter        none
    ``call_function``   the function                          its arguments
    ``call_module``     the dotted path of the module         its arguments
    ``call_method``     the method's name                     the object, then its arguments
    ``output``          ``"output"``                          the result, alone
    ==================  ====================================  =================================

    Attributes:
        graph: the graph it is in.
        name: its unique name there.
        users: the nodes that use its value, in the order in which they came to (a dict as a set).
        type: the annotation of its value, or None.
        meta: what passes write down about it.

    Raises:
        AssertionError: ``op`` is none of the table's.
        ValueError: ``target`` is not a function for ``call_function``, not a string for the others.
    """

    def __init__(self, graph: Graph, name: str, op: str, target: Target, args: tuple, kwargs: dict,
                 return_type: Any = None):
        if op not in _legal_ops:
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        self.graph = graph
        self.name = name
        self.op = op
        if op == "call_function" and not callable(target):
            self._refuse_target(target, "Callable")
        if op != "call_function" and not isinstance(target, str):
            self._refuse_target(target, "str")
        self.target = target
        self.type = return_type
        self.meta: dict[str, Any] = {}
        self.users: dict[Node, None] = {}
        self._input_nodes: dict[Node, None] = {}
        self._args: tuple = ()
        self._kwargs: dict = immutable_dict()
        self._prev = self._next = self
        self._erased = False
        self._repr_fn: Callable[[Node], str] | None = None
        self._set_arguments(args, kwargs)

    def _refuse_target(self, target, wanted):
        kind = type(target)
        named = kind.__qualname__ if kind.__module__ == "builtins" else (
            f"{kind.__module__}.{kind.__qualname__}")
        raise ValueError(
            f"Node [graph = {self.graph}, name = '{self.name}'] target {target} has type {named} but "
            f"a {wanted} is expected"
        )

    # --- where it is

    @property
    def next(self) -> Node:
        """The node behind it."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before it."""
        return self._prev

    def _unlink(self):
        before, after = self._prev, self._next
        before._next, after._prev = after, before

    def prepend(self, x: Node) -> None:
        """Moves (or puts) a node before this one.

        Raises:
            AssertionError: it is in another graph.
        """
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x
        self.graph._positions = None

    def append(self, x: Node) -> None:
        """Moves (or puts) a node behind this one."""
        self._next.prepend(x)

    def _position(self):
        return self.graph._position_of(self)

    def __lt__(self, other: Node) -> bool:
        return self._position() < other._position()

    def __gt__(self, other: Node) -> bool:
        return self._position() > other._position()

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or self > other

    # --- arguments

    @property
    def args(self) -> tuple[Argument, ...]:
        """The positional arguments; assignment updates the users of everything involved."""
        return self._args

    @args.setter
    def args(self, value):
        self._set_arguments(value, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The keyword arguments; assignment updates the users of everything involved."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, value):
        self._set_arguments(self._args, value)

    def _set_arguments(self, args, kwargs):
        for used in self._input_nodes:
            used.users.pop(self, None)
        self._input_nodes = inputs = {}

        def note(n):
            if isinstance(n, Node):
                inputs.setdefault(n)
                n.users.setdefault(self)
            return n

        self._args = map_aggregate(tuple(args), note)
        self._kwargs = map_aggregate(dict(kwargs), note)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes it uses, each once, in the order of its arguments."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replaces one positional argument."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Inserts a positional argument.

        Raises:
            AssertionError: ``idx`` is not a position in ``args``.
        """
        if not 0 <= idx <= len(self._args):
            raise AssertionError(
                f"insert_args index must be between 0 and len(self.args), got {idx}"
            )
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Sets one keyword argument."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Uses ``new_input`` wherever ``old_input`` is an argument."""
        swap = lambda n: new_input if n is old_input else n  # noqa: E731
        self._set_arguments(map_arg(self._args, swap), map_arg(self._kwargs, swap))
        self._tell_replacement(old_input, new_input)

    def _tell_replacement(self, old, new):
        module = self.graph.owning_module
        for hook in getattr(module, "_replace_hooks", ()):
            hook(old=old, new=new.name, user=self)

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] = lambda user: True, *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Makes the users of this node use another one.

        Args:
            delete_user_cb: says for a user whether it shall change.
            propagate_meta: moves ``meta`` along (the other node must not have any).

        Returns:
            The users that were changed.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but "
                    "replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = []
        for user in list(self.users):
            if delete_user_cb(user):
                changed.append(user)
                user.replace_input_with(self, replace_with)
        return changed

    # --- what it does

    @property
    def stack_trace(self) -> str | None:
        """Where in the traced program it comes from, if that was recorded."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None):
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it has to stay even if nobody uses its value.

        Args:
            impure_random: counts drawing random numbers as an effect.
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            from ._effects import has_effect

            if getattr(self.target, "namespace", None) == "profiler":
                return True
            return self.target in _side_effectful_functions or has_effect(self.target, impure_random)
        if self.op == "call_module":
            module = self.graph.owning_module
            if module is None:
                raise AssertionError(
                    "self.graph.owning_module not set for purity check"
                )
            return getattr(module.get_submodule(self.target), "_is_impure", False)
        return False

    def normalized_arguments(self, root, arg_types=None, kwarg_types=None,
                             normalize_to_only_use_kwargs: bool = False):
        """The arguments with defaults filled in: an ``ArgsKwargsPair``, or None if that is unknown."""
        from .operator_schemas import normalize_function, normalize_module

        if self.op == "call_function":
            return normalize_function(self.target, self.args, self.kwargs, arg_types, kwarg_types,
                                      normalize_to_only_use_kwargs)
        if self.op == "call_module":
            return normalize_module(root, self.target, self.args, self.kwargs,
                                    normalize_to_only_use_kwargs)
        return None

    # --- printing

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)
            self.graph._graph_namespace._rename_object(self, self.name)

    def _pretty_print_target(self, target: object) -> str:
        """A target as people write it: ``operator.add``, ``torch.relu``."""
        if isinstance(target, str):
            return target
        name = _get_qualified_name(target)  # type: ignore[arg-type]
        if getattr(builtins, name, None) is target:
            return f"builtins.{name}"
        root, dot, rest = name.partition(".")
        return f"{_OPERATOR_NAMES.get(root, root)}{dot}{rest}"

    def format_node(self, placeholder_names: list[str] | None = None,
                    maybe_return_typename: list[str] | None = None, *,
                    include_tensor_metadata: bool = False) -> str | None:
        """The node as a line of the printed graph.

        Args:
            placeholder_names: collects the parameters of the graph; placeholders print nothing then.
            maybe_return_typename: its first entry receives the annotation of the output.
            include_tensor_metadata: shows dtype and shape where ``meta`` has them.
        """
        if self.op == "placeholder" and placeholder_names is not None:
            typed = f"{self.target}: {_type_repr(self.type)}" if self.type else str(self.target)
            placeholder_names.append(typed + (f"(default={self.args[0]})" if self.args else ""))
            return None
        if self.op == "output":
            if self.type and maybe_return_typename is not None:
                maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
            return f"return {self.args[0]}"
        typed = f"{_type_repr(self.type)} " if self.type else ""
        target = self._pretty_print_target(self.target)
        head = f"%{self.name} : {typed}{self._metadata(include_tensor_metadata)}"
        head += f"[num_users={len(self.users)}] = {self.op}[target={target}]"
        if self.op == "placeholder":
            return head + (f"(default={self.args[0]})" if self.args else "")
        if self.op == "get_attr":
            return head
        return f"{head}(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"

    def _metadata(self, wanted):
        if not wanted:
            return ""
        from .graph import tensor_annotation

        value = self.meta.get("val", self.meta.get("tensor_meta"))
        text = tensor_annotation(value)
        return f'"{text}" ' if text else ""


__all__ = [
    "Argument", "BaseArgumentTypes", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg",
]
