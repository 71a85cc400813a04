"""ATen's overloads that write to tensors they are given (``torch.ops.aten.add.out``), by those that make new ones.

`out_overloads.txt` has a line for each: its name, that of the overload that computes the same, and the names of the
arguments that it writes to, where these are others than ``out``; behind a bar its schema, where the other overload has none.
"""

from __future__ import annotations

import functools

from .._ops import OpOverload
from ..eager.bindings import outputs
from ..eager.call import op as _op
from ..eager.core import api, places
from ..eager.core.schema import parse, qualified
from ..eager.dispatch import overrides
from ..eager.tensor import TensorBase, modes
from . import aten_schemas, python_dispatch

# Arguments of creation functions that those which write to a tensor do not have.
_OF_NEW = ("dtype", "layout", "device", "pin_memory", "memory_format")


_texts: dict[str, str] = {}  # schemas that do not follow from the other overload's


@functools.cache
def _lines() -> dict[str, dict[str, tuple[str, tuple[str, ...]]]]:
    """{``"add"``: {``"out"``: (``"Tensor"``, ``("out",)``)}}"""
    found: dict = {}
    with open(places.own_file("_dispatch/out_overloads.txt"), encoding="utf-8") as file:
        for line in file:
            known, _, text = line.partition("|")
            name, function, *written = known.split()
            _texts[name] = text.strip()
            packet, _, overload = name.partition(".")
            found.setdefault(packet, {})[overload] = function, tuple(written) or ("out",)
    return found


def names_of(packet) -> tuple[str, ...]:
    """The names of a packet's overloads that write to tensors.

    >>> from ftorch import ops
    >>> names_of(ops.aten.add)
    ('Scalar_out', 'out')
    """
    return tuple(_lines().get(packet.__name__, ()))


def overload_of(packet, name: str):
    """The overload of a name that writes to tensors, or None if there is none."""
    known = _lines().get(packet.__name__, {}).get(name)
    if known is None:
        return None
    function = getattr(packet, known[0], None)
    if function is None:
        return None
    made = packet._overloads[name] = OutOverload(packet, name, function, known[1])
    return made


def overload_for(function):
    """The overload that writes what another makes, or None if there is none."""
    packet = function.overloadpacket
    for name, (source, _) in _lines().get(packet.__name__, {}).items():
        if source == function._overloadname:
            return getattr(packet, name, None)
    return None


class OutOverload(OpOverload):
    """An overload that writes the results of another to the tensors that it is given by name."""

    def __init__(self, packet, name, function, written):
        self._packet, self._overloadname, self._function, self._written = packet, name, function, written
        self._form = "out"

    @functools.cached_property
    def _schema(self):
        if text := _texts[f"{self._packet.__name__}.{self._overloadname}"]:
            return qualified(parse(text))
        schema = self._function._schema or aten_schemas.schema_of(self._packet.__name__, self._function._overloadname)
        if schema is None:
            return None
        arguments = list(schema.arguments)
        options = [a.name for a in arguments]
        if all(name in options for name in _OF_NEW[:4]):
            arguments = [a for a in arguments if a.name not in _OF_NEW[:4]]
        positional = [str(a) for a in arguments if not a.is_keyword_only]
        named = [str(a) for a in arguments if a.is_keyword_only]
        letters = "abcdefgh"
        lists = [str(r.type).endswith("[]") for r in schema.returns] or [False]
        brackets = ["[]" if of_lists else "" for of_lists in lists] * (len(self._written) // len(lists))
        outs = [f"Tensor({letter}!){more} {name}" for letter, more, name in zip(letters, brackets, self._written)]
        returned = [
            f"Tensor({letter}!)" + (f" {r.name}" if r.name else "") for letter, r in zip(letters, schema.returns)
        ]
        result = "()" if any(brackets) else returned[0] if len(returned) == 1 else f"({', '.join(returned)})"
        text = f"{self._packet.__name__}.{self._overloadname}({', '.join([*positional, '*', *named, *outs])}) -> {result}"
        return qualified(parse(text))

    def _fits(self, args, kwargs) -> bool:
        given = {k: v for k, v in kwargs.items() if k not in self._written}
        return len(given) + len(self._written) == len(kwargs) and self._function._fits(args, given)

    def _call(self, args, kwargs):
        hook = _op.hooks.python_overload
        if hook is not None:
            handled, result = hook(self, None, args, kwargs)
            if handled:
                return result
        given, outs = dict(kwargs), []
        for name in self._written:
            if name not in given:
                raise RuntimeError(
                    f"{self._schema.name}() is missing value for argument '{name}'. Declaration: {self._schema}"
                )
            outs.append(given.pop(name))
        name = self._schema.name.removeprefix("aten::")
        tensors = [t for t in overrides.flat_arguments((*args, *outs), {}) if isinstance(t, TensorBase)]
        if modes.grad and any(t.requires_grad for t in tensors):
            raise RuntimeError(
                f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
                "arguments requires grad."
            )
        name = self._packet.__name__
        if name in python_dispatch.LEAVES and self._written == ("out",):  # they compute in the dtype of what is written to
            if name.endswith("_like"):
                given.setdefault("dtype", outs[0].dtype)
            elif (function := getattr(api, name, None)) is not None:
                return function(*args, **given, out=outs[0])
        if type(self._function) is OpOverload and not self._function._is_masked:
            return self._function._call(args, {**given, "out": outs[0] if len(outs) == 1 else tuple(outs)})
        results = self._function._call(args, given)
        self._write(results if isinstance(results, (tuple, list)) else [results], outs)
        if isinstance(outs[0], (tuple, list)):
            return None
        return outs[0] if len(outs) == 1 else tuple(outs)

    def _write(self, results, outs):
        if isinstance(outs[0], (tuple, list)):  # lists are not resized
            for result, out in zip(results, outs[0]):
                out.copy_(result)
            return
        if isinstance(results[0], (tuple, list)):
            results = results[0]
        for result, out in zip(results, outs):
            if isinstance(result, TensorBase):
                outputs.write_out(None, result, out)

    @property
    def is_view(self):
        """False: it makes no tensors."""
        return False


def writing(function, kwargs):
    """The overload for a call of a creation function with ``out=``, or None if there is none, and the keywords that it has."""
    overload = overload_for(function)
    return overload, kwargs if overload is None else {k: v for k, v in kwargs.items() if k not in _OF_NEW[:4]}


def seen(op, operands, static, outs):
    """(True, the result) of a call with ``out=`` that somebody's ``__torch_dispatch__`` takes over, or (False, None)."""
    tensors = [*python_dispatch.tensors_of(operands), *outs]
    state = python_dispatch.state
    if state.off or not (state.stack or any(type(t) in python_dispatch.DISPATCHING for t in tensors)):
        return False, None
    if not python_dispatch._by_users(tensors):
        return False, None
    func, args, kwargs = python_dispatch.overload_seen(op, operands, static, "function")
    overload = overload_for(func)
    if overload is None or len(overload._written) != len(outs):
        return False, None
    kwargs = {**{k: v for k, v in kwargs.items() if k not in _OF_NEW[1:]}, **dict(zip(overload._written, outs))}
    return python_dispatch.run(overload, tensors, args, kwargs)
