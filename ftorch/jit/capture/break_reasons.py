"""Graph breaks: what the user's code was doing when a program ended, and how PyTorch's messages call it."""

from __future__ import annotations

import ast
import dis
import itertools
import linecache
import re
import sys

from .user_code import is_users

_HERE = __name__.partition(".")[0]


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
    if (
        steps and steps[0].opname == "COMPARE_OP"
    ):  # from 3.13 on it asks for the truth of what it gives to a jump
        del steps[0]
    steps = [s for s in steps[:6] if s.opname not in ("CACHE", "TO_BOOL", "NOT_TAKEN")]
    if not steps or "JUMP" not in steps[0].opname and steps[0].opname != "UNARY_NOT":
        return ""
    return "assert" if len(steps) > 1 and _is_assertion(steps[1]) else "branch"


def _is_assertion(step) -> bool:
    """Whether an instruction loads the exception of an ``assert``."""
    if step.opname == "LOAD_COMMON_CONSTANT":  # from 3.14 on
        return step.argrepr == "AssertionError"
    return step.opname == "LOAD_ASSERTION_ERROR"


def assertion() -> str | None:
    """The message of the ``assert`` that asks for a truth value now; None if nothing or no constant does."""
    frame, called = innermost()
    if frame is None or called != "__bool__" or jump(frame) != "assert":
        return None
    steps = iter(s for s in dis.get_instructions(frame.f_code) if s.offset > frame.f_lasti)
    next(filter(_is_assertion, steps))
    said = [
        s
        for s in itertools.islice(steps, 6)
        if s.opname not in ("CACHE", "PRECALL", "NOP", "PUSH_NULL")
    ]
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
        return _text(
            "Tensor.tolist() with non-integer tensor",
            "Dynamo currently does not support tracing `tolist()` on non-integer tensors.",
            "Ensure the input tensor to `tolist()` is an integer type (e.g., int8, int16, int32, int64).",
            context="call_method TensorVariable() to_list", number="0109",
        )
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
_OUT = "move it out of the compiled function, or drop `fullgraph=True`."


_SITE = "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb"


def _text(title, explanation, *hints, context=None, number=None):
    text = f"{title}\n  Explanation: {explanation}" + "".join(f"\n  Hint: {h}" for h in hints)
    if context is None:
        return text
    where = f"\n\n For more details about this graph break, please visit: {_SITE}{number}.html"
    return f"{text}\n\n  Developer debug context: {context}{where}"


BRANCH = _text(
    "Data-dependent branching",
    "Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`). Dynamo does not support tracing "
    "dynamic control flow.",
    "For the common pattern `if tensor_cond: x = transform(x)` (e.g. clamping inf/nan values), consider making the "
    "code branchless by always applying the transform. Operations like torch.clamp, torch.nan_to_num, and torch.where "
    "are typically no-ops on well-behaved inputs and compile without graph breaks.",
    "This graph break is fundamental - it is unlikely that Dynamo will ever be able to trace through your code. "
    "Consider finding a workaround.",
    "Use `torch.cond` to express dynamic control flow.",
    context="attempted to jump with TensorVariable()", number="0170",
)


def failed_call(error, op, target, args, kwargs) -> str:
    """What is said of a call that raised while it was captured."""
    shown = f"{target.__name__ if isinstance(target, type) else target}"
    named = ", ".join(f"{k!r}: {_fake(v)}" for k, v in kwargs.items())
    said = type(error)(_meta_text(str(error), args))
    return _text(
        "RuntimeError when making fake tensor call",
        f"Dynamo failed to run FX node with fake tensors: {op} {shown}(*{_fake(tuple(args))}, **{{{named}}}): got {said!r}",
        "Your code may result in an error when running in eager. Please double check that your code doesn't contain a "
        "similar error when actually running eager/uncompiled. You can do this by removing the `torch.compile` call, or "
        'by using `torch.compiler.set_stance("force_eager")`. ',
        context="",
        number="4315",
    )


def _fake(value) -> str:
    """An argument as a fake tensor."""
    if isinstance(value, (tuple, list)):
        inner = ", ".join(map(_fake, value))
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if not hasattr(value, "_ftorch_geometry"):
        return repr(value)
    dtype = "" if str(value.dtype) == "torch.float32" else f", dtype={value.dtype}"
    return f"FakeTensor(..., size={tuple(value.shape)}{dtype})"


