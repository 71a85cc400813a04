"""Training programs: a network of random layers, a compiled or plain step, and what happens to both between steps."""

# ruff: noqa: E501

from __future__ import annotations

_START = '''import copy, io, contextlib
from torch.nn.utils import parametrize, prune, parametrizations, clip_grad_norm_, clip_grad_value_, stateless
from torch.utils.checkpoint import checkpoint
from torch.optim import lr_scheduler, swa_utils
class Residual(nn.Module):
    def __init__(self, inner): super().__init__(); self.inner, self.scale = inner, 0.5
    def forward(self, x): return x + self.scale * self.inner(x)
class Counting(nn.Module):
    def __init__(self):
        super().__init__(); self.calls = 0
        self.register_buffer("mean", torch.zeros(6)); self.register_buffer("count", torch.tensor(0), persistent=False)
    def forward(self, x):
        self.calls += 1
        if self.training:
            self.count += 1
            self.mean.lerp_(x.detach().mean(0), 0.1)
        return x - self.mean * (self.calls % 3)
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): ctx.save_for_backward(x); return x ** 3
    @staticmethod
    def backward(ctx, g): (x,) = ctx.saved_tensors; return 3 * g * x ** 2
class Cubes(nn.Module):
    def forward(self, x): return Cube.apply(x * 0.3)
class Recomputed(nn.Module):
    def __init__(self, inner): super().__init__(); self.inner = inner
    def forward(self, x): return checkpoint(self.inner, x, use_reentrant=False)
class Reentrant(nn.Module):
    def __init__(self, inner): super().__init__(); self.inner = inner
    def forward(self, x): return checkpoint(self.inner, x * 1.0, use_reentrant=True)
class Noisy(nn.Module):
    def __init__(self): super().__init__(); self.generator = torch.Generator().manual_seed(5)
    def forward(self, x):
        if not self.training: return x
        with torch.random.fork_rng(): a = torch.rand_like(x)
        return x + 0.1 * torch.randn(x.shape, generator=self.generator) + a * torch.bernoulli(torch.full((6,), 0.5))
class Slopes(nn.Module):
    def __init__(self): super().__init__(); self.w = nn.Parameter(torch.linspace(-1, 1, 6))
    def forward(self, x): return torch.func.vmap(torch.func.grad(lambda r: (r * self.w).tanh().pow(2).sum()))(x)
class Offloaded(nn.Module):
    def __init__(self): super().__init__(); self.a = nn.Linear(6, 6)
    def forward(self, x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().numpy(), torch.from_numpy): return self.a(x).exp().clamp(max=3)
class Pure(nn.Module):
    def __init__(self): super().__init__(); self.inner = nn.Linear(6, 6); self.step = nn.Parameter(torch.tensor(0.5), requires_grad=False)
    def forward(self, x): return torch.func.functional_call(self.inner, {k: v * self.step for k, v in self.inner.named_parameters()}, (x,))
class Blockwise(nn.Module):
    def __init__(self): super().__init__(); self.register_buffer("table", torch.zeros(4, 6)); self.at = 0
    def forward(self, x):
        with torch.no_grad(): self.table[self.at].copy_(x[0]); self.at = (self.at + 1) % 4
        return x + self.table.mean(0)
class Recurrent(nn.Module):
    def __init__(self, cell): super().__init__(); self.cell = cell(3, 3, batch_first=True)
    def forward(self, x): return self.cell(x.view(-1, 2, 3))[0].reshape(-1, 6)
class Attending(nn.Module):
    def __init__(self): super().__init__(); self.attention = nn.MultiheadAttention(3, 1, batch_first=True)
    def forward(self, x): x = x.view(-1, 2, 3); return self.attention(x, x, x)[0].flatten(1)
class Convolving(nn.Module):
    def __init__(self): super().__init__(); self.conv = nn.Conv1d(1, 2, 3, padding=1)
    def forward(self, x): return self.conv(x[:, None]).amax(1)
class Listed(nn.Module):
    def __init__(self):
        super().__init__(); self.scales = nn.ParameterList([nn.Parameter(torch.full((6,), 0.5 + i)) for i in range(2)])
        self.named = nn.ParameterDict({"bias": nn.Parameter(torch.zeros(6))})
    def forward(self, x): return sum(x * s for s in self.scales) + self.named["bias"]
class Tied(nn.Module):
    def __init__(self): super().__init__(); self.down = nn.Linear(6, 3, bias=False); self.up = nn.Linear(3, 6); self.up.weight.data = self.down.weight.data.t()
    def forward(self, x): return self.up(F.linear(x, self.down.weight)) + x @ self.up.weight @ self.down.weight
class Shared(nn.Module):
    def __init__(self): super().__init__(); self.a = nn.Linear(6, 6); self.b = nn.Linear(6, 6); self.b.weight = self.a.weight
    def forward(self, x): return self.b(torch.tanh(self.a(x)))
class Embedded(nn.Module):
    def __init__(self): super().__init__(); self.table = nn.Embedding(5, 6, padding_idx=0)
    def forward(self, x): return x + self.table((x.detach()[:, 0].abs() * 3).long().clamp(max=4))
class Branching(nn.Module):
    def __init__(self): super().__init__(); self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)
    def forward(self, x): return self.a(x) if x.mean() > 0.0123 else self.b(x)
class Symmetric(nn.Module):
    def forward(self, w): return w.triu() + w.triu(1).mT
class InPlace(nn.Module):
    def forward(self, x): y = x * 2; y[:, ::2] += 1; y[:, 1].mul_(0.5); return F.relu_(y)
class Made:
    pass
def watch(m, x, y):
    seen.append(float(y.detach().sum()))
seen = []
torch.set_default_dtype(torch.float64)
'''
LAYERS = [
    "nn.Linear(6, 6)", "nn.Linear(6, 6, bias=False)", "nn.BatchNorm1d(6)", "nn.BatchNorm1d(6, momentum=None, affine=False)",
    "nn.LayerNorm(6)", "nn.GroupNorm(2, 6)", "nn.RMSNorm(6)", "nn.Dropout(0.3)", "nn.PReLU(6)", "nn.GELU()", "nn.Softplus()", "nn.RReLU()",
    "nn.AlphaDropout(0.2)", "Residual(nn.Linear(6, 6))", "Residual(nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 6), nn.SiLU()))",
    "Counting()", "Cubes()", "Recomputed(nn.Sequential(nn.Linear(6, 6), nn.Tanh()))", "Recomputed(nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5)))",
    "Recurrent(nn.LSTM)", "Recurrent(nn.GRU)", "Recurrent(nn.RNN)", "Attending()", "Convolving()", "Listed()", "Tied()", "Shared()", "Embedded()",
    "Branching()", "InPlace()", "Noisy()", "Slopes()", "Offloaded()", "Pure()", "Blockwise()", "Reentrant(nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5)))",
    "nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)", "Recomputed(nn.Sequential(nn.BatchNorm1d(6), nn.Dropout(0.3), nn.Linear(6, 6)))", "parametrizations.weight_norm(nn.Linear(6, 6))", "parametrizations.spectral_norm(nn.Linear(6, 6))",
    "parametrizations.orthogonal(nn.Linear(6, 6))", "nn.Sequential(nn.Linear(6, 12), nn.GLU())", "nn.Hardswish()", "nn.Identity()",
    "nn.Unflatten(1, (2, 3)), nn.InstanceNorm1d(2, affine=True, track_running_stats=True), nn.Flatten()",
]
LOSSES = [
    "F.mse_loss(out, y)", "F.smooth_l1_loss(out, y, reduction='sum')", "F.cross_entropy(out, y.argmax(1))", "F.huber_loss(out, y)",
    "F.cross_entropy(out, y.softmax(1), label_smoothing=0.1)", "F.binary_cross_entropy_with_logits(out, (y > 0).double())",
    "F.kl_div(out.log_softmax(1), y.softmax(1), reduction='batchmean')", "(out * y).sum().abs()", "F.cosine_embedding_loss(out, y, torch.ones(4))",
    "F.gaussian_nll_loss(out, y, torch.full_like(y, 0.5))", "(out - y).norm() + 0.01 * sum(p.norm() for p in model.parameters())",
]
OPTIMIZERS = [
    "torch.optim.SGD(P, lr=0.1)", "torch.optim.SGD(P, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01)", "torch.optim.Adam(P, lr=0.01, eps=1e-2)",
    "torch.optim.AdamW(P, lr=0.01, amsgrad=True, eps=1e-2)", "torch.optim.RMSprop(P, lr=0.01, centered=True, eps=1e-2)", "torch.optim.Adagrad(P, eps=1e-2)", "torch.optim.NAdam(P, eps=1e-2)",
    "torch.optim.SGD([{'params': [p], 'lr': 0.01 * (i + 1)} for i, p in enumerate(P)])", "torch.optim.Adamax(P, eps=1e-2)", "torch.optim.Adam(P, lr=0.01, foreach=False, maximize=True, eps=1e-2)", "torch.optim.ASGD(P, t0=2)", "torch.optim.RAdam(P, eps=1e-2)", "torch.optim.Adadelta(P, eps=1e-2)",
]
SCHEDULERS = [
    "lr_scheduler.StepLR(opt, 2)", "lr_scheduler.CosineAnnealingLR(opt, 5)", "lr_scheduler.LambdaLR(opt, lambda e: 0.9 ** e)",
    "lr_scheduler.OneCycleLR(opt, 0.1, total_steps=60)", "lr_scheduler.ExponentialLR(opt, 0.8)", "lr_scheduler.CyclicLR(opt, 0.01, 0.1, cycle_momentum=False)",
]
STEPS = [
    ["opt.zero_grad()", "out = model(x)", "loss = LOSS", "loss.backward()", "opt.step()", "return loss.detach()"],
    ["out = model(x)", "loss = LOSS", "opt.zero_grad(set_to_none=False)", "loss.backward()", "clip_grad_norm_(model.parameters(), 0.5)", "opt.step()", "return loss.item()"],
    ["loss = 0", "opt.zero_grad()", "for a, b in zip(x.chunk(2), y.chunk(2)):", "    out = model(a); y = b; part = LOSS / 2; part.backward(); loss += part.item()", "opt.step()", "return loss"],
    ["out = model(x)", "loss = LOSS", "live = [p for p in model.parameters() if p.requires_grad]", "gs = torch.autograd.grad(loss, live, allow_unused=True)", "for p, g in zip(live, gs): p.grad = g",
     "opt.step()", "return loss.detach(), [g is None for g in gs]"],
    ["with torch.autocast('cpu', dtype=torch.bfloat16): out = model(x).double()", "loss = LOSS", "opt.zero_grad()", "loss.backward()", "opt.step()", "return round(loss.item(), 1)"],
    ["def closure():", "    opt.zero_grad(); out = model(x); loss = LOSS; loss.backward(); return loss", "return opt.step(closure).detach()"],
    ["opt.zero_grad()", "out = model(x)", "loss = LOSS", "loss.backward(retain_graph=True)", "(0.1 * loss).backward()", "clip_grad_value_(model.parameters(), 0.1)", "opt.step()", "sched.step()", "return loss.detach(), sched.get_last_lr()"],
    ["x = x.clone().requires_grad_()", "out = model(x)", "loss = LOSS", "(g,) = torch.autograd.grad(loss, x, create_graph=True)", "opt.zero_grad()", "(loss + 0.1 * g.pow(2).sum()).backward()", "opt.step()", "return loss.detach(), x.grad is not None"],
]
EVENTS = [
    "model.eval()", "model.train()", "model[0].eval()", "model.requires_grad_(False)[-1].requires_grad_(True)", "model.requires_grad_(True)",
    "seen.clear(); handle = model[LAYER].register_forward_hook(watch)", "'handle' in globals() and handle.remove()",
    "h2 = model[LAYER].register_forward_hook(lambda m, i, o: o * 1.1)", "h3 = model[LAYER].register_forward_pre_hook(lambda m, i: (i[0] - 0.1,))",
    "h4 = model[LAYER].register_full_backward_hook(lambda m, gi, go: (None if gi[0] is None else gi[0] * 2,))",
    "h5 = next(model.parameters()).register_hook(lambda g: g * 0.5)", "h6 = next(model.parameters()).register_post_accumulate_grad_hook(lambda p: seen.append(float(p.grad.sum())))",
    "h7 = opt.register_step_pre_hook(lambda o, a, k: seen.append('step'))", "state = copy.deepcopy(model.state_dict()), copy.deepcopy(opt.state_dict())",
    "'state' in globals() and (model.load_state_dict(state[0]), opt.load_state_dict(state[1]))", "'state' in globals() and model.load_state_dict(state[0], assign=True)",
    "f = io.BytesIO(); torch.save({'m': model.state_dict(), 'o': opt.state_dict()}, f); f.seek(0); d = torch.load(f); model.load_state_dict(d['m']); opt.load_state_dict(d['o'])",
    "for g in opt.param_groups: g['lr'] *= 0.5", "for g in opt.param_groups: g['weight_decay'] = 0.1", "opt.state.clear()", "opt.zero_grad()", "sched.step()",
    "with torch.no_grad(): [p.mul_(0.9) for p in model.parameters()]", "for p in model.parameters(): p.data = p.data.clone() * 0.5",
    "for p in model.parameters(): p.data.add_(0.01)", "for p in model.parameters(): p.grad = None if p.grad is None else p.grad.clone()",
    "model[LAYER] = nn.Linear(6, 6)", "model.append(nn.Tanh())", "model.insert(1, nn.Linear(6, 6, bias=False))", "del model[LAYER]", "model[LAYER] = nn.Identity()",
    "opt.add_param_group({'params': [extra], 'lr': 0.1}) if len(opt.param_groups) < 3 and not any(extra is p for g in opt.param_groups for p in g['params']) else None",
    "model = copy.deepcopy(model)", "ema = swa_utils.AveragedModel(model)", "'ema' in globals() and ema.update_parameters(model)",
    "ema(x).detach() if 'ema' in globals() else None", "model.apply(lambda m: isinstance(m, nn.Linear) and nn.init.constant_(m.weight, 0.1))",
    "prune.l1_unstructured(linear, 'weight', 0.5) if type(linear := next(m for m in model.modules() if not list(m.children()))) is nn.Linear else None",
    "parametrize.register_parametrization(linear, 'weight', Symmetric()) if type(linear := next(m for m in model.modules() if not list(m.children()))) is nn.Linear else None",
    "model[LAYER].__dict__.update(note=3)", "model.forward = lambda x, f=type(model).forward: f(model, x) * 0.5", "model.__dict__.pop('forward', None)",
    "torch.manual_seed(7)", "x, y = x.flip(0), y.flip(0)", "x, y = torch.cat([x, x]), torch.cat([y, y])", "x, y = x[:4].float().double() * 1.5, y[:4]", "x = x * 0 - 1",
    "torch.func.functional_call(model, {k: v * 0.5 for k, v in model.named_parameters()}, (x,)).detach()",
    "with torch.no_grad(): model(x)", "with torch.inference_mode(): model(x)", "model(x).sum().backward()", "torch.set_grad_enabled(True)",
    "for m in model.modules(): m.p = 0.1 if isinstance(m, nn.Dropout) else 0", "for m in model.modules(): m.momentum = 0.3 if isinstance(m, nn.BatchNorm1d) else 0",
    "[m.reset_running_stats() for m in model.modules() if isinstance(m, nn.BatchNorm1d)]", "model.float(); model.double()", "model.to(torch.float64)",
    "extra.data = extra.data[:3].contiguous() if len(extra) > 3 else torch.ones(6)", "swap = dict(model.named_parameters()); torch.nn.utils.vector_to_parameters(torch.nn.utils.parameters_to_vector(model.parameters()) * 0.9, model.parameters())",
    "(torch.compile(model)(x) if torch.__name__ == 'ftorch' else model(x)).detach()", "other = copy.deepcopy(model); other.load_state_dict(model.state_dict()); other(x).detach()",
]


