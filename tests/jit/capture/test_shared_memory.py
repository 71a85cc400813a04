"""Compiled functions of two tensors that lie in one memory in some calls and not in others, wherever they are found."""

import itertools
import random

import pytest
import torch as reference

import ftorch as torch

BODIES = {
    "write and read": "A.add_(1)\n    return B * 2",
    "read, write and read": "y = B * 2\n    A.mul_(3)\n    return y + B",
    "write both": "A.add_(1)\n    B.mul_(2)\n    return A + B",
    "views": "return A[:2], B[1:]",
    "identity": "return A * 1 if A is B else A * 2",
    "data": "t = A.clone()\n    A.data.copy_(B)\n    B.data.copy_(t)\n    return A + B",
}
HOLDERS = ["argument", "global", "closure", "default", "keyword default", "dict", "list", "tuple", "object", "class", "buffer",
           "parameter", "gradient"]


class Pair:
    """A function ``f(x, ...)`` that finds two tensors A and B in holders of two kinds; ``put`` puts them there."""

    def __init__(self, torch, kinds, body):
        self.scope = {"torch": torch, "put": {}}
        self.kinds = dict(zip("AB", kinds))
        arguments = [n for n, kind in self.kinds.items() if kind == "argument"]
        defaults = [f"{n}=None" for n, kind in self.kinds.items() if kind == "default"]
        keywords = [f"{n}=None" for n, kind in self.kinds.items() if kind == "keyword default"]
        closed = [n for n, kind in self.kinds.items() if kind == "closure"]
        signature = ", ".join(["x", *arguments, *defaults, *(["*", *keywords] if keywords else [])])
        lines = [f"{n} = {where}" for n, kind in self.kinds.items() if (where := self._where(torch, n, kind))]
        text = "\n    ".join([f"def f({signature}):", *lines, body])
        if closed:
            indented = text.replace("\n", "\n    ")
            text = (f"def outer({', '.join(f'{n}=None' for n in closed)}):\n    {indented}\n"
                    f"    def set(name, value):\n        nonlocal {', '.join(closed)}\n"
                    + "".join(f"        if name == '{n}': {n} = value\n" for n in closed)
                    + "    return f, set\nf, set_ = outer()\n")
        exec(compile(text, __file__, "exec"), self.scope)
        self.f = self.scope["f"]

    def _where(self, torch, name, kind):
        """The expression that finds a tensor, if it takes one."""
        scope, h = self.scope, f"h{name}"
        if kind in ("argument", "closure", "default", "keyword default"):
            return None
        if kind == "global":
            return f"g{name}"
        if kind in ("dict", "list", "tuple"):
            scope[h] = {"dict": {0: None}, "list": [None], "tuple": ()}[kind]
            return f"{h}[0]"
        if kind == "gradient":
            scope[h] = torch.zeros(4, requires_grad=True)
            return f"{h}.grad"
        scope[h] = torch.nn.Module() if kind in ("buffer", "parameter") else type("Holder", (), {})
        if kind == "object":
            scope[h] = scope[h]()
        elif kind == "buffer":
            scope[h].register_buffer("t", torch.zeros(4))
        return f"{h}.t"

    def put(self, torch, **tensors):
        defaults = {}
        for name, t in tensors.items():
            kind, holder = self.kinds[name], self.scope.get(f"h{name}")
            if kind == "global":
                self.scope[f"g{name}"] = t
            elif kind == "closure":
                self.scope["set_"](name, t)
            elif kind in ("dict", "list"):
                holder[0] = t
            elif kind == "tuple":
                self.scope[f"h{name}"] = (t,)
            elif kind == "gradient":
                holder.grad = t
            elif kind == "parameter":
                holder.t = torch.nn.Parameter(t, requires_grad=False)
            elif kind in ("default", "keyword default"):
                defaults.setdefault(kind, {})[name] = t
            elif kind != "argument":
                holder.t = t
        if "default" in defaults:
            self.f.__defaults__ = tuple(defaults["default"].values())
        if "keyword default" in defaults:
            self.f.__kwdefaults__ = defaults["keyword default"]
        return [t for name, t in tensors.items() if self.kinds[name] == "argument"]


