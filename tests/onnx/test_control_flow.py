"""``cond`` and ``while_loop`` as ONNX's ``If`` and ``Loop``, run by onnxruntime."""

import pytest

import ftorch as torch

from ..export.test_control_flow import arguments, assert_branches, make

pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("sizes, rows", [(None, 2), (({0: torch.export.Dim("n")}, None), 5)])
@pytest.mark.parametrize("optimize", [True, False])
def test_branches_and_loops(sizes, rows, optimize):
    """One in the other, with operands and parameters from around."""
    program = torch.onnx.export(make(torch), arguments(torch), dynamic_shapes=sizes, optimize=optimize)
    kinds = {n.op_type for n in program.model_proto.graph.node}
    assert {"If", "Loop"} <= kinds

    def run(*args):
        z, i = program(*args)
        return z, {"i": i}

    assert_branches(run, rows)


def test_a_loop_that_makes_no_step():
    class Net(torch.nn.Module):
        def forward(self, x):
            return torch.while_loop(lambda i, x: i < x.sum(), lambda i, x: (i + 1, x * 0.5), (0, x))

    program = torch.onnx.export(Net(), torch.ones(3))
    for x in (torch.ones(3), -torch.ones(3), torch.ones(3) * 9):
        for found, expected in zip(program(x), Net()(x), strict=True):
            assert torch.equal(found, torch.as_tensor(expected))
