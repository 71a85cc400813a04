"""TorchScript archives that PyTorch wrote, run by ftorch."""

import io
import pickle
import sys
import threading
import warnings
import zipfile

import numpy as np
import pytest
import torch as pt

import ftorch as ft

from ..both import mine, same, saved, seeded, twins

X = pt.linspace(-2, 2, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8).sin()
IDS = pt.arange(12).reshape(2, 6)
SEQUENCE = pt.linspace(-1, 1, 160).reshape(2, 5, 16).cos()
ROWS = pt.linspace(-3, 3, 12).reshape(3, 4)
CASES = {
    "Planned": [(ROWS,)], "Parts": [(ROWS,)],
    "ResNet": [(X,)], "Lstm": [(IDS, 4), (IDS, 9)], "Misc": [(ROWS,), (ROWS, False)],
    "Trans": [(SEQUENCE,), (SEQUENCE, pt.zeros(5, 5)), (SEQUENCE, pt.ones(5, 5).triu(1).bool())],
    "helper": [(ROWS, None), (ROWS, ROWS)], "early": [(ROWS, 1), (ROWS, 3), (ROWS, 4)], "lists": [(4,)],
    "dicts": [("c",), ("z",)], "opt": [(None, None), (ROWS, 2)], "nt": [(ROWS, 1), (ROWS, 2)],
    "tens": [(ROWS,)], "calls": [(ROWS,)], "comment": [(ROWS, [1, 2, 3])],
    "union": [(3, [1]), ("a", [1, None, 2])], "cls": [(3,)],
}


def assert_loaded_runs(theirs, own, cases, method="__call__"):
    for args in cases:
        expected = seeded(getattr(theirs, method), *args)
        same(seeded(getattr(own, method), *mine(args)), expected)


@pytest.mark.parametrize("name", list(CASES))
def test_scripted(name):
    scripted = pt.jit.script(twins(name)[0])
    own = ft.jit.load(saved(scripted, pt.jit.save))
    assert_loaded_runs(scripted, own, CASES[name])
    assert str(own) == str(pt.jit.load(saved(scripted, pt.jit.save)))


@pytest.mark.parametrize("name", ["ResNet", "Lstm", "Trans"])
def test_frozen(name):
    frozen = pt.jit.freeze(pt.jit.script(twins(name)[0]))
    file = saved(frozen, pt.jit.save)
    own, theirs = ft.jit.load(file), pt.jit.load(io.BytesIO(file.getvalue()))
    assert_loaded_runs(frozen, own, CASES[name][:1])
    assert str(own) == str(theirs)
    assert list(own.state_dict()) == list(theirs.state_dict())


