"""Models as they are deployed: prepared for inference, frozen, exported, packed, and called with other sizes and weights."""

# ruff: noqa: E501

from __future__ import annotations

# PyTorch's packages take a compiler of C++ and its ONNX another package: there the model itself is the oracle.
_START = """import copy, io, os, pickle, tempfile, warnings
warnings.simplefilter('ignore')
__ft = torch.__name__ == 'ftorch'
__folder = tempfile.mkdtemp()
draw = lambda *shape: torch.randint(-16, 17, shape) / 8
def grid(m):
    with torch.no_grad():
        for p in m.parameters():
            p.copy_((p * 16).round() / 16)
    return m
def settled(m):  # statistics that are not those of the beginning
    for b in m.modules():
        if isinstance(b, nn.modules.batchnorm._BatchNorm) and b.running_mean is not None:
            b.running_mean.copy_(torch.arange(b.num_features) / 4 - 0.5)
            b.running_var.copy_(torch.arange(b.num_features) / 8 + 0.5)
    return m
def again(value, save, load):
    file = io.BytesIO()
    save(value, file)
    file.seek(0)
    return load(file)
def outside(function):  # what has left Python knows no modes
    def call(*args):
        with torch.no_grad(), torch.autocast('cpu', enabled=False):
            return torch.utils._pytree.tree_map(lambda t: t.detach() if torch.is_tensor(t) else t, function(*args))
    return call
def packed(program):
    if not __ft:
        return outside(program.module())
    path = torch._inductor.aoti_compile_and_package(program, package_path=os.path.join(__folder, 'p.pt2'))
    return torch._inductor.aoti_load_package(path)
class Session:
    def __init__(self, model, args, shapes):
        import onnxruntime
        model = torch.onnx.export(model, args, dynamic_shapes=shapes, input_names=['a']).model_proto
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), providers=['CPUExecutionProvider'])
    def __call__(self, *args):
        names = [i.name for i in self.session.get_inputs()]
        found = self.session.run(None, {n: a.detach().numpy() for n, a in zip(names, args)})
        found = [torch.from_numpy(f) for f in found]
        return found[0] if len(found) == 1 else tuple(found)
def onnx(model, args, shapes):
    return Session(model, args, shapes) if __ft else outside(model)
def stablehlo(program):
    if not __ft:
        return outside(program.module())
    import jax
    call = jax.export.deserialize(bytearray(program.to_stablehlo())).call
    return lambda *args: torch.utils._pytree.tree_map(lambda f: torch.from_numpy(np.array(f)), call(*[a.detach().numpy() for a in args]))"""

