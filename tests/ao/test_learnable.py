"""Fake quantizers that learn their scale and zero point give PyTorch's numbers and gradients."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch as reference

import ftorch

pytestmark = pytest.mark.filterwarnings("ignore")
X = np.linspace(-2, 3, 24, dtype=np.float32).reshape(3, 8)


def _both(program):
    mine, theirs = (program(torch) for torch in (ftorch, reference))
    for m, t in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(m.detach().numpy(), t.detach().numpy(), 1e-5, 1e-6)


def _module(torch):
    name = f"{torch.__name__}.ao.quantization._learnable_fake_quantize"
    return importlib.import_module(name)._LearnableFakeQuantize


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
def test_estimated_then_learned(per_channel, scaled):
    def program(torch):
        ao = torch.ao.quantization
        if per_channel:
            quantizer = _module(torch)(
                ao.PerChannelMinMaxObserver, -128, 127, scale=0.1, channel_len=3, use_grad_scaling=scaled, ch_axis=0,
                dtype=torch.qint8, qscheme=torch.per_channel_symmetric,
            )
        else:
            quantizer = _module(torch)(ao.MovingAverageMinMaxObserver, 0, 255, use_grad_scaling=scaled)
        x = torch.tensor(X).requires_grad_()
        estimated = quantizer(x)
        quantizer.enable_param_learning()
        learned = quantizer(x * 1.5)
        learned.square().sum().backward()
        return estimated, learned, x.grad, quantizer.scale.grad, quantizer.zero_point.grad, *quantizer.calculate_qparams()

    _both(program)


def test_limits():
    said = []
    for torch in (ftorch, reference):
        ao, words = torch.ao.quantization, []
        for arguments in ((5, 1), (-200, 1), (0, 255, 1.0, 0.0, -2), (0, 300)):
            with pytest.raises(AssertionError) as caught:
                _module(torch)(ao.MinMaxObserver, *arguments)
            words.append(str(caught.value))
        said.append(words)
    assert said[0] == said[1]


@pytest.mark.parametrize("name", ["quint8", "qint8", "qint32"])
def test_limits_of_quantized_dtypes(name):
    mine, theirs = (torch.iinfo(getattr(torch, name)) for torch in (ftorch, reference))
    assert (mine.min, mine.max, mine.bits) == (theirs.min, theirs.max, theirs.bits)


@pytest.mark.parametrize("kind", ["float32", "float16", "int32"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_zero_points_that_are_no_integers(per_channel, kind):
    def program(torch):
        torch.manual_seed(0)
        x = torch.randn(3, 40, requires_grad=True)
        scale = torch.tensor([0.3, 0.1, 0.7])
        zero_point = torch.tensor([1.6, 2.5, 7.3]).to(getattr(torch, kind))
        if per_channel:
            y = torch.fake_quantize_per_channel_affine(x, scale, zero_point, 0, 0, 15)
        else:
            y = torch.fake_quantize_per_tensor_affine(x, scale[:1], zero_point[:1], 0, 15)
        y.sum().backward()
        return [y.detach(), x.grad, type(y.grad_fn).__name__]

    expected, found = (program(library) for library in (reference, ftorch))
    np.testing.assert_allclose(found[0].numpy(), expected[0].numpy(), rtol=1e-6)
    np.testing.assert_array_equal(found[1].numpy(), expected[1].numpy())
    assert found[2] == expected[2]


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("point", [0.0, 1.0, 3.0, 2.5, 1.3, -0.5, -1.0, -2.5, 50.0])
@pytest.mark.parametrize("limits", [(0, 127), (-8, 7), (-20, 0)])
def test_numbers_between_two_levels(per_channel, point, limits):
    """Forward kernels round before they add the zero point, gradients behind; of one scale these round it in another way."""
    def program(torch):
        x = ((torch.arange(60) - 20) * 0.05).reshape(3, 20).requires_grad_()
        scale = torch.tensor([0.1, 0.2, 0.1][: 3 if per_channel else 1], requires_grad=True)
        zero_point = torch.tensor([point, 1.0, 2.0][: 3 if per_channel else 1], requires_grad=True)
        name = f"_fake_quantize_learnable_per_{'channel' if per_channel else 'tensor'}_affine"
        y = getattr(torch, name)(x, scale, zero_point, *[0] * per_channel, *limits, 0.7)
        (y * torch.arange(60).reshape(3, 20)).sum().backward()
        return y, x.grad, scale.grad, zero_point.grad

    _both(program)


def test_gradients_want_zero_among_the_levels():
    def words(torch, per_channel):
        scale, zero_point = torch.tensor([0.1], requires_grad=True), torch.tensor([2.0], requires_grad=True)
        name = f"_fake_quantize_learnable_per_{'channel' if per_channel else 'tensor'}_affine"
        y = getattr(torch, name)(torch.ones(1, 3), scale, zero_point, *[0] * per_channel, 1, 20)
        with pytest.raises(RuntimeError) as caught:
            y.sum().backward()
        return str(caught.value)

    for per_channel in (False, True):
        assert words(ftorch, per_channel) == words(reference, per_channel)
