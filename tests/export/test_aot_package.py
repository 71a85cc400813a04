"""Packages of programs compiled ahead: the results are PyTorch's, in a process that lacks the model's code, too."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pytest
import torch as pt

import ftorch as ft
from ftorch.export.pt2_archive import is_pt2_package
from ftorch.export.pt2_archive._package import load_pt2


def _net(torch):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 8), torch.nn.Linear(4, 8)
            self.second.weight = self.first.weight  # tied
            self.register_buffer("calls", torch.zeros(()))
            self.factor = torch.full((8,), 0.5)

        def forward(self, x, options, *, shift):
            self.calls.add_(1)
            out = (self.first(x) * self.factor + self.second(x)).relu() + self.calls
            options["seen"][0].add_(out.sum())
            return {"out": out + shift, "rest": [3, None, "s"]}

    return Net()


def _pair():
    mine, theirs = _net(ft), _net(pt)
    mine.load_state_dict({k: ft.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    return mine.eval(), theirs.eval()


def _package(mine, file=None, **configs):
    batch = ft.export.Dim("batch")
    program = ft.export.export(
        mine, (ft.ones(2, 4), {"seen": [ft.zeros(())]}), {"shift": ft.ones(8)},
        dynamic_shapes={"x": {0: batch}, "options": {"seen": [{}]}, "shift": {}},
    )
    file = io.BytesIO() if file is None else file
    ft._inductor.aoti_compile_and_package(program, package_path=file, inductor_configs=configs)
    return file


def _call(torch, model, x):
    seen = torch.zeros(())
    result = model(torch.tensor(x), {"seen": [seen]}, shift=torch.arange(8.0))
    return result["out"].detach().numpy(), result["rest"], seen.detach().numpy()


def test_calls_write_and_give_what_pytorch_does():
    mine, theirs = _pair()
    file = _package(mine)
    file.seek(0)
    model = ft._inductor.aoti_load_package(file)
    assert model._runner.is_ahead
    rng = np.random.RandomState(0)
    for rows in (2, 2, 5, 3, 2):  # the example's, which is compiled ahead, and others
        x = rng.randn(rows, 4).astype(np.float32)
        for a, b in zip(_call(ft, model, x), _call(pt, theirs, x)):
            if isinstance(b, list):
                assert a == b
            else:
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_constants():
    mine, theirs = _pair()
    model = ft._inductor.aoti_load_package(io.BytesIO(_package(mine).getvalue()))
    assert {"first.weight", "first.bias", "second.bias", "calls"} <= set(model.get_constant_fqns())
    new = {"first.bias": pt.full((8,), 2.0), "second.bias": pt.full((8,), -1.0)}
    theirs.load_state_dict(new, strict=False)
    model.load_constants({k: ft.tensor(v.numpy()) for k, v in new.items()}, check_full_update=False)
    x = np.ones((2, 4), np.float32)
    np.testing.assert_allclose(_call(ft, model, x)[0], _call(pt, theirs, x)[0], rtol=1e-5)
    with pytest.raises(RuntimeError, match="full"):
        model.load_constants({"first.bias": ft.zeros(8)}, check_full_update=True)
    with pytest.raises(RuntimeError, match="no constants"):
        model.load_constants({"absent": ft.zeros(8)}, check_full_update=False)
    with pytest.raises(RuntimeError, match="first.bias is"):
        model.load_constants({"first.bias": ft.zeros(9)}, check_full_update=False)


def test_bad_arguments_are_named():
    model = ft._inductor.aoti_load_package(io.BytesIO(_package(_pair()[0]).getvalue()))
    seen, shift = {"seen": [ft.zeros(())]}, ft.ones(8)
    with pytest.raises(RuntimeError, match=r"input_handles\[0\]: unmatched dtype"):
        model(ft.ones(2, 4, dtype=ft.float64), seen, shift=shift)
    with pytest.raises(RuntimeError, match=r"\[0\]: unmatched dim value at 1, expected: 4, but got: 5"):
        model(ft.ones(2, 5), seen, shift=shift)
    with pytest.raises(RuntimeError, match="number of dims"):
        model(ft.ones(4), seen, shift=shift)
    with pytest.raises(RuntimeError, match="expected a tensor"):
        model(3, seen, shift=shift)
    with pytest.raises(ValueError, match="structure"):
        model(ft.ones(2, 4), shift=shift)


def test_how_arguments_are_nested_does_not_matter():
    layer = ft.nn.Linear(3, 2)
    path = io.BytesIO()
    ft._inductor.aoti_compile_and_package(ft.export.export(layer, (ft.ones(1, 3),)), package_path=path)
    model = ft._inductor.aoti_load_package(io.BytesIO(path.getvalue()))
    x = ft.arange(3.0).view(1, 3)
    assert model((x,)).equal(model(x))  # as PyTorch's tutorial has it


def test_arguments_of_compile_are_checked_as_in_pytorch(tmp_path):
    def messages(torch):
        found = []
        program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
        for path in (tmp_path / "m.so", "m"):
            with pytest.raises(AssertionError) as caught:
                torch._inductor.aoti_compile_and_package(program, package_path=str(path))
            found.append(str(caught.value))
        program.example_inputs = None
        with pytest.raises(RuntimeError) as caught:
            torch._inductor.aoti_compile_and_package(program)
        return [*found, str(caught.value)]

    assert messages(ft) == messages(pt)
    program = ft.export.export(ft.nn.ReLU(), (ft.ones(2),))
    path = ft._inductor.aoti_compile_and_package(
        program, inductor_configs={"aot_inductor.metadata": {"author": "me"}}
    )
    assert path.endswith(".pt2") and is_pt2_package(path)
    assert load_pt2(path).aoti_runners["model"].get_metadata()["author"] == "me"
    ft.export.save(program, tmp_path / "program.pt2")
    assert list(load_pt2(tmp_path / "program.pt2").exported_programs) == ["model"]
    with pytest.raises(RuntimeError, match="torch.export.load"):
        ft._inductor.aoti_load_package(tmp_path / "program.pt2")


def test_random_numbers_follow_the_seed():
    class Noise(ft.nn.Module):
        def forward(self, x):
            return ft.nn.functional.dropout(x, 0.5, True)

    file = io.BytesIO()
    ft._inductor.aoti_compile_and_package(
        ft.export.export(Noise(), (ft.ones(64),)), package_path=file
    )
    model = ft._inductor.aoti_load_package(io.BytesIO(file.getvalue()))

    def drawn(seed):
        ft.manual_seed(seed)
        return [model(ft.ones(64)).tolist() for _ in range(2)]

    first, again, other = drawn(0), drawn(0), drawn(1)
    assert first == again and first != other and first[0] != first[1]
    assert set(first[0]) == {0.0, 2.0}


def _changed(package, path, changes):
    """A package with other records: {end of the name: function of the bytes, None to leave it out}."""
    with zipfile.ZipFile(package) as old, zipfile.ZipFile(path, "w") as new:
        for info in old.infolist():
            change = next((c for end, c in changes.items() if info.filename.endswith(end)), lambda data: data)
            if change is not None:
                new.writestr(info.filename, change(old.read(info)))
    return path


def _executable(**values):
    return lambda data: pickle.dumps({**pickle.loads(data), **values})


@pytest.mark.parametrize("executable", [{}, {"executable": b"which this version of JAX cannot read"}])
def test_a_package_for_another_machine_is_compiled_there(tmp_path, executable):
    mine, theirs = _pair()
    changes = {"model.xla": _executable(machine="another", **executable)}
    model = ft._inductor.aoti_load_package(_changed(_package(mine), tmp_path / "model.pt2", changes))
    assert not model._runner.is_ahead
    x = np.ones((2, 4), np.float32)
    np.testing.assert_allclose(_call(ft, model, x)[0], _call(pt, theirs, x)[0], rtol=1e-5)


def test_earlier_packages_are_read_and_later_ones_refused(tmp_path):
    def described(*absent, **values):
        return lambda data: json.dumps({k: v for k, v in {**json.loads(data), **values}.items() if k not in absent}).encode()

    def with_trees(data):
        payload = pickle.loads(data)
        return pickle.dumps({**payload, "executable": pickle.loads(payload["executable"])})

    mine, theirs = _pair()
    changes = {"model.json": described("ranges", "one_size", version=1), "model.xla": with_trees, "graph.json": None}
    model = ft._inductor.aoti_load_package(_changed(_package(mine), tmp_path / "first.pt2", changes))
    assert model._runner.is_ahead
    for rows in (2, 3):
        x = np.ones((rows, 4), np.float32)
        np.testing.assert_allclose(_call(ft, model, x)[0], _call(pt, theirs, x)[0], rtol=1e-5)
    later = _changed(_package(mine), tmp_path / "later.pt2", {"model.json": described(version=99)})
    with pytest.raises(RuntimeError, match="version 99.* or compile the program here"):
        ft._inductor.aoti_load_package(later)


_OTHER_PROCESS = """
import json, sys, time
import ftorch as torch
torch.ones(2).add(1).tolist()  # what JAX sets up once
start = time.process_time()
model = torch._inductor.aoti_load_package(sys.argv[1])
seen = torch.zeros(())
result = model(torch.ones(2, 4), {"seen": [seen]}, shift=torch.arange(8.0))["out"].tolist()
print(json.dumps([time.process_time() - start, result, sorted(m for m in sys.modules if m.startswith("test"))]))
"""


def test_a_process_without_the_models_code_loads_it_in_under_a_second_of_work(tmp_path):
    mine, theirs = _pair()
    path = tmp_path / "model.pt2"
    _package(mine, str(path))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "FTORCH_CACHE_DIR": "0"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", _OTHER_PROCESS, str(path)], env=environment, cwd=tmp_path, timeout=240,
        capture_output=True, text=True, check=True,
    )
    seconds, result, modules = json.loads(done.stdout)
    assert seconds < 1.0 and not modules
    np.testing.assert_allclose(result, _call(pt, theirs, np.ones((2, 4), np.float32))[0], rtol=1e-5)


def test_programs_that_change_dtypes(tmp_path):
    class Net(ft.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = ft.nn.Linear(4, 3).bfloat16()

        def forward(self, x):
            return self.layer(x.bfloat16()).float(), x.int(), x.to(ft.float64) / 2

    net, x = Net(), ft.randn(2, 4) * 8
    package = ft._inductor.aoti_compile_and_package(ft.export.export(net, (x,)), package_path=str(tmp_path / "net.pt2"))
    for found, expected in zip(ft._inductor.aoti_load_package(package)(x), net(x)):
        assert found.dtype is expected.dtype
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-2)


def test_sizes_out_of_range_are_named(tmp_path):
    program = ft.export.export(ft.nn.Linear(4, 2), (ft.ones(3, 4),), dynamic_shapes=({0: ft.export.Dim("n", min=2, max=5)},))
    path = ft._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "p.pt2"))
    package = ft._inductor.aoti_load_package(path)
    assert package(ft.ones(2, 4)).shape == (2, 2) and package(ft.ones(5, 4)).shape == (5, 2)
    with pytest.raises(RuntimeError, match=r"\[0\]: dim value is too small at 0, expected it to be >= 2, but got: 1"):
        package(ft.ones(1, 4))
    with pytest.raises(RuntimeError, match=r"input_handles\[0\]: dim value is too large at 0, expected to be <= 5, but got: 6"):
        package(ft.ones(6, 4))


def _at_once(work, count=6):
    """Runs a function in several threads that begin together; the errors that they ended with."""
    barrier, errors = threading.Barrier(count), []

    def run():
        barrier.wait()
        try:
            work()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return errors


def test_threads_share_a_program_that_writes(tmp_path):
    class Count(ft.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", ft.zeros(4))

        def forward(self, x):
            self.n.add_(x.sum(0))
            return x + self.n

    program = ft.export.export(Count(), (ft.ones(2, 4),))
    path = ft._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "c.pt2"))
    package = ft._inductor.aoti_load_package(path)
    assert not _at_once(lambda: [package(ft.ones(2, 4)) for _ in range(60)])
    assert package(ft.zeros(2, 4)).tolist() == [[6 * 60 * 2.0] * 4] * 2


def test_threads_compile_a_size_once(tmp_path, monkeypatch):
    model = ft.nn.Linear(4, 2)
    program = ft.export.export(model, (ft.ones(3, 4),), dynamic_shapes=({0: ft.export.Dim("n", max=9)},))
    path = ft._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "p.pt2"))
    package = ft._inductor.aoti_load_package(_without_graph(path))  # with one, nothing is compiled
    compiled = []
    runner = type(package._runner)
    plain = runner._of_sizes
    monkeypatch.setattr(runner, "_of_sizes", lambda self, *arrays: compiled.append(1) or plain(self, *arrays))
    x = ft.rand(5, 4)
    expected = model(x).detach()

    def work():
        assert ft.allclose(package(x), expected, atol=1e-5)

    assert not _at_once(work) and len(compiled) == 1


def _without_graph(path):
    """The path of a package as earlier versions wrote it, and of what has operators of one's own."""
    return _changed(path, f"{path}.old", {"graph.json": None})


