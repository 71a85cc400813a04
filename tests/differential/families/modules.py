"""Modules: attributes of every kind, containers, state dictionaries, hooks and conversions."""

from __future__ import annotations

_SETUP = """import torch.nn.utils.prune
class Block(nn.Module):
    def __init__(self, n=2):
        super().__init__()
        self.lin = nn.Linear(n, n)
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("tmp", torch.ones(n), persistent=False)
        self.scale = nn.Parameter(torch.ones(n))
    def forward(self, x):
        self.count += 1
        return self.lin(x) * self.scale
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = Block()
        self.seq = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), Block())
        self.items = nn.ModuleList([nn.Linear(2, 2), nn.BatchNorm1d(2)])
        self.table = nn.ModuleDict({"x": nn.Identity(), "y": nn.Linear(2, 2, bias=False)})
        self.ps = nn.ParameterList([torch.ones(2), nn.Parameter(torch.zeros(1))])
        self.pd = nn.ParameterDict({"k": torch.ones(1)})
    def forward(self, x):
        x = self.seq(self.a(x))
        for m in self.items: x = m(x)
        return self.table["y"](x) + self.ps[0] + self.pd["k"]
log = []
net = Net()
x = torch.arange(8.0).view(4, 2)"""

_STEPS = (
    "net(x).sum().backward()", "net(x)", "[n for n, _ in net.named_parameters()]", "[n for n, _ in net.named_buffers()]",
    "[n for n, _ in net.named_modules()]", "[n for n, _ in net.named_children()]", "list(net.state_dict())",
    "net.a.lin = nn.Linear(2, 2, bias=False)", "net.a.lin = None", "net.a.scale = None",
    "net.a.scale = nn.Parameter(torch.full((2,), 2.0))", "net.a.scale = torch.ones(2)", "del net.a.scale", "del net.a",
    "net.a.count = torch.ones(3)", "net.a.count = None", "net.a.count = 5", "net.register_buffer('b0', torch.ones(1))",
    "net.register_buffer('a', torch.ones(1))", "net.register_buffer('p.q', torch.ones(1))", "net.register_buffer('', None)",
    "net.register_parameter('w', None)", "net.register_parameter('w', torch.ones(1))",
    "net.register_parameter('w', nn.Parameter(torch.ones(1)))",
    "net.register_parameter('w', nn.Parameter(torch.ones(1)) * 1)", "net.w = nn.Parameter(torch.ones(2))", "net.w = 3",
    "net.add_module('m', nn.ReLU())", "net.add_module('m', 3)", "net.add_module('w', nn.ReLU())", "net.add_module('m', None)",
    "net.register_module('z', nn.Tanh())", "net.eval()", "net.train()", "net.train(3)", "net.seq.eval()",
    "[m.training for m in net.modules()]", "net.requires_grad_(False)", "net.a.requires_grad_(True)", "net.zero_grad()",
    "net.zero_grad(set_to_none=False)", "net.double()", "net.half()", "net.float()", "net.to(torch.float64)",
    "net.to(torch.int64)", "net.bfloat16()", "net.type(torch.float64)", "x = x.to(next(net.parameters()).dtype)",
    "net.load_state_dict(net.state_dict())", "net.load_state_dict({})", "net.load_state_dict({}, strict=False)",
    "net.load_state_dict({**net.state_dict(), 'extra': torch.ones(1)})",
    "net.load_state_dict({**net.state_dict(), 'a.scale': torch.ones(3)})",
    "net.load_state_dict({k: v + 1 for k, v in net.state_dict().items()})",
    "net.load_state_dict({k: v.double() for k, v in net.state_dict().items()}, assign=True)", "net.load_state_dict([])",
    "net.load_state_dict({'a.scale': 3}, strict=False)", "net.load_state_dict(Net().state_dict(), strict=False)", "repr(net)",
    "repr(net.items)", "repr(net.ps)", "repr(net.pd)", "net.extra_repr()", "net.get_submodule('seq.2.lin')",
    "net.get_submodule('seq.9')", "net.get_parameter('a.scale')", "net.get_parameter('a.lin')", "net.get_buffer('a.count')",
    "net.get_buffer('a.scale')", "net.set_submodule('seq.1', nn.Tanh())", "net.set_submodule('q.1', nn.Tanh())",
    "net.set_submodule('seq.2.lin', nn.Identity(), strict=True)", "h = net.register_forward_hook(lambda m, a, o: o * 2)",
    "h = net.a.register_forward_hook(lambda m, a, k, o: log.append(len(k)), with_kwargs=True)",
    "h = net.seq.register_forward_pre_hook(lambda m, a: (a[0] + 1,))",
    "h = net.seq.register_forward_pre_hook(lambda m, a: a[0] - 1, prepend=True)",
    "h = net.a.register_full_backward_hook(lambda m, gi, go: log.append([None if g is None else g.shape for g in gi]))",
    "h = net.a.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))",
    "h = net.register_forward_hook(lambda m, a, o: 1 / 0, always_call=True)",
    "h = net.register_forward_hook(lambda m, a, o: log.append('always'), always_call=True)", "h.remove()",
    "h = net.register_state_dict_post_hook(lambda m, sd, p, lm: sd.update(note=torch.ones(1)))",
    "h = net.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())",
    "h = net._register_load_state_dict_pre_hook(lambda sd, *a: sd.pop('extra', None))",
    "h = net.register_load_state_dict_pre_hook(lambda m, sd, *a: sd.pop('extra', None))",
    "h = net.register_state_dict_pre_hook(lambda m, p, k: log.append(p))",
    "net.apply(lambda m: log.append(type(m).__name__)) and None", "net.a.register_forward_hook(3)",
    "net._apply(lambda t: t * 2) and None", "net.cast = 3", "net.missing", "del net.missing", "net.a = 3",
    "net.a = nn.ReLU()", "net.seq[0] = nn.Linear(2, 2, bias=False)", "net.seq[5]", "net.seq[-1]", "net.seq[:2]",
    "del net.seq[1]", "net.seq.append(nn.ReLU())", "net.seq.insert(0, nn.Identity())", "net.seq.insert(9, nn.Identity())",
    "net.seq.extend([nn.ReLU()])", "net.seq.pop(0)", "net.seq + nn.Sequential(nn.ReLU())", "net.seq * 2",
    "net.seq += nn.Sequential(nn.Tanh())", "len(net.seq), len(net.items), len(net.table), len(net.ps)",
    "net.items.append(nn.ReLU())", "net.items.insert(0, nn.Linear(2, 2))", "net.items[0]", "net.items[0:1]", "net.items[7]",
    "del net.items[0]", "net.items.pop(0)", "net.items.extend(3)", "net.items += [nn.Identity()]",
    "net.items + nn.ModuleList([nn.ReLU()])", "nn.ReLU() in net.items", "net.items['0']", "net.table['z'] = nn.ReLU()",
    "net.table['a.b'] = nn.ReLU()", "net.table.update({'y': nn.Linear(2, 2)})", "net.table.pop('x')", "net.table['q']",
    "del net.table['x']", "list(net.table.items())", "'x' in net.table", "net.table.clear()",
    "net.table.update([('u', nn.ReLU())])", "net.table.update(3)", "net.ps.append(torch.ones(1))", "net.ps[0]",
    "net.ps[0] = torch.zeros(2)", "net.ps[5]", "net.ps.extend([torch.ones(2)])", "net.ps += [torch.ones(1)]", "list(net.ps)",
    "net.ps[:1]", "net.pd['n'] = torch.ones(2)", "net.pd['n']", "net.pd.get('zz')", "net.pd.setdefault('s', torch.ones(1))",
    "net.pd.popitem()", "net.pd.fromkeys(['a', 'b'], 1)", "net.pd | nn.ParameterDict({'r': torch.ones(1)})",
    "list(net.pd.keys())", "net.pd.copy()", "net.pd.pop('k')", "net.pd.update({'k': torch.zeros(1)})",
    "import copy; other = copy.deepcopy(net); other(x)",
    "import pickle; other = pickle.loads(pickle.dumps(net.seq[0])); other(x)",
    "import io; f = io.BytesIO(); torch.save(net.state_dict(), f); f.seek(0); net.load_state_dict(torch.load(f))",
    "sum(p.numel() for p in net.parameters())", "[p.requires_grad for p in net.parameters()]",
    "[p.dtype for p in net.parameters()]", "log", "net.a.count", "nn.utils.parameters_to_vector(net.parameters())",
    "nn.utils.clip_grad_norm_(net.parameters(), 1.0)", "nn.utils.clip_grad_value_(net.parameters(), 0.1)",
    "nn.utils.parametrizations.weight_norm(net.seq[0])",
    "nn.utils.parametrize.register_parametrization(net.seq[0], 'weight', nn.ReLU())",
    "nn.utils.parametrize.remove_parametrizations(net.seq[0], 'weight')",
    "nn.utils.prune.l1_unstructured(net.seq[0], 'weight', 0.5)", "nn.utils.prune.remove(net.seq[0], 'weight')",
    "nn.utils.spectral_norm(net.seq[0])", "torch.func.functional_call(net, {'a.scale': torch.zeros(2)}, x)",
    "torch.func.functional_call(net, {'zzz': torch.zeros(2)}, x)",
    "torch.func.stack_module_state([net.seq[0], nn.Linear(2, 2)])", "dir(net.a)[-6:]", "net.__dict__.keys()",
    "net.a.__dict__['_buffers']", "net.a._non_persistent_buffers_set", "net.a.named_parameters(prefix='p')",
    "list(dict(net.a.named_parameters(prefix='p', recurse=False)))",
    "[n for n, _ in net.named_parameters(remove_duplicate=False)]", "net.ps2 = net.a.scale", "net.get_extra_state()",
    "net.set_extra_state(3)",
    "net.state_dict(prefix='m.', keep_vars=True)['m.a.scale'] if 'm.a.scale' in net.state_dict(prefix='m.') else None",
    "net.state_dict(destination={}) is None", "net.forward = lambda x: x", "net.__call__(x)", "net(x, 3)", "net()",
    "net(y=3)", "isinstance(net.a, nn.Module)", "hasattr(net, 'a'), hasattr(net, 'zz')",
    "setattr(net, 'lin', net.a.lin) if hasattr(net.a, 'lin') else None", "vars(net)['_modules'].keys()",
    "net.buffers().__next__()", "net.cpu() is net",
)


def modules(r):
    """Sequences of what is done to a module."""
    steps = [r.choice(_STEPS) for _ in range(r.randint(6, 12))]
    return "\n".join((_SETUP, *steps, "[n for n, _ in net.named_parameters()]", "log"))
