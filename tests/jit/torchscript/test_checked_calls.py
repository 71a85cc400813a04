"""What the compiler of scripts refuses, and what ``and``, ``or`` and named results give."""

import pytest

from tests.oracle import LIBRARIES

REFUSED = [
    "torch.add(x)", "torch.add(x, 1, beta=3)", "x.sum(dim='a')", "x.relu(3, 4)", "torch.mm(x, 'a')", "x.softmax()",
    "x.index_select(0, [1])", "x[1.5]", "x[0, 'a']", "x.tolist()", "range(3)", "...", "[*x]", "x.permute('a')",
    "torch.cat(x, y=1)", "x.clamp(lo=1)",
]
GIVEN = [
    "x[0] and n", "n and n > 1", "n or False", "n and s", "not n", "n and n > 2 or x[0] > 3",
    "x[0].item() if n == 1 else 0.", "x.max(0)", "[x.sort()]", "{'a': x.topk(2)}", "x.max(0).values", "torch.sort(x)[1]",
    "x.sum(0, keepdim=True)", "x.view(3, 1)", "x.clamp(min=2.)", "torch.add(x, 1, alpha=2)", "x.to(torch.float64)",
    "x.permute(0)", "torch.where(x > 1, x, -x)", "x.expand(2, 3)", "torch.zeros(2)", "x.std(0)", "x.norm()",
    "x.div(2, rounding_mode='floor')",
]


def compiled(t, text):
    torch = t  # noqa: F841  (programs find it here)
    return t.jit.CompilationUnit(f"def f(x, n: int, s: str):\n    return {text}\n").f


def answer(t, text):
    try:
        function = compiled(t, text)
    except RuntimeError as error:
        return "refused", str(error).strip().partition("\n")[0]
    try:
        return "gives", shown(function(t.tensor([1.0, 2.0, 3.0]), 1, "a"))
    except RuntimeError:
        return "fails"


def shown(value):
    if isinstance(value, (tuple, list)):
        return type(value).__name__, [shown(v) for v in value]
    if isinstance(value, dict):
        return {k: shown(v) for k, v in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


@pytest.mark.parametrize("text", REFUSED)
def test_calls_that_no_form_takes_are_refused_when_they_are_compiled(text):
    theirs, ours = (answer(t, text) for t in LIBRARIES)
    assert theirs[0] == "refused"
    assert ours == theirs


@pytest.mark.parametrize("text", GIVEN)
def test_values_of_expressions(text):
    theirs, ours = (answer(t, text) for t in LIBRARIES)
    assert theirs[0] == "gives"
    assert ours == theirs


@pytest.mark.parametrize(
    "body", ["x.foo = 3", "del y", "a, b = x", "raise ValueError('a', 2)", "raise ValueError", "raise ValueError('b')"],
)
def test_statements(body):
    def program(t):
        try:
            return t.jit.CompilationUnit(f"def f(x):\n    {body}\n    return x\n").f(t.ones(2))
        except Exception as error:  # noqa: BLE001
            lines = [line for line in str(error).strip().split("\n") if "~" not in line and "  " not in line]
            return type(error).__name__ in ("RuntimeError", "Error"), lines

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs


def test_a_tensor_is_a_default():
    def program(t):
        def f(x, y=t.ones(1)):  # noqa: B008
            return x + y

        compiled = t.jit.script(f)
        return compiled(t.zeros(2)).tolist(), compiled(t.zeros(2), t.ones(2) * 3).tolist(), compiled.code

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs


@pytest.mark.parametrize("value", [[], {}])
def test_an_attribute_that_holds_nothing_has_no_type(value):
    def program(t):
        class M(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.kept = value

            def forward(self, x):
                return self.kept

        try:
            return t.jit.script(M())
        except RuntimeError as error:
            return str(error).partition(":\n")[0]

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs


@pytest.mark.parametrize("text", ["x.relu(3)", "x.abs(1, 2)", "torch.abs(x, 1)", "x.sum('a')"])
def test_arguments_are_counted_without_the_tensor_whose_method_it_is(text):
    said = []
    for t in LIBRARIES:
        with pytest.raises(RuntimeError) as caught:
            compiled(t, text)
        said.append(next(line.strip() for line in str(caught.value).splitlines() if "Expected at most" in line))
    assert said[0] == said[1]
