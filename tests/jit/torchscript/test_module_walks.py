"""Scripts that go over a module's parts, ask what an attribute is, or contract dimensions."""

import io
import linecache
import warnings

import pytest
import torch

import ftorch

LIBRARIES = (ftorch, torch)
SOURCE = """
class Walked(nn.Module):
    def __init__(self, kind: int = 0):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU()))
        self.register_buffer("bias", torch.ones(2))
        self.either = nn.ReLU() if kind else nn.Parameter(torch.eye(2))

    def forward(self, x: torch.Tensor):
        {}
        return x
"""
ASKED = "if isinstance(self.either, nn.ReLU): x = self.either(x) - 5\n        else: x = x @ self.either"


def walked(library, name, body, *arguments, scripted=True):
    source, file = SOURCE.format(body), f"<walked {name}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    names = {"torch": library, "nn": library.nn, "__name__": f"walked_{name}"}
    exec(compile(source, file, "exec"), names)
    library.manual_seed(0)
    module = names["Walked"](*arguments)
    if not scripted:
        return module
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return library.jit.script(module)


@pytest.mark.parametrize("name, body", [
    ("a", "for n, m in self.named_modules(): x = x + len(n)"),
    ("b", "for m in self.modules(): x = x + 1"),
    ("c", "for n, m in self.layers.named_children(): x = m(x) + len(n)"),
    ("d", "for m in self.layers.children(): x = m(x)"),
    ("e", "for n, b in self.named_buffers(): x = x + b + len(n)"),
    ("f", "x = x + dict(self.named_buffers())['bias']"),
    ("g", "x = torch.functional.tensordot(x, x, ([1], [1])) + torch.tensordot(x, x, 2)"),
    ("h", "x = torch.tensordot(x, x, dims=[[0], [0]])"),
    ("i", "s = torch.Size([1, x.shape[1]])\n        if x.shape == torch.Size([1, 2]): x = torch.zeros(s) + len(s)"),
])
def test_walks(name, body):
    found = []
    for library in LIBRARIES:
        module = walked(library, name, body)
        file = io.BytesIO()
        library.jit.save(module, file)
        loaded = torch.jit.load(io.BytesIO(file.getvalue()))  # PyTorch reads both
        found.append((module(library.ones(1, 2)).tolist(), loaded(torch.ones(1, 2)).tolist()))
    assert found[0] == found[1]


def test_what_the_modules_of_a_loop_are():
    """As in Python: what PyTorch's compiler says of them depends on what it compiled before."""
    body = "for m in self.layers.children():\n            if isinstance(m, nn.Linear): x = m(x)\n            x = x - 1"
    module, file = walked(ftorch, "j", body), io.BytesIO()
    ftorch.jit.save(module, file)
    loaded = torch.jit.load(io.BytesIO(file.getvalue()))
    expected = walked(torch, "j", body, scripted=False)(torch.ones(1, 2)).tolist()
    assert module(ftorch.ones(1, 2)).tolist() == loaded(torch.ones(1, 2)).tolist() == expected


def test_walks_take_no_arguments():
    for library in LIBRARIES:
        with pytest.raises(RuntimeError, match="named_modules method does not accept any arguments"):
            walked(library, "arguments", "for n, m in self.named_modules(prefix='p'): x = x + len(n)")


@pytest.mark.parametrize("kind", [0, 1])
def test_what_an_attribute_is(kind):
    """As in Python, for the same reason."""
    module, file = walked(ftorch, f"asked{kind}", ASKED, kind), io.BytesIO()
    ftorch.jit.save(module, file)
    loaded = torch.jit.load(io.BytesIO(file.getvalue()))
    expected = walked(torch, f"asked{kind}", ASKED, kind, scripted=False)(torch.ones(1, 2)).tolist()
    assert module(ftorch.ones(1, 2)).tolist() == loaded(torch.ones(1, 2)).tolist() == expected


class Parts(tuple):
    def __len__(self):
        raise NotImplementedError


def test_attributes_of_subclasses_of_tuples():
    file = io.BytesIO()
    module = ftorch.nn.ReLU()
    module.parts = Parts((1, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ftorch.jit.save(ftorch.jit.script(module), file)
    assert torch.jit.load(io.BytesIO(file.getvalue())).parts == (1, 2)


PREPARED = """
class Doubles(nn.Module):
    def forward(self, x: torch.Tensor):
        return x * 2


class Prepared(nn.Module):
    def forward(self, x: torch.Tensor):
        return x

    def __prepare_scriptable__(self):
        calls.append(type(self).__name__)
        return Doubles()


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = self.b = Prepared()
        self.layers = nn.ModuleList([Prepared(), nn.ReLU()])

    def forward(self, x: torch.Tensor):
        for layer in self.layers:
            x = layer(x)
        return self.b(self.a(x))

    def __prepare_scriptable__(self):
        calls.append("Outer")
        return self
"""


PARTS = """
class Adds(nn.Module):
    def __init__(self, n: int):
        super().__init__()
        self.n = n

    def forward(self, x: torch.Tensor):
        return x + self.n


class Prepared(nn.Module):
    def __init__(self, n: int):
        super().__init__()
        self.n = n

    def __prepare_scriptable__(self):
        return nn.Sequential(Adds(self.n * 10), Adds(self.n * 100))
"""


def test_modules_made_in_others_place_are_no_others():
    """Modules that were replaced and freed leave their addresses to new ones (PyTorch takes one for the other)."""
    file = "<prepared parts>"
    linecache.cache[file] = len(PARTS), None, PARTS.splitlines(True), file
    names = {"torch": ftorch, "nn": ftorch.nn, "__name__": "prepared"}
    exec(compile(PARTS, file, "exec"), names)
    scripted = ftorch.jit.script(ftorch.nn.Sequential(*(names["Prepared"](n) for n in range(1, 8))))
    assert scripted(ftorch.zeros(1)).item() == 110 * sum(range(1, 8))


def test_modules_say_what_is_scripted_in_their_place():
    found = []
    for library in LIBRARIES:
        file = f"<prepared {library.__name__}>"
        linecache.cache[file] = len(PREPARED), None, PREPARED.splitlines(True), file
        names = {"torch": library, "nn": library.nn, "__name__": "prepared", "calls": []}
        exec(compile(PREPARED, file, "exec"), names)
        module = names["Outer"]()
        scripted = library.jit.script(module)
        parts = [type(m).__name__ for m in (module.a, module.b, *module.layers)]
        found.append((scripted(library.ones(2)).tolist(), names["calls"], parts, module.a is module.b))
    assert found[0] == found[1]