@pytest.mark.parametrize(("name", "train", "args"), [
    ("ResNet", False, (X,)), ("ResNet", True, (X,)), ("Trans", False, (SEQUENCE,)),
])
def test_traced(name, train, args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = pt.jit.trace(twins(name, train)[0], args, check_trace=False)
    assert_loaded_runs(traced, ft.jit.load(saved(traced, pt.jit.save)), [args, tuple(pt.cat([a, a]) for a in args)])


def test_training_changes_the_statistics():
    scripted = pt.jit.script(twins("ResNet", train=True)[0])
    own = ft.jit.load(saved(scripted, pt.jit.save))
    assert_loaded_runs(scripted, own, CASES["ResNet"])
    same(dict(own.state_dict()), dict(scripted.state_dict()))
    assert own.training and own.stem.training
    scripted.eval(), own.eval()
    assert_loaded_runs(scripted, own, CASES["ResNet"])


def test_methods_and_attributes():
    scripted = pt.jit.script(twins("Misc")[0])
    own = ft.jit.load(saved(scripted, pt.jit.save))
    assert_loaded_runs(scripted, own, [(["a", "bc"],)], "other")
    assert own.names == ["a", "b"] and own.d == {"x": 1.5} and own.K == 3
    assert own.original_name == "Misc" and own.ml[1].original_name == "Linear"
    assert [n for n, _ in own.named_modules()] == [n for n, _ in scripted.named_modules()]
    with pytest.raises(AttributeError, match="'RecursiveScriptModule' object has no attribute 'no'"):
        own.no


def test_parameters_are_trained():
    scripted = pt.jit.script(twins("ResNet")[0])
    own = ft.jit.load(saved(scripted, pt.jit.save))
    scripted(X).square().sum().backward()
    own(mine(X)).square().sum().backward()
    for (name, p), (_, q) in zip(scripted.named_parameters(), own.named_parameters()):
        assert q.requires_grad and isinstance(q, ft.nn.Parameter)
        np.testing.assert_allclose(q.grad.numpy(), p.grad.numpy(), rtol=2e-3, atol=2e-4, err_msg=name)
    optimizer = ft.optim.SGD(own.parameters(), lr=0.1)
    before = own.fc.weight.detach().clone()
    optimizer.step()
    assert not ft.equal(own.fc.weight, before)


def test_state_dicts_and_conversion():
    scripted = pt.jit.script(twins("Trans")[0])
    own = ft.jit.load(saved(scripted, pt.jit.save))
    own.load_state_dict({k: v * 2 for k, v in own.state_dict().items()})
    scripted.load_state_dict({k: v * 2 for k, v in scripted.state_dict().items()})
    assert_loaded_runs(scripted, own, CASES["Trans"])
    assert own.double().enc.linear1.weight.dtype is ft.float64


def test_arguments_are_checked():
    file = saved(pt.jit.script(twins("Misc")[0]), pt.jit.save)
    theirs, own = pt.jit.load(io.BytesIO(file.getvalue())), ft.jit.load(file)
    for args in [("a",), (), (ROWS, 1, 2, 3), (ROWS, "x")]:
        with pytest.raises(RuntimeError) as expected:
            theirs(*args)
        with pytest.raises(RuntimeError) as found:
            own(*mine(args))
        assert str(found.value) == str(expected.value)


def test_extra_files_and_map_location(tmp_path):
    path = tmp_path / "model.pt"
    pt.jit.save(pt.jit.script(twins("helper")[0]), str(path), _extra_files={"a.txt": "hello"})
    wanted = {"a.txt": ""}
    ft.jit.load(path, map_location="cpu", _extra_files=wanted)
    assert wanted == {"a.txt": b"hello"}
    assert ft.jit.load(str(path), map_location=ft.device("cpu")) is not None


def test_missing_and_damaged_files(tmp_path):
    with pytest.raises(ValueError, match="The provided filename nope.pt does not exist"):
        ft.jit.load("nope.pt")
    with pytest.raises(RuntimeError, match="PytorchStreamReader failed"):
        ft.jit.load(io.BytesIO(b"no archive"))
    ft.save({"a": ft.ones(1)}, tmp_path / "plain.pt")
    with pytest.raises(RuntimeError, match="constants.pkl"):
        ft.jit.load(tmp_path / "plain.pt")


# --- files that mean harm ---------------------------------------------------------------


def archive(code: str, data: bytes | None = None) -> io.BytesIO:
    """A TorchScript archive with a class M of the given text."""
    if data is None:
        data = b"\x80\x02c__torch__\nM\n)\x81}(X\x08\x00\x00\x00training\x89ub."
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("m/byteorder", "little")
        file.writestr("m/data.pkl", data)
        file.writestr("m/constants.pkl", b"\x80\x02).")
        file.writestr("m/code/__torch__.py", code)
        file.writestr("m/version", "3\n")
    return io.BytesIO(buffer.getvalue())


def module(body: str) -> str:
    return (
        "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n"
        f"  def forward(self: __torch__.M, x: Tensor):\n    return {body}\n"
    )


def test_the_hand_made_archive_runs():
    assert ft.jit.load(archive(module("torch.add(x, 1)")))(ft.zeros(1)).item() == 1


def test_old_files_divide_integers_as_they_did():
    file = archive(module("torch.div(x, 2)"))
    theirs = pt.jit.load(io.BytesIO(file.getvalue()))
    own = ft.jit.load(file)
    for x in (pt.tensor([-3, 3]), pt.tensor([-3.0, 3.0])):
        same(own(mine(x)), theirs(x))


@pytest.mark.parametrize("body", [
    "x.__class__.__mro__", "self.__dict__", "x.__reduce__()", "open('f', 'w')", "eval('1')",
    "__import__('os')", "torch.save(x, 'f')", "torch.load('f')", "torch.from_file('f')",
    "ops.aten.save(x, 'f')", "'{0.__class__}'.__class__", "x.numpy()", "(lambda: 1)()", "globals()",
    "torch.hub.load('a', 'b')", "torch.__loader__()", "ops.__loader__.x(x)", "self.forward.__globals__",
    "x.tofile('f')", "self.save('f')", "getattr(x, '__class__')", "f'{x}'", "_get(x, 'a')",
    "torch._ops(x)", "__builtins__", "x.untyped_storage()", "self._type", "x.jax()",
])
def test_programs_reach_nothing_but_ops(body):
    with pytest.raises(RuntimeError):
        ft.jit.load(archive(module(body)))(ft.zeros(1))


def test_braces_reach_no_attributes():
    own = ft.jit.load(archive(module("'{0.__class__}'.format(x)")))
    assert own(ft.zeros(1)) == "{0.__class__}"


@pytest.mark.parametrize("data", [
    b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.", b"\x80\x02cbuiltins\neval\n.",
    b"\x80\x02cftorch\nsave\n.", b"\x80\x02ctorch\nsave\n.",
    b"\x80\x02c__torch__\nM\n)R.", b"\x80\x02c__torch__\nM\n)\x81}X\x01\x00\x00\x00aK\x01sb.",
])
def test_pickles_make_nothing_but_modules(data):
    with pytest.raises((pickle.UnpicklingError, RuntimeError)):
        ft.jit.load(archive(module("x"), data))


@pytest.mark.parametrize("code", [
    "import os", "x = 1", "class M(Module):\n  x = 1 +", "M", "for i in x: pass",
])
def test_code_that_is_no_program(code):
    with pytest.raises(RuntimeError):
        ft.jit.load(archive(code))


def test_threads_may_come_to_a_loaded_program_at_once():
    model = ft.nn.Sequential(*(ft.nn.Sequential(ft.nn.Linear(3, 3), ft.nn.ReLU()) for _ in range(12))).eval()
    file = io.BytesIO()
    ft.jit.save(ft.jit.script(model), file)
    x = ft.rand(2, 3)
    expected, errors = model(x).detach(), []
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(5):
            file.seek(0)
            loaded, barrier = ft.jit.load(file), threading.Barrier(8)

            def work(loaded=loaded, barrier=barrier):
                barrier.wait()
                try:
                    assert ft.allclose(loaded(x), expected)
                except Exception as error:
                    errors.append(error)

            threads = [threading.Thread(target=work) for _ in range(8)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
    finally:
        sys.setswitchinterval(before)
    assert not errors
