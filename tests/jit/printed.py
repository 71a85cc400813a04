"""Programs whose ``.code`` and ``.graph`` are compared with PyTorch's."""

# ruff: noqa: E741, F841, UP006, UP035, UP045
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import nn


def sequence(x):
    y = x + 1
    z = y * 2
    return z


def control(x, n: int, flag: bool = True):
    s = x
    for i in range(n):
        if flag:
            s = s + i
        else:
            s = s - i
    while bool(s.sum() < 3):
        s = s * 2
    if s.size(0) > 3:
        return s, [1, 2]
    return s.relu(), [n]


def containers(x, y: Tuple[int, int], l: List[int], d: Dict[str, int]):
    p, q = y
    u, v = torch.max(x, 1)
    w = x.shape[0]
    e = x[0, 1:3, None]
    l[0] = 2
    l.append(len(l))
    d["a"] = 3
    z = [i + 1 for i in l]
    s = f"{w} and {p}"
    t = p if p > q else q
    x[0] = 1
    x += 1
    dt = x.to(torch.float64)
    k = torch.zeros(2, 3, device="cpu", dtype=torch.float32)
    print(s, t)
    return (u, v, w, e, z, s, t, dt, k, x.T, x.dtype, y[0], -w, -1, 2.5, 1e-10)


def exits(x, n: int):
    if n > 3 and n < 10 or n == 2:
        raise ValueError("bad")
    assert n > 0, "msg"
    for i in range(1, n, 2):
        if i == 5:
            break
        if i == 6:
            continue
        x = x + i
    for y in [1.0, 2.0]:
        x = x * y
    for i, y in enumerate(x):
        if i > 2:
            return y
    return x


def numbers(x, y):
    a = int(x)
    b = float(a) / 2 + a // 2 + a % 3 + a**2
    c = x / y
    d = x // 2
    e = x**2
    f = x @ y
    g = 1 - x
    h = x & y
    j = -x
    k = not a
    return str(a), b, c, d, e, f, g, h, ~x, j, k, bool(a), x[x > 0], x[..., 0], x[-1]


def optional(x: Optional[torch.Tensor], y: torch.Tensor, names: List[str]) -> torch.Tensor:
    e: List[int] = []
    g: Dict[str, List[int]] = {}
    if x is None:
        return y
    for name in names:
        if name == "a":
            return x
    return x + y


def left_early(x: int):
    if x == 1:
        r = "a"
    elif x == 2:
        r = "b"
    else:
        return "z"
    return r + "q"


def maybe(x, n: int, flag: bool):
    y = x if n > 1 else None
    if flag:
        z = y
    else:
        z = x + n
    return y, z


def asked(x: Any):
    return isinstance(x, int), isinstance(x, (float, str)), isinstance(x, List[int])


def truths(n: int, flag: bool):
    return n and flag, flag or n > 2, (n or flag) and not flag


FUNCTIONS = [sequence, control, containers, exits, numbers, optional, left_early, maybe, asked, truths]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.k = 3

    def forward(self, x: torch.Tensor, d: Optional[torch.Tensor] = None) -> torch.Tensor:
        r = self.fc(x)
        if d is not None:
            r = r + d
        return torch.relu(r) * self.k


def arithmetic(x, y):
    z = (x @ y).softmax(-1)[0]
    return z * z - 2.5


def shapes(x, y):
    z = torch.cat([x + 1, y.t()], 0)
    a, b = z.max(1)
    return a.sum(), b, z.view(-1, 3).mean(0, keepdim=True), z[0, 1:]


TRACED = [arithmetic, shapes]
