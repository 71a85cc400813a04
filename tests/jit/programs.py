"""Functions and modules that the tests compile, in PyTorch and (with other imports) in ftorch."""

import math
from enum import Enum
from typing import Dict, Final, List, NamedTuple, Optional, Tuple, Union  # noqa: UP035

import torch
import torch.nn.functional as F
from torch import nn

# ruff: noqa: UP006, UP007, UP031, UP032, UP035, UP045


class Block(nn.Module):
    def __init__(self, i, o, stride=1):
        super().__init__()
        self.c1 = nn.Conv2d(i, o, 3, stride, 1, bias=False)
        self.b1 = nn.BatchNorm2d(o)
        self.c2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.b2 = nn.BatchNorm2d(o)
        self.relu = nn.ReLU(inplace=True)
        self.down = (
            nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))
            if stride != 1 or i != o
            else None
        )

    def forward(self, x):
        y = x
        out = self.relu(self.b1(self.c1(x)))
        out = self.b2(self.c2(out))
        if self.down is not None:
            y = self.down(x)
        out += y
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 4, 7, 2, 3, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )
        self.layers = nn.Sequential(Block(4, 4), Block(4, 8, 2))
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(8, 10)

    def forward(self, x):
        x = self.layers(self.stem(x))
        return self.fc(self.drop(torch.flatten(self.pool(x), 1)))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 8)
        self.lstm = nn.LSTM(8, 12, batch_first=True, bidirectional=True)
        self.cell = nn.LSTMCell(24, 5)
        self.out = nn.Linear(5, 20)

    def forward(
        self, x: torch.Tensor, n: int, state: Optional[Tuple[torch.Tensor, torch.Tensor]] = None
    ):
        y, (h, c) = self.lstm(self.emb(x))
        outs: List[torch.Tensor] = []
        st = state
        for i in range(n):
            if i >= y.size(1):
                break
            if st is None:
                st = self.cell(y[:, i])
            else:
                st = self.cell(y[:, i], st)
            if float(st[0].sum()) > 1e6:
                continue
            outs.append(self.out(st[0]))
        r = torch.stack(outs, 1)
        while r.size(1) < n:
            r = torch.cat([r, r[:, -1:]], 1)
        return r, h


class Point(NamedTuple):
    a: torch.Tensor
    b: int


class Acc:
    def __init__(self, n: int):
        self.n = n
        self.items: List[int] = []

    def add(self, k: int) -> "Acc":
        self.items.append(k)
        self.n += k
        return self


class Misc(nn.Module):
    K: Final[int]

    def __init__(self):
        super().__init__()
        self.K = 3
        self.names = ["a", "b"]
        self.d = {"x": 1.5}
        self.ml = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.md = nn.ModuleDict({"p": nn.Linear(4, 4), "q": nn.Tanh()})
        self.register_buffer("cnt", torch.zeros((), dtype=torch.long))
        self.pl = nn.Parameter(torch.ones(4))
        self.f = helper

    def forward(self, x, flag: bool = True) -> Dict[str, torch.Tensor]:
        out: Dict[str, torch.Tensor] = {}
        for i, layer in enumerate(self.ml):
            x = layer(x)
            out[f"l{i}"] = x
        for k, m in self.md.items():
            out[k] = m(x)
        self.cnt += 1
        a = Acc(2).add(3).add(4)
        p = Point(x, a.n)
        for name in self.names:
            if name == "a" and flag:
                out[name] = p.a * p.b * self.d["x"]
            elif name in out:
                pass
            else:
                out[name] = torch.zeros([2, 2], dtype=torch.float64) + self.K
        out["h"] = self.f(x, None)
        with torch.no_grad():
            out["ng"] = x.exp()
        assert x.dim() == 2, f"bad {x.dim()}"
        z = [v * 2 for v in a.items]
        out["z"] = torch.tensor(z) + sum([1, 2])
        x[0, 1:3] = 0
        out["m"] = x[..., None, ::2]
        out["u"], out["v"] = x.max(1)
        return out

    @torch.jit.export
    def other(self, q: List[str]) -> str:
        r = ""
        for t in q:
            r += t.upper() + "-%s" % t
        if len(r) > 100:
            raise ValueError("too long {}".format(len(r)))
        return r


