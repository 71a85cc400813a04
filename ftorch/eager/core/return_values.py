"""Named tuples for ops with several results: ``torch.return_types``."""

from __future__ import annotations

import copy
import functools

from .registry import OPS


class ReturnType(tuple):
    """A named tuple of results, as ``torch.return_types``: indexable by position and name."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def __new__(cls, values):
        made = tuple.__new__(cls, values)
        if len(made) != len(cls._fields):
            takes = f"takes a {len(cls._fields)}-sequence ({len(made)}-sequence given)"
            raise TypeError(f"torch.return_types.{cls.__name__}() {takes}")
        return made

    def __repr__(self):
        inner = ",\n".join(f"{n}={v!r}" for n, v in zip(self._fields, self))
        return f"torch.return_types.{type(self).__name__}(\n{inner})"

    def __reduce__(self):
        return tuple, (tuple(self),)

    def __copy__(self):
        return type(self)(self)

    def __deepcopy__(self, memo):
        return type(self)([copy.deepcopy(value, memo) for value in self])


RETURN_TYPES: dict[str, type] = {}


@functools.cache
def return_type(name, fields):
    namespace = {f: property(lambda self, i=i: self[i]) for i, f in enumerate(fields)}
    namespace |= {"__slots__": (), "_fields": fields, "__match_args__": fields,
                  "__module__": "torch.return_types", "n_fields": len(fields),
                  "n_sequence_fields": len(fields), "n_unnamed_fields": 0}
    made = type(name, (ReturnType,), namespace)
    RETURN_TYPES[name] = made
    return made


_ATEN_PRIVATE = ("_lu_with_info",)  # other ops with such names are the package's own, of which nobody sees the results


def result_type(definition):
    """The named tuple class of an op with several named results, or None."""
    names = tuple(r.name for r in definition.schema.returns)
    is_own = definition.name.startswith("_") and definition.name not in _ATEN_PRIVATE
    if len(names) < 2 or None in names or is_own:
        return None
    return return_type(definition.name, names)


def of_all_ops() -> dict:
    """The named tuple classes of all declared ops, those of calls with ``out=`` among them."""
    for definition in OPS.values():
        made = result_type(definition)
        if made is not None and "out" in definition.forms:
            return_type(made.__name__ + "_out", made._fields)
    return RETURN_TYPES


def named(definition, results, suffix=""):
    """Results as the op returns them: one tensor, or a (named) tuple (``suffix``: ``"_out"``)."""
    if len(results) == 1 and len(definition.schema.returns) == 1:
        return results[0]
    make = result_type(definition)
    if make is not None and suffix:
        make = return_type(make.__name__ + suffix, make._fields)
    return tuple(results) if make is None else make(results)
