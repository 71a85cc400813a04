"""The graph: hooks, retained gradients, in-place histories, and what becomes of views."""

from __future__ import annotations


def hooks(r):
    """Sequences of hooks, `retain_grad`, views and in-place operations."""
    lines = ["x = torch.arange(1., 4).requires_grad_()", "a = x * 2", "b = a[:2]", "seen = []"]
    steps = [
        "a.retain_grad()", "b.retain_grad()", "a.mul_(3)", "b.mul_(2)", "a = a * 1", "b = a[1:]", "b = a.view(3)[:2]",
        "h = a.register_hook(lambda g: g * 2)", "k = b.register_hook(lambda g: seen.append(g.clone()))",
        "x.grad = None", "a.sum().backward(retain_graph=True)", "(b * b).sum().backward(retain_graph=True)",
        "a = a.detach().requires_grad_()", "with torch.no_grad(): c = a * 2",
        "x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))",
        "torch.autograd.grad(a.sum(), x, retain_graph=True, allow_unused=True)", "a.retains_grad",
        "a.sum().backward(inputs=[x], retain_graph=True)", "b.add_(1)", "a.exp_()",
    ]
    for _ in range(r.randint(3, 8)):
        lines.append(r.choice(steps))
    lines += ["(a.sum() + b.sum()).backward()", "x.grad", "a.grad", "b.grad", "seen"]
    return "\n".join(lines)


_FUNCTIONS = '''class Saving(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a * 3
    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]
class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        ctx.mark_dirty(a.mul_(3))
        return a
    @staticmethod
    def backward(ctx, g):
        return g * 3
class Seen(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a.view_as(a)
    @staticmethod
    def backward(ctx, g):
        return g * 3'''

_VIEWS = ("{t}[:2]", "{t}.view(-1)", "{t}.detach()", "{t}.data", "{t}.view(2, -1)", "{t}.unsqueeze(0)", "{t}.expand_as({t})",
          "{t}.split(1)[0]", "{t}.unbind()[0]", "{t}.chunk(2)[0]", "torch.nn.Parameter({t})", "Seen.apply({t})")
_RESULTS = ("{t} * 2", "{t}.exp() * 0.1", "{t} * {u}", "{t} + {u}", "{t} * {t}.detach()", "{t}.sum() * {u}", "{t} ** 2",
            "Saving.apply({t})", "torch.arange(1.0, 5.0).requires_grad_()", "torch.arange(1.0, 5.0)")
_WRITES = ("{t}.mul_(2)", "{t}.add_({u})", "{t}.copy_({u})", "{t}.zero_()", "{t}[0] = 3.0", "{t}[0] = {u}.sum()", "{t}.mul_({u})",
           "{t}.data.add_(1)", "{t}.detach().mul_(2)", "Tripled.apply({t})")
_OTHERS = ("{t}.requires_grad_()", "{t}.requires_grad_(False)", "{t}.detach_()", "{t}.retain_grad()", "{t}.grad = None",
           "{t}.sum().backward(retain_graph=True)", "{t}.sum().backward()", "{t}.sum().backward()",
           "torch.autograd.grad(({t} * 2).sum(), [{u}], allow_unused=True, retain_graph=True)[0]")


def graph_state(r):
    """What becomes of a few tensors that are views of each other: their history, gradients, versions and refusals."""
    names = ["t0"]
    lines = [_FUNCTIONS, "t0 = torch.arange(1.0, 5.0).requires_grad_()"]
    for _ in range(r.randint(5, 9)):
        kind = r.choices((_VIEWS, _RESULTS, _WRITES, _OTHERS), (3, 3, 4, 4))[0]
        line = r.choice(kind).format(t=r.choice(names), u=r.choice(names))
        if kind in (_VIEWS, _RESULTS) and len(names) < 6:
            line = f"t{len(names)} = {line}"
        lines.append(f"with torch.no_grad(): {line}" if r.random() < 0.15 else line)
        if kind in (_VIEWS, _RESULTS) and len(names) < 6:
            lines.append(f"t{len(names)} = globals().get('t{len(names)}', t0)")  # where that was refused
            names.append(f"t{len(names)}")
        lines.append(f"[{', '.join(names)}]")
    return "\n".join(lines)
