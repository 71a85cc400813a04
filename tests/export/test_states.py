"""What a program that is being recorded can ask: whether it is compiled, exported or traced, and what its tensors are."""

import importlib
import io

import pytest
import torch

import ftorch

STATES = {
    "is_compiling": lambda lib, x: lib.compiler.is_compiling(),
    "is_exporting": lambda lib, x: lib.compiler.is_exporting(),
    "_dynamo.is_compiling": lambda lib, x: lib._dynamo.is_compiling(),
    "_utils.is_compiling": lambda lib, x: lib._utils.is_compiling(),
    "is_fx_symbolic_tracing": lambda lib, x: lib.fx._symbolic_trace.is_fx_symbolic_tracing(),
    "is_fx_tracing": lambda lib, x: lib.fx._symbolic_trace.is_fx_tracing(),
    "jit.is_tracing": lambda lib, x: lib.jit.is_tracing(),
    "FakeTensor": lambda lib, x: isinstance(x, lib._subclasses.FakeTensor),
    "fake mode": lambda lib, x: isinstance(lib._subclasses.fake_tensor.maybe_get_fake_mode(x), lib._subclasses.FakeTensorMode),
    "result": lambda lib, x: isinstance(x + 1, lib._subclasses.FakeTensor),
    "Tensor": lambda lib, x: isinstance(x, lib.Tensor),
}


def recorded(lib, way):
    """{state: its answer} in a module that one of the ways records."""
    found = {}

    class Asking(lib.nn.Module):
        def forward(self, x):
            if not found:
                found.update({name: ask(lib, x) for name, ask in STATES.items()})
            return x.sin()

    module, x = Asking(), lib.ones(2, 3)
    if way == "export":
        lib.export.export(module, (x,))
    elif way == "trace":
        lib.jit.trace(module, (x,), check_trace=False)
    elif way == "eager":
        module(x)
    else:
        lib.fx.experimental.proxy_tensor.make_fx(module, tracing_mode=way)(x)
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", ["export", "real", "fake", "symbolic", "trace", "eager"])
def test_states_of_what_is_recorded(way):
    found = {}
    for lib in (torch, ftorch):
        importlib.import_module(f"{lib.__name__}.fx.experimental.proxy_tensor")
        found[lib] = recorded(lib, way)
    assert found[ftorch] == found[torch]


def test_states_end_with_the_record():
    class Failing(ftorch.nn.Module):
        def forward(self, x):
            assert ftorch.compiler.is_exporting()
            raise KeyError("stop")

    with pytest.raises(KeyError):
        ftorch.export.export(Failing(), (ftorch.ones(2),))
    assert not ftorch.compiler.is_exporting() and not ftorch.compiler.is_compiling()


@pytest.mark.filterwarnings("ignore")
def test_program_that_branches_on_being_exported():
    """A look at values that is left out while exporting, as transformers' masks have it."""
    values = []
    for lib in (torch, ftorch):

        class Masked(lib.nn.Module):
            def forward(self, x, lib=lib):
                if not lib.compiler.is_compiling() and (x > 0).all():
                    return x * 2
                return lib.where(x > 0, x, 0.0)

        x = lib.tensor([[1.0, -2.0, 3.0]])
        values.append(lib.export.export(Masked(), (x,)).module()(x).tolist())
    assert values[0] == values[1]


@pytest.mark.filterwarnings("ignore")
def test_state_dicts_have_parameters_and_persistent_buffers_only():
    """Extra states, buffers that are not saved, and constants are no part of them, in the program and in its module."""
    found = []
    for lib in (torch, ftorch):

        class Inner(lib.nn.Module):
            def __init__(self, lib=lib):
                super().__init__()
                self.register_buffer("saved", lib.ones(3))
                self.register_buffer("left_out", lib.ones(3), persistent=False)

            def get_extra_state(self, lib=lib):
                return lib.ones(2)

            def set_extra_state(self, state):
                pass

            def forward(self, x):
                return x * self.saved + self.left_out

        class Outer(Inner):
            def __init__(self, lib=lib):
                super().__init__()
                self.inner, self.weight, self.constant = Inner(), lib.nn.Parameter(lib.ones(3)), lib.ones(3)

            def forward(self, x, lib=lib):
                return self.inner(x) * self.weight + self.saved + self.constant + self.left_out + lib.tensor([1.0, 2.0, 3.0])

        program = lib.export.export(Outer(), (lib.ones(2, 3),))
        file = io.BytesIO()
        lib.export.save(program, file)
        file.seek(0)
        again = lib.export.load(file)
        states = [states for p in (program, again) for states in (p.state_dict, p.module().state_dict())]
        found.append([*map(sorted, states), again.module()(lib.ones(2, 3)).tolist()])
    assert found[1] == found[0]
