"""Functions with types that the compiler has to find, and functions that it has to refuse.

Each is named in ``ACCEPTED`` with arguments, or in ``REFUSED``.
"""

from typing import Dict, List, NamedTuple, Optional, Tuple, Union  # noqa: UP035

import torch
import torch.nn.functional as F

# ruff: noqa: UP006, UP007, UP031, UP032, UP035, UP045, SIM102, RET505, E701


def refined(x: Optional[int], y: int):
    if x is None:
        if y > 1:
            x = y
        else:
            x = 2
    return x + 1


def guarded(x: Optional[int]):
    if x is None or x > 1:
        return 0
    return x


def asserted(x: Optional[int]):
    assert x is not None
    return x + 1


def chosen(x: Union[int, str]):
    if isinstance(x, int):
        return x + 1
    return len(x)


def exhausted(x: Union[float, int, str], y: int) -> Tuple[int, int]:
    if isinstance(x, str):
        z = len(x)
    elif not isinstance(x, (float, (bool, list))):
        z = x + 1
    elif isinstance(x, float):
        z = int(x)
    else:  # no type is left: nothing of it is compiled
        raise ValueError(f"neither: {type(x)}")
    if not isinstance(y, (bool, (int, tuple))):
        raise ValueError(f"neither: {type(y)}")
    return z, y


def described(x: torch.Tensor):
    if x.dim() > 3:
        raise TypeError(f"of {type(x)}")
    return x + 1


def best(n: int):
    found: Optional[int] = None
    for i in range(n):
        if found is None:
            found = i
        elif i > found:
            found = i
    return found


def collected(n: int):
    x, y = torch.zeros(1), 0.0
    out: List[torch.Tensor] = []
    for i in range(n):
        x = x + i
        y += i
        z = x if i > 2 else x * 2
        out.append(z)
    return x, y, out


