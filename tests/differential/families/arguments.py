"""Arguments of functions: reductions, linear algebra, optimizers."""

from __future__ import annotations


def reductions(r):
    """Reductions by dimensions, keepdim, dtypes, and their errors."""
    name = r.choice("""sum mean prod amax amin argmax argmin std var logsumexp norm all any nansum median max min cumsum
        cumprod softmax sort count_nonzero nanmean aminmax unique mode kthvalue topk""".split())
    shape = r.choice(["2, 3", "4", "2, 0", "1, 3, 2", ""])
    dtype = r.choice(["float32", "float32", "int64", "bool", "float64", "complex64", "int32"])
    dim = r.choice(["", "0", "-1", "1", "(0, 1)", "3", "None", "()", "[0]", "True", "1.5"])
    extra = r.choice(
        [
            "",
            "",
            "keepdim=True",
            "dtype=torch.float64",
            "dtype=torch.int64",
            "axis=0",
            "keepdims=True",
        ]
    )
    arguments = ", ".join(a for a in (dim, extra) if a)
    call = (
        f"torch.{name}(x{', ' + arguments if arguments else ''})"
        if r.random() < 0.5
        else f"x.{name}({arguments})"
    )
    return (
        f"x = (torch.arange({_count(shape)}) % 5).view({shape or '()'}).to(torch.{dtype})\n{call}"
    )


def _count(shape):
    total = 1
    for n in shape.split(", ") if shape else []:
        total *= int(n)
    return total


def linalg(r):
    """Linear algebra with all its arguments."""
    matrix = r.choice(["A", "A @ A.mT + 3 * torch.eye(3)", "torch.stack([A, A * 2])", "A[:2]", "A.double()", "A.half()",
                       "A.long()", "A[0]", "A + 1j"])
    call = r.choice(
        [
            "torch.linalg.norm(M, {o})",
            "torch.linalg.norm(M, {o}, dim=-1)",
            "torch.linalg.norm(M, axis=0)",
            "torch.linalg.vector_norm(M, {n}, dim=(0, 1), keepdim=True)",
            "torch.linalg.matrix_norm(M, {o})",
            "torch.linalg.det(M)",
            "torch.linalg.inv(M)",
            "torch.linalg.solve(M, torch.ones(3))",
            "torch.linalg.cond(M)",
            "torch.linalg.matrix_rank(M)",
            "torch.linalg.pinv(M)",
            "torch.linalg.svdvals(M)",
            "torch.linalg.cholesky(M)",
            "torch.linalg.matrix_power(M, {k})",
            "torch.linalg.slogdet(M)",
            "torch.linalg.lstsq(M, torch.ones(3, 1))[0]",
            "torch.linalg.solve(M, torch.ones(2, 3), left=False)",
            "torch.linalg.eigvalsh(M)",
            "torch.trace(M)",
            "torch.linalg.multi_dot([M, M, M])",
            "torch.linalg.cross(M, M)",
            "torch.linalg.vander(M)",
            "torch.tril(M, {k})",
            "torch.diag(M, {k})",
            "torch.linalg.diagonal(M, offset={k})",
            "torch.linalg.vecdot(M, M)",
            "M @ M",
            "torch.mv(M, M)",
            "torch.addmm(M, M, M, alpha={n}, beta={k})",
            "torch.baddbmm(M, M, M)",
            "torch.dot(M, M)",
            "torch.inner(M, M)",
            "torch.kron(M, M)",
            "torch.tensordot(M, M, {k})",
            "torch.einsum('ij,jk->ik', M, M)",
            "torch.outer(M, M)",
            "torch.block_diag(M, M)",
            "torch.cdist(M, M, p={n})",
            "torch.linalg.matrix_exp(M)",
            "torch.chain_matmul(M, M)",
        ]
    )
    order = r.choice(
        ["None", "'fro'", "'nuc'", "2", "-2", "1", "math.inf", "-math.inf", "0", "3", "'x'", "2.5"]
    )
    call = call.replace("{o}", order).replace("{n}", r.choice(["1", "2", "0.5", "math.inf"]))
    return f"A = torch.tensor([[2., 1., 0.], [1., 3., -1.], [0., .5, 1.]])\nM = {matrix}\n{call.replace('{k}', str(r.randint(-2, 3)))}"


def optimizers(r):
    """Optimizers with odd settings, empty gradients, several groups."""
    name, options = r.choice([
        ("SGD", ["lr=.1", "momentum=.9", "nesterov=True", "weight_decay=.1", "maximize=True", "dampening=.1"]),
        ("Adam", ["lr=.1", "amsgrad=True", "weight_decay=.1", "betas=(.5, .9)", "maximize=True", "eps=1e-3"]),
        ("AdamW", ["lr=.1", "amsgrad=True", "weight_decay=0"]), ("RMSprop", ["lr=.1", "centered=True", "momentum=.9"]),
        ("Adagrad", ["lr=.1", "lr_decay=.1", "initial_accumulator_value=1"]), ("Rprop", ["lr=.1", "etas=(.4, 1.3)"]),
        ("LBFGS", ["lr=.5", "max_iter=3", "history_size=2", "line_search_fn='strong_wolfe'"]), ("ASGD", ["lr=.1"]),
        ("Adamax", ["lr=.1", "weight_decay=.1"]), ("NAdam", ["lr=.1"]), ("RAdam", ["lr=.1"]), ("Adadelta", ["rho=.8"]),
        ("Adafactor", ["lr=.1"]),
    ])
    chosen = ", ".join(r.sample(options, r.randint(0, len(options))))
    loss = r.choice(
        [
            "(p * p).sum()",
            "(p * 0).sum()",
            "(p[:1] ** 4).sum()",
            "(p - q).abs().sum()",
            "p.exp().sum()",
        ]
    )
    groups = r.choice(
        [
            "[p, q]",
            "[p]",
            "[{'params': [p], 'lr': .01}, {'params': [q]}]",
            "[]",
            "[p, p]",
            "p",
            "[1]",
        ]
    )
    return f"""p = torch.tensor([1., -2., .5], requires_grad=True)
q = torch.tensor([.5, .5, .5], requires_grad=True)
o = torch.optim.{name}({groups}, {chosen})
def closure():
    o.zero_grad()
    loss = {loss}
    loss.backward()
    return loss
for _ in range(3):
    o.step(closure)
p
q
[sorted(g) for g in o.param_groups]
sorted(o.state_dict()["state"])"""
