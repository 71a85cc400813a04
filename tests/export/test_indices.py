"""``x[...]`` in exported graphs is what the user wrote, so that it means the same at all sizes; the ranges are PyTorch's."""

import pytest
import torch as pt

import ftorch as ft

from ..oracle import array

INDICES = [
    "x[:3]", "x[1:]", "x[:-1]", "x[-3:]", "x[:]", "x[:, :2]", "x[0]", "x[-1]", "x[:, 0]", "x[..., 1:3]", "x[None]",
    "x[:, None, 1:]", "x[0:6]", "x[::2]", "x[:, :, 0]", "x[:100]", "x[5:2]", "x[0, 1:]", "x[:, :, 1:][:, 0]", "x[..., 0]",
    "x[:, None]",
    "x[: x.shape[0]]", "x[: x.shape[0] - 1]", "x[x.shape[0] - 2 :]", "x[: x.shape[1] + 1]", "x[:, : x.shape[1] - 1, 1:]",
]
CALLS = [(6, 4), (7, 5), (40, 20), (120, 50), (3, 2), (2, 2), (4, 9)]


def network(torch, text, count):
    scope = {"torch": torch}
    exec(f"def forward(self, {', '.join('xyz'[:count])}):\n    {text if 'return' in text else 'return ' + text}", scope)
    return type("Net", (torch.nn.Module,), {"forward": scope["forward"]})()


def exported(torch, text, shapes, dims):
    net = network(torch, text, len(shapes))
    return torch.export.export(net, tuple(torch.ones(shape) for shape in shapes), dynamic_shapes=dims(torch))


def calls(program):
    return [(n.name, str(n.target), str(n.args)) for n in program.graph.nodes if n.op == "call_function"]


def outcomes(torch, program, sizes):
    found = []
    for shapes in sizes:
        try:
            found.append(array(program.module()(*map(torch.ones, shapes))).tolist())
        except AssertionError as error:
            found.append(str(error))
    return found


def agree(text, mine, theirs, sizes):
    """Whether programs of both libraries give the same; where PyTorch's refuses a size it may be taken, rightly."""
    for shapes, got, expected in zip(sizes, outcomes(ft, mine, sizes), outcomes(pt, theirs, sizes)):
        if str(expected).startswith("Guard") and not str(got).startswith("Guard"):
            expected = array(network(pt, text, len(shapes))(*map(pt.ones, shapes))).tolist()
        assert got == expected or (str(got).startswith("Guard") and str(expected).startswith("Guard"))


def every(torch):
    return {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}


@pytest.mark.parametrize("text", INDICES)
def test_graphs_have_indices_as_they_were_written(text):
    for dims in (lambda torch: None, lambda torch: (every(torch),)):
        mine, theirs = (exported(torch, text, [(6, 4, 5)], dims) for torch in (ft, pt))
        assert calls(mine) == calls(theirs)
        assert [str(v) for v in mine.range_constraints.values()] == [str(v) for v in theirs.range_constraints.values()]
    agree(text, mine, theirs, [((*size, 5),) for size in CALLS])


NEXT_TO_TENSORS = [
    "x[:100, torch.tensor([0, 1])]", "x[torch.tensor([0, 1]), :3]", "x[x[:, 0, 0] > 0, :3]", "x[..., :15, [0, 1]]",
    "x[None, :30, torch.tensor([0, 1])]", "x[:30, ..., [0, 1]]", "x[[0, 1], None, :15]", "x[True, :30]", "x[:30, True]",
]
WRITES = [
    "y[:30] = 0", "y[:] = 1", "y[..., :15, :] = 2", "y[1:] = x[:-1]", "y[:, 1:15] = x[:, :1]", "y[-30:] += 1",
    "y[:30, [0, 1]] = 3", "y[None, :30, torch.tensor([0, 1])] = 3", "y[x[:, 0, 0] > 0, :15] = 4", "y[x.shape[0] - 30 :] = 5",
    "y[True, :30] = 6", "y[::2] = 7", "y[-1] = 8", "y[1, ..., 2:] = x[0, 0, 2:]",
]


def test_slices_next_to_tensors_mean_the_same_at_other_sizes():
    for text in NEXT_TO_TENSORS:
        mine, theirs = (exported(torch, text, [(6, 4, 5)], lambda torch: (every(torch),)) for torch in (ft, pt))
        assert outcomes(ft, mine, [((50, 20, 5),)]) == outcomes(pt, theirs, [((50, 20, 5),)])


