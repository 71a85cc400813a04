"""Modules and tensors in Jupyter: HTML by IPython's formatters, while classes and texts stay PyTorch's."""

import subprocess
import sys
import xml.etree.ElementTree
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import ftorch
from ftorch.utils import _notebook_display as notebook_display

formatters = pytest.importorskip("IPython.core.formatters")


@pytest.fixture(scope="module")
def display():
    """What a notebook is sent for a value: {type: data}."""
    formatter = formatters.DisplayFormatter()
    formatter.active_types = formatter.format_types
    notebook_display.register(SimpleNamespace(display_formatter=formatter))
    return lambda value: formatter.format(value)[0]


def parsed(text):
    return xml.etree.ElementTree.fromstring(f"<all>{text}</all>")


def cells(element):
    return [["".join(c.itertext()) for c in row] for row in element.iter("tr")]


def words(element):
    return " ".join("".join(element.itertext()).split())


def test_a_matrix_is_a_table(display):
    found = display(ftorch.tensor([[1.5, -2], [0, float("nan")]], requires_grad=True) * 2)
    page = parsed(found["text/html"])
    assert cells(page) == [["", "0", "1"], ["0", "3.", "-4."], ["1", "0.", "nan"]]
    assert page.find("div/code").text == "[2, 2] float32 cpu grad_fn=<MulBackward0>"
    assert found["text/plain"].endswith("grad_fn=<MulBackward0>)")


@pytest.mark.parametrize("dtype", ["bool", "int8", "bfloat16", "complex64", "float64"])
def test_large_matrices_are_cut_as_their_texts_are(display, dtype):
    values = np.arange(40 * 50).reshape(40, 50) % 7
    mine = ftorch.tensor(values).to(getattr(ftorch, dtype))
    theirs = torch.tensor(values).to(getattr(torch, dtype))
    found = display(mine)
    assert found["text/plain"] == repr(theirs)
    rows = cells(parsed(found["text/html"]))
    assert rows[0] == ["", "0", "1", "2", "...", "47", "48", "49"]
    assert [row[0] for row in rows[1:]] == ["0", "1", "2", "...", "37", "38", "39"]
    text = repr(theirs).partition("]]")[0].replace("tensor(", "")
    lines = [[w.strip() for w in line.strip(" [],").split(",")] for line in text.splitlines() if "[" in line]
    assert [row[1:] for row in rows[1:] if row[0] != "..."] == lines


@pytest.mark.parametrize(
    "make",
    [
        lambda: ftorch.zeros(3),
        lambda: ftorch.zeros(2, 3, 4),
        lambda: ftorch.zeros(0, 3),
        lambda: ftorch.zeros(2, 3, device="meta"),
        lambda: ftorch.eye(2).to_sparse(),
        lambda: ftorch.eye(2).as_subclass(type("Mine", (ftorch.Tensor,), {})),
    ],
    ids=["vector", "3-d", "empty", "meta", "sparse", "subclass"],
)
def test_other_tensors_stay_text(display, make):
    assert set(display(make())) == {"text/plain"}


def test_within_transforms_tensors_stay_text(display):
    seen = []

    def look(x):
        seen.append(display(x))
        return x.sum()

    ftorch.func.grad(look)(ftorch.eye(2))
    ftorch.vmap(look)(ftorch.zeros(2, 3, 4))
    assert [set(found) for found in seen] == [{"text/plain"}] * 2


def test_a_module_is_a_tree(display):
    class Net(ftorch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = ftorch.nn.Sequential(ftorch.nn.Linear(2, 3), ftorch.nn.BatchNorm1d(3))
            self.head = ftorch.nn.Linear(3, 1, bias=False).requires_grad_(False)
            self.shared = self.head

    net = Net()
    found = display(net)
    page = parsed(found["text/html"])
    assert found["text/plain"] == repr(net)
    titles = [words(e) for e in page.iter("summary")]
    assert titles == [
        "Net 18 parameters, 3 do not train",
        "(body): Sequential 15 parameters",
        f"(0): {torch.nn.Linear(2, 3)} 9 parameters",
        f"(1): {torch.nn.BatchNorm1d(3)} 6 parameters",
        f"(head): {torch.nn.Linear(3, 1, bias=False)} 3 parameters, none trains",
    ]
    rows = cells(page)
    assert ["weight", "[3, 2]", "float32", ""] in rows
    assert ["running_mean", "[3]", "float32", "buffer"] in rows
    assert ["weight", "[1, 3]", "float32", "does not train"] in rows
    assert [e.get("open") for e in page.iter("details")] == ["", None, None, None, None]


def test_modules_of_unknown_size_of_many_parts_and_with_odd_names(display):
    assert "not yet known" in display(ftorch.nn.LazyLinear(3))["text/html"]
    many = ftorch.nn.ModuleList(ftorch.nn.ReLU() for _ in range(2000))
    page = display(many)["text/html"]
    assert page.count("<b>ReLU</b>") == notebook_display._MOST - 1 and page.count("...") == 1
    odd = ftorch.nn.Module()
    odd.add_module("<a & b>", ftorch.nn.Tanh())
    assert words(parsed(display(odd)["text/html"])) == "Module (<a & b>): Tanh"


def test_what_users_wrote_themselves_stays(display):
    class Text(ftorch.nn.Module):
        def __repr__(self):
            return "mine"

    class Page(ftorch.nn.Linear):
        def _repr_html_(self):
            return "<i>mine</i>"

    assert display(Text()) == {"text/plain": "mine"}
    assert display(Page(1, 1))["text/html"] == "<i>mine</i>"


def test_classes_have_no_name_that_pytorch_lacks():
    for cls in (ftorch.Tensor, ftorch.nn.Module, ftorch.nn.Parameter):
        assert not hasattr(cls, "_repr_html_")


@pytest.mark.parametrize("name", ["ftorch", "torch"])
def test_a_shell_that_imports_the_package_shows_them(name):
    program = f"""
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.display_formatter.active_types = shell.display_formatter.format_types
if {name!r} == "torch":
    import ftorch; ftorch.install_as_torch()
shell.run_cell("import {name} as torch", silent=True)
for text in ("torch.eye(2)", "torch.nn.Linear(1, 2)", "torch.nn.Parameter(torch.eye(2))"):
    value = eval(text, shell.user_ns)
    print("<table>" in shell.display_formatter.format(value)[0].get("text/html", ""))
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert found.stdout.split() == ["True"] * 3, found.stdout + found.stderr
