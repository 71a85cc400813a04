"""Exported programs: what they compute at several sizes, before and after they are decomposed, saved, unflattened and packed."""

# ruff: noqa: E501

from __future__ import annotations

_START = """import copy, dataclasses, io, os, tempfile, warnings
import torch.ao.quantization.fx._decomposed
warnings.simplefilter('ignore')
__ft = torch.__name__ == 'ftorch'
__folder = tempfile.mkdtemp()
outside = torch.tensor([0.5, -1., 2., 0.25])
def draw(*shape):
    n = math.prod(shape)
    return ((torch.arange(n) * 7 % 11 - 5) / 4).reshape(shape)
def again(program):
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)
def packed(program):
    if not __ft:  # takes a compiler there
        return copy.deepcopy(program).module()
    path = torch._inductor.aoti_compile_and_package(program, package_path=os.path.join(__folder, 'p.pt2'))
    return torch._inductor.aoti_load_package(path)
def signature(ep):
    s = ep.graph_signature
    return ([(i.kind.name, type(i.arg).__name__, i.target, i.persistent) for i in s.input_specs],
            [(o.kind.name, type(o.arg).__name__, o.target) for o in s.output_specs])
def names(ep):
    return [getattr(i.arg, 'name', '') for i in ep.graph_signature.input_specs]
def ranges(ep):
    return sorted((int(v.lower), min(int(v.upper), 2 ** 31) if v.upper < 2 ** 40 else 2 ** 31) for v in ep.range_constraints.values())
def neutral(module):
    return repr(module)
def calls(graph_module):
    found = []
    for m in graph_module.modules():
        if isinstance(m, torch.fx.GraphModule):
            found.append([str(n.target) for n in m.graph.nodes if n.op == 'call_function' and 'sym_' not in str(n.target) and '_assert' not in str(n.target)
                          and 'built-in' not in str(n.target)])
    return found
def results(f, args, kwargs, state=None):
    torch.manual_seed(3)
    args, kwargs = torch.utils._pytree.tree_map(lambda t: t.clone() if torch.is_tensor(t) else t, (args, kwargs))
    out = f(*args, **kwargs)
    plain = lambda t: t.detach().clone() if torch.is_tensor(t) else t
    if dataclasses.is_dataclass(out):
        out = [getattr(out, f.name) for f in dataclasses.fields(out)]
    return torch.utils._pytree.tree_map(plain, [out, args, dict(kwargs), dict(state.named_buffers()) if state is not None else None])"""

