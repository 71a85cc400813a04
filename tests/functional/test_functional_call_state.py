"""What `torch.func.functional_call` may put into a module and takes out again."""

import pytest

from tests.oracle import assert_prints_same

_START = """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(1, 1)
        self.register_buffer("buffer", torch.ones(1))
        self.plain, self.num = torch.ones(1) * 2, 3
        self.register_parameter("none", None)
        with torch.no_grad():
            self.l1.weight.fill_(2.), self.l1.bias.fill_(1.)
    def forward(self, x):
        extra, none = getattr(self, "extra", None), self.none
        total = self.l1(x) * self.plain + self.buffer + (0 if extra is None else extra) + (0 if none is None else none)
        return total, len(list(self.parameters())), len(list(self.buffers())), sorted(
            k for k in self.__dict__ if k in ("extra", "plain", "num"))
x, w = torch.ones(1, 1), torch.full((1, 1), 5.)
"""


@pytest.mark.parametrize("strict", [False, True])
def test_what_is_given(strict):
    assert_prints_same(_START + f"""
for name, v in (
    ("l1.weight", w), ("l1.bias", None), ("plain", w[0]), ("extra", w[0]), ("extra", nn.Parameter(w[0])), ("num", w[0]),
    ("num", None), ("plain", None), ("extra", None), ("none", w[0]), ("none", nn.Parameter(w[0])), ("buffer", None),
    ("buffer", nn.Parameter(w[0])), ("l1.weight", 3), ("l2.x", w), ("l1.extra", w), ("l1", w), ("", w), ("l1.weight.x", w),
    ("forward", w),
):
    m = M()
    print(name)
    t(lambda: torch.func.functional_call(m, {{name: v}}, x, strict={strict}))
    t(lambda: (m(x), sorted(m.state_dict())))
m = M()
t(lambda: torch.func.functional_call(m, {{"plain": nn.Parameter(w[0])}}, x))
""")


def test_what_the_module_assigns():
    assert_prints_same("""
class E(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = torch.zeros(1)
        self.register_buffer("b", torch.zeros(1))
    def forward(self, x):
        self.p, self.b, self.q = self.p + x, self.b + 1, x
        return self.p
m, d = E(), {"p": torch.ones(1), "b": torch.ones(1), "q": torch.ones(1)}
print(torch.func.functional_call(m, d, torch.ones(1)), d, m.p, m.b, hasattr(m, "q"))
""")