def helper(x, y: Optional[torch.Tensor] = None):
    if y is not None:
        return x + y
    return torch.relu(x)


class Trans(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        self.mha = nn.MultiheadAttention(16, 2)

    def forward(self, x, mask: Optional[torch.Tensor] = None):
        y = self.enc(x, mask)
        z, w = self.mha(y, y, y)
        return z, w


class Color(Enum):
    RED = 1
    BLUE = 2


class PT(NamedTuple):
    a: torch.Tensor
    b: int = 3


def early(x, n: int):
    if n > 2:
        return x * n
    for i in range(10):
        if i == n:
            break
        if i % 2 == 0:
            continue
        x = x + i
    while n < 5:
        n += 1
        if n == 4:
            return x - n
    return x


def lists(n: int) -> Tuple[List[int], List[str], int, float]:
    a = [i * i for i in range(n)]
    a.append(7)
    a.extend([1, 2])
    a.insert(0, 9)
    b = a.pop()
    a.reverse()
    a.sort()
    del a[0]
    s = ["x{}".format(i) for i in a] + ["%d-%s" % (1, "q")]
    t = " ".join(s).upper().split(" ")
    return (
        a[1:],
        t,
        b + len(a) + max(a) + min(2, 3) + sum(a) + a.index(7) + a.count(1),
        float(n) / 2 + n // 2 + n % 3 + 2**n + abs(-3) + round(2.6) + math.sqrt(4.0) + math.pi,
    )


def dicts(k: str) -> Tuple[Dict[str, int], List[str], bool, int]:
    d = {"a": 1, "b": 2}
    d[k] = 5
    if "a" in d and k not in ["z"]:
        d.pop("a")
    e: Dict[int, List[int]] = {}
    e[1] = [1]
    e[1].append(2)
    for key, v in d.items():
        e[v] = [v]
    return d, list(d.keys()), 1 in e, d.get(k, 3) if k == "c" else len(e)


def opt(x: Optional[torch.Tensor], y: Optional[int] = None) -> torch.Tensor:
    if x is None:
        x = torch.ones(2)
    z = 1 if y is None else y
    assert x is not None
    return x * z


def nt(x, c: int) -> Tuple[torch.Tensor, int, str]:
    p = PT(x, c)
    q = PT(a=x, b=c + 1)
    col = Color.RED if c > 1 else Color.BLUE
    return p.a + q.b, q[1], col.name


def tens(x):
    y = x.clone()
    y[0] = 1.0
    y[:, 1:] += 2
    y[y > 2] = 0
    z = torch.zeros(x.shape[0], 2, dtype=torch.float64, device=x.device).to(x.dtype)
    w = x.view(x.size(0), -1).sum(dim=1, keepdim=True).squeeze(-1) if x.dim() > 1 else x
    a, b = x.max(1)
    m, i = torch.topk(x, k=2, dim=1, largest=False)
    return (
        y,
        z,
        w,
        a,
        b,
        m,
        i,
        x @ x.t(),
        -x,
        ~(x > 0),
        x**2,
        1 - x,
        x[..., None].shape,
        x.T,
        torch.cat((x, y), dim=0),
        F.relu(x).mean(),
        math.e * x,
        F.softmax(x, dim=-1),
        torch.where(x > 0, x, y),
        int(x.numel()),
        float(x.sum()) > 0,
        x.new_zeros(3),
        F.pad(x, (1, 1)),
        F.interpolate(x[None, None], scale_factor=2.0, mode="nearest"),
    )


def inner(x, k: float = 2.0):
    return x * k


def calls(x):
    r = inner(x, k=3.0) + inner(x)
    fut = torch.jit.fork(inner, x, 4.0)
    if torch.jit.is_scripting():
        r = r + torch.jit.wait(fut)
    with torch.no_grad():
        r = r + 1
    v = torch.jit.annotate(List[torch.Tensor], [])
    for i in range(3):
        v.append(r * i)
    return torch.stack(v), isinstance(x, torch.Tensor), f"a{x.size(0)}b"


def comment(x, y):
    # type: (Tensor, List[int]) -> Tuple[Tensor, int]
    """doc"""
    tot = 0
    for v, w in zip(y, y[::-1]):
        tot += v * w
    for i, v in enumerate(y):
        tot -= i * v
    return x + tot, tot if 0 < tot < 100 else -tot


def union(x: Union[int, str], items: List[Optional[int]]) -> str:
    if isinstance(x, int):
        return str(x + 1)
    n = 0
    for v in items:
        if v is not None:
            n += v
    return x + str(n) + str(True and n > 1 or False)


class Counter:
    def __init__(self, n: int, name: str = "c"):
        self.n = n
        self.items: List[int] = []
        self.name = name

    def add(self, k: int):
        self.items.append(k)
        self.n += k
        return self

    def __len__(self) -> int:
        return len(self.items)


def cls(k: int) -> Tuple[int, List[int], int, str]:
    c = Counter(k)
    c.add(1).add(2)
    c.n = c.n * 2
    return c.n, c.items, len(c), c.name


class M1(nn.Module):
    __constants__ = ["k"]
    scale: float

    def __init__(self):
        super().__init__()
        self.k = 3
        self.scale = 2.0
        self.sizes = [1, 2]
        self.tab = {"a": torch.ones(2)}
        self.act = F.gelu
        self.lin = nn.Linear(4, 4)
        self.none = None
        self.mods = nn.ModuleDict({"x": nn.Linear(4, 4), "y": nn.ReLU()})
        self.seq = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.pl = nn.ParameterList([nn.Parameter(torch.full((4,), float(i))) for i in range(2)])
        self.count = 0
        self.training_only = True
        self.c = Color.BLUE
        self.st: Optional[torch.Tensor] = None
        self.dt = torch.float64

    @property
    def double_scale(self):
        return self.scale * 2

    def helper(self, x, n: int = 1):
        return self.lin(x) * n

    @torch.jit.ignore
    def py(self, x):
        # type: (Tensor) -> Tensor
        return x + len("abc")

    @torch.jit.unused
    def unused(self, x):
        return {1, 2}

    @torch.jit.export
    def extra(self, x, y: int):
        return self.helper(x, y) + self.count

    def forward(self, x):
        x = self.act(self.helper(x, n=self.k)) * self.scale * self.double_scale
        for name, m in self.mods.items():
            x = m(x)
            if name == "x":
                x = x + 1
        for p in self.pl:
            x = x + p
        x = self.seq(x) + self.seq[0](x) + self.mods["x"].weight[0]
        x = x + len(self.sizes) + self.sizes[1] + len(self.mods)
        if self.none is not None:
            x = self.none(x)
        if self.training:
            x = x * 0
        self.count += 1
        if hasattr(self, "foo"):
            x = self.foo(x)
        st = self.st
        if st is not None:
            x = x + st
        if self.c == Color.RED:
            x = x - 100
        out = [layer(x) for layer in self.mods.values()]
        return out[0] + self.pl[1] + self.tab["a"].sum(), x.to(self.dt)


class M2(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = M1()
        self.lns = nn.ModuleList([nn.LayerNorm(4) for _ in range(2)])
        self.conv = nn.Conv1d(1, 2, 3, padding=1)
        self.bn = nn.BatchNorm1d(2)

    def forward(self, x, ys: List[torch.Tensor]) -> Dict[str, torch.Tensor]:
        o = self.m(x)
        res = {"o": o[0]}
        for i, ln in enumerate(self.lns):
            res["ln" + str(i)] = ln(x)
        z, i = x, 0
        while bool(z.sum() < 10) and i < 5:
            z = z + 1
            i += 1
        res["z"] = z
        res["conv"] = self.bn(self.conv(x.unsqueeze(1)))
        for y in ys:
            res["s"] = y if "s" not in res else res["s"] + y
        return res


class Plan:
    def __init__(self, sizes: List[int], extra: int):
        self.sizes: List[int] = sizes
        self.extra: int = extra

    def total(self) -> int:
        return len(self.sizes) + self.extra


class Planned(nn.Module):
    """Attributes that are objects of classes; indices as they stand in the code of graphs."""

    def __init__(self):
        super().__init__()
        self.plan = Plan([1], 2)
        self.plans = {1: Plan([1], 0), 2: Plan([1, 2], 3)}

    def forward(self, x):
        rows = x[slice(None, 2, None)] + x[(Ellipsis, slice(1, None))].sum() + x[slice(1)]
        return rows * self.plan.extra + self.plans[x.dim()].total()


class Scaled(nn.Module):
    def __init__(self, factor: float):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


class Parts(nn.Module):
    """Submodules that were compiled before, of the same class and one inside another."""

    def __init__(self):
        super().__init__()
        self.one = torch.jit.script(Scaled(2.0))
        self.two = torch.jit.script(nn.Sequential(Scaled(3.0), nn.Linear(4, 4)))
        self.three = Scaled(5.0)

    def forward(self, x):
        lengths = x.shape[:-1] + (2, 2)
        same = torch.broadcast_tensors(x, x[0])
        return (self.one(x) + self.two(x) + self.three(x) + same[1]).reshape(lengths)


class Recurrent(nn.Module):
    """A result within a result."""

    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(3, 2)

    def forward(self, x):
        return self.layer(x)


class Containers(nn.Module):
    def forward(self, x):
        return {"next": x + 1, "twice": x * 2}, [x, x + 3]


class Lists(nn.Module):
    def forward(self, x: torch.Tensor) -> Dict[str, List[torch.Tensor]]:
        return {"first": [x + 1, x], "second": [x * 2]}


class Steps(nn.Module):
    """Its results are those of a traced cell, some steps later."""

    def __init__(self):
        super().__init__()
        self.cell = torch.jit.trace(_step, (torch.ones(1, 3), torch.ones(1, 3)))

    def forward(self, x):
        h, y = torch.zeros(1, 3), torch.zeros(1, 3)
        for i in range(x.size(0)):
            y, h = self.cell(x[i], h)
        return y, h


def _step(x, h):
    return x + h, x * h - 1


class Layers(nn.Module):
    """Results of layers, the types of which nothing declares."""

    def __init__(self):
        super().__init__()
        self.first, self.more = nn.Linear(3, 2), nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def forward(self, x):
        return self.first(x), (self.more(x), x)


class Flat(nn.Module):
    """A trace through a compiled module whatever it gives."""

    def __init__(self, inner):
        super().__init__()
        self.inner = torch.jit.script(inner)

    def forward(self, x):
        parts, waiting = [], [self.inner(x)]
        while waiting:
            item = waiting.pop(0)
            if isinstance(item, torch.Tensor):
                parts.append(item.sum() * (len(parts) + 1))
            else:
                waiting.extend(item.values() if isinstance(item, dict) else item)
        return torch.stack(parts)


def nothing(x: torch.Tensor) -> None:
    pass


def truth(x: torch.Tensor) -> bool:
    return bool(x.sum() > 0)


def numbers(x: torch.Tensor) -> List[int]:
    return [1, x.size(0)]


def place(x: torch.Tensor) -> torch.device:
    return x.device