_MATRIX = [
    "{v}.sin()", "{v}.relu() * 2", "F.gelu({v})", "{v} * {v}.shape[0]", "{v} / {v}.size(1)", "{v}.exp().clamp(-3, 3)", "{v}.flip(0)", "{v}.roll(1, 0)",
    "{v} - {v}.mean(0)", "{v}.softmax(-1)", "{v}.cumsum(0)", "{v}.sort(1)[0]", "{v}.where({v} > 0, 0.1)", "{v}.masked_fill({v} < 0, 0.5)", "{v}.round(decimals=1)",
    "{v}.t().contiguous().t()", "{v}[::2].repeat_interleave(2, 0)[:{v}.shape[0]]", "{v}.reshape(-1).view({v}.shape)", "{v}.view(-1, 2).reshape({v}.shape[0], -1)",
    "{v}.unflatten(1, (2, 2)).flatten(1)", "{v}.unsqueeze(1).squeeze(1)", "torch.cat([{v}[:, 2:], {v}[:, :2]], 1)", "torch.stack([{v}, -{v}]).sum(0)", "{v}.chunk(2, 1)[1].repeat(1, 2)",
    "{v}.expand(3, -1, -1)[1]", "{v} + torch.arange({v}.shape[0])[:, None]", "{v} + torch.arange({v}.shape[0], 0, -1, dtype=torch.float32).unsqueeze(-1)", "{v} + torch.ones({v}.shape[0], 4)",
    "{v} * torch.full(({v}.shape[0], 1), 0.5)", "torch.zeros_like({v}) + {v}.new_ones(4)", "{v} + outside", "{v} * torch.tensor([1., 2., 3., 4.])", "{v} + self.const", "{v} @ self.w", "self.l({v})", "self.inner({v})",
    "F.layer_norm({v}, (4,))", "self.norm({v})", "{v}[torch.arange({v}.shape[0]) % 2]", "{v}[:, [0, 2, 1, 3]]", "{v}[:, torch.tensor([3, 1, 0, 2])]", "{v}.index_select(1, torch.tensor([1, 0, 3, 2]))",
    "{v}.gather(1, {v}.argsort(1))", "{v}.scatter(1, torch.zeros({v}.shape[0], 1, dtype=torch.int64), 2.0)", "torch.zeros({v}.shape[0], 4).index_add(0, torch.arange({v}.shape[0]), {v})", "F.pad({v}, (1, 1))[:, 1:-1]",
    "F.pad({v}, (0, 0, 1, 0))[1:]", "{v}.tril()", "{v}.triu(1) + {v}", "{v}.to(torch.float64).float()", "{v}.double().to(torch.float32)", "{v}.half().float()", "{v}.to(torch.bfloat16).float()", "{v}.int().float()", "({v} > 0).float() + {v}", "{v}.type_as({v})", "{v}.to({v})", "{v}.float()",
    "{v}.detach() * 2", "{v}.clone()", "{v}.contiguous()", "{v}.masked_fill(torch.eye({v}.shape[0])[:, :1] > 0, 1.0)", "torch.einsum('ij,jk->ik', {v}, self.w)", "torch.addmm(self.const, {v}, self.w)",
    "F.linear({v}, self.w, self.const)", "F.scaled_dot_product_attention({v}[None], {v}[None], {v}[None])[0]", "F.conv1d({v}[:, None], torch.ones(1, 1, 3), padding=1)[:, 0]", "F.max_pool1d({v}[:, None], 3, 1, 1)[:, 0]", "F.avg_pool1d({v}[None], 3, 1, 1)[0]",
    "F.interpolate({v}[None], scale_factor=2.0)[0, :, ::2]", "F.normalize({v}, dim=1)", "{v}.norm(dim=1, keepdim=True) + {v}", "{v}.std(1, keepdim=True) + {v}", "{v}.var(0) * {v}", "{v}.max(0)[0] + {v}", "{v}.amax(1, keepdim=True) * {v}", "{v}.topk(2, 1)[0].repeat(1, 2)",
    "{v}.logsumexp(1, keepdim=True) + {v}", "F.one_hot({v}.argmax(1), 4) * {v}", "torch.where({v} > 0, {v}, torch.zeros(()))", "{v}.lerp({v} * 2, 0.3)", "{v}.addcmul({v}, {v}, value=0.5)", "{v}.clamp(min=self.const)", "torch.maximum({v}, self.count)", "{v}.bmm({v}) if {v}.dim() == 3 else {v}",
    "{v}.swapaxes(0, 1).permute(1, 0)", "{v}.movedim(0, 1).mT", "{v}.split(2, 1)[0].tile(1, 2)", "{v}.tensor_split(2, 1)[1].tile((1, 2))", "{v}.unbind(1)[0][:, None] + {v}", "{v}.narrow(1, 1, 3).sum(1, keepdim=True) * {v}", "{v}.select(1, 0).unsqueeze(-1) * {v}", "{v}.diagonal(offset=0)[:1] + {v}",
    "{v}.unfold(1, 2, 2).sum(-1).repeat(1, 2)", "{v}.as_strided({v}.shape, (4, 1)) * 1" , "torch.broadcast_to({v}.sum(0), {v}.shape)", "{v}.sum(0).expand_as({v})", "{v}.T.T", "{v}.ravel().reshape_as({v})", "{v}.view_as({v})", "(v := {v} * 2) + v", "{v}.square().sqrt()", "{v} ** 2", "2 / ({v}.abs() + 1)", "1 - {v}", "{v} // 0.5", "{v} % 0.7", "torch.rsub({v}, 1)",
    "torch.view_as_real(torch.complex({v}, {v})).sum(-1)", "torch.polar({v}.abs(), {v}).real", "torch.fft.rfft({v}, dim=1).abs().repeat(1, 2)[:, :4]", "({v} * 1j).imag", "F.dropout({v}, 0.5, training=False)", "F.embedding({v}.long().clamp(0, 3), self.w).sum(1)", "F.embedding({v}.abs().long() % 4, self.w)[:, 0]",
    "torch.ops.aten.add({v}, 1)", "torch.func.vmap(lambda r: r * r.sum())({v})", "torch.utils.checkpoint.checkpoint(lambda t: t.sin() * t, {v}, use_reentrant=False)", "{v}.nan_to_num()", "torch.linspace(0, 1, 4) * {v}", "{v}.logical_not().float()", "torch.isfinite({v}).all() * {v}", "torch.tril(torch.ones({v}.shape[0], {v}.shape[0])) @ {v}",
    "torch.eye({v}.shape[0]) @ {v}", "{v}.repeat(2, 1)[{v}.shape[0]:]", "{v}[-1:] + {v}", "{v}[1:].sum(0) + {v}", "{v}[..., None].squeeze(-1)", "{v}[None, :, 1:].sum(-1)[0][:, None] + {v}", "{v}[:{v}.shape[0] // 2].sum() + {v}", "{v} * ({v}.shape[0] + 1) / 2", "{v} * math.sqrt({v}.shape[1])", "{v} * max({v}.shape[1], 2)", "{v}.max() + {v}", "{v} + {v}.numel()",
    "torch.cat([{v}, {v}])[: {v}.shape[0]]", "torch.cat([{v}, {v}]).view(2, -1, 4)[0]", "torch.kron({v}, torch.ones(1, 1))", "torch.cumprod({v}, 1)", "{v}.diff(dim=1, prepend={v}[:, :1])", "torch.meshgrid({v}[:, 0], self.const, indexing='ij')[0] + {v}", "torch.outer({v}[:, 0], self.const)", "{v}.masked_fill(torch.ones({v}.shape[0], 4, dtype=torch.bool).triu(), -1.0)",
    "F.cross_entropy({v}, {v}.argmax(1)) + {v}", "F.mse_loss({v}, {v} * 2, reduction='none')", "F.cosine_similarity({v}, {v} + 1)[:, None] + {v}", "F.group_norm({v}, 2)", "F.rms_norm({v}, (4,))", "F.glu({v}.repeat(1, 2))", "F.hardswish({v})", "F.silu({v})", "F.elu({v})", "F.softplus({v})", "F.leaky_relu({v})", "F.log_softmax({v}, 1)",
    "torch.bucketize({v}, self.const.sort()[0]).float()", "torch.searchsorted(torch.arange(4.), {v}).float()", "{v}.erf()", "{v}.frac() + {v}.trunc()", "{v}.sign()", "{v}.isnan().float() + {v}", "torch.stack([{v}.min(), {v}.max()]).sum() * {v}", "{v}.prod(1, keepdim=True)", "torch.atleast_3d({v})[..., 0]",
    "torch.ops.examples__.twice({v})", "self.quantized({v})",
]
_WRITES = [
    "{v}.add_(1)", "{v}[0] = 1.0", "{v}[1:] *= 2", "{v}[:, 1].zero_()", "{v}[:, :2] = {v}[:, 2:]", "{v}.mul_({v}.sum(0))", "{v}.t()[0].add_(1)", "{v}.view(-1)[:2].fill_(0.25)", "{v}.copy_({v}.flip(0))", "{v}[{v} > 1] = 0.0", "{v}.clamp_(-1, 1)", "{v}.index_fill_(1, torch.tensor([0]), 2.0)", "{v}.masked_fill_({v} > 0.5, 0.25)",
    "{v}.index_put_((torch.tensor([0, 0]),), {v}[:1] * 1.5, accumulate=True)", "{v}[:, [0, 1]] += 1", "{v}.unsqueeze(0)[0, 0].mul_(3)", "{v}.index_copy_(0, torch.tensor([0]), self.w[:1])", "{v}.scatter_(1, torch.zeros({v}.shape[0], 1, dtype=torch.int64), 0.5)", "torch.add({v}, 1, out={v})", "{v}.relu_()", "{v}[-1] = {v}[0]", "{v}[..., -1] = {v}.sum(1)", "{v}.unbind(1)[1].mul_(2)", "{v}.chunk(2, 1)[0].add_(1)", "{v}.diagonal()[:1].fill_(7)",
    "self.count.add_(1)", "self.count.copy_({v}.sum(0))", "self.count.mul_(0.5).add_({v}.mean(0))", "self.count[0] = {v}.sum()", "self.cache[:{v}.shape[0]] = {v}[:9] if {v}.shape[0] > 99 else {v}", "self.cache.index_copy_(0, torch.tensor([1]), {v}[:1])", "self.cache[2:4] += 1", "self.steps += 1", "self.inner.n.add_({v}.sum())", "self.count = self.count + 1", "self.cache = torch.cat([self.cache[1:], {v}[:1]])", "self.count.zero_()",
    "x.add_(1)", "x[0] = 2.0", "y.mul_(2)", "x[:, 1:] -= 0.5",
]
_PAIRS = [
    "{v} + {w}", "{v} * {w}[:1]", "torch.where({v} > {w}, {v}, {w})", "{v} - {w}.mean(0)", "torch.cat([{v}, {w}], 1).view({v}.shape[0], 2, 4).sum(1)", "{v} @ {w}.t() @ {w}", "torch.maximum({v}, {w})", "F.linear({v}, self.w) + {w}", "{v}.lerp({w}, 0.5)", "torch.stack([{v}, {w}], 1).mean(1)", "{v} / ({w}.abs() + 1)", "torch.bmm({v}[None], self.w[None])[0] + {w}", "torch.atan2({v}, {w})", "torch.cat([{v}[:1], {w}[1:]])", "torch.addcdiv({v}, {w}, {w}.exp())",
    "torch.hypot({v}, {w})", "torch.vstack([{v}, {w}])[: {v}.shape[0]]", "{v}.copysign({w})", "torch.fmod({v}, {w}.abs() + 1)", "F.scaled_dot_product_attention({v}[None], {w}[None], {w}[None], is_causal=True)[0]",
]
_TWO = [  # of a tensor whose rows are another number
    "{v} + z.sum(0)", "{v} @ z.t() @ z", "torch.cat([{v}, z])[: {v}.shape[0]]", "{v} * z.shape[0]", "{v} + z[:1]", "F.scaled_dot_product_attention({v}[None], z[None], z[None])[0]", "({v}[:, None] * z).sum(1)", "{v} + z.flatten().view(-1, 2).shape[0]", "torch.cat([z, {v}])[z.shape[0]:]", "{v} * ({v}.shape[0] + z.shape[0])", "{v} + torch.zeros({v}.shape[0], z.shape[0]).sum()", "torch.einsum('ni,mi->nm', {v}, z).softmax(-1) @ z",
]
_CONTROL = [
    "torch.cond({v}.sum() > 0, lambda t: t.sin(), lambda t: t * 2, ({v},))", "torch.cond({v}.sum() > 0, lambda t: t + self.const, lambda t: t @ self.w, ({v},))", "torch.cond({v}.shape[0] > 3, lambda t: t + 1, lambda t: t - 1, ({v},))", "torch.cond({v}.max() > 1, lambda a, b: (a + b, a * 2), lambda a, b: (a - b, b.clone()), ({v}, x * 1))[0]",
    "torch._higher_order_ops.map(lambda r, s: r * s.sum(), {v}, self.const)", "torch._higher_order_ops.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t * 1.5), (torch.tensor(0), {v}))[1]", "torch._higher_order_ops.while_loop(lambda i, t: t.sum() < 4, lambda i, t: (i + 1, t + 1), (torch.tensor(0), {v}))[1]", "torch._higher_order_ops.scan(lambda c, r: (c + r, c * r), self.const.clone(), {v})[1]", "torch._higher_order_ops.scan(lambda c, r: (c * 0.5 + r, c + r), {v}[0].clone(), {v}, reverse=True)[1]",
    "torch.cond({v}.sum() > 0, lambda t: torch.cond(t.max() > 1, lambda u: u * 3, lambda u: u - 3, (t,)), lambda t: t.cos(), ({v},))",
]
_REGIONS = [
    "with torch.no_grad(): {k} = {v} * 2", "with torch.no_grad():\n    {k} = {v}.softmax(1)\n    {k} = {k} + 1", "with torch.autocast('cpu', torch.bfloat16): {k} = ({v} @ self.w).float()", "with torch.autocast('cpu', torch.bfloat16):\n    {k} = self.l({v})\n    {k} = {k}.float().exp()", "with torch.enable_grad(): {k} = {v} + 1", "with torch.set_grad_enabled(False): {k} = {v}.clone()", "with torch.inference_mode(): {k} = {v} * 1",
    "torch._check({v}.shape[0] > 1)\n{k} = {v} * 1", "assert {v}.shape[1] == 4\n{k} = {v} + 0", "{k} = {v}\nfor i in range(3): {k} = {k} * 0.5 + i", "{k} = {v} * 2 if self.training else {v} * 3", "if {v}.shape[1] == 4: {k} = {v} - 1\nelse: {k} = {v} + 1", "if {v}.shape[0] > 1: {k} = {v} - 1\nelse: {k} = {v} + 1", "{k} = [{v} * i for i in range(3)][1]", "{k} = {v}\ndel {k}\n{k} = {v} * 1.5", "{k}, u = {v}.chunk(2, 1)\n{k} = torch.cat([u, {k}], 1)",
]
_REFUSED = [
    "{v} * {v}.sum().item()", "{v} + (1 if {v}.sum() > 0 else 2)", "{v}[{v}[:, 0] > 0].sum() + {v}", "{v} + {v}.nonzero().shape[0]", "{v}.view(3, -1).sum() + {v}", "{v} + torch.ones(5, 1)", "{v}.reshape(5, 4)", "{v} * int({v}.argmax())", "{v} + y.view(4, -1).sum()", "{v} @ {v}", "{v}.expand(2, 4)", "{v} + torch.tensor({v}.tolist())", "F.dropout({v}, 0.5)", "{v} + torch.rand(4)", "{v}.unique()[:1] + {v}",
    "undefined({v})",
]
_OUTPUTS = ["{a}", "{a}, {b}", "[{a}, {b}]", "{{'a': {a}, 'b': ({b}, {a} * 1)}}", "{a}, None", "{a}, 3", "{a}, x", "{a}[0], {b}.sum()", "{a}, self.count * 1", "{a}, self.w", "({a}, [{b}, {{'c': {a}.sum()}}])", "Pair({a}, {b})", "{a}, {b}.shape[0]", "{a}.t(), {a}[1:]", "{a}, self.count", "{a}, {a}", "{a}.argmax(1), {b} > 0"]

