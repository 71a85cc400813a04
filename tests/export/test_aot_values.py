"""Packages of programs that StableHLO cannot say: values decide about sizes, or operators are one's own. The graph runs."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile

import pytest
import torch as pt

import ftorch as ft

from ..oracle import assert_same

PROGRAMS = {
    "mask": "x[x > 0]",
    "mask of rows": "x[x[:, 0].argsort(descending=True)][x.sum(1) > 0]",
    "sum of a mask": "x[x > 0].sum()",
    "positions": "x.nonzero()",
    "where": "torch.where(x > 0)",
    "masked_select": "x.masked_select(x > 0) * 2",
    "unique": "torch.unique(x.round())",
    "bincount": "torch.bincount((x.flatten() + 20).long().clamp(min=0))",
    "a number": "x * x.sum().item()",
    "an integer": "x * x.long().sum().item()",
}
NUMBERS = [[[-1.0, 2.0, 3.0], [1.0, -2.0, 0.5], [-0.5, 1.5, -3.0]], [[4.0, -1.0, 2.0]] * 2, [[-1.0, -2.0, -3.0]] * 7]


def net(torch, text):
    scope = {"torch": torch}
    exec(f"def forward(self, x): return {text}", scope)
    return type("Net", (torch.nn.Module,), {"forward": scope["forward"]})()


def packaged(model, example, path, dims=None):
    program = ft.export.export(model, (example,), dynamic_shapes=dims)
    return ft._inductor.aoti_compile_and_package(program, package_path=str(path))


def rows():
    return ({0: ft.export.Dim.AUTO},)


@pytest.mark.parametrize("dims", [rows, lambda: None])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_decide(name, dims, tmp_path):
    text = PROGRAMS[name]
    package = ft._inductor.aoti_load_package(packaged(net(ft, text), ft.tensor(NUMBERS[0]), tmp_path / "p.pt2", dims()))
    for numbers in NUMBERS if dims is rows else NUMBERS[:1]:
        for _ in range(2):
            assert_same(package(ft.tensor(numbers)), net(pt, text)(pt.tensor(numbers)))


def test_stablehlo_refuses_what_values_decide():
    for text in PROGRAMS.values():
        with pytest.raises(RuntimeError, match="values decide"):
            ft.export.export(net(ft, text), (ft.tensor(NUMBERS[0]),)).to_stablehlo()


class Kept(ft.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = ft.nn.Linear(3, 3)
        self.register_buffer("calls", ft.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        x.mul_(2)
        y = self.layer(x)
        return {"rows": y[y[:, 0] > 0], "calls": self.calls + 0, "none": None, "kind": "s"}


def test_buffers_inputs_and_constants_of_graphs_alone(tmp_path):
    model = Kept()
    package = ft._inductor.aoti_load_package(packaged(model, ft.ones(4, 3), tmp_path / "p.pt2", rows()))
    for call, count in enumerate((4, 2, 9), 1):
        x = ft.randn(count, 3)
        given = x.clone()
        found = package(given)
        y = model.layer(x * 2).detach()
        assert ft.equal(given, x * 2) and ft.allclose(found["rows"], y[y[:, 0] > 0], atol=1e-6)
        assert found["calls"] == call and found["none"] is None and found["kind"] == "s"
    with pytest.raises(RuntimeError, match=r"unmatched dim value at 1, expected: 3, but got: 4"):
        package(ft.ones(4, 4))
    with pytest.raises(RuntimeError, match="too small at 0"):
        package(ft.ones(1, 3))


def test_operators_of_ones_own(tmp_path):
    text = """
@torch.library.custom_op("graph_alone::twice", mutates_args=())
def twice(x: torch.Tensor, k: int) -> torch.Tensor:
    return torch.from_numpy(x.numpy() * 2) + k
twice.register_fake(lambda x, k: torch.empty_like(x))
"""
    scope = {"torch": ft}
    exec(text, scope)
    path = packaged(type("Net", (ft.nn.Module,), {"forward": lambda self, x: scope["twice"](x, 3).relu()})(),
                    ft.ones(4, 3), tmp_path / "p.pt2", rows())
    assert ft._inductor.aoti_load_package(path)(ft.ones(2, 3)).tolist() == [[5.0] * 3] * 2
    missing = "The program calls torch.ops.graph_alone.twice.default, which nobody has registered"
    for before, expected in ((text, ""), ("", missing)):
        code = f"import ftorch as torch\n{before}\nprint(torch._inductor.aoti_load_package({path!r})(torch.ones(2, 3)).sum())"
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120)
        assert expected in done.stderr and (done.stdout == "tensor(30.)\n") is (not expected)


def test_earlier_readers_are_told(tmp_path):
    path = packaged(net(ft, "x.nonzero()"), ft.ones(4, 3), tmp_path / "p.pt2")
    with zipfile.ZipFile(path) as file:
        names = file.namelist()
        (record,) = (n for n in names if n.endswith("/model.json"))
        assert json.loads(file.read(record))["version"] == 3 and not any("xla" in n or "stablehlo" in n for n in names)
