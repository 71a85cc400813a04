"""Why programs end: what the user's code was doing, and how PyTorch's messages call it."""

from __future__ import annotations

import dis
import itertools
import sys

from .watch import is_users

_HERE = __name__.rpartition(".")[0].rpartition(".")[0]


def innermost():
    """(the user's frame that runs now, the name of what it called of this package)."""
    frame, called = sys._getframe(1), ""
    while frame is not None and not is_users(frame.f_code.co_filename):
        if frame.f_globals.get("__name__", "").startswith(_HERE):
            called = frame.f_code.co_name
            if called == "call" and "function" in frame.f_locals:  # see `eager.overrides.overridable`
                called = getattr(frame.f_locals["function"], "__name__", called)
        frame = frame.f_back
    return frame, called


def asked(method="__bool__"):
    """The tensor whose truth value (or what another method gives) is being asked for, or None."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != method:
        frame = frame.f_back
    return None if frame is None else frame.f_locals.get("self")


def jump(frame) -> str:
    """What a frame does with a truth value that it asks for: "assert", "branch", or "" for neither."""
    steps = [s for s in dis.get_instructions(frame.f_code) if s.offset >= frame.f_lasti]
    steps = [s for s in steps[:6] if s.opname not in ("CACHE", "TO_BOOL")]
    if not steps or "JUMP" not in steps[0].opname and steps[0].opname != "UNARY_NOT":
        return ""
    return "assert" if len(steps) > 1 and steps[1].opname == "LOAD_ASSERTION_ERROR" else "branch"


def assertion() -> str | None:
    """The message of the ``assert`` that asks for a truth value now; None if nothing or no constant does."""
    frame, called = innermost()
    if frame is None or called != "__bool__" or jump(frame) != "assert":
        return None
    steps = iter(s for s in dis.get_instructions(frame.f_code) if s.offset > frame.f_lasti)
    next(s for s in steps if s.opname == "LOAD_ASSERTION_ERROR")
    said = [s for s in itertools.islice(steps, 6) if s.opname not in ("CACHE", "PRECALL", "NOP", "PUSH_NULL")]
    if said[0].opname == "RAISE_VARARGS":
        return "assertion error"
    if said[0].opname == "LOAD_CONST" and said[1].opname == "CALL":
        return str(said[0].argval)
    return None


_CONVERSIONS = frozenset(("item", "__int__", "__float__", "__index__", "__complex__", "__bool__"))


def of_look() -> str:
    """The reason of a break by a look at a value, from what the user's code is doing now."""
    frame, called = innermost()
    if frame is None:
        return VALUE
    if called == "__bool__" and jump(frame):
        return "generic_jump TensorVariable()"
    if called in _CONVERSIONS:
        return _text(
            "Unsupported Tensor.item() call with capture_scalar_outputs=False",
            f"the function looks at the value of a tensor, by `{called}`.",
            "use torch.where or torch.cond, move it out of the compiled function, set "
            "torch._dynamo.config.capture_scalar_outputs = True, or drop `fullgraph=True`.",
        )
    if called == "tolist":
        return _text("Tensor.tolist() with non-integer tensor",
                     "the function looks at the values of a tensor, by `tolist`.", _OUT)  # fmt: skip
    return _text("Dynamic shape operator", f"`{called}` looks at the values of a tensor.", _OUT)


def of_operator(title, called) -> str:
    """The reason of a break by an operator that looks at values."""
    return _text(title, f"`{called}` looks at the values of tensors.", _OUT)


def guard_on(called) -> str:
    """What is raised where Python decides something by a value."""
    return (
        "Consider annotating your code using torch._check*(). Could not guard on data-dependent "
        f"expression: Python decides something by the value of a tensor (`{called}`).\n  Hint: use "
        "torch.where or torch.cond, or drop `fullgraph=True`."
    )


VALUE = "a value was needed"
BRANCH = (
    "Data-dependent branching\n  Explanation: the function looks at the value of a tensor to decide where "
    "to go on (`if tensor:`).\n  Hint: use torch.where or torch.cond, or drop `fullgraph=True`."
)
_OUT = "move it out of the compiled function, or drop `fullgraph=True`."


def _text(title, explanation, hint):
    return f"{title}\n  Explanation: {explanation}\n  Hint: {hint}"


def describe(reason: str) -> str:
    """A reason that a capture ended for, as it is shown to the user."""
    if reason == VALUE:
        return _text(
            "Data-dependent branching or conversion",
            "the function looks at the value of a tensor (such as by `.item()`, `if tensor:` or "
            "printing).",
            "use torch.where or torch.cond, or move it out of the compiled function, or drop "
            "`fullgraph=True`.",
        )
    if "\n" in reason or reason.startswith("generic_jump"):
        return reason
    if reason.startswith("torch._dynamo.graph_break"):
        message = reason.partition("(")[2].rstrip(")").strip("'\"") or None
        return _text("Call to `torch._dynamo.graph_break()`",
                     f"User-inserted graph break. Message: {message}", "Remove the call.")  # fmt: skip
    if " is disabled" in reason:
        return _text("Skip calling `torch.compiler.disable()`d function", reason, _OUT)
    if reason.endswith("was called"):
        name = reason.split()[0]
        title = "Failed to trace builtin operator" if name in ("print", "input", "open") else (
            "Attempted to call function marked as skipped"
        )
        return _text(title, f"`{name}` was called, which a program would not repeat.", _OUT)
    return _text(f"Graph break: {reason}", "such calls run in Python.", _OUT)
