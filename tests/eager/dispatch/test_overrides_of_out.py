"""What is to be written to (``out=``) is asked for ``__torch_function__`` as operands are."""

import pytest
import torch

import ftorch

CALLS = {
    "stack": lambda lib, x, d: lib.stack([x, x], 1, out=d()), "stack of others": lambda lib, x, d: lib.stack([d(), x], out=d()),
    "cat": lambda lib, x, d: lib.cat([d(), d()], 1, out=d()), "add": lambda lib, x, d: lib.add(x, x, out=d()),
    "operand only": lambda lib, x, d: lib.add(d(), x, out=x), "sum": lambda lib, x, d: lib.sum(x, 0, out=d()),
    "pair": lambda lib, x, d: lib.max(x, 0, out=(d(), d())), "one of a pair": lambda lib, x, d: lib.sort(x, out=(d(), x)),
    "mm": lambda lib, x, d: lib.mm(d(), d(), out=d()), "inv": lambda lib, x, d: lib.linalg.inv(x, out=d()),
    "sin": lambda lib, x, d: lib.sin(x, out=d()), "clamp": lambda lib, x, d: lib.clamp(x, 0, 1, out=d()),
    "where": lambda lib, x, d: lib.where(x > 0, x, x, out=d()), "gather": lambda lib, x, d: lib.gather(x, 0, x.long(), out=d()),
}


def asked(lib, call):
    class Other:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, len(args), sorted(kwargs or {}), [t.__name__ for t in types]

    return call(lib, lib.ones(2, 2), Other)


@pytest.mark.parametrize("name", CALLS)
def test_out_is_asked(name):
    assert asked(ftorch, CALLS[name]) == asked(torch, CALLS[name])


@pytest.mark.filterwarnings("ignore")  # of resized outputs
@pytest.mark.parametrize("name", [name for name in CALLS if "pair" not in name])
def test_subclasses_as_out(name):
    """A subclass of `Tensor` is asked, and what it makes of the call is the result."""
    found = []
    for lib in (torch, ftorch):
        seen = []

        class Sub(lib.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None, lib=lib, seen=seen):  # noqa: B008
                seen.append((func.__name__, sorted(kwargs or {}), len(types)))
                with lib._C.DisableTorchFunctionSubclass():
                    return func(*args, **(kwargs or {}))

        made = lambda lib=lib, Sub=Sub: lib.zeros(2, 2).as_subclass(Sub)  # noqa: E731
        try:
            result = CALLS[name](lib, lib.eye(2), made)
            text = str([t.tolist() for t in result] if isinstance(result, tuple) else result.tolist())
        except RuntimeError as error:
            text = str(error)[:60]
        found.append((seen[:1], text))
    assert found[0] == found[1]


SIZES = {
    "list": lambda lib, t: lib.Size(list(t.shape)) == t.shape, "tuple": lambda lib, t: lib.Size((*t.shape,))[1] == t.shape[1],
    "class": lambda lib, t: type(lib.Size([2, t.shape[1]])) is lib.Size,
    "slice": lambda lib, t: t.shape[:2] == lib.Size(t.shape)[:2],
    "sum": lambda lib, t: lib.Size([2]) + t.shape[1:] == t.shape,
    "view": lambda lib, t: t.view(lib.Size(t.shape)).shape == t.shape,
    "reshape": lambda lib, t: t.reshape(lib.Size(t.shape)).shape == t.shape,
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_of_ragged_tensors(name):
    for lib in (torch, ftorch):
        t = lib.nested.nested_tensor([lib.ones(2, 3), lib.ones(4, 3)], layout=lib.jagged)
        assert SIZES[name](lib, t) is True