_CLASSES = """@torch.library.custom_op('examples__::twice', mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2
@twice.register_fake
def _(x):
    return torch.empty_like(x)
@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor
torch.export.register_dataclass(Pair, serialized_type_name=f'program.Pair{__number}')
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Parameter(draw(4))
        self.register_buffer('n', torch.zeros(()), persistent=False)
    def forward(self, t):
        self.n.add_(1)
        return t * self.p + self.n
class Quantized(nn.Module):
    def forward(self, t):
        q = torch.ops.quantized_decomposed.quantize_per_tensor(t, 0.05, 3, 0, 255, torch.uint8)
        return torch.ops.quantized_decomposed.dequantize_per_tensor(q, 0.05, 3, 0, 255, torch.uint8)"""

_MODULE = """class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.const = nn.Parameter(draw(4, 4)), draw(4)
        self.l, self.norm, self.inner, self.quantized = nn.Linear(4, 4), nn.LayerNorm(4), Inner(), Quantized()
        self.register_buffer('count', torch.zeros(4))
        self.register_buffer('cache', draw(9, 4), persistent=False)
        self.register_buffer('steps', torch.tensor(0))
        with torch.no_grad():
            self.l.weight.copy_(draw(4, 4) * 0.5), self.l.bias.copy_(draw(4))"""

