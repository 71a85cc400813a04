"""ONNX models of programs with complex numbers, and of numbers that sizes and values are: PyTorch's results in onnxruntime."""

import numpy as np
import onnxruntime
import pytest
import torch as pt

import ftorch as ft

NUMBERS = np.arange(12, dtype=np.float32).reshape(4, 3) - 5
OTHERS = [NUMBERS, NUMBERS[:2] * 2, np.concatenate([NUMBERS, NUMBERS[:3] * 0.3 + 1])]

# Functions of a matrix whose rows vary; ``f`` is ``torch.fft``. Complex results are pairs.
FUNCTIONS = {
    "rotary": "torch.view_as_real(torch.view_as_complex(x[:, :2].contiguous().reshape(-1, 1, 2))"
              " * torch.polar(x[:1, :1] * 0 + 1, x[:1, :1]))",
    "products": "torch.view_as_complex(torch.stack([x, x * 2], -1)) * (torch.complex(x, x + 1) * 2j - 1) / (f.fft(x) + 40)",
    "parts": "f.fft(x).real + f.fft(x).imag * torch.complex(x, x).abs() + f.fft(x).angle() + (f.fft(x) * f.fft(x).conj()).real",
    "powers": "(f.fft(x) ** 2).real + (f.fft(x) ** 0.5).abs() + torch.exp(1j * x).imag + (1 - f.fft(x)).imag"
              " + torch.polar(x.abs(), x).real",
    "shapes": "torch.cat([f.fft(x)[:, 1:], f.fft(x).flip(1)], 1).unsqueeze(-1).transpose(0, 1)[None].expand(2, -1, -1, -1)",
    "flat": "torch.stack([f.fft(x).flatten(), f.fft(x).reshape(-1)], -1).sum(0)",
    "sums": "f.fft(x).mean(-1) + f.fft(x).sum(1)",
    "matrices": "f.fft(x) @ f.fft(x).mH + f.fft(x) @ f.fft(x).T + f.fft(x) @ f.fft(x).mT + f.fft(x) @ f.fft(x).adjoint()",
    "where": "torch.where(x > 0, f.fft(x), torch.tensor(1j))",
    "in place": "f.fft(x).clone().add_(1).mul_(2)",
    "rows": "f.fft(x, dim=0, norm='ortho')",
    "planes": "torch.cat([f.rfft2(x).abs().flatten(), f.fftn(x).imag.flatten(), f.ifft2(x).real.flatten()])",
    "sizes": "torch.cat([f.fft(x, 5).abs(), f.fft(x, 2).abs(), f.rfft(x, norm='forward').abs(), f.irfft(f.rfft(x), n=3),"
             " f.irfft(f.rfft(x, n=6, norm='ortho'), norm='ortho'), f.ifft(f.fft(x)).real], 1)",
    "casts": "(x.to(torch.complex64) * (1 + 2j)).to(torch.complex128).imag",
    "dtypes": "torch.cat([f.fft(x.long()), x.long() * 0.5j, (x > 0) * 1.5j, f.fft(x) * (x.double() / 3), f.fft(x > 0),"
              " f.fft(x).sum(1, True, dtype=torch.complex128)], 1)",
    "whole numbers": "torch.cat([f.fft(x.long()).real, f.fft(x.long()).imag * (x.long() * 0.5j).imag], 1)",
    "joined dtypes": "torch.cat([x.long(), f.fft(x)], 1) + torch.where(x > 0, 0.5j, 2.0).repeat(1, 2)",
    "truth": "torch.cat([torch.complex(x * 0, x).to(torch.bool), f.fft(x).to(torch.bool)])",
    "orders": "f.fft(x).unsqueeze(0).permute(-1, 0, 1)",
    "large and small": "(f.fft(x) + 100) * 1e20 / ((f.fft(x) + 100) * 1e20) + 1e-30 / ((f.fft(x) + 30) * 1e-30)",
    "a complex number and a value": "f.fft(x) * x.sum().item() + f.fft(x) / x.shape[0]",
    "a size's power": "x * (x.shape[0] ** -0.5 * 2) + 3 / x.shape[0] + (x.shape[0] + 1) // 2",
    "a number": "x * x.sum().item() + x.long().sum().item()",
}


