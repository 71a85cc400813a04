"""Random ops in ONNX: the runtime draws."""

import numpy as np
import pytest

import ftorch as torch
from ftorch import nn

from ..export.test_random import CASES, Draws
from .test_onnx import ort, run

N = 4000


@pytest.mark.parametrize("name", [n for n in CASES if n not in (
    "normal", "randperm", "poisson")])
@pytest.mark.parametrize("varies", [False, True])
def test_numbers(name, varies):
    function, mean, variance = CASES[name]
    x = np.full(N, 0.25, np.float32)
    if varies and name in ("randn", "randint", "uniform_", "multinomial"):
        pytest.skip("the example's size is written in the function")
    shapes = ({0: torch.export.Dim("n", min=2)},) if varies else None
    program = torch.onnx.export(
        Draws(function),
        (torch.from_numpy(x[: 5 if varies else N]),),
        dynamic_shapes=shapes and {"x": shapes[0]},
    )
    (got,) = run(program.model_proto, x)
    assert got.shape == (N,)
    assert abs(got.mean() - mean) < 6 * np.sqrt(variance / N)
    assert got.var() == pytest.approx(variance, rel=0.2)


def test_multinomial_without_replacement():
    weights = np.float32([[1, 2, 0, 4, 3], [1, 1, 1, 1, 0]])
    module = Draws(lambda w: torch.multinomial(w, 4))
    (got,) = run(torch.onnx.export(module, (torch.from_numpy(weights),)).model_proto, weights)
    assert [sorted(row) for row in got.tolist()] == [[0, 1, 3, 4], [0, 1, 2, 3]]


def test_a_model_in_training():
    model = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True).train()
    x = np.random.default_rng(0).standard_normal((2, 5, 8), np.float32)
    program = torch.onnx.export(model, (torch.from_numpy(x),))
    kinds = [n.op_type for n in program.model_proto.graph.node]
    assert kinds.count("RandomUniformLike") == 4
    session = ort.InferenceSession(
        program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    first, second = (session.run(None, {session.get_inputs()[0].name: x})[0] for _ in range(2))
    assert first.shape == x.shape and np.isfinite(first).all() and (first != second).any()
