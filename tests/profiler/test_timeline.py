"""``python -m ftorch.profiler trace``: a page with what a program's threads do."""

import json
import re
import subprocess
import sys

import pytest

import ftorch as ft
from ftorch.eager.runtime import executor, program
from ftorch.profiler._timeline import Span, page, recording, totals

SCRIPT = """
import sys
import torch
from torch.profiler import record_function

x = torch.ones(300, 300)
for i in range(3):
    with record_function("my part"):
        value = (x @ x).tanh().sum().item()
print(sys.argv[1], value)
sys.exit(3)
"""


def data_of(text):
    return json.loads(re.search(r"const data = (.*);\n", text)[1])


def test_command(tmp_path):
    script, made = tmp_path / "script.py", tmp_path / "page.html"
    script.write_text(SCRIPT)
    command = [
        sys.executable,
        "-m",
        "ftorch.profiler",
        "trace",
        "-o",
        str(made),
        str(script),
        "hello",
    ]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 3, run.stderr  # the script's
    assert run.stdout.startswith("hello 90000.0")
    assert "my part" in run.stderr
    data = data_of(made.read_text())
    kinds = [data["kinds"][kind] for kind, *_ in data["names"]]
    named = {name: kind for (_, name, _), kind in zip(data["names"], kinds, strict=True)}
    assert named["my part"] == "annotation" and named["ftorch::program"] == "program"
    assert "thunk" in kinds or "kernel" in kinds
    spans = [s for s in data["spans"] if data["names"][s[1]][1] == "my part"]
    assert len(spans) == 3 and all(data["threads"][s[0]] == "python" and s[3] > 0 for s in spans)


def test_thunks_and_kernels_are_told_apart(monkeypatch):
    x = ft.ones(300, 300)
    found = {}
    for name in ("compiled", "recorded"):
        function = (
            ft.compile(lambda x: (x @ x).sort().values)
            if name == "compiled"
            else lambda x: (x @ x).sum()
        )
        function(x)
        spans: list[Span] = []
        with recording(spans):
            function(x).sum().item()
        found[name] = spans
    thunks = [s for s in found["compiled"] if s.kind == "thunk"]
    assert thunks and all(s.module for s in thunks)
    assert sum(s.duration for s in thunks) > 0


def test_nothing_stays(monkeypatch):
    saved = program.execute
    with pytest.raises(KeyError), recording([]):
        assert program.execute is not saved
        raise KeyError
    assert program.execute is saved and executor.DEFERRED


def test_names_cannot_end_the_script():
    spans = [
        Span("python", "annotation", "</script><b>", 1.0, 2.0),
        Span("python", "thunk", "dot.3", 1.5, 1.0, "jit_f"),
    ]
    text = page(spans, "</script>")
    assert text.count("</script>") == 1
    assert data_of(text)["names"][0][1] == "</script><b>"
    assert totals([*spans, spans[1]._replace(name="dot.7")]) == [
        ("annotation", "</script><b>", 1, 2.0), ("thunk", "dot", 2, 2.0),
    ]
