"""Compiled functions that are given an object made anew for each call: what they compute, change and compile."""

import dataclasses
import types

import pytest
import torch

import ftorch


@dataclasses.dataclass(frozen=True)
class Batch:
    x: object
    scale: float
    more: object = None


class Plain:
    def __init__(self, **values):
        vars(self).update(values)


def compute(lib, b):
    return (b.x * b.scale).sum() + b.more["y"][0]


def change(lib, b):
    b.h = b.x * 2
    b.more["z"] = b.x + b.scale
    b.more["y"].append(b.h)
    del b.scale
    return b.x.add_(1), b


def inside(lib, b):
    b.inner.h = b.inner.x.cos()
    return b.inner.h * b.x if b.inner is b.more[0] else None


def made(lib, kind, n, nested=False):
    x = lib.arange(3.0) + n
    more = {"y": [lib.ones(2) * n]}
    if nested:
        inner = kind(x=x, scale=1.0)
        return kind(x=x + 1, inner=inner, more=(inner,))
    return kind(x=x, scale=float(n), more=more)


def content(value):
    """What a result, or an object, is to be."""
    if hasattr(value, "detach"):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [content(v) for v in value]
    if isinstance(value, dict):
        return {k: content(v) for k, v in value.items()}
    return {"": type(value).__name__, **content(vars(value))} if hasattr(value, "__dict__") else value


@pytest.mark.parametrize(
    ("function", "kind", "nested"),
    [(compute, Batch, False), (compute, Plain, False), (change, types.SimpleNamespace, False),
     (change, Plain, False), (inside, types.SimpleNamespace, True)],
)
def test_results_and_changes(function, kind, nested):
    compiled = ftorch.compile(lambda b: function(ftorch, b))
    for n in (2, 3, 4, 5):
        mine, theirs = made(ftorch, kind, n, nested), made(torch, kind, n, nested)
        x = mine.x
        found, expected = compiled(mine), function(torch, theirs)
        assert content(found) == content(expected)
        assert content(mine) == content(theirs) and mine.x is x
        if function is change:
            assert found[1] is mine and found[0] is x


@pytest.mark.parametrize("kind", [Batch, Plain, types.SimpleNamespace])
def test_a_second_object_compiles_once_more(kind):
    @ftorch.compile
    def function(b):
        return b.x * b.scale

    objects = [kind(x=ftorch.ones(3) * n, scale=2.0) for n in range(12)]
    ftorch._dynamo.utils.counters.clear()
    results = [function(b) for b in objects]
    # Of the first object, and of what the others hold.
    assert ftorch._dynamo.utils.counters["stats"]["unique_graphs"] == 2
    assert [r[0].item() for r in results] == [2.0 * n for n in range(12)]


def test_an_object_that_stays_is_known_by_itself():
    settings = Plain(scale=3.0)

    @ftorch.compile
    def function(x, s):
        return x * s.scale

    ftorch._dynamo.utils.counters.clear()
    for n in range(5):
        assert function(ftorch.ones(2) * n, settings)[0] == 3 * n
    assert ftorch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    settings.scale = 4.0
    assert function(ftorch.ones(2), settings)[0] == 4


def test_what_keeps_objects_gets_the_objects_themselves():
    kept = []

    @ftorch.compile
    def function(b):
        kept.append(b)
        return b.x + 1

    given = [Plain(x=ftorch.ones(2) * n) for n in range(4)]
    for b in given:
        function(b)
    assert all(a is b for a, b in zip(kept, given, strict=True))


def test_training_steps_with_batches():
    ftorch.manual_seed(0)
    model = ftorch.nn.Linear(3, 1)
    reference = ftorch.nn.Linear(3, 1)
    reference.load_state_dict(model.state_dict())

    def step_of(model):
        optimizer = ftorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(b):
            optimizer.zero_grad()
            loss = ((model(b.x) - b.more) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    compiled, plain = ftorch.compile(step_of(model)), step_of(reference)
    for _ in range(6):
        x, y = ftorch.randn(4, 3), ftorch.randn(4, 1)
        assert ftorch.allclose(compiled(Batch(x, 1.0, y)), plain(Batch(x, 1.0, y)))
    assert ftorch.allclose(model.weight, reference.weight)


def test_memory_formats_and_layouts_are_constants():
    def strides(torch):
        torch._dynamo.reset()
        compiled = torch.compile(lambda w, m: w.to(memory_format=m).stride(), backend="eager")
        formats = torch.contiguous_format, torch.channels_last, torch.preserve_format, torch.contiguous_format
        return [compiled(torch.ones(2, 3, 4, 5), m) for m in formats]

    assert strides(ftorch) == strides(torch)
    compiled = ftorch.compile(lambda x, s: x + 1 if s is ftorch.strided else x + 2, backend="eager")
    assert [compiled(ftorch.ones(1), s).item() for s in (ftorch.strided, ftorch.sparse_coo, ftorch.strided)] == [2, 3, 2]


def test_objects_without_attributes_are_known_by_their_identity():
    class Mark:
        pass

    first, second = Mark(), Mark()
    compiled = ftorch.compile(lambda x, mark: x + 1 if mark is first else x + 2, backend="eager")
    assert [compiled(ftorch.ones(1), m).item() for m in (first, second, first, second)] == [2, 3, 2, 3]