def indexed(x, idx: List[int]):
    y = x[idx]
    h = x.shape[-1] // 2
    w, i = x.max(dim=0)
    return y[..., 0], h, x[:h], [d // 2 for d in x.shape], x.view([h, -1]), int(x.sum()), w, i


def arithmetic(n: int, f: float):
    s = "a" + str(n)
    return n / 2, n // 2, n**2, n % 2, n * f, -f, [f] * n, min(n, 3), max(f, 2.0), s, (n, s)[1:], n > 1


def methods(x):
    moved = x.permute(1, 0), x.permute([1, 0]), x.expand(2, 2, 4), x.repeat(2, 1), x.flip(0, 1), x.roll(1, 0)
    return moved, x.float(), x.double(), x.int(), x.half(), x.reshape(4, 2), x.transpose(0, 1)


def functionals(x, i):
    bags = F.embedding_bag(i, x), F.embedding_bag(i.view(-1), x, torch.tensor([0, 1]), mode="sum")
    theta = torch.tensor([[[1.0, 0.0, 0.3], [0.0, 1.0, 0.0]]])
    grid = F.affine_grid(theta, [1, 1, 2, 2], align_corners=False)
    image = x.view(1, 1, 2, 4)
    sampled = F.grid_sample(image, grid, align_corners=False), F.grid_sample(image, grid, "nearest", "border", True)
    loss = F.mse_loss(x, x + 1), F.multilabel_soft_margin_loss(x, (x > 3).int())
    return bags, sampled, loss


def default(n: int, f: float = 1, t: Tuple[int, float] = (1, 2.0), s: str = "a"):
    return n if n > 1 else -n


def iterated(d: Dict[str, int]):
    n = 0
    for i, (key, value) in enumerate(d.items(), 10):
        n += value + i + len(key)
    return n, d.get("a"), d.get("a", 1), list(d.keys())


class Pair(NamedTuple):
    a: torch.Tensor
    b: int = 3


def paired(p: Pair):
    return Pair(p.a + 1, p.b), Pair(a=p.a)


@torch.jit.script
class Box:
    def __init__(self, x: int, y: int = 2):
        self.x = x
        self.y = y
        self.items: List[int] = []

    def add(self, v: int):
        self.items.append(v)
        self.x += v
        return self

    @property
    def area(self) -> int:
        return self.x * self.y

    @area.setter
    def area(self, v: int):
        self.x = v

    def __add__(self, other: "Box") -> "Box":
        return Box(self.x + other.x, self.y)


def boxes(x: int):
    box = Box(x)
    box.add(3)
    before = box.area
    box.area = 9
    return before, box.x, (box + Box(1, y=5)).x, box.items


def opened(box: Box):
    return box.add(2)


def keyword(x, *, y: int):
    return x + y


def sizes(x: torch.Tensor) -> List[Optional[int]]:
    if x.size(0) > 2:
        return [None, None]
    return [x.size(0), x.size(1)]


def no_numbers(x: torch.Tensor) -> List[int]:
    return []


def no_names(x: torch.Tensor) -> Optional[Dict[str, int]]:
    return {}


def named(x: torch.Tensor) -> Dict[str, Optional[int]]:
    return {"a": x.size(0)}


def counted(x: torch.Tensor) -> List[Optional[int]]:
    return [i for i in range(x.size(0))]


def either(x: torch.Tensor) -> List[Optional[int]]:
    return [1, None] if x.size(0) > 1 else [2, 3]


ACCEPTED = {
    **{name: [(torch.ones(2, 3),), (torch.ones(3, 1),)]  # returned literals have the declared type
       for name in ("sizes", "no_numbers", "no_names", "named", "counted", "either")},
    "refined": [(None, 3), (4, 1)], "guarded": [(None,), (1,)], "asserted": [(2,), (torch.tensor(3),)],
    "exhausted": [("abc", 1), (1, 2), (2.5, 3)], "described": [(torch.ones(2),)],
    "chosen": [(1,), ("ab",)], "best": [(0,), (3,)], "collected": [(4,)],
    "indexed": [(torch.arange(8.0).reshape(2, 4), [1, 0])], "arithmetic": [(3, 1.5), (True, 2)],
    "methods": [(torch.arange(8.0).reshape(2, 4),)],
    "functionals": [(torch.arange(8.0).reshape(2, 4), torch.tensor([[0, 1], [1, 1]]))],
    "default": [(3,), (-2,)], "iterated": [({"a": 1, "bc": 2},)],
    "paired": [(Pair(torch.ones(2), 4),), ((torch.ones(1), 2),)], "boxes": [(4,)],
}


def two_types(x: int):
    if x > 1: y = 1
    else: y = "a"
    return y


def one_branch(x: int):
    if x > 1: y = 1
    return y


def changed(x: int):
    y = 1
    if x > 1: y = 1.0
    return y


def gone(x: int):
    for i in range(x): z = i
    return z


def returns(x: int):
    if x > 1: return 1.0
    return x


def annotated(x: int) -> str:
    return x


def falls_through(x: int) -> int:
    if x > 3: return 1


def maybe(x: Optional[int]):
    return x + 1


def maybe_attribute(x: Optional[torch.Tensor]):
    return x.shape


def maybe_condition(x: Optional[int]):
    if x: return 1
    return 0


def unnamed(x):
    return x.nosuch()


def no_method(x: List[int]):
    return x.nosuch(1)


def item(t: Tuple[int, str]):
    return t[3]


def variable_item(t: Tuple[int, str], i: int):
    return t[i]


def unpacked(t: Tuple[int, int]):
    a, b, c = t
    return a


def appended(n: int):
    items = []
    items.append(n)
    return items


def added(x: str):
    return x + 1


def iterates(x: int):
    for i in x: pass
    return x


def subscripted(x: int):
    return x[0]


def called(x: int):
    return best("a")


def called_with(x: int):
    return best(1, 2)


def left_out(x: int):
    return refined(x)


def if_expression(x: int):
    return x if x > 1 else "a"


def declared(x: Optional[int]):
    y: int = x
    return y


def mutable(x: int, y: List[int] = [1]):  # noqa: B006
    return x


REFUSED = [
    "two_types", "one_branch", "changed", "gone", "returns", "annotated", "falls_through", "maybe",
    "maybe_attribute", "maybe_condition", "unnamed", "no_method", "item", "variable_item", "unpacked",
    "appended", "added", "iterates", "subscripted", "called", "called_with", "left_out",
    "if_expression", "declared", "mutable",
]


def signed(x, n: int):
    if n > 1:
        return x * 2
    if bool(x.sum() > 0):
        return x + 1  # PyTorch's traces confuse results that are arguments
    return -x


class Signed(torch.nn.Module):
    def forward(self, x):
        if bool(x.sum() > 0):
            return x, x + 1
        return -x, x


class Around(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.jit.script(Signed())

    def forward(self, x):
        a, b = self.inner(x)
        return a * 3 + b
