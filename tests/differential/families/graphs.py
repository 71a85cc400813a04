"""The graph: hooks, retained gradients, in-place histories."""

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
