"""Functions that PyTorch makes of several operators are those in exported programs, which PyTorch loads."""

import io

import jax
import numpy as np
import pytest

import ftorch as ft

from ..onnx.test_onnx import run
from ..oracle import array

pytestmark = pytest.mark.filterwarnings("ignore")
pt = pytest.importorskip("torch")

CALLS = {
    "local_response_norm": "F.local_response_norm(x, 2), F.local_response_norm(x[0], 3, 0.1, 0.5, 2.0)",
    "normalize": "F.normalize(x, dim=2)", "softsign": "F.softsign(x)", "tanhshrink": "F.tanhshrink(x)",
    "logsigmoid": "F.logsigmoid(x)",
    "grid_sample": "F.grid_sample(x, torch.zeros(x.shape[0], 3, 3, 2) + 0.3, align_corners=False)",
    "multilabel": "F.multilabel_soft_margin_loss(x.flatten(1), (x.flatten(1) > 0.5).float())",
    "affine_grid": "F.affine_grid(x[:, 0, :2, :3], (x.shape[0], 1, 4, 4), align_corners=False)",
    "nearest": "F.interpolate(x, scale_factor=1.5, mode='nearest-exact'), F.interpolate(x, size=(9, 4), mode='nearest-exact')",
    "antialias": "F.interpolate(x, size=(3, 3), mode='bilinear', antialias=True)",
    "fill": "x.clone().fill_(2.0), x.clone().fill_(x[0, 0, 0, 0])",
    "constants": "x.index_select(1, torch.tensor([0, 2])), x.gather(1, torch.zeros_like(x).long())",
}
VARIES_IN_ONNX = set(CALLS) - {"affine_grid", "antialias"}


def net(lib, text):
    class Net(lib.nn.Module):
        def forward(self, x):
            return eval(text, {"torch": lib, "F": lib.nn.functional, "x": x})

    return Net()


def numbers(found):
    return [t.numpy() for t in (found if isinstance(found, (tuple, list)) else (found,))]


@pytest.mark.parametrize("varies", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_programs(name, varies):
    x = np.random.default_rng(0).random((3, 4, 6, 6), np.float32)
    other = x[:2] if varies else x
    shapes = ({0: ft.export.Dim("n", min=2, max=8)},) if varies else None
    expected = numbers(net(pt, CALLS[name])(pt.from_numpy(other)))
    program = ft.export.export(net(ft, CALLS[name]), (ft.from_numpy(x),), dynamic_shapes=shapes)
    file = io.BytesIO()
    ft.export.save(program, file)
    file.seek(0)
    call = jax.export.deserialize(bytearray(program.to_stablehlo())).call
    results = [
        numbers(program.module()(ft.from_numpy(other))), numbers(pt.export.load(file).module()(pt.from_numpy(other))),
        [np.asarray(a) for a in jax.tree.leaves(call(other))],
    ]
    if not varies or name in VARIES_IN_ONNX:
        made = ft.onnx.export(net(ft, CALLS[name]), (ft.from_numpy(x),), dynamic_shapes=shapes)
        results.append(run(made.model_proto, other))
    for found in results:
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, 1e-4, 1e-5)


@pytest.mark.parametrize("name", "softsign tanhshrink logsigmoid local_response_norm antialias nearest fill".split())
def test_operators_are_those_of_pytorch(name):
    def operators(lib):
        program = lib.export.export(net(lib, CALLS[name]), (lib.rand(3, 4, 6, 6),))
        return [str(n.target) for n in program.graph.nodes if n.op == "call_function"]

    assert operators(ft) == operators(pt)


def test_autocast_outside_is_not_in_the_program():
    def dtypes(lib):
        model, x = lib.nn.Linear(4, 3).eval(), lib.ones(2, 4)
        with lib.autocast("cpu", lib.bfloat16):
            program = lib.export.export(model, (x,))
            inside = program.module()(x).dtype
        return [str(inside), str(program.module()(x).dtype), str(lib.get_autocast_dtype("cpu")), lib.is_autocast_enabled("cpu")]

    assert dtypes(ft) == dtypes(pt) == ["torch.bfloat16", "torch.float32", "torch.bfloat16", False]


def test_unflattened_modules_have_their_own_parameters():
    def seen(lib):
        model = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.BatchNorm1d(2)).eval()
        program = lib.export.export(model, (lib.ones(2, 2),))
        made, plain = lib.export.unflatten(program), program.module()
        before = made(lib.ones(2, 2))
        with lib.no_grad():
            for t in (*model.parameters(), model[1].running_mean):
                t.add_(1)
        own = dict(made.named_parameters())["0.weight"]
        return [lib.equal(made(lib.ones(2, 2)), before), lib.equal(plain(lib.ones(2, 2)), model(lib.ones(2, 2))),
                own.requires_grad, own is model[0].weight]

    assert seen(ft) == seen(pt) == [True, True, True, False]


@pytest.mark.parametrize(
    "text", ["z.mH", "z.H", "z.adjoint()", "z.mT", "z @ z.mH", "z.real", "z.imag + 1", "z.conj().imag", "z.real.mT"]
)
def test_views_of_complex_matrices_are_pytorchs_operators(text, tmp_path):
    """PyTorch reads the files and gives the same, files of its give the same here, StableHLO conjugates once."""
    function = eval(f"lambda self, z: {text}")
    numbers = [[1 + 2j, 3 - 1j], [0.5j, -2.0]]
    programs = {}
    for torch in (ft, pt):
        net = type("Net", (torch.nn.Module,), {"forward": function})()
        programs[torch] = torch.export.export(net, (torch.tensor(numbers),))
        torch.export.save(programs[torch], tmp_path / f"{torch.__name__}.pt2")
    expected = array(function(None, pt.tensor(numbers)).resolve_conj())
    for torch, other in ((ft, pt), (pt, ft)):
        read = torch.export.load(tmp_path / f"{other.__name__}.pt2").module()(torch.tensor(numbers))
        np.testing.assert_array_equal(array(read.resolve_conj()), expected)
    path = ft._inductor.aoti_compile_and_package(programs[ft], package_path=str(tmp_path / "package.pt2"))
    found = ft._inductor.aoti_load_package(path)(ft.tensor(numbers))
    np.testing.assert_allclose(array(found.resolve_conj()), expected, rtol=1e-6)
