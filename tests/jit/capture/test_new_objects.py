"""Objects that a compiled function makes and returns are new ones in each call, with that call's tensors in them."""

import collections
import dataclasses
import functools
import types

import pytest
import torch as pt

import ftorch as ft
from tests.oracle import assert_same


class Plain:
    def __init__(self, value):
        self.value, self.list = value, [1]

    def method(self):
        return self.value


class Slotted:
    __slots__ = ("absent", "value")

    def __init__(self, value):
        self.value = value


class Ring:
    def __init__(self, value, other=None):
        self.value = value
        self.other = other or Ring(value + 1, self)


def closure(torch, x):
    v = torch.randn(2) + x

    def inner(a=1):
        return v + a

    return inner


def with_defaults(torch, x):
    def inner(a=x + 1, *, b=x):
        return a + b

    inner.tag = x
    return inner


def recursive(torch, x):
    def inner(n):
        return x if n == 0 else inner(n - 1) + 1

    return inner


def counter(torch, x):
    n = 0

    def inner():
        nonlocal n
        n += 1
        return n

    return inner


def two_of_a_cell(torch, x):
    v = x * 2

    def writes():
        nonlocal v
        v = v + 1
        return v

    def reads():
        return v

    return writes, reads


def of_a_module(torch, x):
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.act = torch.nn.functional.gelu

        def forward(self, x):
            return self.act(x)

    return types.SimpleNamespace(value=Module()(x))


def of_classes(torch, x):
    pair = collections.namedtuple("Pair", "a b")(x, x + 1)

    @dataclasses.dataclass
    class Data:
        value: object

    return Data(pair.b * pair[0])


# The function, what of a result is compared, what is done to it afterwards
CASES = {
    "closure": (closure, lambda r: r(), None),
    "defaults": (with_defaults, lambda r: (r(), r.tag), None),
    "recursive": (recursive, lambda r: r(2), None),
    "counter": (counter, lambda r: (r(), r()), None),
    "cell": (two_of_a_cell, lambda r: (r[0](), r[1]()), None),
    "module": (of_a_module, lambda r: r.value, None),
    "classes": (of_classes, lambda r: r.value, None),
    "set": (lambda torch, x: {1, 2}, sorted, lambda r: r.add(7)),
    "tensors": (lambda torch, x: {x, x + 1}, lambda r: sorted(t.sum().item() for t in r), None),
    "numbers": (lambda torch, x: collections.Counter("aab"), dict, lambda r: r.update("z")),
    "deque": (lambda torch, x: collections.deque([x, 1], maxlen=2), list, lambda r: r.append(3)),
    "object": (lambda torch, x: Plain(3), lambda r: (r.value, r.list), lambda r: r.list.append(2)),
    "of tensors": (lambda torch, x: Plain(x + 1), lambda r: (r.value, r.list), lambda r: r.list.append(2)),
    "slots": (lambda torch, x: Slotted(x + 1), lambda r: r.value, None),
    "ring": (lambda torch, x: Ring(x), lambda r: (r.value, r.other.value, r.other.other is r), None),
    "method": (lambda torch, x: Plain(x + 1).method, lambda r: r(), None),
    "partial": (lambda torch, x: functools.partial(torch.add, x + 1, alpha=2), lambda r: r(r.args[0]), None),
    "namespace": (lambda torch, x: types.SimpleNamespace(a=x, b=[1]), lambda r: (r.a, r.b), lambda r: r.b.append(1)),
    "iterator": (lambda torch, x: iter([x, x + 1]), list, None),
    "method of a list": (lambda torch, x: [x].pop, lambda r: r(), None),
    "bytes": (lambda torch, x: bytearray(b"ab"), bytes, lambda r: r.extend(b"c")),
    "parameter": (lambda torch, x: torch.nn.Parameter(x + 1), lambda r: (type(r).__name__, r.is_leaf, r.detach()), None),
    "exception": (lambda torch, x: ValueError("a", x), lambda r: r.args, None),
    "proxy": (lambda torch, x: types.MappingProxyType({"a": x}), lambda r: r["a"], None),
    "nested": (lambda torch, x: {"a": Plain(x), "b": ({2},)}, lambda r: (r["a"].value, r["b"]), lambda r: r["b"][0].add(4)),
    "same": (lambda torch, x: (lambda p: (p, p))(Plain(x)), lambda r: r[0] is r[1], None),
}


