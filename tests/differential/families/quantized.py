"""Quantized tensors: operators, layers and movements, one after the other; what is compared are integers."""

from __future__ import annotations

_UNARY = [
    "torch.relu(q)",
    "F.relu6(q)",
    "F.leaky_relu(q, 0.1)",
    "torch.clamp(q, -0.5, 0.75)",
    "F.hardtanh(q)",
    "torch.ops.quantized.relu6(q)",
    "q.transpose(0, 1).contiguous()",
    "q.t()[1:].contiguous()",
    "q[:, ::2]",
    "q.flip(1)",
    "q.reshape(-1, 2).reshape(q.shape)",
    "torch.cat([q, q], {d})",
    "torch.ops.quantized.cat([q, p], 0, {s}, {z})",
    "torch.ops.quantized.add(q, p, {s}, {z})",
    "torch.ops.quantized.add_relu(q, p, {s}, {z})",
    "torch.ops.quantized.mul(q, p, {s}, {z})",
    "torch.ops.quantized.mul_relu(q, p, {s}, {z})",
    "torch.ops.quantized.add(q, {n})",
    "torch.ops.quantized.mul(q, {n})",
    "torch.ops.quantized.hardswish(q, {s}, {z})",
    "torch.ops.quantized.leaky_relu(q, 0.2, False, {s}, {z})",
    "torch.quantize_per_tensor(q.dequantize(), {s}, {z}, torch.quint8)",
    "torch.ops.quantized.linear(q, torch.ops.quantized.linear_prepack(w, {b}), {s}, {z})",
    "torch.ops.quantized.linear_relu(q, torch.ops.quantized.linear_prepack(v, {b}), {s}, {z})",
    "torch.ops.quantized.matmul(q, p, {s}, {z})",
    "q.clone()",
    "q.unsqueeze(0).squeeze(0)",
    "q.expand(2, *q.shape)[1]",
    "F.max_pool2d(q[None, None], 2, 1)[0, 0]",
    "F.avg_pool2d(q[None, None], 3, 1, 1)[0, 0]",
    "F.interpolate(q[None, None], scale_factor=2)[0, 0, ::2, ::2]",
    "torch.ops.quantized.conv2d(q[None, None], torch.ops.quantized.conv2d_prepack(c, {c}, [1, 1], [1, 1], [1, 1], 1), {s}, {z})[0, 0]",
]


def quantized(r):
    """A chain of operators on quantized matrices; each step's integers and quantizer."""

    def scale():
        # Of such scales no sum lies between two integers.
        return r.choice(["0.0213", "0.0517", "0.1091", "0.0371", "1.0113"])

    def zero():
        return r.choice(["0", "3", "128", "77", "255"])

    rows = columns = r.choice([4, 5, 6])
    lines = [
        "def chain():",
        f"    draw = lambda *shape: torch.randint(-40, 41, shape) / {r.choice([8, 16, 10])}",
        f"    q = torch.quantize_per_tensor(draw({rows}, {columns}), {scale()}, {zero()}, torch.quint8)",
        f"    p = torch.quantize_per_tensor(draw({rows}, {columns}), {scale()}, {zero()}, torch.quint8)",
        f"    w = torch.quantize_per_tensor(draw({rows}, {columns}), {scale()}, 0, torch.qint8)",
        f"    scales = torch.tensor([{', '.join(scale() for _ in range(rows))}])",
        f"    v = torch.quantize_per_channel(draw({rows}, {columns}), scales, torch.zeros({rows}, dtype=torch.long), 0, torch.qint8)",
        f"    c = torch.quantize_per_tensor(draw(1, 1, 3, 3), {scale()}, 0, torch.qint8)",
        "    seen = []",
    ]
    for _ in range(r.randint(2, 5)):
        call = r.choice(_UNARY).replace("{d}", r.choice("01")).replace("{n}", r.choice(["0.5", "-1.0", "2"]))
        call = call.replace("{b}", r.choice(["None", f"draw({rows})"])).replace("{c}", r.choice(["None", "draw(1)"]))
        call = call.replace("{s}", scale()).replace("{z}", zero())
        lines.append(f"    q = {call}")
        lines.append("    seen.append([q.int_repr(), q.q_scale(), q.q_zero_point(), tuple(q.shape), str(q.dtype)])")
    lines.append("    return seen")
    return "\n".join([*lines, "chain()"])
