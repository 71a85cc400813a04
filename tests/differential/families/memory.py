"""Which memory is read and written: ``out=`` views, index expressions, strided views' gradients."""

from __future__ import annotations


def _view(r, name):
    """A random view of a (4, 6) tensor, as text."""
    return r.choice([
        f"{name}.narrow(1, {r.randint(0, 3)}, {r.randint(1, 3)})", f"{name}[:, {r.randint(0, 5)}]",
        f"{name}.t()[{r.randint(0, 5)}]", f"{name}[::2, ::{r.randint(1, 3)}]", f"{name}[{r.randint(0, 3)}]",
        f"{name}.t()", f"{name}[:{r.randint(1, 3)}]", f"{name}.view(-1)[{r.randint(0, 4)}::3]", name,
        f"{name}.unfold(1, 2, 2)[{r.randint(0, 3)}]", f"{name}[0:0]", f"{name}.diagonal()",
    ])


def out(r):
    """Creation functions and operators that write to a view."""
    dtype = r.choice(["float32", "float32", "float64", "int64", "int32", "bool"])
    n = r.randint(0, 8)
    calls = [
        f"torch.arange({n}, out=V)", f"torch.linspace(0, 1, {n}, out=V)",
        f"torch.logspace(0, 1, {n}, out=V)", f"torch.full(({n},), 3, out=V)",
        "torch.eye(2, out=V)", f"torch.zeros({n}, out=V)", f"torch.ones(2, {n}, out=V)",
        f"torch.range(0, {n}, out=V)", "torch.add(V.clone(), 2, out=V)",
        "torch.sum(torch.ones(4, 6), 0, out=V)", "torch.prod(torch.ones(4, 6) * 1.5, 1, out=V)",
        "torch.mul(torch.ones(4), 3, out=V)", "torch.cumsum(torch.ones(4, 3) * 1.5, 0, out=V)",
        "torch.sin(torch.ones(3), out=V)", "torch.cat([torch.ones(2), torch.zeros(2)], out=V)",
        "torch.all(torch.ones(4, 6), 1, out=V)", "torch.any(torch.zeros(4, 6), 0, out=V)",
        "torch.eq(torch.ones(4), 1, out=V)", "torch.clamp(torch.ones(4), 0, out=V)",
        "torch.mm(torch.ones(2, 2), torch.ones(2, 3), out=V)", "torch.amax(torch.eye(4), 0, out=V)",
        "torch.index_select(torch.arange(4.), 0, torch.tensor([0, 2, 1]), out=V)",
        "torch.gather(torch.arange(4.), 0, torch.tensor([0, 2, 1]), out=V)",
        "torch.stack([torch.ones(3)] * 2, out=V)", "torch.where(torch.ones(4) > 0, 1, 2.5)",
        "torch.tril(torch.ones(3, 3), out=V)", "torch.mean(torch.ones(4, 6), 1, out=V)",
        "torch.randperm(4, out=V).sort()[0]", "torch.logical_not(torch.ones(4), out=V)",
        "torch.argmax(torch.eye(4), 0, out=V)", "torch.nonzero(torch.eye(2), out=V)",
    ]
    lines = [f"x = torch.arange(24).view(4, 6).to(torch.{dtype})"]
    for _ in range(r.randint(1, 3)):
        lines += [f"v = {_view(r, 'x')}", r.choice(calls).replace("V", "v"), "x"]
    return "\n".join(lines)


def _item(r, size):
    return r.choice([
        str(r.randint(-size - 1, size)), f"{r.randint(-size, size)}:", ":", f"::{r.randint(1, 3)}", "None",
        "...", str([r.randint(-size, size - 1) for _ in range(2)]), "True", "False",
        f"torch.tensor({[r.randint(-size, size - 1) for _ in range(2)]})",
        f"torch.tensor({r.randint(-size, size - 1)})", f"slice({r.randint(0, size)}, None)",
        f"torch.tensor({[r.random() < .5 for _ in range(size)]})", f"np.int64({r.randint(0, size - 1)})",
        f"np.array({[r.randint(0, size - 1) for _ in range(2)]})", f"range({r.randint(0, size)})",
        f"[[{r.randint(0, size - 1)}], [{r.randint(0, size - 1)}]]", f"{[r.random() < .5 for _ in range(size)]}",
        f"torch.tensor([{r.randint(0, size - 1)}], dtype=torch.int32)", f":{r.randint(-size, size)}",
    ])


def indexing(r):
    """Reads and writes by index expressions, tuples and lists of them."""
    lines = ["x = torch.arange(60.).view(3, 4, 5)"]
    for _ in range(4):
        items = [_item(r, n) for n in (3, 4, 5)[: r.randint(1, 3)]]
        kind = r.random()
        if kind < 0.2:
            plain = [i if ":" not in i or "(" in i else "slice(None)" for i in items]
            index = f"[{', '.join(plain)}]"
        else:
            index = ", ".join(items)
        if r.random() < 0.6:
            # Where index tensors lie in memory is nobody's promise.
            lines.append(f"x[{index}].contiguous()")
        else:
            lines.append(
                f"x[{index}] = {r.choice(['1.5', 'torch.tensor(2)', 'torch.ones(5)', 'True'])}"
            )
    return "\n".join(lines)


def strided(r):
    """Gradients through `as_strided`, overlapping or not."""
    base = r.choice(["x", "x * 1", "x.expand(2, 8)", "x.view(2, 4).t()", "x[2:]", "x.unfold(0, 3, 1)",
                     "x.view(2, 4)[:, 1:]"])
    size = (r.randint(1, 3), r.randint(1, 3))
    stride = (r.randint(0, 2), r.randint(0, 2))
    offset = r.randint(0, 1)
    weights = [round(r.uniform(-1, 1), 1) for _ in range(size[0] * size[1])]
    return f"""x = torch.arange(8.).requires_grad_()
y = ({base}).as_strided({size}, {stride}{f", {offset}" if r.random() < 0.5 else ""})
(y * torch.tensor({weights}).view({size})).sum().backward()
x.grad.nan_to_num()"""
