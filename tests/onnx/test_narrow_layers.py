"""Bags of embeddings and dynamically quantized layers, by onnxruntime."""

import io

import numpy as np
import pytest

import ftorch as torch
from ftorch import nn

runtime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("ignore")


def _assert_same(model, *inputs, **options):
    file = io.BytesIO()
    torch.onnx.export(model.eval(), inputs, file, dynamo=True, **options)
    session = runtime.InferenceSession(file.getvalue())
    (found,) = session.run(None, {i.name: x.numpy() for i, x in zip(session.get_inputs(), inputs)})
    np.testing.assert_allclose(found, model(*inputs).detach().numpy(), rtol=1e-5, atol=1e-6)


class Bag(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.bag = nn.EmbeddingBag(5, 4, **options)

    def forward(self, *inputs):
        return self.bag(*inputs)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode):
    rows = torch.tensor([[1, 2, 3], [0, 4, 1]])
    _assert_same(Bag(mode=mode), rows)
    _assert_same(Bag(mode=mode, padding_idx=1), rows)
    _assert_same(Bag(mode=mode), torch.tensor([1, 2, 3, 0]), torch.tensor([0, 2, 2]))
    _assert_same(Bag(mode=mode, include_last_offset=True), torch.tensor([1, 2, 3, 0]), torch.tensor([0, 1, 4]))


def test_bags_with_weights():
    class Weighted(Bag):
        def forward(self, rows, weights):
            return self.bag(rows, per_sample_weights=weights)

    _assert_same(Weighted(mode="sum"), torch.tensor([[1, 2, 3], [0, 4, 1]]), torch.rand(2, 3))


def test_dynamically_quantized_layers():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3, bias=False))
    quantized = torch.ao.quantization.quantize_dynamic(model, {nn.Linear})
    for x in (torch.randn(5, 8), torch.randn(2, 3, 8), torch.rand(4, 8) + 1, torch.zeros(2, 8)):
        _assert_same(quantized, x)
