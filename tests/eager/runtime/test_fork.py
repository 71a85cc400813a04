"""Forked children compute (on the host tier), and none hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

_PRELUDE = """
import multiprocessing, os, signal, sys, threading, warnings
warnings.simplefilter("ignore")
import ftorch as torch

model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x, y = torch.randn(16, 32), torch.randint(0, 4, (16,))

def step():
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()

def child(work):
    pid = os.fork()
    if not pid:
        signal.alarm(60)
        try:
            work()
            sys.stdout.flush()
            os._exit(0)
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
            os._exit(1)
    return os.waitpid(pid, 0)[1]

step()
"""


def _run(program):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", _PRELUDE + textwrap.dedent(program)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its children too: they hold the pipes
        out, err = process.communicate()
    assert process.returncode == 0, out + err
    return out


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_trains_as_the_parent_would():
    out = _run("""
        z = x * 3  # pending
        assert child(lambda: print("child", step(), step(), z.sum().item(), torch.randn(20000).sum().item())) == 0
        print("parent", step(), step(), z.sum().item(), torch.randn(20000).sum().item())
    """)
    (_, *child), (_, *parent) = (line.split() for line in out.splitlines())
    assert [float(v) for v in child] == pytest.approx([float(v) for v in parent], rel=1e-4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_compiled_functions_and_threads_of_a_child():
    out = _run("""
        compiled = torch.compile(step)
        compiled(), compiled()
        f = torch.compile(lambda a: torch.nn.functional.softmax(a @ a.T, -1).sum(0))
        f(x), f(x)
        busy = threading.Event()
        def other():
            while not busy.is_set():
                (torch.ones(64, 64) @ torch.ones(64, 64)).sum().item()
        threads = [threading.Thread(target=other, daemon=True) for _ in range(2)]
        [t.start() for t in threads]
        def work():
            print("child", *f(x)[:3].tolist())
            found = []
            t = threading.Thread(target=lambda: found.append((torch.ones(3) * 2).sum().item()))
            t.start(); t.join()
            assert found == [6.0]
        for _ in range(5):
            assert child(work) == 0
        busy.set()
        [t.join() for t in threads]  # Python ends threads inside of C++ roughly: the process would abort, PyTorch's, too
        print("parent", *f(x)[:3].tolist())
    """)
    *children, parent = (line.split()[1:] for line in out.splitlines())
    assert len(children) == 5
    for child in children:
        assert [float(v) for v in child] == pytest.approx([float(v) for v in parent], rel=1e-4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_multiprocessing_by_fork():
    out = _run("""
        context = multiprocessing.get_context("fork")
        def work(queue):
            signal.alarm(60)
            queue.put((torch.arange(6.0) ** 2).sum().item())
        queue = context.Queue()
        process = context.Process(target=work, args=(queue,))
        process.start()
        print(queue.get(timeout=100))
        process.join(100)
        assert process.exitcode == 0
    """)
    assert float(out) == 55


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_forks_beside_busy_threads():
    """Into locks that other threads hold: of the package, of JAX, of imports. By hand: ``tools/forks.py``."""
    out = _run("""
        sys.path.insert(0, "tools")
        import forks
        print(forks.stress(8, 4, 30))
    """)
    outcomes = eval(out)
    assert set(outcomes) == {"ok"}, out
    assert outcomes["ok"] >= 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_what_another_thread_runs_at_the_fork():
    """Its results are awaited for a short while; later ones are computed in the child, or it is told so. It never waits."""
    out = _run("""
        from ftorch.eager.core import forking
        forking.PATIENCE = 0.2
        begun, go_on = threading.Event(), threading.Event()

        @torch.library.custom_op("fork::slow", mutates_args=())
        def slow(x: torch.Tensor) -> torch.Tensor:
            begun.set(), go_on.wait(20)
            return x * 2
        slow.register_fake(torch.empty_like)

        z = [torch.ones(3)]
        def run():
            w = torch.ones(3)
            w += 1
            z[0] = w * 5
            slow(w).sum().item()
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        begun.wait(60)
        def work():
            print("child", z[0].sum().item(), flush=True)
        assert child(work) == 0
        go_on.set()
        thread.join(60)
        print("parent", z[0].sum().item())
    """)
    assert out.split() == ["child", "30.0", "parent", "30.0"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_what_another_thread_traces_at_the_fork():
    """JAX's caches wait for who computes an entry: in the child, that is nobody."""
    out = _run("""
        import jax
        from jax.extend.core import Primitive
        begun, go_on = threading.Event(), threading.Event()
        slow = Primitive("slow")

        @slow.def_abstract_eval
        def _(x):
            if threading.current_thread() is not threading.main_thread():
                begun.set(), go_on.wait(60)
            return x

        def traced():
            return jax.eval_shape(slow.bind, jax.ShapeDtypeStruct((3,), "float32")).shape
        thread = threading.Thread(target=traced, daemon=True)
        thread.start()
        begun.wait(60)
        def work():
            print("child", traced(), flush=True)
        assert child(work) == 0
        go_on.set()
        thread.join(60)
        print("parent", traced())
    """)
    assert out.splitlines() == ["child (3,)", "parent (3,)"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_what_another_thread_imports_at_the_fork():
    """Children find modules whole: imports that have begun come to their end first, but a fork does not wait for ever."""
    out = _run("""
        import importlib, tempfile, time
        from ftorch.eager.core import forking
        with tempfile.TemporaryDirectory() as folder:
            sys.path.insert(0, folder)
            for name, seconds in (("takes_long", 3), ("never_ends", 100)):
                with open(f"{folder}/{name}.py", "w") as file:
                    file.write(f"import sys, time\\nsys.began = {name!r}\\ntime.sleep({seconds})\\nvalue = 1\\n")
            def imported_elsewhere(name):
                threading.Thread(target=importlib.import_module, args=(name,), daemon=True).start()
                while getattr(sys, "began", "") != name:
                    time.sleep(0.01)
            imported_elsewhere("takes_long")
            def work():
                print("found", sys.modules["takes_long"].value, flush=True)
            assert child(work) == 0
            forking.PATIENCE_WITH_IMPORTS = 0.5
            imported_elsewhere("never_ends")
            def work():
                print("never_ends" in sys.modules, flush=True)
            assert child(work) == 0
            forking.PATIENCE_WITH_IMPORTS = 1000
            assert child(work) == 0
            threading.Thread(target=__import__, args=("colorsys",)).start()  # the lock of imports was given back
            import wave
            print("end", flush=True)
            os._exit(0)
    """)
    assert out.split() == ["found", "1", "False", "False", "end"]