def test_a_forked_process_runs_packages_or_is_told_to_load_them_itself(tmp_path):
    class Count(ft.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = ft.nn.Linear(4, 2)
            self.register_buffer("n", ft.zeros(2))

        def forward(self, x):
            self.n.add_(1)
            return self.layer(x) + self.n

    program = ft.export.export(Count(), (ft.ones(3, 4),), dynamic_shapes=({0: ft.export.Dim("n", max=9)},))
    path = ft._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "p.pt2"))
    text = f"""
import os, ftorch as torch
package, old = map(torch._inductor.aoti_load_package, [{path!r}, {_without_graph(path)!r}])
x = torch.arange(20.0).view(5, 4)
expected = [(old(x[:n]) if n else None) for n in (3, 5)]
package(x[:3])  # the buffer is 1 here
if not (child := os.fork()):
    try:
        old(x[:3])
    except RuntimeError as error:
        if "load packages in the worker" not in str(error):
            os._exit(1)
    else:
        os._exit(2)
    os._exit(0 if torch.allclose(package(x), expected[1]) and torch.allclose(package(x[:3]), expected[0] + 2) else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert torch.allclose(package(x), expected[1])
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", text], check=True, timeout=120)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (60, 40, 4)])
def test_a_run_that_fails_leaves_buffers_as_they_were(tmp_path, shape):
    class Count(ft.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", ft.zeros(shape))

        def forward(self, x):
            self.n.add_(x)
            return self.n.sum()

    path = ft._inductor.aoti_compile_and_package(ft.export.export(Count(), (ft.ones(4),)), package_path=str(tmp_path / "p.pt2"))
    package = ft._inductor.aoti_load_package(path)
    run, size = package._runner._ahead, float(ft.zeros(shape).numel())

    def interrupted(*operands):
        run(*operands)
        raise KeyboardInterrupt

    for step in (1.0, 2.0, 3.0):
        assert package(ft.ones(4)).item() == step * size
        package._runner._ahead = interrupted
        with pytest.raises(KeyboardInterrupt):
            package(ft.ones(4))
        package._runner._ahead = run


def test_weights_are_in_memory_once(tmp_path):
    class Cache(ft.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = ft.nn.Linear(4, 3)
            self.register_buffer("kept", ft.zeros(8, 3))

        def forward(self, x, i):
            self.kept.index_copy_(0, i, self.layer(x))
            return self.kept.sum(0)

    program = ft.export.export(Cache(), (ft.ones(1, 4), ft.tensor([2])))
    path = ft._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "p.pt2"))
    package = ft._inductor.aoti_load_package(path)
    held = {name: t._ftorch_storage for name, t in package._constants.items()}
    for i in range(3):
        package(ft.ones(1, 4), ft.tensor([i]))
    assert not package._ordered  # copies for the program
    for name, storage in held.items():  # a write puts the program's result there, which nothing else holds
        t = package._constants[name]
        assert t._ftorch_storage is storage and storage.trace is None and storage.value().shape == tuple(t.shape)
    ft.export.save(program, tmp_path / "e.pt2")
    loaded = ft.export.load(tmp_path / "e.pt2").state_dict
    assert all(t._ftorch_storage.value().shape == tuple(t.shape) for t in loaded.values())


def test_constants_in_another_order(tmp_path):
    class Turned(ft.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = ft.nn.Parameter(ft.arange(6.0).reshape(2, 3).t())

        def forward(self, x):
            return x @ self.w

    model = Turned()
    program = ft.export.export(model, (ft.ones(2, 3),))
    path = ft._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "p.pt2"))
    package = ft._inductor.aoti_load_package(path)
    for _ in range(2):
        assert ft.equal(package(ft.ones(2, 3)), model(ft.ones(2, 3)))
    package.load_constants({"w": ft.ones(3, 2)}, check_full_update=True)
    assert package(ft.ones(2, 3)).tolist() == [[3.0, 3.0]] * 2
