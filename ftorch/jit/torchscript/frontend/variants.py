"""Why none of an operator's forms takes a call's arguments, as PyTorch's compiler says it."""

from __future__ import annotations

import functools

from ....eager.core.schema import parse
from ..program.aten import OVERLOADS
from ..program.aten_adapters import ADAPTED
from ..program.types import NONE, Type

__all__ = ["mismatches"]

# What numbers and tensors are converted to where an argument wants it, so that only what runs tells whether they fit.
_NUMERIC = frozenset("Tensor int float bool complex number".split())
_SHOWN = {"SymInt": "int", "ScalarType": "int", "Layout": "int", "MemoryFormat": "int", "Scalar": "number"}
_OPEN = frozenset("Any Union Future Generator t".split())


@functools.cache
def _forms(name: str):
    """[(the schema's text, its arguments)] of an operator, those with ``out`` last."""
    from ...._ops import ops

    packet = getattr(ops.aten, name, None)
    texts = [str(getattr(packet, o)._schema) for o in packet.overloads()] if packet is not None else []
    return [(text, parse(text.partition("::")[2]).arguments) for text in sorted(texts, key=lambda t: "(a!) out" in t)]


def _shown(kind) -> str:
    text = _SHOWN.get(kind.base, kind.base)
    for suffix in kind.suffixes:
        text = f"Optional[{text}]" if suffix == "?" else f"List[{text}]"
    return text


def _differs(kind, found: Type | None) -> bool:
    """Whether a value of a type is certainly none for an argument."""
    if found is None or found.name in _OPEN or found.is_class or found.name == "Optional":
        return False
    if found == NONE:
        return kind.base == "Tensor" and not kind.suffixes
    if any(s.startswith("[") for s in kind.suffixes):
        return found.name in ("str", "Dict", "Device")
    if kind.base in ("Dimname", "Device", "Generator", "Storage", "Stream", "t", "Any"):
        return False
    if kind.base == "str":
        return found.name in _NUMERIC or found.name in ("List", "Tuple", "Dict")
    return found.name not in _NUMERIC


def _reason(arguments, kinds, keywords, is_method) -> str | None:
    """What is wrong with a call of one form; None if nothing is for certain."""
    outside = int(is_method)  # the tensor whose method it is does not count
    by_place = [a for a in arguments if not a.is_keyword_only]
    several = bool(by_place) and len(by_place) <= 2 and any(s.startswith("[") for s in by_place[-1].type.suffixes)
    for i, a in enumerate(by_place):
        if i < len(kinds):
            if a.name in keywords:
                return f"Argument {a.name} specified twice in schema, submit a bug report!"
            if _differs(a.type, kinds[i]):
                return (f"Expected a value of type '{_shown(a.type)}' for argument '{a.name}' but instead found "
                        f"type '{kinds[i]}'.")
    for a in arguments if len(kinds) >= len(by_place) else (*by_place[len(kinds):], *(
            a for a in arguments if a.is_keyword_only)):
        if a.name in keywords:
            if _differs(a.type, keywords[a.name]):
                return (f"Expected a value of type '{_shown(a.type)}' for argument '{a.name}' but instead found "
                        f"type '{keywords[a.name]}'.")
        elif not a.has_default and not (a in by_place and by_place.index(a) < len(kinds)):
            return f"Argument {a.name} not provided."
    if len(kinds) > len(by_place) and not several:
        return f"Expected at most {len(by_place) - outside} arguments but found {len(kinds) - outside} positional arguments."
    unknown = next((k for k in keywords if all(k != a.name for a in arguments)), None)
    return None if unknown is None else f"Keyword argument {unknown} unknown."


def mismatches(name: str, kinds: list, keywords: dict, is_method: bool = False) -> list[str] | None:
    """The lines about each form of an operator none of which takes a call; None where one may.

    Args:
        kinds: the types of the positional arguments, None for those that are not known; ``keywords``: of the others.
        is_method: whether the first of them is the tensor whose method is called.
    """
    if name not in OVERLOADS or name in ADAPTED or not kinds or kinds[0] is None or kinds[0].name != "Tensor":
        return None
    lines = []
    for text, arguments in _forms(name):
        reason = _reason(arguments, kinds, keywords, is_method)
        if reason is None:
            return None
        lines += ["  ", f"  {text}:", f"  {reason}"]
    return lines or None
