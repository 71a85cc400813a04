"""What a wrapper class sees of calls that are one op of ATen's, as in PyTorch: which overload, and its arguments."""

import pytest
import torch as reference

import ftorch

CALLS = {
    "x[:]": lambda torch, x: x[:],
    "x[...]": lambda torch, x: x[...],
    "x[1:3, ::2]": lambda torch, x: x[1:3, ::2],
    "chunk": lambda torch, x: torch.chunk(x, 2),
    "chunk(dim)": lambda torch, x: x.chunk(2, 1),
    "split": lambda torch, x: x.split(3),
    "split(sizes)": lambda torch, x: torch.split(x, [3, 5]),
    "split_with_sizes": lambda torch, x: x.split_with_sizes([3, 5]),
    "unbind": lambda torch, x: x.unbind(1),
    "new_zeros": lambda torch, x: x.new_zeros((2, 3)),
    "new_zeros(sizes)": lambda torch, x: x.new_zeros(2, 3),
    "new_full": lambda torch, x: x.new_full((2,), 1.0),
    "zeros_like": lambda torch, x: torch.zeros_like(x),
    "rand_like": lambda torch, x: torch.rand_like(x),
}


def _seen(torch, call):
    seen = []

    class Wrapper(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

        @staticmethod
        def __new__(cls, inner):
            made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            packet = getattr(torch.ops.aten, func.overloadpacket.__name__)
            is_known = func is getattr(packet, func._overloadname)
            shown = [("x",) if isinstance(a, torch.Tensor) else a for a in args]
            seen.append((str(func), is_known, shown, dict(kwargs or {})))
            plain = [a.inner if isinstance(a, Wrapper) else a for a in args]
            return torch.utils._pytree.tree_map(Wrapper, func(*plain, **(kwargs or {})))

    result = call(torch, Wrapper(torch.ones(8, 4)))
    pieces = result if isinstance(result, (tuple, list)) else [result]
    return seen, [tuple(piece.shape) for piece in pieces]


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_seen_whole(name):
    assert _seen(ftorch, CALLS[name]) == _seen(reference, CALLS[name])


@pytest.mark.parametrize("sizes", [2, [1, 1]])
def test_pieces_have_gradients(sizes):
    def gradient(torch):
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        (x.split(sizes)[0] ** 2).sum().backward()
        return x.grad.tolist()

    assert gradient(ftorch) == gradient(reference)
