"""Subclasses of tensors: `__torch_function__`, attributes, and what becomes of both in calls, copies and files."""

from __future__ import annotations

_START = '''import copy, io, pickle
def again(x):
    f = io.BytesIO(); torch.save(x, f); f.seek(0); return torch.load(f, weights_only=False)
calls = []
class Plain(torch.Tensor): pass
class Noted(torch.Tensor):
    @staticmethod
    def __new__(cls, data, note="n"):
        t = torch.as_tensor(data).as_subclass(cls); t.note = note; return t
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        r = super().__torch_function__(func, types, args, kwargs or {})
        calls.append(getattr(func, "__name__", str(func)))
        if isinstance(r, Noted): r.note = "made"
        return r
class Child(Noted): pass
class Loud(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        calls.append((getattr(func, "__name__", str(func)), sorted(t.__name__ for t in types)))
        if func in (torch.mul, torch.Tensor.mul): return NotImplemented
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))
class Bare(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl
class Duck:
    def __init__(self, t): self.t = t
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        calls.append(func.__name__)
        un = lambda a: a.t if isinstance(a, cls) else a
        if any(issubclass(t, Loud) for t in types): return NotImplemented
        return cls(func(*[un(a) for a in args], **{k: un(v) for k, v in (kwargs or {}).items()}))
class Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        calls.append("mode " + getattr(func, "__name__", "?")); return func(*args, **(kwargs or {}))
def kind(x):
    return type(x).__name__, getattr(x, "note", None), getattr(x, "tag", None)
x = torch.arange(4.0)
p, n, c, l, b, d = x.as_subclass(Plain), Noted(x), Child(x, "c"), x.as_subclass(Loud), x.as_subclass(Bare), Duck(x)
w = nn.Parameter(torch.ones(4))
m = nn.Linear(4, 2)
p.tag = n.tag = "t"
'''
_OPS = (
    "{a} + 1", "{a} + {b}", "{b} * {a}", "1 - {a}", "{a}.sum()", "torch.mul({a}, {b})", "torch.add({a}, {b}, alpha=2)", "torch.stack([{a}, {b}])", "torch.cat([{a}, x])", "{a}[1:]", "{a}[0]", "{a}[torch.tensor([0, 1])]", "{a}.view(2, 2)", "{a}.t()", "{a}.clone()", "{a}.detach()", "{a}.data", "{a}.float()", "{a}.double()", "{a}.to(torch.float64)", "{a}.to('cpu')", "{a}.long()", "{a}.cpu()", "{a}.contiguous()", "{a}.requires_grad_()", "{a}.new_zeros(2)", "{a}.new_tensor([1.0])", "torch.zeros_like({a})", "torch.rand_like({a}).shape", "{a} == {b}", "{a} > 1", "{a}.max(0)", "torch.max({a}, {b})", "{a}.sort()", "torch.topk({a}, 2)", "{a}.split(2)", "{a}.unbind()", "{a}.tolist()", "{a}.numpy()",
    "{a}.item()", "{a}.size()", "{a}.shape", "{a}.dtype", "{a}.device", "{a}.dim()", "{a}.ndim", "{a}.numel()", "len({a})", "bool({a}[0])", "list({a})", "repr({a})", "str({a})", "f'{{{a}}}'", "hash({a}) == hash({a})", "{a}.grad", "{a}.is_leaf", "{a}.T", "{a}.mT", "{a}.real", "{a}.add_(1)", "{a}.mul_({b})", "{a}.copy_({b})", "{a}.zero_()", "torch.add({a}, 1, out=torch.empty(4))", "torch.add(x, 1, out={a})", "torch.where({a} > 0, {a}, {b})", "F.relu({a})", "F.linear({a}, m.weight)", "F.softmax({a}, 0)", "F.mse_loss({a}, {b})", "F.dropout({a}, 0.0)", "F.pad({a}, (1, 1))", "m({a})", "nn.ReLU()({a})", "torch.einsum('i,i->', {a}, {b})", "{a} @ {b}", "torch.linalg.norm({a})", "{a}.norm()", "torch.tensor({a})", "torch.as_tensor({a})", "torch.asarray({a})", "torch.Tensor({a})",
    "torch.is_tensor({a})", "isinstance({a}, torch.Tensor)", "{a}.as_subclass(torch.Tensor)", "{a}.as_subclass(Plain)", "{a}.as_subclass(Child)", "torch.Tensor._make_subclass(Plain, x, True)", "torch.Tensor.add({a}, {b})", "x + {a}", "x.add({a})", "x.add_({a})", "x.copy_({a})", "{a}.expand(2, 4)", "{a}.reshape(2, 2)", "{a}.__class__", "{a}.foo", "torch.nn.functional.one_hot({a}.long())", "{a}.apply_(lambda v: v + 1)", "{a}.map_({b}, lambda u, v: u + v)", "np.asarray({a})", "np.add({a}, 1)", "{a}.type()", "{a}.is_contiguous()", "{a}.stride()", "{a}.equal({b})", "torch.equal({a}, {b})", "torch.allclose({a}, {b})", "torch.broadcast_tensors({a}, {b})", "torch.meshgrid({a}, {b}, indexing='ij')", "torch.split({a}, 2)", "{a}.chunk(2)", "{a} += 1", "{a} **= 2", "{a} and 1", "-{a}", "abs({a})", "{a} // 2", "~({a} > 1)", "divmod({a}, 2)", "round({a})", "int({a}[1])", "{a}.index_put((torch.tensor([0]),), {b}[0])", "{a}.backward()", "torch.result_type({a}, 1)", "torch.broadcast_shapes((1,), (4,))", "{a}.masked_fill({a} > 1, 0)", "{a}.scatter(0, torch.tensor([0]), {b})", "torch.special.erf({a})", "torch.fft.fft({a})",
)
_STATE = (
    "copy.copy({a})", "copy.deepcopy({a})", "pickle.loads(pickle.dumps({a}))", "again({a})", "again([{a}, {b}])", "nn.Parameter({a})", "nn.Parameter({a}, requires_grad=False)", "nn.Parameter(torch.zeros_like({a}))", "type(nn.Parameter({a}).data)", "isinstance(nn.Parameter({a}), nn.Parameter)", "m.bias = nn.Parameter({a}[:2])", "m.weight = {a}", "m.register_buffer('buf', {a})", "m.buf", "m.state_dict()", "m.load_state_dict(m.state_dict())", "m.load_state_dict({{**m.state_dict(), 'bias': {a}[:2]}}, strict=False)", "m.load_state_dict({{'weight': torch.ones(2, 4), 'bias': {a}[:2]}}, assign=True, strict=False)", "copy.deepcopy(m)", "m.double()", "m.float()", "list(m.parameters())", "m.bias", "{a}.note = 'new'", "{a}.tag = [1]", "{a}.tag", "del {a}.tag", "{a}.__dict__", "vars({a})", "dir({a})[-3:]", "{a}.data = x * 2", "x.data = {a}", "{a}.grad = torch.ones(4)", "{a}.grad = {b}",
    "y = {a}.clone().requires_grad_(); (y * 2).sum().backward(); y.grad", "torch.autograd.grad(({a}.clone().requires_grad_() * 1).sum(), [w], allow_unused=True)", "(w * {a}).sum().backward(); w.grad", "w.grad = None", "torch.autograd.grad((w * {a}).sum(), w)", "torch.save({a}, io.BytesIO())", "with torch._C.DisableTorchFunctionSubclass(): z = {a} + 1", "with torch._C.DisableTorchFunction(): z = {a} + 1", "with Mode(): z = {a} + 1", "with Mode(): z = x + 1", "with Mode(): z = F.relu({a})", "z", "calls", "calls.clear()", "torch.overrides.is_tensor_like({a})", "torch.overrides.has_torch_function(({a},))", "torch.overrides.has_torch_function_unary({a})", "torch.overrides.is_tensor_method_or_property(torch.Tensor.add)", "torch.overrides.resolve_name(torch.add)", "kind({a} + 1)", "kind({a}[0])", "kind({a}.view(2, 2))", "kind(copy.deepcopy({a}))", "kind(copy.copy({a}))", "kind(again({a}))", "kind(pickle.loads(pickle.dumps({a})))", "kind({a}.add_(1))", "kind(nn.Parameter({a}))", "kind({a}.detach())", "kind({a}.requires_grad_())", "kind({a}.to(torch.float64))", "kind({a}.as_subclass(Plain))",
    "kind(torch.stack([{a}, {b}]))", "kind({a} + {b})", "kind({b} + {a})", "kind({a}.data)", "kind({a}.T)", "kind({a}.sum())", "kind({a}.max(0).values)", "kind({a}.split(2)[0])", "kind(m({a}))", "kind(nn.Buffer({a}))", "kind(torch.func.vmap(lambda t: t * 2)({a}))", "kind(torch.func.grad(lambda t: (t * 2).sum())({a}))", "kind(torch.utils.data.default_collate([{a}, {a}]))", "opt = torch.optim.SGD([nn.Parameter({a})], 0.1)", "nn.ParameterList([{a}])", "nn.ParameterDict({{'k': {a}}})", "nn.utils.parameters_to_vector([{a}])", "torch.utils.swap_tensors(x, {a})", "{a}.share_memory_().is_shared()", "{a}.register_hook(lambda g: g)", "Noted([1.0, 2.0], 'q')", "Plain([1.0])", "Plain(2)", "Plain()", "Child.__torch_function__(torch.add, (Child,), (c, 1))", "torch.Tensor.__torch_function__(torch.add, (Plain,), (p, 1))", "{a}.__torch_function__ is not None", "issubclass(Child, Noted)", "__import__('weakref').ref({a})() is {a}", "torch.compile(lambda t: t + 1)({a}) if False else None", "{a} in [{b}]", "[{a}].index({a})", "set([{a}, {a}]).__len__()",
)


def subclasses(r):
    """Calls on tensors of a few subclasses, mixed, with the list of what each handler saw."""
    lines = [_START]
    for _ in range(r.randint(6, 12)):
        line = r.choice(_OPS if r.random() < 0.55 else _STATE)
        lines += [line.format(a=r.choice("ppnnnccllbd"), b=r.choice("xpnclbdxx")), "calls[-6:]"]
    return "\n".join([*lines, "[kind(t) for t in (x, p, n, c, l, b)]", "len(calls)"])
