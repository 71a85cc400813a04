"""Autocast around traces, in scripts, and where programs are called: the dtypes are PyTorch's."""

import io
from typing import Any

import pytest
import torch as pt

import ftorch as ft

pytestmark = pytest.mark.filterwarnings("ignore")

torch: Any = ft  # of `_scripted`'s modules: either library

CALLS = {
    "linear": "F.linear(x, w)", "sizes": "F.linear(x, w) / x.shape[0] + torch.arange(4)", "sum": "F.linear(x, w).sum(0)",
    "norms": "F.layer_norm(F.linear(x, w), (4,)), F.group_norm(F.linear(x, w), 2)", "softmax": "F.linear(x, w).softmax(0)",
    "log_softmax": "F.log_softmax(F.linear(x, w), -1)", "gelu": "F.gelu(F.linear(x, w)), F.relu(F.linear(x, w))",
    "powers": "F.linear(x, w) ** 2, F.linear(x, w).exp(), F.linear(x, w).sqrt()", "cat": "torch.cat([F.linear(x, w), x])",
    "convolution": "F.conv1d(x[None], w[:, :, None])", "attention": "F.scaled_dot_product_attention(x[None], x[None], x[None])",
    "products": "x @ x, torch.bmm(x[None], x[None]), torch.addmm(x, x, w)", "einsum": "torch.einsum('ij,jk->ik', x, x)",
    "loss": "F.mse_loss(F.linear(x, w), x), F.cross_entropy(F.linear(x, w), torch.tensor([0, 1, 2, 3]))",
    "pooling": "F.avg_pool3d(F.linear(x, w)[None, None], (1, 2, 2))", "normalized": "F.batch_norm(F.linear(x, w), w[0], w[1])",
}


def _dtypes(found):
    return [str(t.dtype) for t in (found if isinstance(found, tuple) else (found,))]


def _saved(lib, program):
    file = io.BytesIO()
    lib.jit.save(program, file)
    file.seek(0)
    return lib.jit.load(file)


def _seen(lib, text, dtype):
    x, w = lib.arange(16.0).reshape(4, 4) / 16, lib.eye(4) + 0.5
    scope = {"__name__": __name__, "torch": lib, "F": lib.nn.functional, "w": w}
    function = eval(f"lambda x: ({text})", scope)
    cast = lambda: lib.autocast("cpu", getattr(lib, dtype))  # noqa: E731
    with lib.no_grad():
        plain = lib.jit.trace(function, (x,))
        with cast():
            inside = lib.jit.trace(function, (x,))
        found = {"outside": inside(x), "saved": _saved(lib, inside)(x)}
        with cast():
            found["called"], found["called again"] = plain(x), _saved(lib, plain)(x)
    return {k: (_dtypes(v), [t.float().numpy() for t in (v if isinstance(v, tuple) else (v,))]) for k, v in found.items()}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", CALLS)
def test_traces_cast(name, dtype):
    ours, theirs = (_seen(lib, CALLS[name], dtype) for lib in (ft, pt))
    for way, (dtypes, values) in theirs.items():
        assert ours[way][0] == dtypes, way
        for a, b in zip(ours[way][1], values):
            assert abs(a - b).max() <= 0.02 * max(1, abs(b).max()), way


def test_a_trace_keeps_the_casts_in_its_graph():
    def casts(lib):
        model = lib.nn.Sequential(lib.nn.Linear(4, 3), lib.nn.LayerNorm(3)).eval()
        with lib.no_grad(), lib.autocast("cpu", lib.bfloat16, cache_enabled=False):
            traced = lib.jit.trace(model, (lib.ones(2, 4),), check_trace=False)
        return [n.kind() for n in traced.inlined_graph.nodes() if n.kind().startswith("aten::")]

    assert casts(ft) == casts(pt) == ["aten::to"] * 3 + ["aten::linear", "aten::layer_norm"]


