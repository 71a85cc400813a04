"""Functions of random operations that are called with sizes that change from call to call, with gradients."""

# ruff: noqa: E501

from __future__ import annotations

_START = '''import math
torch.set_default_dtype(torch.float64)
class Made:
    pass
def make(n, m, seed):
    g = torch.Generator().manual_seed(seed)
    a, b = torch.randn(n, m, generator=g).requires_grad_(), torch.randn(m, 4, generator=g).requires_grad_()
    return a, b, torch.randn(n, generator=g), torch.randint(0, max(m, 1), (n,), generator=g)
'''
UNARY = [
    "{v}.sin()", "{v}.tanh() * 2", "F.gelu({v})", "{v}.exp().clamp(max=3)", "{v}.abs().sqrt()", "{v}.relu()", "{v} ** 2", "-{v}", "{v}.round()",
    "torch.where({v} > 0, {v}, {v} * 0.1)", "{v}.masked_fill({v} < 0, 0.5)", "{v}.sigmoid()", "{v} / {v}.numel()", "{v} * {v}.shape[0]", "{v}.float().double()",
    "{v}.clone().mul_(0.5)", "{v} + torch.arange({v}.numel()).view({v}.shape) * 0.1", "{v} * math.sqrt(len({v}) + 1)", "{v}.detach() + {v}", "F.dropout({v}, 0.5)",
    "{v} + torch.rand({v}.shape)", "torch.rand_like({v}) * {v}", "{v}.flip(0)", "{v}.roll(1, 0)", "{v}.roll(2)", "{v}.contiguous()", "{v}.cumsum(0)", "{v}.sort(0)[0]",
    "{v} - {v}.mean()", "{v} / ({v}.norm() + 1)", "{v}.softmax(-1)", "{v}.log_softmax(0)", "{v} + {v}.max()", "{v} * ({v} == {v}.max(0)[0])", "{v}.logcumsumexp(0)", "{v}.renorm(2, 0, 1.0)",
    "{v} + {v}.argsort(0)", "{v}.clone().fill_diagonal_(1.0) if {v}.ndim == 2 else {v}", "Square.apply({v})", "torch.utils.checkpoint.checkpoint(lambda t: t.sin() * t, {v}, use_reentrant=False)",
    "torch.func.vmap(lambda r: r * r.sum())({v})", "{v}.cummax(0)[0]", "{v}.nan_to_num()", "{v} * (1 if {v}.shape[0] > 4 else 2)", "sum({v} * (i + 1) for i in range({v}.shape[0] % 3 + 1))",
    "{v}[torch.randperm({v}.shape[0])]", "{v} * torch.linspace(0, 1, {v}.shape[-1])", "F.normalize({v}, dim=0)", "{v} * bool({v}.sum() > 0)", "{v} + {v}.sum().item()", "{v}.std() + {v}", "{v}.t().t()",
]
MATRIX = [
    "{v}.t()", "{v}[1:]", "{v}[:, ::2]", "{v}[: {v}.shape[0] // 2 + 1]", "{v}.tril()", "{v}.triu(1)",
    "torch.cat([{v}, {v} * 2])", "torch.cat([{v}, {v}.flip(1)], 1)", "F.pad({v}, (1, 2))", "F.pad({v}, (0, 0, 1, 1), value=0.3)",
    "{v}.repeat(2, 1)", "{v} @ {v}.t()", "{v}.t() @ {v}", "F.layer_norm({v}, ({v}.shape[1],))", "F.rms_norm({v}, {v}.shape[1:])",
    "F.batch_norm({v}, None, None, training=True)", "F.conv1d({v}[None], torch.ones(2, {v}.shape[0], 3) / 3, padding=1)[0]", "F.max_pool1d({v}[None], 2, ceil_mode=True)[0]",
    "F.avg_pool2d({v}[None], 3, 1, 1)[0]", "F.interpolate({v}[None], scale_factor=2)[0]", "F.interpolate({v}[None, None], size=(5, 3), mode='bilinear')[0, 0]",
    "F.adaptive_avg_pool2d({v}[None], (2, 3))[0]", "torch.stack([{v}, -{v}], 1).flatten(0, 1)", "{v}.unfold(1, 2, 1).sum(-1)", "{v}[{v}[:, 0] > 0]",
    "{v}.index_select(0, torch.arange({v}.shape[0] - 1, -1, -1))", "{v}.gather(1, {v}.argsort(1))", "torch.zeros_like({v}).scatter_add(0, torch.zeros({v}.shape, dtype=torch.long), {v})",
    "torch.zeros({v}.shape[0] + 1, {v}.shape[1]).index_add(0, torch.arange({v}.shape[0]), {v})", "{v}.topk(min(2, {v}.shape[1]), 1)[0]", "{v}.expand(2, *{v}.shape).sum(0)",
    "torch.einsum('ij,kj->ik', {v}, {v})", "F.scaled_dot_product_attention({v}[None], {v}[None], {v}[None])[0]", "{v}.reshape(-1, 1)", "{v}.clone().t_()",
    "torch.cdist({v}, {v}[:2])", "torch.block_diag({v}, {v})", "torch.eye({v}.shape[0]) @ {v}", "F.one_hot({v}.argmax(1), {v}.shape[1]) * {v}", "torch.tensor_split({v}, 2)[0]",
    "{v}.chunk(2, 1)[0]", "torch.outer({v}[:, 0], {v}[0])", "torch.diff({v}, dim=0)", "{v}.split(2)[0]", "{v}.movedim(0, 1)", "{v}.unique(dim=0)",
    "torch.nn.utils.rnn.pad_sequence([{v}, {v}[:1]], batch_first=True).sum(0)", "torch.baddbmm({v}[None], {v}[None], torch.eye({v}.shape[1])[None])[0]", "{v}.diagonal()[:, None]", "{v}.rot90()",
]
WRITES = [
    "{v}[0] = 1.0", "{v}[1:] += 0.5", "{v}[:, -1].mul_(2)", "{v}[::2] = {v}[::2] * 3", "{v}.t()[0].add_(1)", "{v}[{v} > 1] = 0.0", "{v}.view(-1)[:2].fill_(0.25)", "{v}[torch.arange({v}.shape[0]) % 2 == 0] *= -1",
    "{v}.add_({v}.sum(0))", "{v}.zero_() if {v}.shape[0] == 3 else {v}.sub_(1)", "{v}.copy_({v}.flip(0))", "for i in range(min(3, {v}.shape[0])): {v}[i] = {v}[i] * i", "{v}.index_fill_(0, torch.tensor([0]), 2.0)", "{v}.clamp_(-1, 1)",
    "{v}.masked_scatter_({v} < 0, torch.arange({v}.numel()).double())", "{v}.index_put_((torch.tensor([0, 0]),), {v}[:1].detach() * 1.5, accumulate=True)", "{v}.cumsum_(0)", "{v}.squeeze_().unsqueeze_(0).squeeze_(0) if {v}.ndim > 5 else None",
]
PAIRS = [
    "{v} + {w}[:1, :1]", "{v} * {w}.mean()", "torch.cat([{v}.flatten(), {w}.flatten()])[:, None]", "{v}.flatten()[:, None] * {w}.flatten()[None, :3]", "torch.kron({v}[:2], {w}[:2])", "{v} @ torch.ones({v}.shape[1], {w}.shape[0]) @ {w}",
    "torch.where({v} > {w}[:1, :1], {v}, {w}[:1, :1])", "{v} - {w}.max()", "F.linear({v}, torch.ones({w}.shape[0], {v}.shape[1]), {w}[:, 0])", "torch.maximum({v}, {w}.mean())", "{v}.lerp({w}[0, 0], 0.3)", "{v} / ({w}.abs().sum() + 1)",
    "{v} + c.sum() * {w}[0].sum()", "{v} * c.numel() + {w}.numel()", "{v} + b[i % b.shape[0]].sum() if len(i) else {v}", "torch.addmm({w}[:1, :1], {v}, {v}.t())",
]


