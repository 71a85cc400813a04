"""``custom_op``: an operator made of one annotated Python function."""

from __future__ import annotations

import dataclasses
import inspect
import logging
from collections.abc import Callable
from typing import Any

from .._ops import Tag
from ..eager.core import schema as _grammar
from ..eager.native.contexts import contextmanager
from . import _fake, _keys, _operators, _schema
from ._derivatives import Formula
from ._operators import Kernel

_log = logging.getLogger(__name__)


def split_name(qualname: str) -> tuple[str, str]:
    """("ns", "name") of ``"ns::name"``.

    Raises:
        ValueError: it is not of that form.
    """
    parts = qualname.split("::")
    if len(parts) != 2:
        raise ValueError(
            f"Expected `qualname` to be of the form \"namespace::name\", but got {qualname}. The "
            "qualname passed to the torch.library APIs must consist of a namespace and a name, e.g. "
            "aten::sin"
        )
    return parts[0], parts[1]


def custom_op(name, fn=None, /, *, mutates_args, device_types=None, schema=None, tags=None):
    """Makes a function an operator that is opaque to autograd and transforms.

    Args:
        name: ``"namespace::name"``, with ``".overload"`` behind it for one of several.
        fn: the implementation; without it, a decorator is returned.
        mutates_args: names of the arguments that the function writes to, or "unknown".
        device_types: the device type(s) that the function is for; None for all.
        schema: the op's schema; by default it is inferred from the annotations.

    Returns:
        A `CustomOpDef`, callable like the function.

    Raises:
        ValueError: the schema cannot be inferred, or contradicts ``mutates_args``.

    >>> import ftorch as torch
    >>> @torch.library.custom_op("docs::twice", mutates_args=())
    ... def twice(x: torch.Tensor) -> torch.Tensor:
    ...     return torch.from_numpy(x.numpy() * 2)
    >>> twice(torch.ones(2)), torch.ops.docs.twice.default
    (tensor([2., 2.]), <OpOverload(op='docs.twice', overload='default')>)
    """

    def make(function):
        text = schema
        if text is None:
            text = _schema.infer_schema(function, mutates_args=mutates_args)
        namespace, own = split_name(name)
        definition = CustomOpDef(namespace, own, text, function, tags)
        if schema is not None:
            written = set(_operators.mutated(definition._opoverload._schema))
            wanted = written if mutates_args == "unknown" else set(mutates_args)
            if written != wanted:
                raise ValueError(
                    f"Attempted to create a custom op with `mutates_args={mutates_args}` and "
                    f"`schema={schema}. The schema suggests that the op mutates {written or 'set()'}"
                    "which is different from what was provided to us in `mutates_args`. Please make "
                    "these consistent."
                )
        definition.register_kernel(device_types)(function)
        return definition

    return make if fn is None else make(fn)