def _scripted(lib):
    class Net(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.m = lib.nn.Linear(4, 3)

        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                a = self.m(x)
                b = a + 1
            with torch.autocast("cpu", dtype=torch.float16, enabled=True):
                c = self.m(x)
                with torch.autocast("cpu", enabled=False):
                    d = self.m(x)
            with torch.cpu.amp.autocast():
                e = self.m(x)
            return a, b, c, d, e, self.m(x), torch.cat([a, b])

    Net.forward.__globals__["torch"] = lib
    return lib.jit.script(Net().eval())


def test_autocast_in_scripts():
    ours, theirs = (_scripted(lib) for lib in (ft, pt))
    expected = [_dtypes(theirs(pt.ones(2, 4))) for _ in range(2)]
    assert [_dtypes(ours(ft.ones(2, 4)))] * 2 == expected
    assert ours.code == theirs.code
    for lib, program, other in ((ft, ours, pt), (pt, theirs, ft)):  # files both ways
        file = io.BytesIO()
        lib.jit.save(program, file)
        file.seek(0)
        loaded = other.jit.load(file)
        loaded(other.ones(2, 4))
        assert _dtypes(loaded(other.ones(2, 4))) == expected[0]


def test_compositions_of_convolution_keep_their_dtype():
    def dtypes(lib):
        x, w = lib.ones(1, 2, 5), lib.ones(3, 2, 3)
        with lib.autocast("cpu", lib.bfloat16):
            return [str(t.dtype) for t in (
                lib.convolution(x, w, None, [1], [0], [1], False, [0], 1), lib.nn.functional.conv1d(x, w),
                lib.ops.aten.convolution.default(x, w, None, [1], [0], [1], False, [0], 1), lib.ops.aten.conv1d.default(x, w))]

    assert dtypes(ft) == dtypes(pt)


# Calls of x (float32), h (bfloat16) and d (float64): PyTorch's compiler and eager autocast have each a table of their own.
IN_SCRIPTS = """
    x @ x | x + x | x * 2 | 2 - h | h / 2 | h ** 2 | h.exp() | h.sum() | h.sum(0) | torch.sum(h, dtype=torch.float64) | h.mean()
    torch.cat([x, h]) | torch.stack([h, h]) | h > x | d @ d | d + h | torch.dot(x[0], h[0].float()) | torch.mv(x, x[0])
    torch.einsum("ij,jk->ik", [x, x]) | torch.tensordot(x, x, dims=([1], [0])) | torch.inner(x, x) | torch.chain_matmul(x, x)
    F.scaled_dot_product_attention(x[None], x[None], x[None]) | torch.linalg.vecdot(x, x) | torch.linalg.multi_dot([x, x])
    F.conv1d(x[None], x[:, :, None]) | F.conv_transpose1d(x[None], x[:, :, None]) | F.linear(x, x) | torch.bmm(x[None], x[None])
    F.conv2d(x[None, :, :, None], x[:, :, None, None]) | F.conv_transpose2d(x[None, :, :, None], x[:, :, None, None])
    torch.gru_cell(x, x, torch.ones(9, 3), torch.ones(9, 3)) | torch.rnn_tanh_cell(x, x, x, x) | F.prelu(x, x[0])
    F.layer_norm(h, [3]) | h.softmax(0) | F.log_softmax(h, 0) | F.gelu(h) | F.mse_loss(h, x) | F.huber_loss(h, h) | h.norm()
    F.cross_entropy(h, torch.tensor([0, 1, 2])) | F.binary_cross_entropy(x, x) | F.max_pool3d(h[None, None], 1) | torch.trace(x)
    torch.prod(h) | h.cumsum(0) | torch.logsumexp(h, 0) | (x @ x) + 1 | (x @ x).sum() | torch.addbmm(x, x[None], x[None])
"""
_PROGRAMS = """
import {0} as torch
import {0}.nn.functional as F
def within(x: torch.Tensor, h: torch.Tensor, d: torch.Tensor):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        r = {1}
    return r
def called(x: torch.Tensor, h: torch.Tensor, d: torch.Tensor):
    return {1}
"""


def _dtype_of(lib, text, folder, name):
    path = folder / f"{lib.__name__}_programs.py"
    path.write_text(_PROGRAMS.format(lib.__name__, text))
    scope = {"__name__": __name__}
    exec(compile(path.read_text(), path, "exec"), scope)
    program, x = lib.jit.script(scope[name]), lib.arange(1.0, 10.0).reshape(3, 3) / 10
    try:
        with lib.autocast("cpu", lib.bfloat16, enabled=name == "called"):
            return str(program(x, x.bfloat16(), x.double()).dtype)
    except RuntimeError as error:
        return str(error).strip().splitlines()[-1].removeprefix("RuntimeError: ")


@pytest.mark.parametrize("name", ["within", "called"])
@pytest.mark.parametrize("text", [t.strip() for line in IN_SCRIPTS.strip().splitlines() for t in line.split("|")])
def test_scripts_cast_what_the_compiler_casts(text, name, tmp_path):
    ours, theirs = (_dtype_of(lib, text, tmp_path, name) for lib in (ft, pt))
    assert ours == theirs


def test_inner_products_of_rows_are_cast():
    def dtypes(lib):
        x = lib.ones(3, 3)
        with lib.autocast("cpu"):
            return [str(lib.inner(a, b).dtype) for a, b in (
                (x, x), (x, x[0]), (x[0], x), (x[0], x[0]), (x, x[0, 0]), (x[:1], x[:1]), (x[:1], x), (x[:, :1], x[:, :1]))]

    assert dtypes(ft) == dtypes(pt)