def sizes(random):
    """The text of a program; PyTorch runs its function as it is."""
    names, body = ["a", "b"], []
    for k in range(random.randint(3, 9)):
        v, kind = random.choice(names[-3:]), random.random()
        w = random.choice(names)
        made = f"v{k}"
        if kind < 0.35:
            body.append(f"{made} = {random.choice(UNARY).format(v=v)}")
        elif kind < 0.7:
            body.append(f"{made} = {random.choice(MATRIX).format(v=v)}")
        elif kind < 0.85:
            body += [f"{made} = {v}.clone()", random.choice(WRITES).format(v=made)]
        else:
            body.append(f"{made} = {random.choice(PAIRS).format(v=v, w=w)}")
        names.append(made)
    last = random.sample(names[2:], min(len(names) - 2, 3))
    body += [f"out = [{', '.join(last)}]", "loss = sum((o * o).sum() for o in out)", "loss.backward()",
             "return [o.detach() for o in out], a.grad, b.grad"]
    lines = [_START, "class Square(torch.autograd.Function):", "    @staticmethod", "    def forward(ctx, x): ctx.save_for_backward(x); return x * x",
             "    @staticmethod", "    def backward(ctx, g): return 2 * g * ctx.saved_tensors[0]",
             "def step(a, b, c, i):", *("    " + line for line in body)]
    made = random.choice(["", "", "torch.compile(step)", "torch.compile(step, dynamic=True)", "torch.compile(step, backend='eager', dynamic=True)"])
    lines.append("Made.step = staticmethod(step)")
    if made:
        lines.append(f"if torch.__name__ == 'ftorch': Made.step = staticmethod({made})")
    lines.append("torch.manual_seed(1)")
    for seed in range(random.randint(4, 9)):
        n, m = (random.choice([1, 2, 3, 4, 5, 7, 8, 11, 16, 17, 29, 33, 40, 64, 65]) for _ in range(2))
        lines.append(f"Made.step(*make({n}, {m}, {seed}))")
    return "\n".join(lines) + "\n"
