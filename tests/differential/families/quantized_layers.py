"""Layers, observers and conversions of quantization: what modules give, observe and become."""

# ruff: noqa: E501

from __future__ import annotations

# Inputs and weights are multiples of such powers of two that sums are exact in any order.
_DRAW = "draw = lambda *shape: torch.randint(-16, 17, shape) / 8"
_MADE = """def made(m, weight, bias):
    m.set_weight_bias(weight, bias)  # before anyone looks: it begins with whatever memory held
    return m"""
_GRID = """def grid(m):
    with torch.no_grad():
        for p in m.parameters():
            p.copy_((p * 16).round() / 16)
    return m"""


def _start(*lines):
    return ["import warnings; warnings.simplefilter('ignore')", _DRAW, _GRID, _MADE, *lines]


def _bool(r):
    return str(r.random() < 0.5)


def _scale(r):
    return r.choice(["0.0213", "0.0517", "0.125", "0.0371", "1.0113", "0.25"])


def _values(r, *shape):
    """Text of a tensor, sometimes with numbers that are none."""
    sizes = ", ".join(map(str, shape))
    text = r.choice([f"torch.randn({sizes})", f"draw({sizes})", f"torch.rand({sizes})", f"-torch.rand({sizes})",
                     f"torch.zeros({sizes})", f"torch.randn({sizes}) * 1e4", f"torch.randn({sizes}) * 1e-6"])
    special = r.choice(["nan", "inf", "-inf"])
    flat = f"({text}).flatten().index_fill(0, torch.tensor([{r.randrange(4)}]), float('{special}')).reshape({sizes})"
    return flat if r.random() < 0.15 else text


def dynamic(r):
    """Modules of nn.quantized.dynamic."""
    i, o, dtype = r.choice([3, 8, 16, 33]), r.choice([1, 4, 7]), r.choice(["qint8", "qint8", "float16"])
    kind = r.choice(["Linear", "Linear", "LSTM", "GRU", "LSTMCell", "GRUCell", "RNNCell", "functional", "module"])
    lines = _start()
    if kind == "functional":
        lines += [
            f"w = torch.quantize_per_tensor(draw({o}, {i}), {_scale(r)}, {r.choice([0, 0, 2])}, torch.qint8)",
            f"packed = torch.ops.quantized.linear_prepack(w, {r.choice(['None', f'draw({o})'])})",
            f"x = {_values(r, *r.choice([(4,), (2, 3), (1,), (0,)]), i)}",
            f"torch.ops.quantized.linear_dynamic(x, packed, {_bool(r)})",
            f"torch.ops.quantized.linear_relu_dynamic(x, packed, {_bool(r)})",
            f"h = torch.ops.quantized.linear_prepack_fp16(draw({o}, {i}), draw({o}))",
            "torch.ops.quantized.linear_dynamic_fp16(x, h)",
            "torch.ops.quantized.linear_unpack(packed)[0]",
        ]
        return "\n".join(lines)
    if kind == "Linear":
        qconfig = r.choice(["default_dynamic_qconfig", "per_channel_dynamic_qconfig", "float16_dynamic_qconfig"])
        lines += [
            f"m = grid(nn.Sequential(nn.Linear({i}, {o}, bias={_bool(r)}), nn.{r.choice(['ReLU', 'Tanh', 'Identity'])}()))",
            f"q = torch.ao.quantization.quantize_dynamic(m, {{nn.Linear: torch.ao.quantization.{qconfig}}})",
            "q", f"x = {_values(r, *r.choice([(4,), (2, 3), (1,), ()]), i)}",
        ]
    elif kind == "module":
        lines += [
            f"w = torch.quantize_per_tensor(draw({o}, {i}), {_scale(r)}, 0, torch.qint8)" if dtype == "qint8" else f"w = draw({o}, {i})",
            f"q = made(torch.ao.nn.quantized.dynamic.Linear({i}, {o}, bias_={_bool(r)}, dtype=torch.{dtype}), w, draw({o}))",
            f"x = {_values(r, 4, i)}", "q",
        ]
    elif kind.endswith("Cell"):
        more = f", nonlinearity={r.choice(['tanh', 'relu'])!r}" if kind == "RNNCell" else ""
        lines += [
            f"m = grid(nn.Sequential(nn.{kind}({i}, {o}, bias={r.choice(['True', 'True', 'False'])}{more})))",
            f"q = torch.ao.quantization.quantize_dynamic(m, {{nn.{kind}}}, dtype=torch.{dtype})", "q",
            f"x = {_values(r, 3, i)}",
        ]
    else:
        layers, first, both = r.choice([1, 1, 2, 3]), _bool(r), r.random() < 0.4
        lines += [
            f"m = grid(nn.Sequential(nn.{kind}({i}, {o}, {layers}, bias={r.choice(['True', 'True', 'False'])}, "
            f"batch_first={first}, bidirectional={both})))",
            f"q = torch.ao.quantization.quantize_dynamic(m, {{nn.{kind}}}, dtype=torch.{dtype})", "q",
            f"x = {_values(r, 3, 4, i)}",
        ]
        form = r.choice(["plain", "state", "packed", "packed state", "unsorted", "one"])
        lines.append("q = q[0]")
        batch = "x.shape[0]" if first == "True" else "x.shape[1]"
        state = f"h = draw({layers * (2 if both else 1)}, {batch}, {o})"
        lines += [state, "h = (h, h / 2)" if kind == "LSTM" else "h = h / 2"]
        if "packed" in form or form == "unsorted":
            lengths = "torch.tensor([3, 2, 1, 1][:n])" if form != "unsorted" else "torch.tensor([1, 3, 2, 3][:n])"
            lines += [f"n = {batch}", "t = x.shape[1]" if first == "True" else "t = x.shape[0]",
                      f"x = torch.nn.utils.rnn.pack_padded_sequence(x, {lengths}, {first}, {form != 'unsorted'})"]
        if form == "one":
            lines.append("x = x[0]")
        lines.append("found = q(x, h)" if "state" in form else "found = q(x)")
        lines.append("list(found[0]) if isinstance(found[0], tuple) else found[0]")
        return "\n".join([*lines, "found[1]", "{k: v for k, v in q.state_dict().items() if hasattr(v, 'shape')}"])
    return "\n".join([*lines, "q(x)", "{k: v for k, v in q.state_dict().items() if hasattr(v, 'shape')}"])


