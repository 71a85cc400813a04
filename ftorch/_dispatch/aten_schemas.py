"""ATen's schemas of the overloads of ``torch.ops.aten`` that are no kernels of the engine: what passes over graphs ask.

`schemas.txt` has those that `functions/schemas.txt`, by which calls that failed are explained, has not.
"""

from __future__ import annotations

import functools

from ..eager.bindings import declared
from ..eager.core import places
from ..eager.core.schema import Schema, parse, qualified


@functools.cache
def _texts() -> dict[str, str]:
    """{``"add.Scalar"``: the schema}"""
    lines = [text for rows in declared.lines().values() for _, text in rows]
    with open(places.own_file("_dispatch/schemas.txt"), encoding="utf-8") as file:
        lines += file.read().splitlines()
    return {text.partition("(")[0]: text for text in lines}


@functools.cache
def overload_names(name: str) -> tuple[str, ...]:
    """The names of an op's overloads, of those that `schema_of` has.

    >>> overload_names("arange")
    ('default', 'start', 'start_step')
    """
    found = (text.partition(".") for text in _texts())
    return tuple(overload or "default" for base, _, overload in found if base == name)


@functools.cache
def schema_of(name: str, overload: str = "default") -> Schema | None:
    """The schema of an overload; None if ATen has none of that name.

    >>> str(schema_of("add_", "Scalar"))
    'aten::add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)'
    """
    text = _texts().get(name if overload == "default" else f"{name}.{overload}")
    return None if text is None else qualified(parse(text))