def model(torch, text):
    scope = {"torch": torch, "f": torch.fft}
    exec(f"def forward(self, x): return {text}", scope)
    return type("Net", (torch.nn.Module,), {"forward": scope["forward"]})()


def session(made):
    return onnxruntime.InferenceSession(made.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])


def shown(t):
    return np.asarray((pt.view_as_real(t.resolve_conj()) if t.is_complex() else t).detach())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_complex_numbers(name):
    text = FUNCTIONS[name]
    rows = ({0: ft.export.Dim.AUTO},)
    made = session(ft.onnx.export(model(ft, text), (ft.tensor(NUMBERS),), dynamic_shapes=rows, input_names=["x"]))
    for numbers in OTHERS:
        expected, (found,) = shown(model(pt, text)(pt.tensor(numbers))), made.run(None, {"x": numbers})
        np.testing.assert_allclose(found, expected, atol=2e-4, rtol=1e-4)
        assert found.dtype == expected.dtype


@pytest.mark.parametrize("options", [{}, {"normalized": True}, {"onesided": False}, {"win_length": 3}, {"center": False}])
def test_stft(options):
    class Spectrum(ft.nn.Module):
        def forward(self, x):
            return ft.stft(x, 4, 2, window=ft.ones(options.get("win_length", 4)), return_complex=True, **options)

    x = np.arange(20, dtype=np.float32) % 7
    got = session(ft.onnx.export(Spectrum(), (ft.tensor(x),), input_names=["x"])).run(None, {"x": x})[0]
    expected = pt.stft(pt.tensor(x), 4, 2, window=pt.ones(options.get("win_length", 4)), return_complex=True, **options)
    np.testing.assert_allclose(got, shown(expected), atol=1e-5)


def test_complex_parameters_inputs_and_results():
    def build(torch):
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(4, 4)
                self.weight = torch.nn.Parameter(torch.complex(torch.ones(2, 2), torch.arange(4.0).reshape(2, 2)))
                self.inner = torch.nn.Module()
                self.inner.register_buffer("turns", torch.polar(torch.ones(8, 2), torch.arange(16.0).reshape(8, 2)))

            def forward(self, x, z):
                q = torch.view_as_complex(self.layer(x).reshape(*x.shape[:-1], -1, 2)) * self.inner.turns[: x.shape[1]]
                return {"q": torch.view_as_real(q @ self.weight).flatten(2), "z": (z * 2j, None)}

        return Net().eval()

    net, theirs, auto = build(ft), build(pt), ft.export.Dim.AUTO
    theirs.load_state_dict({k: pt.from_numpy(v.numpy().copy()) for k, v in net.state_dict().items()})
    x, z = ft.randn(2, 3, 4), ft.complex(ft.randn(3), ft.randn(3))
    made = session(ft.onnx.export(
        net, (x, z), dynamic_shapes=({0: auto, 1: auto}, {0: auto}), input_names=["x", "z"], output_names=["q", "w"]))
    assert [i.name for i in made.get_inputs()] == ["x", "z"] and [o.name for o in made.get_outputs()] == ["q", "w"]
    assert made.get_inputs()[1].shape[1:] == [2]
    for shape, count in (((2, 3, 4), 3), ((5, 7, 4), 9)):
        x, z = pt.randn(*shape), pt.complex(pt.randn(count), pt.randn(count))
        q, w = made.run(None, {"x": x.numpy(), "z": pt.view_as_real(z).numpy()})
        expected = theirs(x, z)
        np.testing.assert_allclose(q, expected["q"].detach().numpy(), atol=1e-4)
        np.testing.assert_allclose(w, pt.view_as_real(expected["z"][0]).numpy(), atol=1e-5)


def test_operators_without_a_form_are_named():
    with pytest.raises(ft.onnx.errors.OnnxExporterError, match=r"cumsum.* of complex numbers"):
        ft.onnx.export(model(ft, "torch.view_as_real(f.fft(x).cumsum(0))"), (ft.tensor(NUMBERS),))
