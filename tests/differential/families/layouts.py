"""Memory formats through modules, functions and pointwise operations."""

from __future__ import annotations


def formats(r):
    """Strides of what comes from tensors in channels_last."""
    x = r.choice(["torch.randn(2, 4, 6, 6).to(memory_format=torch.channels_last)",
                  "torch.randn(2, 4, 6, 6)", "torch.randn(1, 4, 6, 6).to(memory_format=torch.channels_last)",
                  "torch.randn(2, 4, 6, 6).permute(0, 2, 3, 1)"])
    step = [
        "F.max_pool2d(y, 2)", "F.avg_pool2d(y, 2)", "F.adaptive_avg_pool2d(y, 2)", "F.relu(y)", "y + 1", "y * x",
        "y.double()", "torch.zeros_like(y)", "F.interpolate(y, scale_factor=2)", "y.clone()", "y.sin()",
        "F.interpolate(y, size=(3, 3), mode='bilinear')", "F.dropout(y, 0.)", "y.contiguous()", "F.pad(y, (1, 1))",
        "F.batch_norm(y, None, None, training=True)", "F.group_norm(y, 2)", "torch.cat([y, y], 1)[:, :4]",
        "y.to(memory_format=torch.channels_last)", "y + torch.ones(4, 1, 1)", "torch.where(y > 0, y, 0.)", "y[:1]",
        "F.pixel_shuffle(y, 2)", "y.clamp(0)", "F.conv2d(y, torch.ones(4, 4, 1, 1))", "y.half().float()",
        "F.adaptive_max_pool2d(y, 2)", "F.leaky_relu(y)", "y.contiguous(memory_format=torch.channels_last)",
        "torch.empty_like(y).fill_(1)", "F.hardswish(y)", "F.silu(y)", "F.instance_norm(y)", "y.flip(2)",
    ]
    lines = [f"x = {x}", "y = x"]
    for _ in range(r.randint(1, 3)):
        lines += [
            f"y = {r.choice(step)}",
            "y.stride(), y.is_contiguous(memory_format=torch.channels_last)",
        ]
    return "\n".join(lines)
