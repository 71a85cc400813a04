"""Forward hooks and pre-hooks that modules have when they are scripted, and slices in traces."""

import io
from typing import Tuple  # noqa: UP035  (the word that PyTorch's checks of hooks read)

import pytest
import torch as reference

import ftorch


def _hooks(lib):
    Tensor = lib.Tensor

    def doubled(self, inputs: Tuple[Tensor]) -> Tuple[Tensor]:  # noqa: UP006
        return (inputs[0] * 2,)

    def shifted(self, inputs: Tuple[Tensor]) -> Tensor:  # noqa: UP006
        return inputs[0] + 1

    def looked(self, inputs: Tuple[Tensor]) -> None:  # noqa: UP006
        print(inputs[0].sum().item())

    def added(self, inputs: Tuple[Tensor], output: Tensor) -> Tensor:  # noqa: UP006
        return output + inputs[0] * 10

    return doubled, shifted, looked, added


def _module(lib):
    nn = lib.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.rest = nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.Linear(2, 2, bias=False))
            for p in self.parameters():
                nn.init.constant_(p, 0.5)

        def forward(self, x):
            return self.rest(self.first(x)) * 3

    return Net()


PLACES = {
    "the module": lambda m, h: (m.register_forward_pre_hook(h[0]), m.register_forward_hook(h[3])),
    "several": lambda m, h: [m.register_forward_pre_hook(f) for f in h[:3]],
    "a child": lambda m, h: (m.first.register_forward_pre_hook(h[1]), m.first.register_forward_hook(h[3])),
    "of containers": lambda m, h: (m.rest.register_forward_hook(h[3]), m.rest[0].register_forward_pre_hook(h[0])),
}


def _results(lib, place, capsys):
    module = _module(lib)
    PLACES[place](module, _hooks(lib))
    scripted = lib.jit.script(module)
    x = lib.tensor([[1.0, 2.0]])
    file = io.BytesIO()
    lib.jit.save(scripted, file)
    other = reference if lib is ftorch else ftorch
    loaded = [other.jit.load(io.BytesIO(file.getvalue()))(other.tensor([[1.0, 2.0]])).tolist()]
    loaded.append(lib.jit.load(io.BytesIO(file.getvalue()))(x).tolist())
    return [scripted(x).tolist(), *loaded], capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("place", PLACES)
def test_hooks_are_compiled_and_saved(place, capsys):
    assert _results(ftorch, place, capsys) == _results(reference, place, capsys)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ftorch.jit.TracerWarning")
def test_slices_in_traces_stay():
    """Also those that are all of the example."""
    programs = {
        "stop": lambda x: x[:4], "range": lambda x: x[0:4], "far": lambda x: x[:50], "ellipsis": lambda x: x[..., :4],
        "new axis": lambda x: x[None, :4], "step": lambda x: x[::1], "all": lambda x: x[:],
        "numel": lambda x: x.sum() / x.numel(), "expand_as": lambda x: x[:1].expand_as(x),
    }
    for name, program in programs.items():
        found = []
        for lib in (reference, ftorch):
            traced = lib.jit.trace(program, lib.arange(16.0).reshape(4, 4))
            found.append(traced(lib.arange(36.0).reshape(6, 6)).tolist())
        assert found[0] == found[1], name
