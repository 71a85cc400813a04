"""``torch._dynamo.export``, and results that are taken as constants while something is recorded, against PyTorch's."""

import pytest

from tests.oracle import LIBRARIES, assert_same

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own old calls


def assert_exports_same(program, *sizes):
    """What the graph that a library makes of the first size's example gives for all."""
    results = []
    for t in LIBRARIES:
        t._dynamo.reset()
        function, example = program(t)
        graph, guards = t._dynamo.export(function)(*example(sizes[0]))
        assert isinstance(graph, t.fx.GraphModule)
        results.append([graph(*example(size)) for size in sizes])
    assert_same(*results)


def test_a_graph_takes_other_sizes():
    def program(t):
        return (lambda x, y: (x @ y, x.reshape(-1, 2), x.shape[0], x.new_zeros(x.shape[1]))), (
            lambda n: (t.arange(4.0 * n).reshape(n, 4), t.ones(4, n)))

    assert_exports_same(program, 3, 5, 7)


def test_branches_by_a_tensor():
    def program(t):
        def function(pred, x):
            return t.cond(pred, lambda x: x + x, lambda x: x * x, (x,))

        return function, lambda n: (t.tensor(n > 4), t.arange(1.0 * n))

    assert_exports_same(program, 4, 3, 6)


def test_defaults_and_keywords():
    for t in LIBRARIES:
        t._dynamo.reset()
        graph, _ = t._dynamo.export(lambda x, y=2.0, *, k, **more: (x * y + k, more["z"].sin()))(
            t.ones(3), k=t.ones(3), z=t.zeros(2))
        first, second = graph(t.ones(3), k=t.full((3,), 2.0), z=t.zeros(2))
        assert first.tolist() == [4.0] * 3 and second.tolist() == [0.0, 0.0]


def test_a_table_needs_aten_graphs():
    said = []
    for t in LIBRARIES:
        later = t._dynamo.export(lambda x: x.t(), decomposition_table={t.ops.aten.t.default: lambda x: x})
        with pytest.raises(AssertionError) as error:
            later(t.ones(2, 2))
        said.append(str(error.value))
    assert said[0] == said[1]


class _Looks:
    """A helper that decides by values; made for each library."""

    def __new__(cls, t):
        class Module(t.nn.Module):
            @t.compiler.assume_constant_result
            def helper(self, x):
                if x.sum().item() < 0:
                    return None
                return {"x": x, "square": x * x}

            def forward(self, x):
                found = self.helper(x)
                return x + 1 if found is None else x * found["x"] * found["square"]

        return Module()


@pytest.mark.parametrize("value", [2.0, -2.0])
def test_what_is_assumed_constant_is_in_the_graph(value):
    results = []
    for t in LIBRARIES:
        t._dynamo.reset()
        graph, _ = t._dynamo.export(_Looks(t))(t.full((2,), value))
        results.append(graph(t.full((2,), 3.0)))
    assert_same(*results)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_is_assumed_constant_decides_by_values(backend):
    results = []
    for t in LIBRARIES:
        t._dynamo.reset()
        results.append(t.compile(_Looks(t), backend=backend, fullgraph=True)(t.full((2,), 2.0)))
    assert_same(*results)
