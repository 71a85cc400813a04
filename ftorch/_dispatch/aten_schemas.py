"""ATen's schemas of the overloads of ``torch.ops.aten`` that are no kernels of the engine, and the tags of overloads: what
passes over graphs ask.

`schemas.txt` has those that `functions/schemas.txt`, by which calls that failed are explained, has not.
"""

from __future__ import annotations

import enum
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


# --- tags --------------------------------------------------------------------------------


class Tag(enum.Enum):
    """Properties of an op that are told when it is registered."""

    core = 0
    cudagraph_unsafe = 1
    data_dependent_output = 2
    dynamic_output_shape = 3
    flexible_layout = 4
    generated = 5
    inplace = 6
    inplace_view = 7
    maybe_aliasing_or_mutating = 8
    needs_contiguous_strides = 9
    needs_exact_strides = 10
    needs_fixed_stride_order = 11
    nondeterministic_bitwise = 12
    nondeterministic_seeded = 13
    out = 14
    out_variant = 15
    pointwise = 16
    pt2_compliant_tag = 17
    reduction = 18
    view_copy = 19

    def __int__(self):
        return self.value

    __index__ = __int__


@functools.cache
def _listed_tags() -> dict[str, list[str]]:
    """{an overload of ATen's: its tags that its schema does not tell}; a tag that it lacks has a minus."""
    found: dict = {}
    with open(places.own_file("_dispatch/tags.txt"), encoding="utf-8") as file:
        for line in file:
            tag, _, names = line.partition(":")
            for name in names.split():
                found.setdefault(name, []).append(tag)
    return found


def tags_of(namespace, name, overload, schema) -> list[Tag]:
    """The tags of an overload, in their order.

    >>> from ftorch.ops import aten
    >>> aten.add.Tensor.tags
    [<Tag.core: 0>, <Tag.pointwise: 16>, <Tag.pt2_compliant_tag: 17>]
    """
    if namespace != "aten":
        return [Tag.pt2_compliant_tag] if namespace == "prims" else []
    names = {"pt2_compliant_tag", *_listed_tags().get(name if overload == "default" else f"{name}.{overload}", ())}
    arguments = () if schema is None else schema.arguments
    if any(a.type.alias is not None and a.type.alias.is_write and a.is_keyword_only for a in arguments):
        names.add("out")
    elif name.endswith("_") and not name.startswith("__") or name.startswith("__i"):
        if arguments and arguments[0].type.alias is not None:
            names.add("inplace")
    return [tag for tag in Tag if tag.name in names and f"-{tag.name}" not in names]


@functools.cache
def pointwise_names() -> frozenset[str]:
    """The names of ATen's ops that are functions of single elements, without the underscores of those in place.

    >>> "acosh" in pointwise_names(), "sort" in pointwise_names()
    (True, False)
    """
    names = (name.partition(".")[0] for name, tags in _listed_tags().items() if "pointwise" in tags)
    return frozenset(name.removesuffix("_") for name in names)