_SIGNATURES = [  # (parameters, args of (n, m), kwargs, dynamic shapes of {n}, {m})
    ("x, y, z", "(draw(n, 4), draw(n, 4) * 0.5, draw(m, 4))", "{{}}", "({{0: {n}}}, {{0: {n}}}, {{0: {m}}})"),
    ("x, y, *, z", "(draw(n, 4), draw(n, 4) * 0.5)", "{{'z': draw(m, 4)}}", "{{'x': {{0: {n}}}, 'y': {{0: {n}}}, 'z': {{0: {m}}}}}"),
    ("x, d", "(draw(n, 4), {{'y': draw(n, 4) * 0.5, 'z': [draw(m, 4)]}})", "{{}}", "({{0: {n}}}, {{'y': {{0: {n}}}, 'z': [{{0: {m}}}]}})"),
    ("x, pair, scale=2.0", "(draw(n, 4), Pair(draw(n, 4), draw(m, 4)), 3.0)", "{{}}", "({{0: {n}}}, [{{0: {n}}}, {{0: {m}}}], None)"),
    ("*args", "(draw(n, 4), draw(n, 4), draw(m, 4))", "{{}}", "{{'args': ({{0: {n}}}, {{0: {n}}}, {{0: {m}}})}}"),
]
_UNPACKED = ["", "", "y, z = d['y'], d['z'][0]", "y, z = pair.first * scale, pair.second", "x, y, z = args"]