_BROADCAST = re.compile(r"The size of tensor a \(\d+\) must match the size of tensor b \((\d+)\) at non-singleton")


def _meta_text(text, args) -> str:
    """An error's text as the kernels that compute shapes say it."""
    shapes = [tuple(a.shape) for a in args if hasattr(a, "_ftorch_geometry")]
    broadcast = _BROADCAST.match(text)
    if broadcast and len(shapes) == 2:
        a, b = shapes
        at = next(i for i in range(1, min(len(a), len(b)) + 1) if a[-i] != b[-i] and 1 not in (a[-i], b[-i]))
        return (f"Attempting to broadcast a dimension of length {b[-at]} at -{at}! Mismatching argument at index 1 had "
                f"torch.Size({list(b)}); but expected shape should be broadcastable to {list(a)}")
    if text.startswith("mat1 and mat2 shapes cannot be multiplied") and [len(s) for s in shapes] == [2, 2]:
        return f"a and b must have same reduction dim, but got {list(shapes[0])} X {list(shapes[1])}."
    return text


def _builtin(name) -> str:
    """What is said of a call of a builtin, with the types of its arguments where they can be seen."""
    kinds, variables, named = _arguments(innermost()[0])
    return _text(
        "Failed to trace builtin operator",
        f"Dynamo does not know how to trace builtin operator `{name}` with argument types {kinds} (has_kwargs {named})",
        f"Avoid calling builtin `{name}` with argument types {kinds}. Consider using an equivalent alternative "
        f"function/method to `{name}`.",
        "If you are attempting to call a logging function (e.g. `print`), you can try adding it to "
        "`torch._dynamo.config.reorderable_logging_functions`.",
        "Please report an issue to PyTorch.", number="0059",
        context=f"builtin {name} [{', '.join(variables)}] {named}",
    )


def _arguments(frame):
    """(types of the arguments of the call that a frame is in, how PyTorch calls them, whether there are keywords)."""
    try:
        place = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
        lines = [linecache.getline(frame.f_code.co_filename, n) for n in range(place[0], place[1] + 1)]
        lines[-1] = lines[-1].encode()[: place[3]].decode()
        lines[0] = lines[0].encode()[place[2] :].decode()
        call = ast.parse("".join(lines).strip(), mode="eval").body
        assert isinstance(call, ast.Call)
    except Exception:  # there is no source
        return [], [], False
    kinds, variables = [], []
    for a in call.args:
        value = a.value if isinstance(a, ast.Constant) else frame.f_locals.get(getattr(a, "id", None))
        tensor = hasattr(value, "_ftorch_geometry")
        kinds.append("str" if isinstance(a, ast.JoinedStr) else "Tensor" if tensor else type(value).__name__)
        variable = "tensor.TensorVariable" if tensor else "constant.ConstantVariable"
        variables.append(f"<class 'torch._dynamo.variables.{variable}'>")
    return kinds, variables, bool(call.keywords)


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
        given = "{}" if message is None else f"{{'msg': ConstantVariable(str: {message!r})}}"
        return _text(
            "Call to `torch._dynamo.graph_break()`", f"User-inserted graph break. Message: {message}",
            "Remove the `torch._dynamo.graph_break()` call.", number="0025",
            context=f"Called `torch._dynamo.graph_break()` with args `[]`, kwargs `{given}`",
        )
    if " is disabled" in reason:
        function, _, why = reason.partition(" is disabled")
        return _text(
            "Skip calling `torch.compiler.disable()`d function",
            f"Skip calling function `{function}` since it was wrapped with `torch.compiler.disable` "
            f"(reason: {why.strip(' ()') or None})",
            "Remove the `torch.compiler.disable` call", context=function, number="0098",
        )
    if reason.endswith("was called"):
        name = reason.split()[0]
        if name in ("print", "input", "open"):
            return _builtin(name)
        return _text(
            "Attempted to call function marked as skipped",
            f"`{name}` was called, which a program would not repeat.",
            _OUT,
        )
    return _text(f"Graph break: {reason}", "such calls run in Python.", _OUT)
