"""``FakeTensorMode``: the same programs in both libraries; and what meta tensors refuse."""


import pytest
import torch as pt
import torch._guards
import torch._subclasses.fake_tensor

import ftorch as ft
import ftorch._guards
import ftorch._subclasses.fake_tensor
from tests.oracle import shown_call

FAKE = {pt: torch._subclasses.fake_tensor, ft: ftorch._subclasses.fake_tensor}


def trained(T, mode):
    net = T.nn.Sequential(
        T.nn.Conv2d(3, 8, 3), T.nn.BatchNorm2d(8), T.nn.ReLU(), T.nn.Flatten(), T.nn.Linear(8 * 36, 10)
    )
    optimizer = T.optim.Adam(net.parameters())
    net(T.ones(2, 3, 8, 8)).sum().backward()
    optimizer.step()
    first = net[0].weight
    return first, first.grad, isinstance(first, T.nn.Parameter), *optimizer.state[first].values()


def recurrent(T, mode):
    out, (h, c) = T.nn.LSTM(3, 4, batch_first=True)(T.ones(2, 5, 3))
    return out.shape, h.shape, out.requires_grad


def copies(T, mode):
    tensor = T.nn.Linear(3, 4).weight
    other = FAKE[T].FakeTensorMode()
    outside = other.from_tensor(tensor)
    return (outside, other.from_tensor(tensor) is outside, other.from_tensor(outside) is outside,
            isinstance(outside, T.nn.Parameter), outside.is_leaf, outside.fake_mode is other,
            mode.from_tensor(T.ones(2, 3, dtype=T.float64).t()).stride())


def known(T, mode):
    x = T.tensor(3)
    return x.item(), int(x), x.constant is not None, T.as_tensor([1.0, 2.0])


def modes(T, mode):
    guards = {pt: torch._guards, ft: ftorch._guards}[T]
    x = T.ones(2)
    with FAKE[T].unset_fake_temporarily():
        plain = T.ones(1)
    return (guards.detect_fake_mode() is mode, guards.detect_fake_mode([x]) is mode, x.fake_mode is mode,
            plain, FAKE[T].is_fake(plain), FAKE[T].maybe_get_fake_mode(x) is mode)


def places(T, mode):
    x = T.empty(2, device="cuda:1")
    return x, x.is_cuda, x.is_meta, x.get_device(), x + 1, T.ones(2).data_ptr(), (x * 2).device


def refusing(call):
    def run(T, mode):
        return call(T)

    return run


PROGRAMS = {
    "trained": trained, "recurrent": recurrent, "copies": copies, "known": known, "modes": modes,
    "places": places,
    "views": lambda T, mode: (T.ones(4, 6).t()[1:].stride(), T.ones(4, 6)[1:].storage_offset()),
    "item": refusing(lambda T: T.ones(1).item()), "bool": refusing(lambda T: bool(T.ones(1) > 0)),
    "tolist": refusing(lambda T: T.ones(2).tolist()), "numpy": refusing(lambda T: T.ones(2).numpy()),
    "nonzero": refusing(lambda T: T.ones(3).nonzero()), "unique": refusing(lambda T: T.ones(3).unique()),
    "mask": refusing(lambda T: T.ones(3)[T.ones(3) > 0]), "where": refusing(lambda T: T.where(T.ones(3) > 0)),
    "select": refusing(lambda T: T.ones(3).masked_select(T.ones(3) > 0)),
    "equal": refusing(lambda T: T.ones(3).equal(T.ones(3))),
    "allclose": refusing(lambda T: T.allclose(T.ones(3), T.ones(3))),
    "devices": refusing(lambda T: T.ones(2, device="cuda") + T.ones(2)),
    "meta": refusing(lambda T: T.ones(2) + T.ones(2, device="meta")),
}


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    found = []
    for T in (ft, pt):
        mode = FAKE[T].FakeTensorMode()
        with mode:
            found.append(shown_call(lambda: PROGRAMS[name](T, mode)))
    assert found[0] == found[1]


MIXED = {
    "second": lambda T, x: x + T.ones(2), "first": lambda T, x: T.ones(2) * x,
    "list": lambda T, x: T.cat([x, T.ones(2)]), "in place": lambda T, x: x.copy_(T.ones(2)),
    "another mode": lambda T, x: x + FAKE[T].FakeTensorMode().from_tensor(T.ones(2)),
}


@pytest.mark.parametrize("name", MIXED)
def test_tensors_with_elements_are_refused(name):
    found = []
    for T in (ft, pt):
        x = FAKE[T].FakeTensorMode().from_tensor(T.ones(2))
        found.append(shown_call(lambda: MIXED[name](T, x)))
    assert found[0] == found[1]
    for T in (ft, pt):
        with FAKE[T].FakeTensorMode(allow_non_fake_inputs=True):
            assert str(T.nn.functional.relu(T.ones(2)) + 1) == "FakeTensor(..., size=(2,))"


def test_modules_for_a_device_that_is_not_there():
    with FAKE[ft].FakeTensorMode():
        net = ft.nn.Linear(3, 4, device="cuda")
        out = net(ft.ones(2, 3).cuda())
        moved = ft.nn.Linear(3, 4).to("cuda").weight
    assert str(out) == "FakeTensor(..., device='cuda:0', size=(2, 4), grad_fn=<AddmmBackward0>)"
    assert moved.device == out.device == ft.device("cuda:0") and str(out.cpu().device) == "cpu"


@pytest.mark.parametrize("call", [
    lambda T, x: x.item(), lambda T, x: bool(x), lambda T, x: T.allclose(x, x), lambda T, x: x.data_ptr(),
])
def test_meta_tensors(call):
    mine, theirs = (shown_call(lambda: call(T, T.ones(1, device="meta"))) for T in (ft, pt))
    assert mine == theirs


@pytest.mark.parametrize("ask", [
    lambda T, c, m, t: c.from_real_tensor(m, t) is c.from_real_tensor(m, t),
    lambda T, c, m, t: c.from_real_tensor(m, t) is m.from_tensor(t),
    lambda T, c, m, t: m.fake_tensor_converter.from_real_tensor(m, t) is m.from_tensor(t),
    lambda T, c, m, t: c.from_real_tensor(m, t).fake_mode is m,
    lambda T, c, m, t: c.from_real_tensor(FAKE[T].FakeTensorMode(), t).fake_mode is m,
    lambda T, c, m, t: (c.from_real_tensor(m, t), len(c.tensor_memo)),
    lambda T, c, m, t: c._get_memo(t),
    lambda T, c, m, t: c.from_meta_and_device(m, t.to("meta"), T.device("cpu")),
    lambda T, c, m, t: c.from_meta_and_device(m, t, T.device("cpu")),
    lambda T, c, m, t: c.from_real_tensor(m, T.nn.Parameter(t)).requires_grad,
    lambda T, c, m, t: c.from_real_tensor(m, t).to(T.bfloat16).cpu().dtype == T.bfloat16,
])
def test_converters(ask):
    found = []
    for T in (ft, pt):
        mode, t = FAKE[T].FakeTensorMode(), T.ones(2, 3)
        found.append(shown_call(lambda: ask(T, FAKE[T].FakeTensorConverter(), mode, t)))
    assert found[0] == found[1]
