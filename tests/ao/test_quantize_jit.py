"""``torch.ao.quantization.quantize_jit``: compiled models quantized by both libraries compute the same integers."""

import io
import re

import numpy as np
import pytest
import torch

import ftorch

from .jit_models import models

pytestmark = pytest.mark.filterwarnings("ignore")
NAMES = list(models(ftorch))


def _data(t, shape, seed=0):
    return t.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * 2)


def _compiled(t, name, way):
    model, shape = models(t)[name]
    return (t.jit.script(model) if way == "script" else t.jit.trace(model, _data(t, shape))), shape


def _outputs(model, t, shape):
    out = model(_data(t, shape, 1))
    return [o.detach().numpy() for o in (out if isinstance(out, tuple) else [out])]


def _assert_same(ours, theirs):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def _static(t, name, way, config, **options):
    q = t.ao.quantization
    model, shape = _compiled(t, name, way)
    configs = {"": getattr(q, config) if config.startswith("default") else q.get_default_qconfig(config)}
    data = [_data(t, shape), _data(t, shape, 2)]
    return q.quantize_jit(model, configs, lambda m, xs: [m(x) for x in xs], [data], **options), shape


def _ops(model):
    """The quantized operators of the graph."""
    return set(re.findall(r"quantized::\w+", str(model.inlined_graph)))


@pytest.mark.parametrize("config", ["default_qconfig", "x86"])
@pytest.mark.parametrize("way", ["script", "trace"])
@pytest.mark.parametrize("name", NAMES)
def test_static(name, way, config):
    (ours, shape), (theirs, _) = (_static(t, name, way, config) for t in (ftorch, torch))
    assert _ops(ours) == _ops(theirs)
    _assert_same(_outputs(ours, ftorch, shape), _outputs(theirs, torch, shape))
    assert not list(ours.parameters()) and not list(ours.children())


@pytest.mark.parametrize("config", ["default_dynamic_qconfig", "per_channel_dynamic_qconfig", "float16_dynamic_qconfig"])
@pytest.mark.parametrize("name", ["products", "branches", "nested", "conv net"])
def test_dynamic(name, config):
    results = []
    for t in (ftorch, torch):
        model, shape = _compiled(t, name, "script")
        made = t.ao.quantization.quantize_dynamic_jit(model, {"": getattr(t.ao.quantization, config)})
        results.append((_ops(made), _outputs(made, t, shape)))
    assert results[0][0] == results[1][0] != set()
    _assert_same(results[0][1], results[1][1])


@pytest.mark.parametrize("name", ["conv net", "residual", "products", "nested"])
def test_debug_keeps_floats_and_weights(name):
    (ours, shape), (theirs, _) = (_static(t, name, "script", "x86", debug=True) for t in (ftorch, torch))
    assert _ops(ours) == _ops(theirs) == set()
    assert sorted(n for n, _ in ours.named_parameters()) == sorted(n for n, _ in theirs.named_parameters())
    _assert_same(_outputs(ours, ftorch, shape), _outputs(theirs, torch, shape))


def test_configurations_of_submodules():
    def run(t, configs):
        q = t.ao.quantization
        model, shape = _compiled(t, "nested", "script")
        made = q.prepare_jit(model, {k: v and q.get_default_qconfig("x86") for k, v in configs.items()})
        before = _outputs(made, t, shape)
        made = q.convert_jit(made)
        return _ops(made), str(made.graph).count("quantized::linear"), before, _outputs(made, t, shape)

    for configs in ({"": 1, "2": None}, {"0.0": 1}, {"0": 1}, {"": None}, {"": 1, "0.0": None}):
        ours, theirs = run(ftorch, configs), run(torch, configs)
        assert ours[0] == theirs[0] and ours[1] == theirs[1], configs
        _assert_same(ours[2], theirs[2])
        _assert_same(ours[3], theirs[3])


@pytest.mark.parametrize("name", ["conv net", "folded"])
@pytest.mark.parametrize("inplace", [False, True])
def test_batch_norm_is_folded(name, inplace):
    def run(t):
        model, shape = _compiled(t, name, "script")
        before = _outputs(model, t, shape)
        made = t.ao.quantization.fuse_conv_bn_jit(model, inplace)
        assert (made is model) == inplace
        assert "aten::batch_norm" not in str(made.inlined_graph)
        np.testing.assert_allclose(_outputs(made, t, shape)[0], before[0], atol=1e-5)
        kept = {n: p.detach().numpy() for n, p in made.named_parameters() if "conv" in n or n.startswith("0.0.")}
        return _outputs(made, t, shape), kept

    (ours, parameters), (theirs, expected) = run(ftorch), run(torch)
    _assert_same(ours, theirs)
    assert parameters.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(parameters[key], value, rtol=1e-6)


def test_files_both_ways(tmp_path):
    model, shape = _static(ftorch, "conv net", "script", "x86")
    expected = _outputs(model, ftorch, shape)
    file = io.BytesIO()
    ftorch.jit.save(model, file)
    for t in (ftorch, torch):
        file.seek(0)
        _assert_same(_outputs(t.jit.load(file), t, shape), expected)
    theirs, _ = _static(torch, "conv net", "script", "x86")
    file = io.BytesIO()
    torch.jit.save(theirs, file)
    file.seek(0)
    _assert_same(_outputs(ftorch.jit.load(file), ftorch, shape), _outputs(theirs, torch, shape))


def test_prepared_models_are_saved():
    def run(t):
        model, shape = _compiled(t, "residual", "script")
        q = t.ao.quantization
        made = q.prepare_jit(model, {"": q.default_qconfig})
        file = io.BytesIO()
        t.jit.save(made, file)
        file.seek(0)
        made = t.jit.load(file)
        made(_data(t, shape))
        return _outputs(q.convert_jit(made), t, shape)

    _assert_same(run(ftorch), run(torch))


def test_what_is_refused():
    def texts(t):
        q, model = t.ao.quantization, t.nn.Linear(2, 2)
        scripted = t.jit.script(model)
        found = []
        for call in (lambda: q.prepare_jit(model, {}), lambda: q.prepare_jit(scripted, {1: q.default_qconfig}),
                     lambda: q.convert_jit(t.nn.ReLU()), lambda: q.quantize_jit(scripted, {}, None, [1]),
                     lambda: q.quantize_jit(scripted, {}, print, [])):
            with pytest.raises((ValueError, AssertionError)) as caught:
                call()
            found.append((type(caught.value), str(caught.value).replace("ftorch.", "torch.")))
        return found

    assert texts(ftorch) == texts(torch)


def test_models_are_left_alone():
    model, shape = _compiled(ftorch, "conv net", "script")
    before = _outputs(model, ftorch, shape)
    q = ftorch.ao.quantization
    q.prepare_jit(model, {"": q.default_qconfig})(_data(ftorch, shape))
    _assert_same(_outputs(model, ftorch, shape), before)
