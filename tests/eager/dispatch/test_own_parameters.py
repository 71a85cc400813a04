"""Public functions leave their parameters as they were given: what a mode or a class sees of a call is read off its frame."""

import dis

from ftorch.eager.dispatch import running_calls


def rebound(code) -> set[str]:
    """The parameters of a function to which its code assigns."""
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    parameters, found = set(code.co_varnames[:count]), set()
    for instruction in dis.get_instructions(code):
        if instruction.opname.startswith(("STORE_FAST", "DELETE_FAST", "STORE_DEREF", "DELETE_DEREF")):
            names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
            found |= parameters & set(names[:1] if instruction.opname == "STORE_FAST_LOAD_FAST" else names)
    return found


def test_no_parameter_is_rebound():
    functions = [f for f in running_calls.known_as if hasattr(f, "__code__") and "/ftorch/" in f.__code__.co_filename]
    assert len(functions) > 100
    assert {f.__name__: names for f in functions if (names := rebound(f.__code__))} == {}


def test_what_counts():
    def assigns(a, b, *c, d=1):
        b = a
        return b, c, d

    def reads(a, b=2, **c):
        e = a + b
        return e, c

    assert rebound(assigns.__code__) == {"b"} and rebound(reads.__code__) == set()
