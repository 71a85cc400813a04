"""The quantizers that averages and ranges choose are PyTorch's, and what becomes of numbers that none of their levels holds."""

import itertools
import math

import numpy as np
import pytest
import torch

import ftorch

RANGES = [(-2.0, 2.0), (-1.6, 1.6), (-7.0, 3.0), (-1.875, 2.375), (0.0, 5.0), (-0.9375, 0.1875), (0.0, 0.0), (1.0, 2.0),
          (-2.0, -1.0)]
NO_NUMBERS = [(-math.inf, 1.0), (0.0, math.inf), (-math.inf, math.inf), (math.nan, 1.0), (1.0, math.nan), (-1e38, 3e38)]
LIMITS = [(0, 255), (-128, 127), (0, 127), (0, 15), (-8, 7), (-64, 63)]


def chosen(t, low, high, limits, symmetric, by_row, calls):
    """What some calls give and leave, or what they raise."""
    x = t.tensor([[low, high], [high / 2, low]]) if by_row else t.tensor([low, high])
    count = 1 + by_row
    least, largest = t.tensor([math.inf] * count), t.tensor([-math.inf] * count)
    scale, point, on = t.ones(count), t.zeros(count, dtype=t.int32), t.tensor([1])
    try:
        for factor in (1, 0.75)[:calls]:
            y = t.fused_moving_avg_obs_fake_quant(x * factor, on, on, least, largest, scale, point, 0.01, *limits, 0, by_row,
                                                  symmetric)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return [np.array(v.tolist()) for v in (y, least, largest, scale, point)]


@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("limits", LIMITS)
def test_quantizers_of_averages(limits, by_row):
    for (low, high), symmetric, calls in itertools.product(RANGES + NO_NUMBERS, (False, True), (1, 2)):
        given = low, high, limits, symmetric, by_row, calls
        expected, found = chosen(torch, *given), chosen(ftorch, *given)
        if isinstance(expected, str) or isinstance(found, str):
            assert found == expected, given
            continue
        for e, f in zip(expected, found):
            np.testing.assert_allclose(f, e, rtol=1e-6, err_msg=str(given))


@pytest.mark.parametrize("name", ["default_fused_act_fake_quant", "default_fused_per_channel_wt_fake_quant"])
def test_what_is_off(name):
    """Averages move where the observer is on, quantizers are chosen where numbers are rounded."""
    seen = []
    for t in (torch, ftorch):
        module, found = getattr(t.ao.quantization, name)(), []
        if "channel" in name:  # PyTorch reads behind its quantizers' memory where there are several to begin with
            module(t.tensor([[-1.0, 2.0]]))
        for observes, rounds in ((1, 1), (1, 0), (0, 1), (0, 0), (1, 1)):
            (module.enable_observer if observes else module.disable_observer)()
            (module.enable_fake_quant if rounds else module.disable_fake_quant)()
            y = module(t.tensor([[-1.0 - len(found), 2.0 + 7 * len(found)]]))
            found.append([v.tolist() for v in (y, module.scale, module.zero_point, module.activation_post_process.min_val)])
        seen.append(found)
    for expected, found in zip(*seen):
        for e, f in zip(expected, found):
            np.testing.assert_allclose(f, e, rtol=1e-5)


NONE = [math.inf, -math.inf, math.nan, 1e30, -1e30, 3e9, -3e9, 1.0]
ROUNDED = {
    "tensor": lambda t, x: t.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255),
    "channel": lambda t, x: t.fake_quantize_per_channel_affine(
        x, t.tensor([0.1, 0.2]), t.tensor([0, 7], dtype=t.int32), 0, 0, 15),
    "learnable": lambda t, x: t._fake_quantize_learnable_per_tensor_affine(x, t.tensor([0.1]), t.tensor([3.0]), -8, 7, 1.0),
    "learnable channel": lambda t, x: t._fake_quantize_learnable_per_channel_affine(
        x, t.tensor([0.1, 0.2]), t.tensor([0.0, 3.0]), 0, 0, 255, 1.0),
}
QUANTIZED = {
    "quint8": lambda t, x: t.quantize_per_channel(x, t.tensor([0.1, 0.2]), t.tensor([0, 3]), 0, t.quint8),
    "qint32": lambda t, x: t.quantize_per_channel(x, t.tensor([0.1, 0.2]), t.tensor([0, 3]), 0, t.qint32),
    "floats": lambda t, x: t.quantize_per_channel(x, t.tensor([0.1, 0.2]), t.tensor([0.0, 3.0]), 0, t.quint8),
    "one scale": lambda t, x: t.quantize_per_tensor(x, 0.1, 3, t.qint32),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_numbers_that_no_level_holds_are_rounded(name):
    found = []
    for t in (torch, ftorch):
        x = t.tensor([NONE, NONE[::-1]], requires_grad=True)
        y = ROUNDED[name](t, x)
        y.backward(t.ones_like(y))
        found.append((y.tolist(), x.grad.tolist()))
    for e, f in zip(*found):
        np.testing.assert_allclose(f, e, rtol=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", QUANTIZED)
def test_numbers_that_no_level_holds_are_quantized(name):
    expected, found = (QUANTIZED[name](t, t.tensor([NONE, NONE[::-1]])).int_repr().tolist() for t in (torch, ftorch))
    assert found == expected


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rows, columns", [(1, 3), (2, 8), (3, 8), (3, 33), (40, 64)])
@pytest.mark.parametrize("point", [0, 2])  # of weights: two ways through the package
def test_dynamic_layers_pass_over_what_is_no_number(rows, columns, point):
    random = np.random.RandomState(rows * columns)
    weight = random.randint(-8, 9, (6, columns)).astype("f") / 16
    packed = {t: t.ops.quantized.linear_prepack(t.quantize_per_tensor(t.tensor(weight), 0.0625, point, t.qint8), None)
              for t in (torch, ftorch)}
    for _ in range(20):
        x = random.randint(-16, 17, (rows, columns)).astype("f") / 8
        for _ in range(random.choice([1, 2, 3])):
            none = [math.nan] if point else [math.nan, math.nan, math.inf, -math.inf]
            x[random.randint(rows), random.randint(columns)] = random.choice(none)
        if x[0, 0] != x[0, 0]:  # refused by PyTorch
            continue
        expected, found = (t.ops.quantized.linear_dynamic(t.tensor(x), packed[t], False).numpy() for t in (torch, ftorch))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_ranges_that_are_none():
    for t in (torch, ftorch):
        for low, high in ((math.nan, 1.0), (1.0, math.nan)):
            with pytest.raises(RuntimeError, match="In ChooseQuantizationParams, min should be less than or equal to max"):
                t._choose_qparams_per_tensor(t.tensor([low, high]))
