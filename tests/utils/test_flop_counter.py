"""`FlopCounterMode` against PyTorch's counts."""

import pytest
import torch as reference
import torch.utils.flop_counter

import ftorch as torch

PACKAGES = (torch, reference)


def counter(package, **options):
    return package.utils.flop_counter.FlopCounterMode(**{"display": False, **options})


def conv(package, name, x, w, **options):
    weight = package.ones(w, requires_grad=True)
    return getattr(package.nn.functional, name)(package.ones(x), weight, **options)


def attention(package, **options):
    q = package.ones(1, 2, 4, 8, requires_grad=True)
    return package.nn.functional.scaled_dot_product_attention(q, q, q, **options)


CASES = {
    "mm": lambda p: p.ones(2, 3, requires_grad=True) @ p.ones(3, 4, requires_grad=True),
    "one gradient": lambda p: p.ones(2, 3, requires_grad=True) @ p.ones(3, 4),
    "left gradient": lambda p: p.ones(3, 3) @ p.ones(3, 4, requires_grad=True),
    "square": lambda p: p.ones(2, 4) @ p.ones(4, 4, requires_grad=True),
    "vector": lambda p: p.ones(2, 4) @ p.ones(4, requires_grad=True),
    "bmm": lambda p: p.bmm(p.ones(5, 2, 3, requires_grad=True), p.ones(5, 3, 4)),
    "batched": lambda p: p.ones(6, 5, 2, 3, requires_grad=True) @ p.ones(6, 5, 3, 4),
    "addmm": lambda p: p.addmm(p.ones(4), p.ones(2, 3, requires_grad=True),
                               p.ones(3, 4, requires_grad=True)),
    "baddbmm": lambda p: p.baddbmm(p.ones(4), p.ones(2, 2, 3), p.ones(2, 3, 4)),
    "linear": lambda p: p.nn.Linear(3, 4)(p.ones(2, 5, 3, requires_grad=True)),
    "conv1d": lambda p: conv(p, "conv1d", (2, 3, 8), (4, 3, 3), stride=2),
    "conv2d": lambda p: conv(p, "conv2d", (2, 4, 8, 9), (6, 4, 3, 2), padding=1),
    "transposed": lambda p: conv(p, "conv_transpose2d", (2, 3, 5, 6), (3, 4, 3, 2), stride=2),
    "attention": lambda p: attention(p),
    "causal": lambda p: attention(p, is_causal=True),
    "masked": lambda p: attention(p, attn_mask=p.ones(4, 4, dtype=p.bool)),
    "mask of all weights": lambda p: attention(p, attn_mask=p.ones(1, 2, 4, 4, dtype=p.bool)),
    "mask's gradient": lambda p: attention(p, attn_mask=p.zeros(4, 4, requires_grad=True)),
    "of all weights": lambda p: attention(p, attn_mask=p.zeros(1, 2, 4, 4, requires_grad=True), dropout_p=0.5),
    "with dropout": lambda p: attention(p, dropout_p=0.5),
    "lstm": lambda p: p.nn.LSTM(4, 5)(p.ones(3, 1, 4, requires_grad=True))[0],
    "encoder": lambda p: p.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)(p.ones(3, 1, 8)),
    "nothing": lambda p: p.ones(3, requires_grad=True).exp(),
}


@pytest.mark.parametrize("case", CASES)
def test_totals(case):
    totals = []
    for package in PACKAGES:
        with counter(package) as counts:
            out = CASES[case](package)
        forward = counts.get_total_flops()
        with counter(package) as counts:
            if out.requires_grad:
                out.sum().backward()
        totals.append((forward, counts.get_total_flops()))
    assert totals[0] == totals[1]


def model(package):
    nn = package.nn
    return nn.Sequential(nn.Linear(40, 30), nn.ReLU(), nn.Sequential(nn.Linear(30, 2)))


def test_modules_and_custom_formulas(capsys):
    by_module, names = [], []
    for package in PACKAGES:
        with counter(package) as counts:
            model(package)(package.ones(5, 40, requires_grad=True)).sum().backward()
        by_module.append({m: sum(c.values()) for m, c in counts.get_flop_counts().items()})
        rows = map(str.split, counts.get_table().splitlines())
        names.append([row for row in rows if not row[0].startswith("-")])
    assert by_module[0] == by_module[1]
    assert names[0] == names[1]
    for package in PACKAGES:
        formula = {package.ops.aten.exp: lambda x, out_shape: 7000 * len(x)}
        with counter(package, display=True, custom_mapping=formula) as counts:
            package.ones(2, 3).exp()
        assert counts.get_total_flops() == 14000
    ours, theirs = capsys.readouterr().out.split("Module")[1:]
    # tabulate's columns may be narrower, and a name may be joined to its bullet
    words = [[w for w in table.split() if "---" not in w and w != "-"] for table in (ours, theirs)]
    assert words[0] == words[1]


def test_names_and_tables_are_pytorchs():
    def counted(package):
        net = package.nn.Sequential(
            package.nn.Conv2d(3, 8, 3, stride=2), package.nn.Conv2d(8, 8, 3, groups=4),
            package.nn.Flatten(), package.nn.Linear(200, 50), package.nn.Linear(50, 2000),
        )
        with package.utils.flop_counter.FlopCounterMode(display=False) as counter:
            out = net(package.ones(30, 3, 16, 16, requires_grad=True))
            out.sum().backward()
            x = package.ones(2, 3, 4)
            package.einsum("bij,bkj->bik", x, x)
        counts = {str(k): v for k, v in counter.get_flop_counts()["Global"].items()}
        with package.utils.flop_counter.FlopCounterMode(display=False) as small:
            package.ones(3, 4) @ package.ones(4, 5)
        return counts, sorted(counter.get_table().splitlines()), small.get_table()

    assert counted(torch) == counted(reference)