def training(random):
    """The text of a program; PyTorch runs its step as it is."""
    layers = [random.choice(LAYERS) for _ in range(random.randint(2, 5))]
    step = [line.replace("LOSS", loss) for loss in [random.choice(LOSSES)] for line in random.choice(STEPS)]
    kind = random.choice(["step", "step", "step", "model", "graph", "plain"])
    lines = [_START, "torch.manual_seed(3)", f"model = nn.Sequential({', '.join(layers)})",
             "x, y, extra = torch.randn(4, 6), torch.randn(4, 6), nn.Parameter(torch.ones(6))",
             "P = [*model.parameters()] or [extra]", f"opt = {random.choice(OPTIMIZERS)}", f"sched = {random.choice(SCHEDULERS)}",
             "def step(x, y):", *("    " + line for line in step)]
    made = {"step": "Made.step = staticmethod(torch.compile(step))", "model": "model.compile()",
            "graph": "Made.step = staticmethod(torch.compile(step, backend='eager'))"}.get(kind)
    lines.append("Made.step = staticmethod(step)")
    if made:
        lines.append(f"if torch.__name__ == 'ftorch': {made}")
    look = "[p.detach().sum() for p in model.parameters()], [b.double().sum() for b in model.buffers()], seen[-3:]"
    lines += ["Made.step(x, y)", "Made.step(x, y)", look]
    for _ in range(random.randint(2, 7)):
        lines += [random.choice(EVENTS).replace("LAYER", str(random.randrange(2))), "Made.step(x, y)", look]
    lines += ["Made.step(x, y)", look]
    return "\n".join(lines) + "\n"