class CustomOpDef:
    """An operator made by `custom_op`, with what was registered for it."""

    def __init__(self, namespace: str, name: str, schema: str, fn: Callable, tags=None):
        from . import Library

        self._namespace, self._name, self._schema = namespace, name, schema
        self._init_fn = fn
        self._module = inspect.getmodule(fn)
        self._tags = tags
        self._fake: Callable | None = None
        self._disabled: set[str] = set()
        self._backend_fns: dict[Any, Callable] = {}
        previous = _DEFINED.get(self._qualname)
        if previous is not None:
            previous._lib._destroy()
        self._lib = Library(namespace, "FRAGMENT")
        given = () if tags is None else (tags,) if isinstance(tags, Tag) else tuple(tags)
        self._lib.define(f"{name}{schema}", tags=(Tag.pt2_compliant_tag, *given))
        _DEFINED[self._qualname] = self
        op = self._opoverload
        op.definition = self
        op.formula = Formula(None)
        op.kernels["Meta"] = Kernel(self._run_fake)

    @property
    def _qualname(self) -> str:
        return f"{self._namespace}::{self._name}"

    @property
    def _opoverload(self) -> Any:
        from .._ops import ops

        name, _, overload = self._name.partition(".")
        return getattr(getattr(getattr(ops, self._namespace), name), overload or "default")

    def __repr__(self):
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args, **kwargs):
        return self._opoverload(*args, **kwargs)

    def register_kernel(self, device_types, fn=None, /):
        """Registers an implementation for device types (None: for all)."""

        def register(function):
            kinds = [device_types] if isinstance(device_types, str) else device_types
            for kind in [None] if kinds is None else kinds:
                key = "CompositeExplicitAutograd" if kind is None else _keys.key_of_device(kind)
                self._backend_fns[kind] = function
                self._opoverload.kernels[key] = Kernel(self._enabled(kind, function))
                self._opoverload.traceable.clear()
            return function

        return register if fn is None else register(fn)

    def _enabled(self, kind, function):
        def run(*args, **kwargs):
            chosen = self._init_fn if kind in self._disabled else function
            return chosen(*args, **kwargs)

        return run

    def register_fake(self, fn, /):
        """Registers what results look like: it is called with meta tensors, and returns such."""
        self._fake = _fake.with_context(fn)
        self._opoverload.traceable.clear()
        return fn

    def _run_fake(self, *args, **kwargs):
        if self._fake is None:
            schema = self._opoverload._schema
            if schema.is_mutable and not schema.returns:  # there is nothing to say of its results
                return None
            raise RuntimeError(
                f"There was no fake impl registered for {self!r}. This is necessary for "
                "torch.compile/export/fx tracing to work. Please use "
                f"`{self._init_fn.__name__}.register_fake` to add an fake impl."
            )
        return self._fake(*args, **kwargs)

    def register_autograd(self, backward, /, *, setup_context=None):
        """Registers how to differentiate the op.

        Args:
            backward: ``backward(ctx, *grads)``, one gradient for each positional argument.
            setup_context: ``setup_context(ctx, inputs, output)`` (with ``keyword_only_inputs``, if
                the op has some), which saves what backward needs.

        Raises:
            RuntimeError: the op writes to an argument, or returns views.
        """
        op = self._opoverload
        if op.is_mutable or op.is_view:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self!r} with schema "
                f"{op._schema}. Please create a functional operator and register an autograd formula "
                "for that."
            )
        op.formula = Formula(backward, setup_context)

    def register_vmap(self, func=None):
        """Registers the batching rule ``func(info, in_dims, *args) -> (output, out_dims)``."""

        def register(function):
            self._opoverload.vmap_rule = function

        return register if func is None else register(func)

    def register_torch_dispatch(self, torch_dispatch_class, fn=None, /):
        """Registers what a mode or a subclass makes of the op."""

        def register(function):
            self._opoverload.dispatch_rules[torch_dispatch_class] = function
            return function

        return register if fn is None else register(fn)

    def register_autocast(self, device_type: str, cast_inputs):
        """Casts floating arguments to a dtype while autocast is on for a device type."""
        if not isinstance(device_type, str):
            raise ValueError(
                f"Expected `device_type` of type `str`, got: `{type(device_type)}`"
            )
        if _keys.key_of_device(device_type) not in ("CPU", "CUDA"):
            raise ValueError(f"Unknown device type: {device_type}")
        self._opoverload.autocast[device_type] = cast_inputs

    @contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True):
        """Within, the kernel of a device type is used, or (disabled) the default one."""
        before = set(self._disabled)
        if device_type not in self._backend_fns:
            what = "enable" if enabled else "disable"
            _log.warning(
                "Attempted to %s kernel for %s but no kernel was registered for this device type.",
                what, device_type,
            )
        else:
            (self._disabled.discard if enabled else self._disabled.add)(device_type)
        try:
            yield
        finally:
            self._disabled = before


_DEFINED: dict[str, CustomOpDef] = {}


def parse(text: str):
    """A schema of PyTorch's grammar.

    Raises:
        RuntimeError: it is none.
    """
    try:
        found = _grammar.parse(text)
    except _grammar.SchemaError as error:
        written = text.partition("::")[2]
        if "->" not in text:
            raise RuntimeError(f"expected arrow but found 'eof' here:\n{written}") from None
        raise RuntimeError(f"{error}:\n{written}") from None
    arguments = tuple(
        dataclasses.replace(a, default_text=_as_printed(a)) for a in found.arguments
    )
    return dataclasses.replace(found, arguments=arguments)


def _as_printed(argument):
    """A default as PyTorch prints it: ``2.`` for the float 2.0."""
    text = argument.default_text
    if argument.type.base == "str" and isinstance(argument.default, str):
        return f'"{argument.default}"'
    if argument.type.base != "float" or not isinstance(argument.default, float):
        return text
    value = f"{argument.default:.16g}"
    return value if any(c in value for c in ".en") else f"{value}."