def called_in_turns(torch, kinds, body, sequence, compiled):
    pair = Pair(torch, kinds, body)
    f = torch.compile(pair.f) if compiled else pair.f
    found = []
    for how in sequence:
        a = torch.arange(4.0)
        b = {"same": lambda: a, "view": lambda: a[:], "apart": lambda: torch.arange(4.0) + 10}[how]()
        given = pair.put(torch, A=a, B=b)
        for _ in range(2):
            result = f(torch.ones(2), *given)
            found.append([r.tolist() for r in (result if isinstance(result, tuple) else (result,))])
            found.append([a.tolist(), b.tolist()])
    return found


SEQUENCES = [("apart", "same", "apart"), ("same", "apart", "same"), ("view", "apart"), ("same", "view", "same"),
             ("apart", "same", "view", "apart")]
PAIRS = list(itertools.product(HOLDERS, HOLDERS))
random.Random(0).shuffle(PAIRS)


@pytest.mark.parametrize("kinds", PAIRS[:48], ids=" and ".join)
def test_memory_that_comes_to_be_shared(kinds):
    choose = random.Random(repr(kinds))
    body, sequence = BODIES[choose.choice(list(BODIES))], choose.choice(SEQUENCES)
    assert called_in_turns(torch, kinds, body, sequence, True) == called_in_turns(reference, kinds, body, sequence, False)


def test_views_of_two_leaves_in_one_memory():
    found = []
    for library in (torch, reference):
        holder = library.nn.Module()

        def f(x, holder=holder):
            return holder.a[:2], holder.b[1:]

        g = torch.compile(f) if library is torch else f
        rows = []
        for requires_grad in (False, True):
            holder.a = library.arange(4.0).requires_grad_()
            holder.b = holder.a.detach().requires_grad_(requires_grad)
            for _ in range(2):
                results = g(library.ones(1))
                rows.append([r.requires_grad for r in results])
                sum((r * r).sum() for r in results if r.requires_grad).backward()
                rows.append([None if t.grad is None else t.grad.tolist() for t in (holder.a, holder.b)])
        found.append(rows)
    assert found[0] == found[1]


def test_tied_weights_come_apart():
    found = []
    for library in (torch, reference):
        library.manual_seed(0)
        model = library.nn.Sequential(library.nn.Linear(3, 3), library.nn.Linear(3, 3))
        model[1].weight = model[0].weight
        f = torch.compile(model) if library is torch else model
        x, rows = library.arange(6.0).reshape(2, 3), []
        for tied in (True, False, True):
            with library.no_grad():
                model[0].weight.fill_(0.5)
            model[1].weight = model[0].weight if tied else library.nn.Parameter(library.full((3, 3), 2.0))
            for layer in model:
                layer.bias.data.zero_()
            rows += [f(x).tolist(), f(x).tolist()]
        found.append(rows)
    assert found[0] == found[1]


def test_replaced_defaults():
    def f(x, factor=2):
        return x * factor

    g = torch.compile(f)
    x = torch.ones(2)
    assert [g(x).tolist(), g(x).tolist()] == [[2, 2], [2, 2]]
    f.__defaults__ = (3,)
    assert [g(x).tolist(), g(x).tolist()] == [[3, 3], [3, 3]]


def test_one_gradient_of_two_leaves():
    found = []
    for library in (torch, reference):
        p, q = library.zeros(2, requires_grad=True), library.zeros(2, requires_grad=True)

        def f(x, p=p, q=q):
            p.grad.add_(1)
            return x * q.grad

        g, rows = torch.compile(f) if library is torch else f, []
        for is_one in (True, False, True):
            p.grad = library.ones(2)
            q.grad = p.grad if is_one else library.full((2,), 5.0)
            rows += [g(library.ones(2)).tolist(), g(library.ones(2)).tolist()]
        found.append(rows)
    assert found[0] == found[1]


def test_lists_that_functions_give_are_not_asked():
    """What lists of users' own classes hold is looked at without running their code."""
    class Asking(list):
        def __iter__(self):
            raise AssertionError("asked")

    class State:
        value = 1

    state = State()

    def get():
        return Asking([state])

    f = torch.compile(lambda x: x * get()[0].value)
    assert f(torch.ones(1)).item() == 1
    state.value = 4
    assert f(torch.ones(1)).item() == 4
