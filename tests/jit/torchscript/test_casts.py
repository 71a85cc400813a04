"""Scripts and dtypes: methods that give another one, questions about them and about modes, functions that are no operators."""

import warnings

import pytest
import torch

import ftorch

LIBRARIES = (ftorch, torch)
METHODS = ["byte", "char", "short", "int", "long", "half", "float", "double", "cfloat", "cdouble"]
SOURCE = """
def cast(x: torch.Tensor, y: torch.Tensor):
    return {}
"""


def scripted(library, tmp_path, expression):
    path = tmp_path / "casts.py"
    path.write_text(SOURCE.format(expression))
    names = {"torch": library, "__name__": "casts"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return library.jit.script(names["cast"])


@pytest.mark.parametrize("expression", [
    *(f"x.{name}()" for name in METHODS), "x.type(torch.int16)", "x.type(y)", "x.type(dtype=torch.float64)", "x.type(y.dtype)",
])
def test_casts_are_aten_to(expression, tmp_path):
    found = []
    for library in LIBRARIES:
        function = scripted(library, tmp_path, expression)
        result = function(library.tensor([1.5, 2.0]), library.tensor([1], dtype=library.int32))
        found.append((str(function.graph), function.code, result.tolist(), str(result.dtype)))
    assert found[0] == found[1]


def test_attributes_are_not_called(tmp_path):
    said = []
    for library in LIBRARIES:
        with pytest.raises(RuntimeError) as failure:
            scripted(library, tmp_path, "x.is_cuda()")
        said.append(str(failure.value).strip().splitlines()[0])
    assert said[0] == said[1]


def _functions(t):
    def promoted(x):
        d = t.promote_types(t.float32, t.promote_types(x.dtype, t.float16))
        return x.to(d) if d == t.float32 else x - 1

    def castable(x):
        return x + 1 if t.can_cast(x.dtype, t.float64) and not t.can_cast(t.float32, t.int32) else x - 1

    def common(x):
        return x + 1 if t.result_type(x, 1) == t.float32 and t.result_type(x, x.long()) == x.dtype else x - 1

    def autocast(x):
        return x + 1 if t.get_autocast_dtype("cpu") == t.bfloat16 else x - 1

    def retained(x):
        return x + 1 if x.retains_grad else x - 1

    def blocks(x):
        return t.block_diag(x, x * 2)

    def padded(x):
        return t.nn.utils.rnn.pad_sequence([x, x[:1]], batch_first=True, padding_value=7.0)

    def disabled(x):
        t.set_grad_enabled(False)
        y = x * 2
        t.set_grad_enabled(True)
        return y + 1 if y.requires_grad else y - 1

    return {f.__name__: f for f in (promoted, castable, common, autocast, retained, blocks, padded, disabled)}


@pytest.mark.parametrize("name", list(_functions(LIBRARIES[0])))
def test_queries(name):
    def look(t):
        x = t.tensor([[1.0, -2.0], [3.0, 4.0]], requires_grad=True)
        return t.jit.script(_functions(t)[name])(x).detach().tolist()

    ours, theirs = map(look, LIBRARIES)
    assert ours == theirs


def test_methods_that_return_their_module():
    def look(t):
        class Fitted(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.w = t.ones(2)

            def fit(self, x) -> "Fitted":
                self.w = x * 2
                return self

            def forward(self, x, fits: bool = False):
                if fits:
                    self.fit(x)
                return x * self.w

        globals()["Fitted"] = Fitted  # where PyTorch looks for it
        scripted = t.jit.script(Fitted())
        return [scripted(t.full((2,), 3.0), fits).tolist() for fits in (False, True, False)]

    ours, theirs = map(look, LIBRARIES)
    assert ours == theirs
