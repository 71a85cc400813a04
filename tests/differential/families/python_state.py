"""Compiled functions and Python state: values of many types in holders of many kinds, which change between calls or in them."""

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


# --- functions that change state themselves

_MADE = """import collections, contextlib, dataclasses, functools, itertools, types
class Made:
    def by(f): Made.g = staticmethod(torch.compile(f) if torch.__name__ == "ftorch" else f)
class Obj:
    c = 0
    def __init__(self, **k): self.__dict__.update(k)
    def bump(self): self.n += 1; return self.n
    @property
    def p(self): return self._p
    @p.setter
    def p(self, v): self._p = v
    def __call__(self, x): self.n += 1; return x * self.n
class Slot: __slots__ = ("n", "t")
@dataclasses.dataclass
class D:
    n: int = 0
    t: object = None
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0; self.cache = None; self.hist = []; self.register_buffer("b", torch.zeros(2)); self.register_buffer("none", None)
    def forward(self, x): self.n += 1; self.b = self.b * 0.5 + x.detach(); return x * self.n + self.b
    def cached(self, x):
        if self.cache is None: self.cache = x.detach() * 2
        return x + self.cache
    def grow(self, x): self.hist.append(x.detach().sum()); return x * len(self.hist) + sum(self.hist)
class Ctx:
    depth = 0
    def __enter__(self): Ctx.depth += 1; return self
    def __exit__(self, *a): Ctx.depth -= 1
def count(fn):
    @functools.wraps(fn)
    def w(*a): w.calls += 1; return fn(*a)
    w.calls = 0
    return w
@count
def helper(x): return x + 1
def gen():
    n = 0
    while True: n += 1; yield n
def mk():
    n = 0; ts = torch.zeros(2)
    def inner(x):
        nonlocal n, ts
        n += 1; ts = ts + x.detach()
        return x * n + ts
    return inner
o = Obj(n=0, t=torch.zeros(2), l=[], d={}, s=set(), q=collections.deque(maxlen=2), _p=1, k=None)
sl = Slot(); sl.n = 0; sl.t = torch.ones(2); dc = D(); net = Net(); gl = []; gd = {}; gt = torch.zeros(2); it = gen()
cnt = itertools.count(); ns = types.SimpleNamespace(n=0); dd = collections.defaultdict(list); ct = collections.Counter()
od = collections.OrderedDict(); arr = np.zeros(2); ba = bytearray(2); lst = [torch.zeros(2), torch.ones(2)]
cm = collections.ChainMap({}, {"a": 1}); clo = mk(); opt_p = nn.Parameter(torch.ones(2))
opt = torch.optim.SGD([opt_p], lr=0.1, momentum=0.9); sch = torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)
"""
_STATEMENTS = [
    'o.n += 1; y = y * o.n', 'o.t = o.t + x.detach(); y = y + o.t', 'o.t += x.detach(); y = y + o.t',
    'o.l.append(1); y = y * len(o.l)', 'o.l.append(x.detach()); y = y + o.l[-1] + len(o.l)',
    'o.d[len(o.d)] = 1; y = y * len(o.d)', "o.d['t'] = x.detach() * 2; y = y + o.d['t']",
    "y = y + o.d.get('u', 0); o.d['u'] = y.detach()", 'o.s.add(len(o.s)); y = y * len(o.s)',
    'o.q.append(x.detach()); y = y + sum(o.q)', 'o.p = o.p + 1; y = y * o.p', 'y = y * o.bump()', 'y = o(y)',
    'Obj.c += 1; y = y * Obj.c', 'sl.n += 1; y = y + sl.n', 'sl.t = sl.t * 2; y = y + sl.t',
    'dc.n += 1; y = y * dc.n', 'dc.t = x.detach() if dc.t is None else dc.t + x.detach(); y = y + dc.t', 'y = net(y)',
    'y = net.cached(y)', 'y = net.grow(y)', 'net.none = x.detach() * 3; y = y + net.none',
    'net.b.add_(1); y = y + net.b', 'net.train(not net.training); y = y * (2 if net.training else 3)',
    "net.extra = getattr(net, 'extra', 0) + 1; y = y + net.extra", 'with Ctx(): y = y * Ctx.depth',
    'y = helper(y) * helper.calls', 'y = y * next(it)', 'y = y * (next(cnt) + 1)', 'ns.n += 1; y = y + ns.n',
    "dd['a'].append(1); y = y * len(dd['a'])", "ct['a'] += 1; y = y * ct['a']",
    "od['x'] = od.pop('x', 0) + 1; y = y + od['x']", 'arr[0] += 1; y = y * float(arr[0])',
    'ba[0] += 1; y = y + ba[0]', 'lst[0], lst[1] = lst[1], lst[0]; y = y + lst[0] * 2',
    'lst[0] = lst[0] + 1; y = y + lst[0]', "cm['n'] = cm.get('n', 0) + 1; y = y * cm['n']", 'y = clo(y)',
    'gl.append(x.sum().item()); y = y + len(gl)', "gd.setdefault('k', x.detach().clone()); y = y + gd['k']",
    "gd['m'] = gd.get('m', x.detach()) * 2; y = y + gd['m']", 'gt.mul_(0.5).add_(x.detach()); y = y + gt',
    'gt.copy_(x.detach()); y = y * gt',
    'opt_p.grad = None; (opt_p * x).sum().backward(); opt.step(); y = y * opt_p.detach()',
    "opt.zero_grad(); ((opt_p * x) ** 2).sum().backward(); opt.step(); sch.step(); y = y + opt.param_groups[0]['lr']",
    "opt.param_groups[0]['lr'] *= 0.5; y = y * opt.param_groups[0]['lr']",
    'try:\n        o.n += 1\n        raise ValueError\n    except ValueError:\n        y = y + o.n',
    'for i in range(o.n % 3): y = y + i', 'y = y * (2 if len(gl) % 2 else 3)', 'del o.l[:]; y = y + len(o.l)',
    'o.k = (o.k or 0) + 1 if o.k is None or o.k < 3 else None; y = y * (o.k or 5)',
    "setattr(o, 'z%d' % (o.n % 2), x.detach()); y = y + getattr(o, 'z%d' % (o.n % 2))",
    'y.retain_grad() if y.requires_grad else None; y = y * 1', "gd.pop('m', None); y = y + len(gd)",
    'y = y + x.new_full((2,), float(len(gl)))', 'o.t = x.detach(); o.t.add_(1); y = y + x',
    'o.m = o.t; o.m.mul_(2); y = y + o.t', 'lst.append(torch.ones(2)); y = y + len(lst); lst.pop()',
    'lst.reverse(); y = y + lst[0]', 'gd.clear(); y = y * (len(gd) + 1)', "o.__dict__['n'] += 2; y = y + o.n",
    "vars(o)['n'] = 7; y = y + o.n",
]
_SHOWN = """o.n, o.t, o.l, o.d, sorted(o.s), list(o.q), o._p, o.k, sorted(vars(o)), Obj.c
sl.n, sl.t, dc.n, dc.t, ns.n, dict(dd), dict(ct), dict(od), arr.tolist(), bytes(ba), lst, dict(cm)
net.n, net.cache, net.hist, net.b, net.none, net.training
gl, gd, gt, opt_p, opt.param_groups[0]["lr"], helper.calls, Ctx.depth, sch.last_epoch
"""


def changed_state(random):
    """The text of a program whose function changes Python state; PyTorch runs it as it is."""
    statements = random.sample(_STATEMENTS, k=random.choice([1, 1, 2, 2, 3]))
    requires_grad = random.random() < 0.4
    lines = [_MADE, "def f(x):", "    y = x * 1", *[f"    {s}" for s in statements], "    return y", "Made.by(f)"]
    for k in range(6):
        lines += [f"x = torch.tensor([{1 + k * 0.5}, {2 - k * 0.25}], requires_grad={requires_grad})", "Made.y = Made.g(x)", "Made.y.detach()"]
        lines += ["Made.y.sum().backward(); x.grad"] if requires_grad else []
    return "\n".join([*lines, _SHOWN])