# (text, features behind it) of layers that take a matrix of `{c}` features.
_FLAT = [
    "nn.Linear({c}, {d})", "nn.Linear({c}, {d}, bias=False)", "nn.Linear({c}, {d}), nn.BatchNorm1d({d})", "nn.LayerNorm({c})",
    "nn.ReLU()", "nn.GELU()", "nn.GELU('tanh')", "nn.SiLU()", "nn.Dropout(0.5)", "nn.Softmax(-1)", "nn.Tanh()", "nn.Hardswish()",
    "nn.RMSNorm({c})", "nn.PReLU()", "nn.LeakyReLU(0.2)", "nn.ELU()", "nn.Softplus()", "nn.LogSoftmax(1)", "nn.Bilinear({c}, {c}, {d})",
    "torch.nn.utils.parametrizations.weight_norm(nn.Linear({c}, {d}))", "nn.GLU()", "nn.Sequential(nn.Linear({c}, {d}), nn.Sigmoid())",
    "nn.AlphaDropout(0.3)", "nn.Hardtanh()", "nn.Softsign()", "nn.Identity()",
]
_IMAGES = [
    "nn.Conv2d({c}, {d}, 3, padding=1)", "nn.Conv2d({c}, {d}, 3, stride=2, bias=False), nn.BatchNorm2d({d}), nn.ReLU()",
    "nn.BatchNorm2d({c})", "nn.MaxPool2d(2)", "nn.AvgPool2d(3, 1, 1)", "nn.Conv2d({c}, {d}, 1)", "nn.GroupNorm(1, {c})",
    "nn.Conv2d({c}, {d}, 3, padding='same', dilation=2)", "nn.ConvTranspose2d({c}, {d}, 2, stride=2), nn.BatchNorm2d({d})",
    "nn.InstanceNorm2d({c}, affine=True)", "nn.SiLU()", "nn.Upsample(scale_factor=2, mode='bilinear')", "nn.Dropout2d()",
    "nn.AdaptiveAvgPool2d(4)", "nn.LocalResponseNorm(2)", "nn.Conv2d({c}, {d}, 3, padding=1, padding_mode='reflect')", "nn.ReLU6()",
    "nn.Conv2d({c}, {d}, 3, padding=1), nn.BatchNorm2d({d}), nn.SiLU()", "nn.Conv2d({c}, {c}, 3, padding=1, groups={c}), nn.BatchNorm2d({c})",
]
_SEQUENCES = [
    "First(nn.LSTM({c}, {d}, batch_first=True))", "First(nn.GRU({c}, {d}, 2))", "First(nn.RNN({c}, {d}, batch_first=True))",
    "nn.TransformerEncoderLayer({c}, 2, 8, batch_first=True)", "nn.TransformerEncoderLayer({c}, 2, 8, norm_first=True, activation='gelu')",
    "Self(nn.MultiheadAttention({c}, 2, batch_first=True))", "nn.LayerNorm({c})", "nn.Linear({c}, {d}), nn.GELU()", "nn.Linear({c}, {d})",
    "First(nn.LSTM({c}, {d} // 2, bidirectional=True))", "Attend({c})", "nn.TransformerEncoder(nn.TransformerEncoderLayer({c}, 2, 8, batch_first=True), 1)",
]
_WRAPS = """class First(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m
    def forward(self, x):
        return self.m(x)[0]
class Self(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m
    def forward(self, x):
        return self.m(x, x, x, need_weights=False)[0]
class Attend(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.qkv = nn.Linear(c, 3 * c)
    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, -1)).transpose(1, 3).unbind(2)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)"""

_MODELS = {
    "residual": "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.l = layers()\n        self.register_buffer('scale', torch.tensor(0.5))\n"
                "    def forward(self, x):\n        y = self.l(x)\n        return y * self.scale + y.mean(0, keepdim=True)",
    "several": "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.l = layers()\n"
               "    def forward(self, x):\n        y = self.l(x)\n        return y, y.sum(-1), (y.argmax(-1) if y.dim() == 2 else y.amax(0))",
    "sizes": "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.l = layers()\n"
             "    def forward(self, x):\n        y = self.l(x).flatten(1)\n        return y.reshape(x.shape[0], -1, 1) / x.shape[0] + torch.arange(y.shape[1])[:, None]",
    "writes": "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.l = layers()\n"
              "    def forward(self, x):\n        y = self.l(x).clone()\n        y[:, 0] = 1.0\n        y[1:] *= 2\n        return y.clamp_(-3, 3)",
    "dictionary": "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.l = layers()\n"
                  "    def forward(self, x):\n        y = self.l(x)\n        return {'out': y, 'top': y.flatten(1).topk(2)[0]}",
    "plain": "Net = lambda: layers()",
}

