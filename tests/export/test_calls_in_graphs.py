"""Which ATen calls the graphs of exported modules hold, and what an export leaves of a module's attributes."""

import collections
import warnings

import pytest

from tests.oracle import LIBRARIES

FUNCTIONS = {
    "part of a result": lambda t, x: x.max(0)[0],
    "parts": lambda t, x: x.split(1)[0],
    "unused": lambda t, x: (x.sin(), x)[1],
    "deviations": lambda t, x: (x.var(), x.std(), x.std(0), t.std_mean(x), x.var(correction=1)),
    "numbers first": lambda t, x: (2 / x, 2 - x, 2 % x, 2**x, 2 + x, 2 // x),
    "numbers": lambda t, x: (x / 2, x - 2, x % 2, x**2, x // 2, t.floor_divide(x, 2)),
    "layer norm": lambda t, x: t.nn.functional.layer_norm(x, (3,)),
    "group norm": lambda t, x: t.nn.functional.group_norm(x[None], 1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_code(name):
    def program(t):
        class M(t.nn.Module):
            def forward(self, x):
                return FUNCTIONS[name](t, x)

        exported = t.export.export(M(), (t.tensor([1.0, 2.0, 3.0]),))
        given = t.tensor([3.0, 5.0, 4.0])
        found, expected = (t.utils._pytree.tree_leaves(m(given)) for m in (exported.module(), M()))
        return exported.graph_module.code, [t.equal(a, b) for a, b in zip(found, expected)]

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs


@pytest.mark.filterwarnings("ignore::FutureWarning")  # PyTorch's own
def test_constants():
    def program(t):
        outside = t.tensor([7.0])

        class M(t.nn.Module):
            def forward(self, x):
                return x + outside, x * t.tensor([1.0, 2.0, 3.0]), x[t.tensor([0, 1])]

        exported = t.export.export(M(), (t.arange(3.0),))
        core = exported.run_decompositions()
        results = [[r.tolist() for r in e.module()(t.ones(3))] for e in (exported, core)]
        return exported.graph_module.code, core.graph_module.code, results

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs


def test_transposed_names():
    def program(t):
        class M(t.nn.Module):
            def forward(self, x):
                return x.T

        return t.export.export(M(), (t.ones(2, 3),)).graph_module.code

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs


def test_attributes_are_given_back():
    def program(t):
        class Inner(t.nn.Module):
            def forward(self, x):
                self.last = x * 2
                return x

        class M(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.count, self.seen, self.notes = Inner(), 0, [], {"a": 1}

            def forward(self, x):
                self.count += 1
                self.seen.append(1)
                self.notes["b"] = 2
                self.fresh = 7
                return self.inner(x) + self.count

        module = M()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            code = t.export.export(module, (t.ones(2),)).graph_module.code
        said = [str(w.message) for w in caught if "assigned" in str(w.message)]
        return code, said, module.count, module.seen, module.notes, module.fresh, type(module.inner.last).__name__

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs


def test_containers_hold_what_they_held():
    """Those that are pytrees; a subclass is what the program made of it."""
    class Names(list):
        pass

    def program(t):
        class M(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.options, self.groups = collections.OrderedDict(a=2, b=3), collections.defaultdict(list, c=[1])
                self.counts, self.last, self.names = collections.Counter("ab"), collections.deque([1], 2), Names([1])
                self.nested = {"a": [1], "b": ([2], 3)}

            def forward(self, x):
                self.options.move_to_end("a")
                self.groups["d"].append(1)
                self.last.extend((2, 3))
                self.names.append(2)
                self.nested["a"].append(2)
                self.nested["b"][0].append(3)
                return x * self.options["a"] + self.counts["a"]

        module = M()
        t.export.export(module, (t.ones(2),))
        containers = module.options, module.groups, module.counts, module.last, module.names, module.nested
        return [(list(c.items()) if isinstance(c, dict) else list(c), type(c).__name__) for c in containers], module.last.maxlen

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs
