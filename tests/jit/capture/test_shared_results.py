"""Results of compiled functions that share memory: what is written to one is a part of the others' history."""

import pytest
import torch as pt

import ftorch as ft
from tests.oracle import assert_same

FUNCTIONS = {
    "flat": lambda i: (i.view(-1), i),
    "views": lambda i: (i.view(4, 1), i.view(4)),
    "transposed": lambda i: (i.t(), i),
    "detached": lambda i: (i.detach(), i),
    "same": lambda i: (i, i),
    "one": lambda i: (i.view(4),),
    "apart": lambda i: (i + 1, i),
}


def run(torch, function, backend, written):
    if backend is not None:
        torch._dynamo.reset()
    compiled = (lambda f: f) if backend is None else torch.compile(backend=backend)
    compiled = compiled(lambda x: FUNCTIONS[function](x * 2))
    shown = []
    for step in range(2):
        x = (torch.arange(4.0) + step).view(2, 2).requires_grad_()
        results = compiled(x)
        results[written].mul_(3)
        shown += [r.detach() for r in results]
        sum((r * r.detach()).sum() for r in results if r.requires_grad).backward()
        shown.append(x.grad)
    return shown


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("function, written", [(f, w) for f in FUNCTIONS for w in (0, 1) if (f, w) != ("one", 1)])
def test_writes_to_shared_results(function, backend, written):
    found, wanted = run(ft, function, backend, written), run(pt, function, None, written)
    for a, b in zip(found, wanted, strict=True):
        assert_same(a, b)


def test_one_tensor_as_two_arguments_and_two_of_the_same_memory():
    compiled = ft.compile(lambda x, y: (x, y, x is y))
    data = ft.arange(6.0).view(2, 3)
    for part in (data, data[1]):
        for _ in range(2):
            first, second, is_one = compiled(part, part)
            assert is_one and first is second is part
            other = part.view(3) if part.dim() == 1 else part.view(2, 3)
            first, second, is_one = compiled(part, other)
            assert not is_one and first is part and second is other
