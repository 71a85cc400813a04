"""Compiled functions that read Python state which changes between calls: values of many types, in holders of many kinds."""

from __future__ import annotations

# A type's values, as text.
VALUES = {
    "int": ["3", "5", "-2"],
    "float": ["0.5", "1.5", "2.0"],
    "zero": ["0.0", "-0.0"],
    "equal": ["1", "1.0", "True"],
    "bool": ["True", "False"],
    "str": ["'ab'", "'abc'", "'b'"],
    "None": ["None", "2"],
    "tuple": ["(1, 2)", "(1, 2, 3)", "(2, 1)"],
    "list": ["[1, 2]", "[1, 2, 3]", "[2, 1]"],
    "deque": ["deque([1, 2])", "deque([3])", "deque([1, 2, 4])"],
    "range": ["range(3)", "range(4)", "range(1)"],
    "set": ["{1, 2}", "{1, 2, 3}", "{4}"],
    "frozenset": ["frozenset([1])", "frozenset([1, 2])"],
    "dict": ["{'a': 1}", "{'a': 2}", "{'b': 1, 'a': 1}"],
    "nested": ["[[1], [2, 3]]", "[[1], [2, 4]]", "[[5], [2, 3]]"],
    "enum": ["Kind.A", "Kind.B"],
    "dtype": ["torch.float32", "torch.float64"],
    "size": ["torch.Size([1, 2])", "torch.Size([2])"],
    "array": ["np.array([1.0, 2.0])", "np.array([3.0, 4.0])"],
    "object": ["Object(1)", "Object(2)", "Object(3)"],
    "function": ["lambda y: y + 1", "lambda y: y * 2"],
    "class": ["int", "float"],
}
# How a function reads a value, and of which types it can be.
READS = {
    "x * V": "int float zero equal",
    "x + 1 if V else x - 1": "int bool str None zero equal tuple list deque range set frozenset dict nested",
    "x * 2 if V is None else x": "None",
    "x * len(V)": "str tuple list deque range set frozenset dict nested size",
    "x * sum(V)": "tuple list deque range set frozenset size",
    "x + sum(i * (n + 1) for n, i in enumerate(V))": "tuple list deque range size",
    "x * 2 if 1 in V else x": "tuple list deque range set frozenset size",
    "x * V[0]": "tuple list deque size",
    "x * V.get('a', 7)": "dict",
    "x + sum(v * (i + 1) for i, v in enumerate(V.values()))": "dict",
    "(lambda a=0, b=0: x * a + b)(**V)": "dict",
    "x * V[1][-1] + V[0][0]": "nested",
    "x * len(f'{V}')": "int float equal str None tuple list dtype size",
    "x * 2 if type(V) is int else x * 3 if type(V) is float else x * 4": "int float equal None bool",
    "x * 2 if V is Kind.A else x * V.value": "enum",
    "(x * 1.5).to(V)": "dtype",
    "x * float(V[1]) + float(V.sum())": "array",
    "torch.tensor(V).float() * x.sum()": "int float equal tuple list nested",
    "x * V.value": "object enum",
    "x * getattr(V, 'value', 5)": "object int",
    "x * sum(vars(V).values())": "object",
    "V(x)": "function",
    "x * V(2.7)": "class",
    "x * sorted(V)[0] + max(V)": "tuple list set frozenset",
    "x.sum() * torch.stack([x * i for i in [*V]]).sum(0)": "tuple list range deque",
}
_START = """import contextlib, enum, functools
from collections import deque
class Made:
    def by(f): Made.g = staticmethod(torch.compile(f) if torch.__name__ == "ftorch" else f)
class Kind(enum.Enum): A = 1; B = 2
class Object:
    def __init__(self, value=None): self.value = value
"""
# A kind of holder: what makes it, what reads it in a function, what puts a value there.
HOLDERS = {
    "global": ("", "V = held", "held = {}"),
    "item": ("h = {'k': [None]}", "V = h['k'][0]", "h['k'][0] = {}"),
    "replaced item": ("h = {}", "V = h['k']", "h['k'] = {}"),
    "attribute": ("h = Object(Object())", "V = h.value.value", "h.value.value = {}"),
    "attribute of another": ("h = Object()", "V = h.value.value", "h.value = Object({})"),
    "default": ("", "", "f.__defaults__ = ({},)"),
    "keyword default": ("", "", "f.__kwdefaults__ = {{'V': {}}}"),
    "module": ("h = nn.Module()", "V = h.option", "h.option = {}"),
    "layer": ("h = nn.Sequential(nn.ReLU(), nn.Linear(2, 2))", "V = h[1].option", "h[1].option = {}"),
    "module list": ("h = nn.ModuleList([nn.ReLU()])", "V = [m for m in h][0].option", "h[0].option = {}"),
    "tensor": ("h = torch.ones(2)", "V = h.option", "h.option = {}"),
    "property": ("o = Object()\nclass P:\n    @property\n    def v(self): return o.value\nh = P()", "V = h.v", "o.value = {}"),
    "getattr": ("o = {}\nclass P:\n    def __getattr__(self, name): return o[name]\nh = P()", "V = h.v", "o['v'] = {}"),
    "getitem": ("o = {}\nclass P:\n    def __getitem__(self, name): return o[name]\nh = P()", "V = h['v']", "o['v'] = {}"),
    "descriptor": ("o = {}\nclass D:\n    def __get__(self, i, t=None): return o['v']\nclass P: v = D()\nh = P()", "V = h.v",
                   "o['v'] = {}"),
    "super": ("class B: v = None\nclass P(B):\n    def get(self): return super().v\nh = P()", "V = h.get()",
              "B.v = staticmethod(v) if callable(v := {}) else v"),
    "class method": ("class P:\n    v = None\n    @classmethod\n    def get(cls): return cls.v", "V = P.get()",
                     "P.v = staticmethod(v) if callable(v := {}) else v"),
    "metaclass": ("class M(type):\n    @property\n    def v(cls): return cls.w[0]\nclass P(metaclass=M): w = [None]", "V = P.v",
                  "P.w[0] = {}"),
    "given back": ("o = Object()\ndef get(): return o", "V = get().value", "o.value = {}"),
    "given back in a list": ("o = Object()\ndef get(): return [1, (o, 2)]", "V = get()[1][0].value", "o.value = {}"),
    "given back in an object": ("o = Object()\ndef get(): return Object(o)", "V = get().value.value", "o.value = {}"),
    "given back in an iterator": ("o = Object()\nclass P:\n    def __iter__(self): return iter([o])\nh = P()",
                                  "(w,) = h; V = w.value", "o.value = {}"),
    "generator": ("o = Object()\ndef get():\n    yield 1\n    yield o", "V = [*get()][1].value", "o.value = {}"),
    "context": ("o = Object()\n@contextlib.contextmanager\ndef c(): yield o", "with c() as w: V = w.value", "o.value = {}"),
    "argument of a function": ("o = Object(Object())\ndef read(a): return a.value", "V = read(o.value)", "o.value.value = {}"),
    "reduced": ("o = {'a': {'b': Object()}}", "V = functools.reduce(lambda d, k: d[k], ['a', 'b'], o).value",
                "o['a']['b'].value = {}"),
    "inner function": ("o = Object()", "def inner(z=o): return z.value\n    V = inner()", "o.value = {}"),
    "function's attribute": ("def get(): return 1", "V = get.v", "get.v = {}"),
    "perhaps": ("h = Object(); del h.value; h.other = 5", "V = h.v if hasattr(h, 'v') else h.other", "h.v = {}"),
    "class of another": ("h = Object(); del h.value", "V = h.v",
                         "h.__class__ = type('Q', (), {{'v': staticmethod(v) if callable(v := {}) else v}})"),
}
_CHANGED_IN_PLACE = {
    "list": "held[:] = {}", "deque": "held.clear(); held.extend({})", "set": "held.clear(); held.update({})",
    "dict": "held.clear(); held.update({})", "array": "held[:] = {}", "object": "held.value = {}.value",
}


def python_state(random):
    """The text of a program; PyTorch runs its function as it is."""
    read = random.choice([*READS])
    kind = random.choice(READS[read].split())
    made, get, put = HOLDERS[holder := random.choice([*HOLDERS])]
    values = random.sample(VALUES[kind], k=len(VALUES[kind]))
    signature = {"default": "x, V=None", "keyword default": "x, *, V=None"}.get(holder, "x")
    lines = [_START, made, f"def f({signature}):", f"    {get or 'pass'}", f"    return {read}"]
    calls = ["x = torch.tensor([1.0, 2.0])", "Made.g(x)", "Made.g(x)"]
    if kind in _CHANGED_IN_PLACE and random.random() < 0.4:
        lines += [f"held = {values[0]}", put.format("held"), "Made.by(f)", *calls]
        for value in values[1:]:
            lines += [_CHANGED_IN_PLACE[kind].format(value), *calls]
    else:
        lines += [put.format(f"({values[0]})"), "Made.by(f)", *calls]
        for value in (*values[1:], values[0]):
            lines += [put.format(f"({value})"), *calls]
    return "\n".join(line for line in lines if line) + "\n"