_PREPARED = {
    "eager": "m", "inference": "torch.inference_mode()(m)", "no_grad": "torch.no_grad()(m)",
    "traced": "torch.jit.trace(m, (x,))", "scripted": "torch.jit.script(m)", "frozen": "torch.jit.freeze(torch.jit.trace(m, (x,)))",
    "frozen script": "torch.jit.freeze(torch.jit.script(m))", "optimized": "outside(torch.jit.optimize_for_inference(torch.jit.script(m)))",
    "optimized trace": "outside(torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(m, (x,)))))",
    "saved trace": "again(torch.jit.trace(m, (x,)), torch.jit.save, torch.jit.load)",
    "saved frozen": "again(torch.jit.freeze(torch.jit.script(m)), torch.jit.save, torch.jit.load)",
    "exported": "torch.export.export(m, (x,), dynamic_shapes=shapes).module()",
    "exported fixed": "torch.export.export(m, (x,)).module()",
    "saved export": "again(torch.export.export(m, (x,), dynamic_shapes=shapes), torch.export.save, torch.export.load).module()",
    "decomposed": "torch.export.export(m, (x,), dynamic_shapes=shapes).run_decompositions().module()",
    "unflattened": "torch.export.unflatten(torch.export.export(m, (x,)))",
    "package": "packed(torch.export.export(m, (x,), dynamic_shapes=shapes))",
    "onnx": "onnx(m, (x,), shapes)", "stablehlo": "stablehlo(torch.export.export(m, (x,), dynamic_shapes=shapes))",
    "compiled": "(torch.compile(m) if __ft else m)", "compiled whole": "(torch.compile(m, fullgraph=True, dynamic=True) if __ft else m)",
    "graph": "torch.fx.symbolic_trace(m)", "fused": "torch.fx.experimental.optimization.fuse(m)", "copied": "copy.deepcopy(m)",
    "pickled": "again(m, torch.save, lambda f: torch.load(f, weights_only=False))",
    "loaded": "loaded(m)", "functional": "lambda *a: torch.func.functional_call(m, {k: v.detach() for k, v in m.state_dict().items()}, a)",
    "dynamic": "torch.ao.quantization.quantize_dynamic(m, {nn.Linear, nn.LSTM, nn.GRU})",
    "dynamic scripted": "torch.jit.script(torch.ao.quantization.quantize_dynamic(m, {nn.Linear}))",
    "dynamic traced": "torch.jit.freeze(torch.jit.trace(torch.ao.quantization.quantize_dynamic(m, {nn.Linear}), (x,)))",
    "dynamic compiled": "(torch.compile if __ft else (lambda f: f))(torch.ao.quantization.quantize_dynamic(m, {nn.Linear, nn.LSTM}))",
    "made": "torch.fx.experimental.proxy_tensor.make_fx(lambda x: m(x))(x)",
    "channels_last": "m.to(memory_format=torch.channels_last)",
    "meta": "assigned(m)", "eval many": "torch.nn.utils.fusion.fuse_conv_bn_eval(*m[:2]) if isinstance(m, nn.Sequential) and isinstance(m[0], nn.Conv2d) and isinstance(m[1], nn.BatchNorm2d) else m",
}
_KEPT = {"exported fixed", "unflattened", "made", "traced", "frozen", "saved trace", "optimized trace", "dynamic traced", "graph"}  # of one size
_HELPERS = """def loaded(m):
    n = settled(grid(Net())).eval()
    n.load_state_dict(again(m.state_dict(), torch.save, torch.load))
    return n
def assigned(m):
    with torch.device('meta'):
        n = Net().eval()
    n.load_state_dict({k: v.clone() for k, v in m.state_dict().items()}, assign=True)
    return n
def run(f, *args):
    global __raw
    torch.manual_seed(1)
    __raw = f(*args)  # whose nodes have names of their own in scripts
    seen = lambda t: [t.detach(), t.requires_grad] if torch.is_tensor(t) else t
    return torch.utils._pytree.tree_map(seen, dict(__raw) if isinstance(__raw, dict) else __raw)"""

_DEPLOYED = {"package", "onnx", "stablehlo"}  # have weights of their own, and sizes from 2 on
_EVENTS = [
    "with torch.no_grad(): [p.mul_(0.5) for p in m.parameters()]", "m.load_state_dict({k: v * 0.5 for k, v in m.state_dict().items()})",
    "m.train()", "m.eval()", "m.requires_grad_(False)", "m.double(); m.float()", "m.zero_grad()",
    "with torch.inference_mode(): [b.mul_(1) for b in m.buffers() if b.is_floating_point()]",
    "torch.set_grad_enabled(False)", "torch.set_grad_enabled(True)", "x = x.detach().requires_grad_()",
]


