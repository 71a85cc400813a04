"""Named tuples for ops with several results: ``torch.return_types``."""

from __future__ import annotations

import functools


class ReturnType(tuple):
    """A named tuple of results, as ``torch.return_types``: indexable by position and name."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def __new__(cls, values):
        return tuple.__new__(cls, values)

    def __repr__(self):
        inner = ",\n".join(f"{n}={v!r}" for n, v in zip(self._fields, self))
        return f"torch.return_types.{type(self).__name__}(\n{inner})"

    def __reduce__(self):
        return tuple, (tuple(self),)


RETURN_TYPES: dict[str, type] = {}


@functools.cache
def return_type(name, fields):
    namespace = {f: property(lambda self, i=i: self[i]) for i, f in enumerate(fields)}
    namespace |= {"__slots__": (), "_fields": fields, "__match_args__": fields,
                  "__module__": "torch.return_types", "n_fields": len(fields),
                  "n_sequence_fields": len(fields)}  # fmt: skip
    made = type(name, (ReturnType,), namespace)
    RETURN_TYPES[name] = made
    return made


def result_type(definition):
    """The named tuple class of an op with several named results, or None."""
    names = tuple(r.name for r in definition.schema.returns)
    if len(names) < 2 or None in names or definition.name.startswith("_"):
        return None
    return return_type(definition.name, names)


def named(definition, results):
    """Results as the op returns them: one tensor, or a (named) tuple."""
    if len(results) == 1 and len(definition.schema.returns) == 1:
        return results[0]
    make = result_type(definition)
    return tuple(results) if make is None else make(results)
