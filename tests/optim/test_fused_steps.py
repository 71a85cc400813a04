"""The fused steps of optimizers on lists of tensors, against PyTorch's."""

import itertools

import pytest

from tests.oracle import LIBRARIES


def _lists(t, *seeds):
    return [[t.linspace(-1.0, 1.0, 6).reshape(2, 3) * s + 0.1 * s * i for i in range(2)] for s in seeds]


def _look(t, name, options, is_tensor_lr, scaled):
    p, g, m, v = _lists(t, 1.0, 0.5, 0.25, 2.0)
    v = [x.abs() for x in v]
    largest = [x * 0.5 for x in v] if options.get("amsgrad") else []
    steps = [t.tensor(3.0) for _ in p]
    lists = {"adam": (m, v, largest, steps), "adamw": (m, v, largest, steps), "sgd": (m,), "adagrad": (v, steps)}[name]
    options = dict(options, lr=t.tensor(0.125) if is_tensor_lr else 0.125)
    if scaled is not None:
        options["grad_scale"], options["found_inf"] = t.tensor(4.0), t.tensor(scaled)
    assert getattr(t, f"_fused_{name}_")(p, g, *lists, **options) is None
    return [[x.numpy() for x in xs] for xs in (p, g, *lists)]


_ADAM = [{"beta1": 0.9, "beta2": 0.99, "weight_decay": w, "eps": 1e-6, "amsgrad": a, "maximize": x}
         for w, a, x in itertools.product((0.0, 0.1), (False, True), (False, True))]
_SGD = [{"weight_decay": w, "momentum": 0.9, "dampening": d, "nesterov": n, "maximize": x, "is_first_step": f}
        for w, d, n, x, f in [(0.0, 0.0, False, False, False), (0.1, 0.3, False, True, False), (0.1, 0.0, True, False, True)]]
_ADAGRAD = [{"lr_decay": d, "weight_decay": w, "eps": 1e-6, "maximize": x}
            for d, w, x in [(0.0, 0.0, False), (0.1, 0.2, True)]]
_CASES = [(n, o) for n, options in (("adam", _ADAM), ("adamw", _ADAM), ("sgd", _SGD), ("adagrad", _ADAGRAD)) for o in options]


@pytest.mark.parametrize("name, options", _CASES)
@pytest.mark.parametrize("is_tensor_lr, scaled", [(False, None), (True, None), (False, 0.0), (False, 1.0)])
def test_fused_steps(name, options, is_tensor_lr, scaled):
    ours, theirs = (_look(t, name, options, is_tensor_lr, scaled) for t in LIBRARIES)
    for mine, others in zip(ours, theirs, strict=True):
        for a, b in zip(mine, others, strict=True):
            assert a == pytest.approx(b, rel=1e-5, abs=1e-6)


def test_they_are_operators():
    for t in LIBRARIES:
        p = t.ones(1)
        t.ops.aten._fused_sgd_([p], [t.ones(1)], [], weight_decay=0.0, momentum=0.0, lr=0.25, dampening=0.0, nesterov=False,
                               maximize=False, is_first_step=True)
        assert p.tolist() == [0.75]