def _chain(r, options, c):
    parts = []
    for _ in range(r.choice([1, 2, 2, 3, 4])):
        d, text = r.choice([4, 6, 8]), r.choice(options)
        if "Bilinear" in text or ("GLU" in text and "GLU()" in text and options is _FLAT and "GELU" not in text and "SiLU" not in text):
            continue
        parts.append(text.format(c=c, d=d))
        c = d if "{d}" in text else c
    return parts, c


def inference(r):
    """A model prepared for inference in one of the ways, called with several sizes, again after its weights changed."""
    kind = r.choice(["flat", "flat", "images", "images", "sequences", "tokens"])
    if kind == "flat":
        parts, _ = _chain(r, _FLAT, 4)
        shapes = ["4, 4", "2, 4", "7, 4", "1, 4"]
    elif kind == "images":
        parts, c = _chain(r, _IMAGES, 2)
        parts += r.choice([[], [f"nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear({c}, 3)"]])
        shapes = ["3, 2, 16, 16", "2, 2, 16, 16", "5, 2, 16, 16", "1, 2, 16, 16"]
    else:
        parts, c = _chain(r, _SEQUENCES, 4)
        parts.append(f"nn.Linear({c}, 3)")
        shapes = ["3, 5, 4", "2, 5, 4", "6, 5, 4", "1, 5, 4"]
    if kind == "tokens":
        parts.insert(0, r.choice(["nn.Embedding(11, 4)", "nn.Embedding(11, 4, padding_idx=0)", "nn.Embedding(11, 4, max_norm=2.)"]))
        values = [f"torch.randint(0, 11, ({s[:-3]},))" for s in shapes]
    else:
        values = [f"draw({s})" for s in shapes]
    model = r.choice(list(_MODELS))
    precision = r.choice(["float", "float", "float", "autocast", "autocast", "half autocast", "bfloat16", "half", "double"])
    how = r.choice([k for k in _PREPARED if k != "onnx" or precision == "float"])
    if how == "stablehlo" and precision in ("bfloat16", "half"):
        precision = "float"
    lines = [_START, _WRAPS, f"layers = lambda: nn.Sequential({', '.join(parts)})", _MODELS[model], _HELPERS,
             "m = settled(grid(Net())).eval()", f"x = {values[0]}"]
    if kind == "images" and r.random() < 0.3:
        lines.append("x = x.to(memory_format=torch.channels_last)")
    if precision in ("bfloat16", "half", "double"):
        lines += [f"m = m.{precision}()"] + ([] if kind == "tokens" else [f"x = x.{precision}()"])
        values = [v if kind == "tokens" else f"({v}).{precision}()" for v in values]
    lines.append("shapes = ({0: torch.export.Dim('n', min=2, max=64)},)" if how not in _KEPT else "shapes = None")
    context = {"autocast": "with torch.autocast('cpu', torch.bfloat16): ", "half autocast": "with torch.autocast('cpu', torch.float16): "}.get(precision, "")
    if r.random() < 0.5:
        context = r.choice(["with torch.no_grad(): ", "with torch.inference_mode(): "]) + (context and "\n    " + context)
    call = f"{context}out = run(__f, X)" if context else "out = run(__f, X)"
    inside = precision in ("autocast", "half autocast") and r.random() < 0.5  # prepared under autocast, too
    lines.append((context.split("\n    ")[-1] if inside else "") + f"__f = {_PREPARED[how]}")
    lines.append(call.replace("X", "x"))
    for value in r.sample(values[:3] if how in _DEPLOYED else values, 2):
        lines.append(call.replace("X", values[0] if how in _KEPT else value))
    for _ in range(r.choice([0, 1, 1, 2])):
        event = r.choice(_EVENTS[2:] if how in _DEPLOYED else _EVENTS)
        lines += [event, call.replace("X", "x")]
    lines.append("torch.set_grad_enabled(True)")
    if r.random() < 0.3:
        lines += ["out = run(__f, x)", "torch.utils._pytree.tree_leaves(__raw)[0].sum().backward()", "[p.grad for p in m.parameters()]"]
    return "\n".join(lines)
