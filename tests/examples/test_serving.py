"""The HTTP server of examples/: PyTorch's answers under load, clear refusals, a graceful end."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import sys
import threading

import numpy as np
import pytest
import torch as reference

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

ROOT = pathlib.Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads /proc")


def _benchmark():
    spec = importlib.util.spec_from_file_location("serving_load", ROOT / "benchmarks" / "serving.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


serving = _benchmark()


@pytest.fixture(scope="module")
def model():
    reference.manual_seed(0)
    nn = reference.nn
    return nn.ModuleDict({"layers": nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))})


@pytest.fixture(scope="module")
def server(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("serving") / "digits.pt"
    reference.save(model.state_dict(), path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    server = serving.Server("--checkpoint", str(path), environment=environment)
    try:
        yield server.wait_until_ready(200)
    finally:
        server.kill()


def _check(model, answers):
    for sent, status, body, _ in answers:
        assert status == 200, body
        found = json.loads(body)
        with reference.no_grad():
            expected = model["layers"](reference.tensor(sent)).numpy()
        np.testing.assert_allclose(found["scores"], expected, rtol=1e-4, atol=1e-5)
        assert found["digits"] == expected.argmax(1).tolist()


def test_answers_under_load_are_pytorchs(server, model):
    answers, lost = serving.load(server, 150, 8)
    assert len(answers) == 150 and not lost
    _check(model, answers)
    status, text = server.send("GET", "/metrics")
    values = dict(line.rsplit(" ", 1) for line in text.decode().splitlines() if line[0] != "#")
    assert status == 200 and float(values['requests_total{status="200"}']) >= 150
    assert float(values["batch_rows_count"]) < float(values["request_seconds_count"])  # requests shared batches
    assert server.send("GET", "/healthz")[0] == server.send("GET", "/readyz")[0] == 200


def test_malformed_requests_are_refused_clearly_and_leave_nothing(server, model):
    serving.refused(server, 150, seed=1)
    before = server.memory()
    found = serving.refused(server, 400)
    assert sum(found.values()) == 400
    assert all(400 <= status < 500 and clear for status, clear in found), found
    assert {404, 413, 422} <= {status for status, _ in found}
    assert server.memory() - before < 16 << 20
    _check(model, serving.load(server, 10, 2)[0])


def test_terminated_in_the_middle_of_batches_every_answer_is_whole(server, model):  # the last one: it ends the server
    ending = threading.Event()

    def end():
        ending.set()
        server.terminate()

    timer = threading.Timer(0.4, end)
    timer.start()
    answers, _ = serving.load(server, 100_000, 6, ending)
    timer.join(30)
    assert answers
    _check(model, answers)
    server.process.wait(60)
    with pytest.raises(OSError):
        server.send("GET", "/healthz")