def export_graphs(r):
    """Which operators the graphs of such programs call, before and after they are decomposed."""
    lines = exports(r).split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith("ep = "))
    return "\n".join([*lines[: first + 1], "calls(ep.graph_module)", "calls(ep.run_decompositions().graph_module)"])


def exports(r):
    """A module of random operations that is exported, and run in all forms at several sizes."""
    kind = r.randrange(len(_SIGNATURES))
    parameters, args, kwargs, shapes = _SIGNATURES[kind]
    body, made = [_UNPACKED[kind]] if _UNPACKED[kind] else [], ["x", "y"]
    for k in range(r.randint(2, 6)):
        v, name = r.choice(made[-3:]), f"v{k}"
        choice = r.random()
        if choice < 0.5:
            body.append(f"{name} = {r.choice(_MATRIX).format(v=v)}")
        elif choice < 0.68:
            body += [f"{name} = {v}.clone()"] if r.random() < 0.8 else [f"{name} = {v}"]
            body.append(r.choice(_WRITES).format(v=name))
        elif choice < 0.76:
            body.append(f"{name} = {r.choice(_PAIRS).format(v=v, w=r.choice(made))}")
        elif choice < 0.83:
            body.append(f"{name} = {r.choice(_TWO).format(v=v)}")
        elif choice < 0.90:
            body.append(f"{name} = {r.choice(_CONTROL).format(v=v)}")
        elif choice < 0.985:
            body += r.choice(_REGIONS).format(v=v, k=name).split("\n")
        else:
            body.append(f"{name} = {r.choice(_REFUSED).format(v=v)}")
        made.append(name)
    a, b = made[-1], r.choice(made[2:])
    body.append("return " + r.choice(_OUTPUTS).format(a=a, b=b))
    strict = r.random() < 0.15 and not any("self.count = " in line or "self.cache = " in line for line in body)  # which PyTorch loses
    way = r.choice(["fixed", "dim", "dim", "dim", "auto", "auto", "dynamic", "bounded", "derived", "same"])
    n, m = {"dim": ("N", "K"), "auto": ("A.AUTO", "A.AUTO"), "dynamic": ("A.DYNAMIC", "A.AUTO"), "bounded": ("B", "A.STATIC"), "derived": ("N", "N + 1"),
            "same": ("N", "N"), "fixed": ("None", "None")}[way]
    sizes = r.choice([(5, 3), (5, 3), (4, 6), (3, 2)])
    sizes = {"derived": (sizes[0], sizes[0] + 1), "same": (sizes[0],) * 2}.get(way, sizes)
    others = {"fixed": [], "bounded": [(2, sizes[1]), (7, sizes[1])], "derived": [(2, 3), (8, 9)], "same": [(2, 2), (8, 8)]}.get(
        way, r.sample([(2, 2), (8, 3), (3, 7), (6, 6), (9, 2)], 2))
    lines = [_START, f"__number = {r.randrange(10**9)}", _CLASSES, _MODULE + f"\n    def forward(self, {parameters}):\n        " + "\n        ".join(body),
             f"args = lambda n, m: {args.format()}", f"kwargs = lambda n, m: {kwargs.format()}",
             "given = (lambda n, m: args(n, m)), (lambda n, m: kwargs(n, m))", f"make = lambda: M(){r.choice(['', '.eval()', '.eval()'])}",
             "A = torch.export.Dim", "N, K, B = A('n', min=2, max=30), A('k'), A('b', min=2, max=7)",
             "shapes = " + (shapes.format(n=n, m=m) if way != "fixed" else "None"), "m = make()"]
    lines.append(f"ep = torch.export.export(m, args{sizes}, kwargs{sizes}, dynamic_shapes=shapes, strict={strict})")
    lines += ["signature(ep)", "names(ep)", "ranges(ep)"]
    calls = [sizes, *others]
    forms = {"module": "copy.deepcopy(ep).module()", "decomposed": "ep.run_decompositions().module()", "saved": "again(ep).module()", "decomposed saved": "again(ep.run_decompositions()).module()",
             "unflattened": "torch.export.unflatten(copy.deepcopy(ep))", "training": "copy.deepcopy(ep).run_decompositions({}).module()", "package": "packed(copy.deepcopy(ep))"}
    for form in ["module", *r.sample(list(forms)[1:], 2)]:
        lines.append(f"__f = {forms[form]}")
        if form == "module" and not any("with torch." in line for line in body):  # whose regions are modules in PyTorch's
            lines.append("neutral(__f)")
        used = [sizes] if form == "unflattened" else calls
        if form != "package" and r.random() < 0.15:
            used = [*used, (sizes[0] + 30, sizes[1])]  # refused by some
        for n, m in used:
            state = ", __f" if form not in ("package", "unflattened") else ""
            lines.append(f"results(__f, args({n}, {m}), kwargs({n}, {m}){state})")
    lines += ["m.count, m.cache, m.steps, m.inner.n", "signature(ep.run_decompositions())"]
    return "\n".join(line for line in lines if line)
