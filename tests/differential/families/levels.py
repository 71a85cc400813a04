"""Grad modes, transforms of `torch.func` and forward mode, nested."""

from __future__ import annotations

_BODIES = [
    "(x ** 3).sum()",
    "(x.sin() * x).sum()",
    "(x * 2).exp().sum()",
    "x.prod()",
    "(x / (1 + x * x)).sum()",
]
_MODES = [
    "torch.no_grad()",
    "torch.enable_grad()",
    "torch.set_grad_enabled(False)",
    "torch.set_grad_enabled(True)",
]


def _function(r, name, inner=None):
    body = r.choice(_BODIES)
    lines = [f"def {name}(x):"]
    if inner is None:
        return [*lines, f"    return {body}"]
    call = r.choice([f"grad({inner})(x)", f"vjp({inner}, x)[1](torch.tensor(1.))[0]",
                     f"jvp({inner}, (x,), (torch.ones_like(x),))[1] * x", f"jacrev({inner})(x)",
                     f"grad(lambda y: {inner}(y * x))(x)"])
    if r.random() < 0.7:
        lines += [f"    with {r.choice(_MODES)}:", f"        c = {call}"]
    else:
        lines.append(f"    c = {call}")
    return [*lines, f"    return {body} {r.choice('+-*')} (c * x).sum()"]


def modes(r):
    """Transforms inside modes inside transforms."""
    lines = ["from torch.func import grad, vjp, jvp, vmap, jacrev, jacfwd", *_function(r, "f"),
             *_function(r, "g", "f")]
    last = "g"
    if r.random() < 0.5:
        lines += _function(r, "h", "g")
        last = "h"
    lines.append(
        f"x = torch.tensor([1.5, -.5]{', requires_grad=True' if r.random() < 0.5 else ''})"
    )
    call = r.choice([f"grad({last})(x)", f"vjp({last}, x)[1](torch.tensor(1.))[0]", f"jacrev({last})(x)",
                     f"jacfwd({last})(x)", f"vmap(grad({last}))(x[None])"])
    if r.random() < 0.5:
        lines += [f"with {r.choice(_MODES)}:", f"    y = {call}"]
    else:
        lines.append(f"y = {call}")
    # What the nodes of second derivatives are called is nobody's promise.
    return "\n".join([*lines, "y.requires_grad", "y = y.detach()"])


def captured(r):
    """Writes to captured tensors and to a function's own."""
    write = r.choice(["C.add_(x)", "C.mul_(2)", "C[0] = x[0]", "C.copy_(x)", "C.zero_()", "C.view(-1).add_(1)",
                      "C.index_add_(0, torch.tensor([0]), x[:1])", "C += x", "C.data.add_(1)",
                      "C.masked_fill_(C == 0, 3.)", "C[torch.tensor([1])] = x[1]"])
    own = r.random() < 0.5
    made = r.choice(
        ["torch.zeros(3)", "torch.ones_like(x)", "x.clone()", "torch.empty(3).fill_(2.)", "x * 1"]
    )
    name = "d" if own else "c"
    transform = r.choice(["grad(f)(torch.ones(3))", "vjp(f, torch.ones(3))[0]", "jacrev(f)(torch.ones(3))",
                          "grad(lambda x: grad(f)(x).sum())(torch.ones(3))"])
    return f"""from torch.func import grad, vjp, jvp, jacrev
c = torch.zeros(3)
def f(x):
    d = {made}
    {write.replace("C", name)}
    return (x * {name}).sum()
y = {transform}
c"""


def forward(r):
    """Forward mode by hand and by `torch.func.jvp`."""
    ops = [
        "y = y * x",
        "y = y.sin()",
        "y = y + 1",
        "y = y.exp()",
        "y = torch.cat([y, y])[:3]",
        "y = y[torch.tensor([2, 1, 0])]",
        "y = y.clone().mul_(x)",
        "y = y.view(3, 1).t()[0]",
        "y = torch.where(x > 0, y, x)",
        "y = y / (x * x + 1)",
        "y = torch.stack([y, x]).sum(0)",
        "y = y.detach() * x",
        "y = (y @ x) * y",
    ]
    body = r.sample(ops, r.randint(1, 4))
    if r.random() < 0.5:
        steps = "\n    ".join(body)
        return f"""import torch.autograd.forward_ad as fwAD
with fwAD.dual_level():
    x = fwAD.make_dual(torch.tensor([.5, -1., 2.]), torch.tensor([1., .5, -1.]))
    y = x
    {steps}
    p, t = fwAD.unpack_dual(y)
    p, t = p.clone(), None if t is None else t.clone()
    del x, y"""
    steps = "\n    ".join(body)
    return f"""from torch.func import jvp
def f(x):
    y = x
    {steps}
    return y
p, t = jvp(f, (torch.tensor([.5, -1., 2.]),), (torch.tensor([1., .5, -1.]),))
p, t = p.clone(), t.clone()"""


def vmap(r):
    """Functions over examples, with parameters that require grad."""
    bodies = ["F.relu(m(x))", "F.cross_entropy(m(x)[None], torch.tensor([1]))", "F.softmax(m(x), 0)", "m(x).sum()",
              "F.layer_norm(m(x), (2,))", "m(x).max()", "F.mse_loss(m(x), m(x) * 2)", "m(x)[0] * x", "m(x).cumsum(0)",
              "torch.stack([m(x), m(x)])", "F.dropout(m(x), 0.)", "m(x).sort()[0]", "torch.norm(m(x))"]
    return f"""from torch.func import vmap, grad, functional_call
m = nn.Linear(3, 2)
with torch.no_grad():
    m.weight.fill_(.5)
    m.bias.fill_(.1)
x = torch.arange(12.).view(4, 3) / 6
y = vmap(lambda x: {r.choice(bodies)}{", in_dims=" + r.choice(["0", "-2"]) if r.random() < 0.3 else ""})(x)
y = y.detach()
p = dict(m.named_parameters())
g = vmap(grad(lambda p, x: functional_call(m, p, (x,)).{r.choice(["sum()", "pow(2).sum()", "exp().sum()"])}), (None, 0))(p, x)
g["weight"].detach()"""