def _quantized(r, *shape, dtype="quint8"):
    point = r.choice([0, 3, 128, 77, 255]) if dtype == "quint8" else r.choice([0, 0, -5])
    return f"torch.quantize_per_tensor(draw({', '.join(map(str, shape))}), {_scale(r)}, {point}, torch.{dtype})"


def _weight(r, o, *rest, axis=0, points=False):
    sizes = ", ".join(map(str, (o, *rest)))
    if r.random() < 0.5:
        return f"torch.quantize_per_tensor(draw({sizes}), {_scale(r)}, {r.choice([0, 0, 3])}, torch.qint8)"
    n = (o, *rest)[axis]
    zeros = f"torch.randint(-3, 4, ({n},))" if points and r.random() < 0.5 else f"torch.zeros({n}, dtype=torch.long)"
    return (f"torch.quantize_per_channel(draw({sizes}), torch.tensor([{', '.join(_scale(r) for _ in range(n))}]), "
            f"{zeros}, {axis}, torch.qint8)")


def _convolution(r):
    n, groups, turned = r.choice([1, 2, 2, 3]), r.choice([1, 1, 2]), r.random() < 0.3
    i, o, k = groups * r.choice([1, 2, 3]), groups * r.choice([1, 2, 4]), r.choice([1, 2, 3])
    relu = "" if turned else r.choice(["", "ReLU"])

    def several(choices):
        return str(tuple(r.choice(choices) for _ in range(n))) if r.random() < 0.5 else str(r.choice(choices))

    module = f"torch.ao.nn.intrinsic.quantized.ConvReLU{n}d" if relu else (
        f"torch.ao.nn.quantized.Conv{'Transpose' if turned else ''}{n}d")
    padding = several([0, 1, 2])
    mode = "zeros" if turned else r.choice(["zeros", "zeros", "reflect" if n < 3 else "zeros"])
    more = f", output_padding={r.choice([0, 0, 1])}" if turned else ""
    stride = several([1, 2])
    sizes = (i, o // groups) if turned else (o, i // groups)
    lines = [
        f"w, b = {_weight(r, *sizes, *(k,) * n, axis=0)}, {r.choice(['None', f'draw({o})'])}",
        f"m = made({module}({i}, {o}, {k}, stride={stride}, padding={padding}, dilation={several([1, 1, 2])}, groups={groups}"
        f", padding_mode={mode!r}, bias={_bool(r)}{more}), w, b)",
        f"m.scale, m.zero_point = {_scale(r)}, {r.choice([0, 5, 128])}",
        f"x = {_quantized(r, r.choice([1, 2]), i, *(r.choice([5, 6, 7]),) * n)}",
    ]
    if n == 2 and r.random() < 0.3:
        lines.append("x = x.contiguous(memory_format=torch.channels_last)")
    return [*lines, "m(x)", "m", "m.weight()", "m.bias()"]


def _embedding(r):
    rows, width, bag = r.choice([4, 10]), r.choice([4, 8, 16]), r.random() < 0.7
    dtype = r.choice(["quint8", "quint8", "quint4x2"]) if bag else "quint8"  # PyTorch reads behind half bytes' rows
    qconfig = "float_qparams_weight_only_qconfig" + ("_4bit" if dtype == "quint4x2" else "")
    last = r.random() < 0.3
    kind = f"nn.EmbeddingBag({rows}, {width}, mode='sum', include_last_offset={last})" if bag else f"nn.Embedding({rows}, {width})"
    lines = [f"m = nn.Sequential({kind})", f"m.qconfig = torch.ao.quantization.{qconfig}",
             "torch.ao.quantization.prepare(m, inplace=True)", "torch.ao.quantization.convert(m, inplace=True)", "m",
             f"i = torch.randint(0, {rows}, (6,), dtype=torch.{r.choice(['int32', 'int64'])})",
             f"offsets = torch.tensor({r.choice(['[0, 2, 4]', '[0, 0, 5]', '[0]', '[0, 3, 6]'])}, dtype=i.dtype)"]
    lines += ["m[0](i, offsets)", "m[0](i, offsets, torch.arange(6) / 4)", "m[0](i.reshape(2, 3))"] if bag else ["m(i)", "m(i.reshape(2, 3))"]
    return [*lines, "m[0].weight().dequantize()", "m[0].weight()"]


def layers(r):
    """Modules of nn.quantized, and the functions of quantized tensors."""
    kind = r.choice(["linear", "conv", "conv", "conv", "embedding", "norm", "activation", "functional", "conv functional", "pool"])
    lines = _start()
    out = f"{_scale(r)}, {r.choice([0, 5, 128])}"
    if kind == "linear":
        i, o = r.choice([3, 8, 33]), r.choice([1, 4])
        module = r.choice(["torch.ao.nn.quantized.Linear", "torch.ao.nn.intrinsic.quantized.LinearReLU",
                           "torch.ao.nn.intrinsic.quantized.LinearLeakyReLU", "torch.ao.nn.intrinsic.quantized.LinearTanh"])
        more = ", 0.1" if "Leaky" in module else ""
        lines += [f"w, b = {_weight(r, o, i, points=True)}, {r.choice(['None', f'draw({o})'])}",
                  f"m = made({module}({i}, {o}{more}), w, b)",
                  f"m.scale, m.zero_point = {out}", f"x = {_quantized(r, *r.choice([(4,), (2, 3), (1,), ()]), i)}", "m(x)", "m",
                  "m.weight()"]
    elif kind == "conv":
        lines += _convolution(r)
    elif kind == "conv functional":
        n, k, groups = r.choice([1, 2, 3]), r.choice([1, 3]), r.choice([1, 2])
        x = _quantized(r, 1, 2, *(6,) * n)
        lines += [f"x = {x}", f"w = {_weight(r, 4, 2 // groups, *(k,) * n)}",
                  f"torch.ao.nn.quantized.functional.conv{n}d(x, w, {r.choice(['None', 'draw(4)'])}, stride={r.choice([1, 2])}, "
                  f"padding={r.choice([0, 1])}, dilation={r.choice([1, 2])}, groups={groups}, "
                  f"padding_mode={r.choice(['zeros', 'reflect'])!r}, scale={_scale(r)}, zero_point=5)"]
    elif kind == "embedding":
        lines += _embedding(r)
    elif kind == "norm":
        n = r.choice([2, 3])
        x = f"x = {_quantized(r, 2, 4, *(3,) * n)}"
        which = r.choice([
            f"m = torch.ao.nn.quantized.BatchNorm{n}d(4)", f"m = torch.ao.nn.quantized.GroupNorm(2, 4, draw(4), draw(4), {out})",
            f"m = torch.ao.nn.quantized.InstanceNorm{n}d(4, draw(4), draw(4), {out})",
            f"m = torch.ao.nn.quantized.LayerNorm(({', '.join('3' * n)}), draw({', '.join('3' * n)}), "
            f"draw({', '.join('3' * n)}), {out})"])
        lines += [x, which, "m", f"m.scale, m.zero_point = {out}" if "BatchNorm" in which else "None", "m(x)"]
    elif kind == "activation":
        x = f"x = {_quantized(r, *r.choice([(4, 5), (2, 3, 4), (1, 2, 3, 3), (0, 3), ()]), dtype=r.choice(['quint8', 'quint8', 'qint8']))}"
        which = r.choice(["ReLU6()", f"Hardswish({out})", f"ELU({out}, 0.7)", f"LeakyReLU({out}, 0.2)", f"Sigmoid({out})",
                          f"Softmax(-1, {out})", f"PReLU({out})", "Dropout()"])
        lines += [x, f"m = torch.ao.nn.quantized.{which}", "m", "m(x)"]
    elif kind == "functional":
        module = r.choice([f"m = torch.ao.nn.quantized.QFunctional(); m.scale, m.zero_point = {out}",
                           "m = torch.ao.nn.quantized.FloatFunctional()", "m = torch.ao.nn.quantized.FXFloatFunctional()"])
        x, y = _quantized(r, 3, 4), _quantized(r, *r.choice([(3, 4), (3, 4), (4,), (3, 1), (1, 4)]))
        lines += [f"x, y = {x}, {y}", module]
        call = r.choice(["add(x, y)", "mul(x, y)", "add_relu(x, y)", "cat([x, x])", "cat([x, x], 1)", "add_scalar(x, 0.3)",
                         "mul_scalar(x, -0.4)", "mul_scalar(x, 2)", "matmul(x, x.t())", "cat([x, y], 0)", "add_scalar(x, -1)"])
        lines += [f"m.{call}" if "= torch.ao.nn.quantized.QF" in module else f"m.{call.replace('x', 'x.dequantize()').replace('y', 'y.dequantize()').replace('mat', 'mat')}"]
    else:
        n = r.choice([1, 2, 2])
        x = _quantized(r, 1, 2, *(8,) * n, dtype=r.choice(["quint8", "quint8", "qint8"]))
        F = r.choice(["torch.ao.nn.quantized.functional", "F"])
        calls = [f"max_pool{n}d(x, {r.choice([2, 3])}, {r.choice([1, 2])}, {r.choice([0, 1])}, {r.choice([1, 2])}, ceil_mode={_bool(r)})",
                 "adaptive_avg_pool2d(x, (3, None))", "avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)",
                 "adaptive_avg_pool3d(x[None, None, :, :, :4], 2)", "avg_pool3d(x[None], 2)", "hardswish(x, 0.1, 3)", "hardtanh(x, -1., .5)",
                 "leaky_relu(x, 0.2, False)", "elu(x, 0.1, 2, 1.5)", "hardsigmoid(x)", "threshold(x, 0.1, 0.3)", "clamp(x, -0.3, 0.9)",
                 f"interpolate(x, scale_factor=2, mode={r.choice(['nearest', 'bilinear', 'nearest-exact'])!r})", "upsample_nearest(x, 13)",
                 "upsample_bilinear(x, 13)", "celu(x, 0.1, 2, 1.5)", "linear(x, torch.quantize_per_tensor(draw(3, 8), 0.1, 0, torch.qint8))",
                 "relu(x)", "sigmoid(x)", "tanh(x)", "pad(x, (1, 2))", "softmax(x, -1)", "dropout(x)", "gelu(x)", "pixel_shuffle(x, 1)",
                 "channel_shuffle(x, 2)", "unfold(x, 2)", "instance_norm(x)", "one_hot(x)", "fold(x, 2, 2)", "normalize(x)"]
        lines += [f"x = {x}", *(f"{F if r.random() < .5 else 'F'}.{r.choice(calls)}" for _ in range(4))]
    return "\n".join(lines)


_MOVES = [
    "q.t()", "q[0]", "q[:, 1]", "q[1:, ::2]", "q.flip(0)", "q.roll(1)", "torch.stack([q, q])", "torch.cat([q, q[:1]])", "q.split(2)",
    "q.chunk(2, 1)", "q.unbind()", "q.unfold(0, 2, 1)", "q.permute(1, 0)", "q.unsqueeze(1)", "q.reshape(-1)", "q.view(-1)", "q.repeat(2, 1)",
    "q.expand(2, *q.shape)", "q.narrow(1, 0, 2)", "q.select(0, 1)", "q.clone()", "q.contiguous()", "q.index_select(0, torch.tensor([1, 0]))",
    "q[torch.tensor([0, 1])]", "q[q.dequantize() > 0]", "q.masked_fill(q.dequantize() > 0, 0.5)", "q == q", "q > q", "q.eq(0.5)",
    "torch.equal(q, q.clone())", "q.max()", "q.min(0)", "q.sort(1)", "q.argsort(1)", "q.topk(2)", "q.mean()", "q.mean(1)", "q.std(1)", "q.sum()",
    "q.abs()", "-q", "q + q", "q * 2", "q + 1.5", "q @ q.t()", "q.float()", "q.to(torch.float64)", "q.int()", "q.half()", "q.dequantize()",
    "q.int_repr()", "q.item()", "q[0, 0].item()", "q.tolist()", "q.numpy()", "str(q)", "repr(q[0])", "q.diagonal()", "q.squeeze()",
    "q.flatten()", "q.copy_(torch.ones_like(q.dequantize()))", "q.copy_(q.flip(0))", "q.fill_(0.3)", "q.zero_()", "q[0].fill_(1.0)",
    "q.__setitem__(0, 0.7)", "q.__setitem__((0, 1), q[1, 1])", "q.resize_(3, 2)", "q.t_()", "q.relu_()", "q.clamp_(-0.3, 0.3)", "q.detach()",
    "torch.empty_like(q).shape", "torch.zeros_like(q)", "torch.ones_like(q)", "torch.full_like(q, 0.5)", "torch.where(q.dequantize() > 0, q, q)",
    "q.gather(1, torch.tensor([[0], [1]]))", "q.take(torch.tensor([0, 3]))", "q.element_size(), q.nelement(), q.dim()", "q.is_floating_point()",
    "q.untyped_storage().nbytes()", "q.is_contiguous(), q.stride()", "q.data", "q.sigmoid()", "q.tanh()", "q.exp()", "q.nonzero()",
    "q.new_zeros(2)", "q.new_tensor([1.0])", "q.type()", "q.type_as(torch.ones(1))", "q.movedim(0, 1)", "q.swapaxes(0, 1)", "q.tile(2)",
    "q.rot90()", "q.cumsum(0)", "q.norm()", "q.isnan()", "q.round()", "q.repeat_interleave(2, 0)", "q.var(1)", "q.all()", "q.any()",
    "q.as_strided((2, 2), (1, 1))", "q.cpu()", "q.to('cpu', torch.float32)", "q.requires_grad", "q.requires_grad_()", "bool(q)", "len(q)",
    "list(q)", "2.0 in q", "q.broadcast_to(2, *q.shape)", "q.view_as(q)", "q.reshape_as(q)", "q.hsplit(1)", "q.tensor_split(2)", "q.vsplit(1)",
    "torch.vstack([q, q])", "torch.hstack([q, q])", "torch.dequantize(q)", "q.q_scale()", "q.q_zero_point()", "q.q_per_channel_scales()",
    "q.q_per_channel_axis()", "q.qscheme()", "copy.deepcopy(q)", "pickle.loads(pickle.dumps(q))", "q.set_(q.flip(0))", "q.storage_offset()",
]


def movements(r):
    """Movements, writes and questions about quantized tensors of all dtypes and schemes."""
    dtype = r.choice(["quint8", "qint8", "qint32", "quint4x2", "quint8"])
    rows, columns = r.choice([(2, 4), (4, 4), (3, 6), (2, 2)])
    scheme = r.choice(["tensor", "channel", "channel", "floats", "affine"])
    if scheme == "floats" and not dtype.startswith("quint"):
        dtype = "quint8"  # PyTorch ends the process
    lines = _start("import copy, pickle")
    axis = r.choice([0, 1])
    n = (rows, columns)[axis]
    if scheme in ("tensor", "affine"):
        point = {"quint8": "7", "qint8": "-3", "qint32": "2", "quint4x2": "5"}[dtype]
        lines.append(f"q = torch.quantize_per_tensor(draw({rows}, {columns}), {_scale(r)}, {point}, torch.{dtype})")
        if scheme == "affine":
            lines.append(f"q = torch._empty_affine_quantized([{rows}, {columns}], scale={_scale(r)}, zero_point={point}, "
                         f"dtype=torch.{dtype}).copy_(q.dequantize())")
    else:
        zeros = f"torch.zeros({n})" if scheme == "floats" else f"torch.randint(0, 4, ({n},))"
        lines.append(f"q = torch.quantize_per_channel(draw({rows}, {columns}), torch.rand({n}) + 0.1, {zeros}, {axis}, torch.{dtype})")
    lines.append("q.dequantize()")
    for _ in range(6):
        move = r.choice(_MOVES)
        lines.append(move)
        if r.random() < 0.4 and move.startswith("q.") and not any(c in move for c in ("repr", "item", "str", "q_")):
            lines.append(f"y = {move}")
            lines.append("q = y if torch.is_tensor(y) and y.is_quantized and y.dim() == 2 else q")
    return "\n".join(lines)


_OBSERVERS = ["MinMaxObserver", "MovingAverageMinMaxObserver", "PerChannelMinMaxObserver", "MovingAveragePerChannelMinMaxObserver",
              "HistogramObserver"]


def observers(r):
    """Observers, fake quantizers and the functions below them, over some inputs."""
    kind = r.choice(["observer", "observer", "fake", "function", "function", "module", "choose"])
    lines = _start()
    dtype = r.choice(["quint8", "qint8", "quint8", "qint32"])
    if kind in ("observer", "module"):
        name = r.choice(_OBSERVERS)
        channel = "PerChannel" in name
        scheme = r.choice(["affine", "symmetric"])
        arguments = [f"dtype=torch.{dtype}", f"qscheme=torch.per_{'channel' if channel else 'tensor'}_{scheme}"]
        if channel:
            arguments.append(f"ch_axis={r.choice([0, 1])}")
        if r.random() < 0.3 or dtype == "qint32":
            low, high = r.choice([(0, 15), (-8, 7), (0, 127), (-127, 127)])
            arguments.append(f"quant_min={low}, quant_max={high}")
        if r.random() < 0.3:
            arguments.append("reduce_range=True")
        if "Moving" in name:
            arguments.append(f"averaging_constant={r.choice([0.01, 0.5])}")
        if name == "HistogramObserver" and r.random() < 0.5:
            arguments.append(f"bins={r.choice([8, 64, 2048])}")
        if kind == "module":
            lines.append(f"m = torch.ao.quantization.FakeQuantize(torch.ao.quantization.{name}, {', '.join(arguments)})")
        else:
            lines.append(f"m = torch.ao.quantization.{name}({', '.join(arguments)})")
        for _ in range(r.choice([1, 2, 3])):
            lines += [f"x = {_values(r, *r.choice([(4, 3), (4, 3, 2)]))}", "m(x)"]
        lines += ["m", "m.calculate_qparams()", "m.state_dict()"]
    elif kind == "fake":
        lines += [f"x = ({_values(r, 4, 5)}).requires_grad_()",
                  f"m = torch.ao.quantization.{r.choice(['default_fake_quant', 'default_weight_fake_quant', 'default_per_channel_weight_fake_quant', 'default_fused_act_fake_quant', 'default_fused_wt_fake_quant', 'default_fused_per_channel_wt_fake_quant', 'default_fixed_qparams_range_0to1_fake_quant', 'default_dynamic_fake_quant', 'default_histogram_fake_quant'])}()",
                  "y = m(x)", "y.sum().backward()", "x", f"z = m({_values(r, 4, 5)})",
                  r.choice(["m.disable_observer()", "m.disable_fake_quant()", "m.eval()", "m.enable_observer()"]),
                  f"m({_values(r, 4, 5)})", "m.calculate_qparams()", "m", "m.state_dict()"]
    elif kind == "choose":
        lines += [f"x = {_values(r, 4, 5)}", "torch._choose_qparams_per_tensor(x)", "torch._choose_qparams_per_tensor(x, True)",
                  "torch.quantize_per_tensor_dynamic(x, torch.quint8, False)", "torch.quantize_per_tensor_dynamic(x, torch.qint8, True)",
                  "torch.choose_qparams_optimized(x.flatten(), 20, 20, 0.16, 8)",
                  f"torch.quantize_per_tensor(x, {_scale(r)}, 3, torch.{dtype})",
                  "torch.quantize_per_channel(x, torch.rand(4) + .01, torch.randint(0, 9, (4,)), 0, torch.quint8)",
                  f"torch.quantize_per_tensor([x, x * 2], torch.tensor([.1, .2]), torch.tensor([1, 2]), torch.{dtype})",
                  "x.half()", "torch.quantize_per_tensor(x.double(), .1, 0, torch.quint8)", "torch.fake_quantize_per_tensor_affine(x.double(), .1, 0, 0, 255)",
                  "torch.fake_quantize_per_tensor_affine(x.half(), .1, 0, 0, 255)", "torch.fake_quantize_per_tensor_affine(x.bfloat16(), .1, 0, 0, 255)"]
    else:
        low, high = r.choice([(0, 255), (-128, 127), (0, 15), (-8, 7), (0, 127)])
        point = r.choice([low, high, (low + high) // 2, low - 1])
        x = f"x = ({_values(r, 4, 3)}).requires_grad_()"
        scale = r.choice(["torch.tensor([0.1], requires_grad=True)", "torch.tensor([0.037], requires_grad=True)"])
        lines += [x, r.choice([
            f"y = torch.fake_quantize_per_tensor_affine(x, {_scale(r)}, {point}, {low}, {high})",
            f"y = torch.fake_quantize_per_tensor_affine(x, torch.tensor({_scale(r)}), torch.tensor({point}), {low}, {high})",
            f"y = torch.fake_quantize_per_channel_affine(x, torch.rand(4) + .01, torch.randint({low}, {high}, (4,), dtype=torch.int32), 0, {low}, {high})",
            f"y = torch.fake_quantize_per_channel_affine(x, torch.rand(3) + .01, torch.rand(3) * 4 + {max(low, 0)}, 1, {low}, {high})",
            f"s, z = {scale}, torch.tensor([{point}.], requires_grad=True)\ny = torch._fake_quantize_learnable_per_tensor_affine(x, s, z, {low}, {high}, 0.7)",
            f"s, z = (torch.rand(4) + .1).requires_grad_(), (torch.rand(4) * 5).requires_grad_()\ny = torch._fake_quantize_learnable_per_channel_affine(x, s, z, 0, {low}, {high}, 0.3)",
            f"y = torch._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(x, torch.tensor(.1), torch.tensor({point}), torch.tensor(1), {low}, {high})[0]",
            f"lo, hi = torch.tensor([float('inf')]), torch.tensor([float('-inf')])\ny = torch.fused_moving_avg_obs_fake_quant(x, torch.tensor([1]), torch.tensor([1]), lo, hi, torch.ones(1), torch.zeros(1, dtype=torch.int32), .01, {low}, {high}, 0, False, {_bool(r)})",
        ]), "y", "(y * torch.arange(12).reshape(4, 3)).sum().backward()", "x", "[v.grad for v in (s, z)] if 's' in globals() else None"]
    return "\n".join(lines)


_PARTS = [
    ("nn.Conv2d({c}, {d}, 3, padding={p}, bias={b})", 4), ("nn.Conv2d({c}, {d}, 1)", 4), ("nn.BatchNorm2d({c})", 4), ("nn.ReLU()", 0),
    ("nn.Conv2d({c}, {d}, 3, padding=1), nn.BatchNorm2d({d}), nn.ReLU()", 4), ("nn.Conv2d({c}, {d}, 2, stride=2), nn.ReLU(inplace=True)", 4),
    ("nn.MaxPool2d(2, 1)", 4), ("nn.AvgPool2d(2, 1)", 4), ("nn.Hardswish()", 0), ("nn.ReLU6()", 0), ("nn.LeakyReLU(0.1)", 0),
    ("nn.Sigmoid()", 0), ("nn.Tanh()", 0), ("nn.Dropout()", 0), ("nn.ELU()", 0), ("nn.PReLU()", 0), ("nn.Identity()", 0), ("nn.GELU()", 0),
    ("nn.ConvTranspose2d({c}, {d}, 2)", 4), ("nn.Upsample(scale_factor=2)", 4), ("nn.Conv2d({c}, {c}, 3, padding=1, groups={c})", 4),
    ("nn.Conv2d({c}, {d}, 3, padding='same', padding_mode='reflect')", 4), ("nn.Hardsigmoid()", 0), ("nn.Hardtanh()", 0), ("nn.GroupNorm(1, {c})", 4),
    ("nn.InstanceNorm2d({c}, affine=True)", 4), ("nn.SiLU()", 0), ("nn.Mish()", 0), ("nn.Softmax(1)", 0), ("nn.PixelShuffle(1)", 4),
]


def workflows(r):
    """Random models quantized by the eager mode, as graphs, or dynamically: what they are and give."""
    lines, parts, c = _start("import torch.ao.quantization as Q", "import torch.ao.quantization.quantize_fx as FX"), [], 2
    for _ in range(r.choice([2, 3, 4])):
        text, _dimensions = r.choice(_PARTS)
        d = r.choice([2, 4])
        parts.append(text.format(c=c, d=d, p=r.choice([0, 1]), b=_bool(r)))
        c = d if "{d}" in text else c
    tail = f"nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear({c}, 3)"
    if r.random() < 0.5:
        tail += r.choice([", nn.ReLU()", ", nn.LayerNorm(3)", ", nn.Linear(3, 2), nn.Softmax(-1)", ", nn.Sigmoid()"])
    residual = r.random() < 0.3
    lines.append(f"layers = lambda: grid(nn.Sequential({', '.join(parts)}, {tail}))")
    mode = r.choice(["fx", "fx", "fx qat", "eager", "eager qat", "fx dynamic", "fx weights"])
    engine = r.choice(["x86", "fbgemm", "qnnpack", "onednn"])
    if residual:
        join = r.choice(["x + self.c(x)", "torch.cat([x, self.c(x)], 1)[:, :2]", "torch.relu(x + self.c(x))", "x * self.c(x) + 1", "torch.mul(self.c(x), 0.5)",
                         "F.relu(self.c(x)).transpose(2, 3)", "F.conv2d(x, self.c.weight, padding=1)", "F.interpolate(x, scale_factor=2.)"])
        lines.append("class R(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.c = nn.Conv2d(2, 2, 3, padding=1); self.l = layers()\n"
                     f"    def forward(self, x):\n        x = {join}\n        return self.l(x)")
        lines.append("m = grid(R())")
    else:
        lines.append("m = layers()")
    lines += ["x = draw(2, 2, 8, 8)", f"torch.backends.quantized.engine = {engine!r}"]
    train = "qat" in mode
    lines.append("m = m.train()" if train else "m = m.eval()")
    if mode.startswith("eager"):
        lines.append("m = nn.Sequential(Q.QuantStub(), m, Q.DeQuantStub())")
        lines.append(f"m.qconfig = Q.get_default_{'qat_' if train else ''}qconfig({engine!r})")
        lines.append(f"Q.{'prepare_qat' if train else 'prepare'}(m, inplace=True)")
    else:
        which = {"fx": f"Q.get_default_qconfig_mapping({engine!r})", "fx qat": f"Q.get_default_qat_qconfig_mapping({engine!r})",
                 "fx dynamic": "Q.QConfigMapping().set_global(Q.default_dynamic_qconfig)",
                 "fx weights": "Q.QConfigMapping().set_global(Q.float16_dynamic_qconfig)"}[mode]
        change = r.choice(["", "", f".set_object_type(nn.{r.choice(['Linear', 'Conv2d', 'ReLU'])}, None)", ".set_module_name('0', None)",
                           ".set_object_type(nn.Linear, Q.default_per_channel_qconfig)", ".set_object_type('reshape', None)"]) if mode == "fx" else ""
        lines.append(f"m = FX.{'prepare_qat_fx' if train else 'prepare_fx'}(m, {which}{change}, (x,))")
        lines.append("m.code")
    if train:
        lines += ["o = torch.optim.SGD(m.parameters(), 0.125)", "m(x).square().sum().backward()", "o.step()", "m.eval()", "grid(m)"]
    lines += ["m(x)", "m(draw(2, 2, 8, 8))"]
    if mode.startswith("eager"):
        lines += ["q = Q.convert(m)", "q"]
    else:
        how = r.choice(["convert_fx", "convert_fx", "convert_to_reference_fx"]) if mode in ("fx", "fx qat") else "convert_fx"
        lines += [f"q = FX.{how}(m)", "q.code", "q"]
    lines += ["q(x)", "q(draw(1, 2, 8, 8))", "torch.backends.quantized.engine = 'x86'"]
    return "\n".join(lines)
