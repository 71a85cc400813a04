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


def _leaves(t, name):
    """A step on a leaf that a graph was made of: whether it is written to, whether a version counts it, what backward gives."""
    p = t.ones(2, requires_grad=True)
    loss = (p * p).sum()
    g, m, v, step = t.ones(2), t.ones(2), t.ones(2), t.tensor(1.0)
    adam = dict(lr=0.5, beta1=0.5, beta2=0.5, weight_decay=0.5, eps=0.0, amsgrad=False, maximize=False)
    sgd = dict(lr=0.5, weight_decay=0.0, momentum=0.5, dampening=0.0, nesterov=False, maximize=False, is_first_step=False)
    adagrad = dict(lr=0.5, lr_decay=0.0, weight_decay=0.0, eps=0.0, maximize=False)
    lists, options = {"adam": ([[m], [v], [], [step]], adam), "adamw": ([[m], [v], [], [step]], adam), "sgd": ([[m]], sgd),
                      "adagrad": ([[v], [step]], adagrad)}[name]
    getattr(t, f"_fused_{name}_")([p], [g], *lists, **options, grad_scale=t.tensor(2.0))
    loss.backward()
    return [p._version, g._version, m._version, v._version, p.requires_grad, *p.tolist(), *p.grad.tolist()]


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "adagrad"])
def test_they_stand_below_autograd(name):
    ours, theirs = (_leaves(t, name) for t in LIBRARIES)
    assert ours == pytest.approx(theirs)


@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize("amsgrad", [False, True])
def test_lists_of_other_lengths_are_refused_before_anything_is_written(place, amsgrad):
    errors = []
    for t in LIBRARIES:
        lists = [[t.ones(1)] for _ in range(6)]
        if not amsgrad:
            lists[4] = []
        lists[place] = [t.ones(1), t.ones(1)]
        with pytest.raises(RuntimeError) as caught:
            t._fused_adam_(*lists, lr=0.5, beta1=0.5, beta2=0.5, weight_decay=0.0, eps=1.0, amsgrad=amsgrad, maximize=False)
        assert all(x.tolist() == [1.0] for each in lists for x in each)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


@pytest.mark.parametrize("momentum, buffers", [(0.0, 1), (0.5, 0)])
def test_sgd_wants_buffers_with_momentum_only(momentum, buffers):
    errors = []
    for t in LIBRARIES:
        with pytest.raises(RuntimeError) as caught:
            t._fused_sgd_([t.ones(1)], [t.ones(1)], [t.ones(1)] * buffers, lr=0.5, weight_decay=0.0, momentum=momentum,
                          dampening=0.0, nesterov=False, maximize=False, is_first_step=False)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