@pytest.mark.parametrize("text", WRITES)
def test_writes_by_index_mean_the_same_at_other_sizes(text):
    program = f"y = x.clone()\n    {text}\n    return y"
    mine, theirs = (exported(torch, program, [(6, 4, 5)], lambda torch: (every(torch),)) for torch in (ft, pt))
    agree(program, mine, theirs, [((*size, 5),) for size in CALLS])


@pytest.mark.parametrize(
    "mask", ["[[True, False], [False, True]]", "torch.tensor([[True, False], [False, True]])", "[True, False], [0]"]
)
def test_slices_next_to_masks_are_of_their_dimensions(mask):
    text = f"torch.arange(20.0).reshape(2, 2, 5)[{mask}, :3] + x"
    mine, theirs = (outcomes(torch, exported(torch, text, [(1,)], lambda torch: None), [((1,),)]) for torch in (ft, pt))
    assert mine == theirs


CHECKED = {  # two matrices
    "ties of what broadcasts": ("(x + y).sum()", [((5, 3), (5, 3)), ((5, 3), (5, 4))]),
    "a check before a tie": (
        "torch._check(x.shape[0] % 2 == 0)\n    assert x.shape[0] == y.shape[0]\n    return x[:, 0] + y[:, 0]",
        [((6, 3), (6, 5)), ((5, 3), (5, 3)), ((6, 3), (4, 3))],
    ),
    "a check after a tie": (
        "assert x.shape[0] == y.shape[0]\n    torch._check(y.shape[0] > 3)\n    return x[:, 0] + y[:, 0]",
        [((6, 3), (6, 5)), ((3, 3), (3, 3)), ((6, 3), (4, 3))],
    ),
    "what is computed of tied sizes": (
        "z = torch.cat([x, y])\n    torch._check(z.shape[0] > 6)\n    return z.sum(0)",
        [((9, 3), (2, 3)), ((3, 3), (3, 3)), ((4, 3), (4, 4))],
    ),
    "a slice of what is computed": ("torch.cat([x, y])[: x.shape[0] * 2 - 1]", [((3, 3), (9, 3)), ((5, 3), (2, 3))]),
    "an order with a factor": (
        "if x.shape[0] >= y.shape[0] * 2:\n        return x.sum()\n    return y.sum() * 2",
        [((4, 2), (3, 2)), ((8, 4), (4, 5))],
    ),
    "checks of results written in place": (
        "z = x.clone().fill_(1)\n    torch._check(z.shape[0] > 2)\n    return z", [((30, 4), (4, 4)), ((2, 4), (4, 4))],
    ),
}


@pytest.mark.parametrize("name", CHECKED)
def test_sizes_that_need_not_be_equal_are_not_equal(name):
    text, sizes = CHECKED[name]
    mine, theirs = (exported(torch, text, [(4, 4), (4, 4)], lambda torch: (every(torch), every(torch))) for torch in (ft, pt))
    agree(text, mine, theirs, sizes)


def test_a_size_without_a_name_may_equal_one_with_a_name():
    for torch in (ft, pt):
        dims = lambda torch: ({0: torch.export.Dim.AUTO}, {0: torch.export.Dim("b", min=2, max=24)})  # noqa: E731
        program = exported(torch, "torch.cat([x, y], 1)", [(6, 4), (6, 4)], dims)
        assert outcomes(torch, program, [((5, 4), (5, 4))])[0] == [[1.0] * 8] * 5
        assert "Guard" in outcomes(torch, program, [((5, 4), (6, 4))])[0]


def test_repetitions_by_a_number_are_no_matter_of_values():
    for torch in (ft, pt):
        program = exported(torch, "x.repeat_interleave(2, 0) if x.repeat_interleave(2, 0).shape[0] > 3 else x", [(4, 4)],
                           lambda torch: (every(torch),))
        assert [len(f) for f in outcomes(torch, program, [((7, 3),)])] == [14]


def test_as_many_elements_as_a_larger_input_has():
    text = "y = x[x > 0]\n    torch._check(y.shape[0] > 1)\n    return y"
    for torch in (ft, pt):
        program = exported(torch, text, [(4, 4)], lambda torch: (every(torch),))
        assert [len(f) for f in outcomes(torch, program, [((30, 40),)])] == [1200]
        assert "VR[2, 9223372036854775806]" in [str(v) for v in program.range_constraints.values()]
