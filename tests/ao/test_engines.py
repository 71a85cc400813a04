"""Layers under each engine: the integers of PyTorch's kernels, and what these say of results without elements."""

import pytest
import torch

import ftorch

from ..oracle.programs import assert_shows_same

pytestmark = pytest.mark.filterwarnings("ignore")
ENGINES = ("x86", "fbgemm", "onednn", "qnnpack")


@pytest.fixture(autouse=True)
def _engines():
    yield
    for t in (torch, ftorch):
        t.backends.quantized.engine = "x86"


def _draw(t, seed, *shape):
    generator = torch.Generator().manual_seed(seed)
    return t.tensor((torch.randint(-16, 17, shape, generator=generator) / 8).numpy())


def _weight(t, shape, axis, by_channel):
    weight = _draw(t, 1, *shape)
    if not by_channel:
        return t.quantize_per_tensor(weight, 0.0371, 0, t.qint8)
    n = shape[axis]
    return t.quantize_per_channel(weight, (t.arange(n) + 1) * 0.011, t.zeros(n, dtype=t.long), axis, t.qint8)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose2d", "Linear"])
def test_biases_are_rounded_as_by_the_engine(engine, kind):
    found = []
    for t in (torch, ftorch):
        t.backends.quantized.engine = engine
        own = []
        transposed = "Transpose" in kind
        for by_channel in (False, True):
            # Transposed ones of PyTorch compute something else under x86 and onednn; scales for channels are only qnnpack's.
            if transposed and (engine in ("x86", "onednn") or by_channel and engine != "qnnpack"):
                continue
            if kind == "Linear":
                layer, shape, size = t.ao.nn.quantized.Linear(16, 24), (24, 16), (50, 16)
            else:
                dims = int(kind[-2])
                layer = getattr(t.ao.nn.quantized, kind)(8, 16, 3, padding=1, stride=2)
                shape = ((8, 16) if transposed else (16, 8)) + (3,) * dims
                size = (3, 8) + (6,) * dims
            weight = _weight(t, shape, int(transposed), by_channel)
            layer.set_weight_bias(weight, _draw(t, 2, 24 if kind == "Linear" else 16))
            layer.scale, layer.zero_point = 0.25, 3
            for scale, point in ((0.1, 128), (0.0625, 0), (1 / 3, 3)):
                own.append(layer(t.quantize_per_tensor(_draw(t, 3, *size), scale, point, t.quint8)).int_repr().tolist())
        found.append(own)
    assert found[0] == found[1]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"])
@pytest.mark.parametrize("size, kernel, padding, stride", [(2, 3, 0, 1), (1, 3, 0, 1), (2, 1, 2, 1), (3, 6, 0, 2)])
def test_results_without_elements(engine, kind, size, kernel, padding, stride):
    def program(t):
        t.backends.quantized.engine = engine
        layer = getattr(t.ao.nn.quantized, kind)(2, 2, kernel, padding=padding, stride=stride)
        x = t.quantize_per_tensor(t.ones(1, 2, *[size] * int(kind[-2])), 0.1, 3, t.quint8)
        return list(layer(x).shape)

    assert_shows_same(program)