def agree(found, wanted):
    if isinstance(wanted, pt.Tensor):
        assert_same(found, wanted)
    elif isinstance(wanted, (list, tuple)):
        assert type(found) is type(wanted) and len(found) == len(wanted)
        for a, b in zip(found, wanted):
            agree(a, b)
    else:
        assert found == wanted


def calls(torch, case, backend):
    function, shows, changes = case
    torch.manual_seed(0)
    torch._dynamo.reset()
    compiled = torch.compile(functools.partial(function, torch), backend=backend)
    shown, results = [], []
    for i in range(3):
        results.append(compiled(torch.ones(2) * i))
        shown.append(shows(results[-1]))
        if changes:
            changes(results[-1])
    assert len(set(map(id, results))) == 3
    return shown


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("case", CASES)
def test_each_call_makes_its_own(case, backend):
    agree(calls(ft, CASES[case], backend), calls(pt, CASES[case], "eager"))


def test_what_was_there_before_is_given_as_it_is():
    kept = Plain(ft.ones(2))

    def outer():
        v = ft.zeros(2)

        def inner():
            return v

        return inner

    inner = outer()
    compiled = ft.compile(lambda x: (kept, inner, x + 1), backend="eager")
    for _ in range(2):
        found = compiled(ft.ones(2))
        assert found[0] is kept and found[1] is inner


def test_writes_in_a_closure_that_a_compiled_function_made():
    def outer(torch):
        v = torch.randn(2)

        def inner():
            nonlocal v
            v += 1
            return v * 1

        inner()
        return inner

    def run(torch):
        torch.manual_seed(3)
        first = torch.compile(functools.partial(outer, torch), backend="eager", fullgraph=True)()
        second = torch.compile(first, backend="eager", fullgraph=True)
        return [second() for _ in range(3)]

    agree(run(ft), run(pt))


def test_named_tuples_can_be_made_in_a_whole_graph():
    def function(x):
        return collections.namedtuple("Pair", "a b")(x, x + 1).b

    compiled = ft.compile(function, backend="eager", fullgraph=True)
    assert [compiled(ft.ones(1) * i).item() for i in range(3)] == [1, 2, 3]


# --- what holds itself -------------------------------------------------------------------

Pair = collections.namedtuple("Pair", "first second")


def listed_itself(torch, x):
    found = [x * 2]
    found.append(found)
    return found


def in_its_dictionary(torch, x):
    made, own = types.SimpleNamespace(), {}
    own["own"], own["x"], made.own = own, x * 2, own
    return made


def raised_with_itself(torch, x):
    error = ValueError("a")
    error.me = error
    return Pair(x * 2, error)


def bound_to_itself(torch, x):
    made = types.SimpleNamespace(x=x)
    made.call = functools.partial(len, made)
    return Pair(x * 2, made)


@pytest.mark.parametrize("function, is_itself", [
    (listed_itself, lambda r: r[1] is r), (in_its_dictionary, lambda r: r.own["own"] is r.own),
    (raised_with_itself, lambda r: r.second.me is r.second), (bound_to_itself, lambda r: r.second.call.args[0] is r.second),
], ids=lambda f: f.__name__)
def test_what_holds_itself_is_made_in_python(function, is_itself):
    for torch in (ft, pt):
        torch._dynamo.reset()
        compiled = torch.compile(functools.partial(function, torch))
        results = [compiled(torch.ones(2)) for _ in range(3)]
        assert all(map(is_itself, results)) and len(set(map(id, results))) == 3
