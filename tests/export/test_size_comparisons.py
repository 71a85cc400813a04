"""What Python decides by sizes: guards, narrower ranges and errors are PyTorch's."""

import re

import pytest
import torch as pt

import ftorch as ft

from ..oracle import array


def exported(torch, function, shapes, dims):
    class Net(torch.nn.Module):
        def forward(self, *args):
            return function(torch, *args)

    class One(Net):
        def forward(self, x):
            return function(torch, x)

    class Two(Net):
        def forward(self, x, y):
            return function(torch, x, y)

    net = One() if len(shapes) == 1 else Two()
    examples = tuple(torch.arange(float(n)) for n in shapes)
    return torch.export.export(net, examples, dynamic_shapes=tuple({0: d} for d in dims(torch)))


def auto(torch):
    return torch.export.Dim.AUTO, torch.export.Dim.AUTO


CHECKED = {  # sizes of the example, function, sizes to call it with
    "bound": ([8], lambda torch, x: x.sum() if x.shape[0] > 5 else x, [[6], [5], [40]]),
    "two bounds": ([8], lambda torch, x: x + 1 if 3 < x.size(0) < 20 else x, [[4], [3], [20], [19]]),
    "check": ([5], lambda torch, x: (torch._check(x.shape[0] <= 20), x + 1)[1], [[6], [20], [21]]),
    "multiple": ([8], lambda torch, x: x.view(-1, 2) if x.shape[0] % 2 == 0 else x, [[6], [7]]),
    "another": ([8], lambda torch, x: x if x.shape[0] != 9 else -x, [[9], [10]]),
    "quotient": ([8], lambda torch, x: x * 2 if x.shape[0] // 2 > 3 else x, [[7], [8], [9]]),
    "computed": ([8], lambda torch, x: x * 2 if torch.cat([x, x]).shape[0] > 10 else x, [[5], [6]]),
    "constant": ([8], lambda torch, x: x.sum() if x.shape[0] == 8 else x, [[8], [9]]),
    "order": ([4, 7], lambda torch, x, y: x.sum() if x.shape[0] < y.shape[0] else y, [[5, 9], [9, 8]]),
    "equal": ([4, 4], lambda torch, x, y: x - y if x.shape == y.shape else x, [[5, 5], [5, 6]]),
    "several": ([4, 7], lambda torch, x, y: x.sum() if x.shape[0] % 2 == 0 and y.shape[0] != 9 else y,
                [[6, 3], [5, 3], [6, 9]]),
}


@pytest.mark.parametrize("name", CHECKED)
def test_programs_say_for_which_sizes_they_are(name):
    shapes, function, calls = CHECKED[name]
    found = []
    for torch in (ft, pt):
        program = exported(torch, function, shapes, lambda torch: auto(torch)[: len(shapes)])
        results = []
        for sizes in calls:
            try:
                results.append(array(program.module()(*(torch.arange(float(n)) for n in sizes))).tolist())
            except AssertionError as error:
                results.append(str(error))
        found.append((results, [str(v) for v in program.range_constraints.values()]))
    assert found[0] == found[1]


def test_guards_are_kept_in_files(tmp_path):
    shapes, function, _ = CHECKED["multiple"]
    for torch, other in ((ft, pt), (pt, ft)):
        torch.export.save(exported(torch, function, shapes, lambda t: auto(t)[:1]), tmp_path / "a.pt2")
        read = other.export.load(tmp_path / "a.pt2")
        with pytest.raises(AssertionError, match=re.escape("Guard failed: x.size()[0] % 2 == 0")):
            read.module()(other.ones(7))


REFUSED = {
    "least": ([8], lambda torch, x: x.sum() if x.shape[0] > 5 else x, lambda D: [D("a")]),
    "greatest": ([8], lambda torch, x: x.sum() if x.shape[0] > 50 else x, lambda D: [D("a")]),
    "range": ([8], lambda torch, x: x.sum() if x.shape[0] > 5 else x, lambda D: [D("a", min=4, max=100)]),
    "multiple": ([8], lambda torch, x: x.sum() if x.shape[0] % 4 == 0 else x, lambda D: [D("a")]),
    "another": ([8], lambda torch, x: x.sum() if x.shape[0] == 9 else x, lambda D: [D("a")]),
    "constant": ([8], lambda torch, x: x + torch.ones(8), lambda D: [D("a")]),
    "constant, no name": ([8], lambda torch, x: x + torch.ones(8), lambda D: [D.DYNAMIC]),
    "equal": ([4, 4], lambda torch, x, y: x + y, lambda D: [D("a"), D("b")]),
    "related": ([4, 5], lambda torch, x, y: x + y[1:], lambda D: [D("a"), D("b")]),
    "example": ([8], lambda torch, x: x, lambda D: [D("a", max=7)]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors(name):
    shapes, function, dims = REFUSED[name]
    found = []
    for torch in (ft, pt):
        with pytest.raises(Exception) as caught:
            exported(torch, function, shapes, lambda torch: dims(torch.export.Dim))
        found.append((type(caught.value).__name__, str(caught.value)))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["least", "range", "equal", "related"])
def test_fixes_that_are_suggested_do(name):
    shapes, function, dims = REFUSED[name]
    refined = []
    for torch in (ft, pt):
        given = tuple({0: d} for d in dims(torch.export.Dim))
        with pytest.raises(Exception, match="Suggested fixes") as caught:
            exported(torch, function, shapes, lambda torch: [d[0] for d in given])
        said = str(caught.value).partition("\n\nThe error above")[0]
        new = torch.export.dynamic_shapes.refine_dynamic_shapes_from_suggested_fixes(said, given)
        program = exported(torch, function, shapes, lambda torch: [d[0] for d in new])
        refined.append([(d[0].__name__, d[0].min, d[0].max) for d in new])
        assert program.range_constraints
    assert [n for n, *_ in refined[0]] == [n for n, *_ in refined[1]]
