"""Call-site inspection: how a running function's arguments were written, by position or by keyword.

A function cannot tell. What calls it can: the instruction names the keywords.
"""

from __future__ import annotations

import dis
import functools

from ..core import places

_NO_ARGUMENTS = frozenset(("CACHE", "EXTENDED_ARG", "NOP"))


def keywords(frame) -> tuple[int, tuple[str, ...]] | None:
    """How many arguments a function's frame was given by position (but for a method's own object), and the names of those by
    keyword; None where that cannot be told."""
    caller = frame.f_back
    if caller is None:
        return None
    found = _keywords(caller.f_code, caller.f_lasti)
    if found is None and caller.f_code.co_filename.startswith(places.OWN):  # a wrapper's `function(*args, **kwargs)`
        args, kwargs = caller.f_locals.get("args"), caller.f_locals.get("kwargs")
        if isinstance(args, tuple) and isinstance(kwargs, dict):
            return len(args), tuple(kwargs)
    return found


@functools.lru_cache(1024)
def _keywords(code, at):
    found = [i for i in dis.get_instructions(code) if i.offset <= at and i.opname not in _NO_ARGUMENTS]
    if [i.opname for i in found[-2:]] == ["PRECALL", "CALL"]:
        del found[-1]  # they say the same; a call that was made often is made by the first of them
    previous, instruction = [None, None, *found][-2:]  # ``at`` may be in the cache behind the instruction
    if instruction is None:
        return None
    count, names = instruction.arg, ()
    if instruction.opname in ("CALL", "PRECALL"):
        if previous is not None and previous.opname == "KW_NAMES":
            names = code.co_consts[previous.arg]
    elif instruction.opname == "CALL_KW" and previous is not None and previous.opname == "LOAD_CONST":
        names = previous.argval
    else:
        return None
    return count - len(names), names
