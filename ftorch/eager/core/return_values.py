"""Named tuples for ops with several results: ``torch.return_types``."""

from __future__ import annotations

import copy
import functools

from .registry import OPS

_Dictionary = dict


class ReturnType(tuple):
    """A named tuple of results, as ``torch.return_types``: indexable by position and name.

    A sequence of CPython's struct module's kind, no ``collections.namedtuple``: it has no ``_fields``, which code asks
    for that makes named tuples again of their values one by one.
    """

    __slots__ = ()
    _names: tuple[str, ...] = ()

    def __new__(cls, sequence, dict={}):  # noqa: B006  (nobody writes into it)
        try:
            made = tuple.__new__(cls, sequence)
        except TypeError:
            if hasattr(sequence, "__iter__") or hasattr(sequence, "__getitem__"):
                raise
            raise TypeError("constructor requires a sequence") from None
        if dict.__class__ is not _Dictionary:
            raise TypeError(
                f"torch.return_types.{cls.__name__}() takes a dict as second arg, if any"
            )
        if len(made) != len(cls._names):
            takes = f"takes a {len(cls._names)}-sequence ({len(made)}-sequence given)"
            raise TypeError(f"torch.return_types.{cls.__name__}() {takes}")
        return made

    def __repr__(self):
        inner = ",\n".join(f"{n}={v!r}" for n, v in zip(self._names, self))
        return f"torch.return_types.{type(self).__name__}(\n{inner})"

    def __reduce__(self):
        return type(self), (tuple(self), {})

    def __copy__(self):
        return type(self)(self)

    def __deepcopy__(self, memo):
        return type(self)([copy.deepcopy(value, memo) for value in self])


RETURN_TYPES: dict[str, type] = {}
on_made: list = []  # functions that are called with each class as it is made


@functools.cache
def return_type(name, fields):
    namespace = {f: property(lambda self, i=i: self[i]) for i, f in enumerate(fields)}
    namespace |= {
        "__slots__": (),
        "_names": fields,
        "__match_args__": fields,
        "__module__": f"{__name__.partition('.')[0]}.return_types",  # where pickles look
        "n_fields": len(fields),
        "n_sequence_fields": len(fields),
        "n_unnamed_fields": 0,
    }
    made = type(name, (ReturnType,), namespace)
    for look in on_made:
        look(made)
    RETURN_TYPES[name] = made
    return made


_ATEN_PRIVATE = ("_lu_with_info",)  # other ops with such names are the package's own, of which nobody sees the results


def result_type(definition):
    """The named tuple class of an op with several named results and public forms, or None."""
    names = tuple(r.name for r in definition.schema.returns)
    is_own = definition.name.startswith("_") and definition.name not in _ATEN_PRIVATE
    if len(names) < 2 or None in names or is_own or not definition.forms:
        return None
    return return_type(definition.name, names)


def of_all_ops() -> dict:
    """The named tuple classes of all declared ops, those of calls with ``out=`` among them."""
    for definition in OPS.values():
        made = result_type(definition)
        if made is not None and "out" in definition.forms:
            return_type(made.__name__ + "_out", made._names)
    return RETURN_TYPES


def named(definition, results, suffix=""):
    """Results as the op returns them: one tensor, or a (named) tuple (``suffix``: ``"_out"``)."""
    if len(results) == 1 and len(definition.schema.returns) == 1:
        return results[0]
    make = result_type(definition)
    if make is not None and suffix:
        make = return_type(make.__name__ + suffix, make._names)
    return tuple(results) if make is None else make(results)
