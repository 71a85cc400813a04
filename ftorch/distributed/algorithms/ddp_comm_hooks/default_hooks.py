"""Communication hooks that average, whole or in a narrower dtype."""

from __future__ import annotations

import ftorch as torch
from ftorch import distributed as dist

__all__ = [
    "allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook",
    "fp16_compress_wrapper",
]


def _average(group, tensor):
    group = group if group is not None else dist.group.WORLD
    tensor.div_(group.size())
    work = dist.all_reduce(tensor, group=group, async_op=True)
    return work.get_future().then(lambda f: f.value()[0])


def allreduce_hook(process_group, bucket):
    """The average of the bucket: what is done without a hook."""
    return _average(process_group, bucket.buffer())


def _compressed(process_group, bucket, dtype):
    group = process_group if process_group is not None else dist.group.WORLD
    buffer = bucket.buffer()
    narrow = buffer.to(dtype).div_(group.size())
    work = dist.all_reduce(narrow, group=group, async_op=True)

    def widen(future):
        return buffer.copy_(future.value()[0])

    return work.get_future().then(widen)


def fp16_compress_hook(process_group, bucket):
    """The average, exchanged as float16."""
    return _compressed(process_group, bucket, torch.float16)


def bf16_compress_hook(process_group, bucket):
    """The average, exchanged as bfloat16."""
    return _compressed(process_group, bucket, torch.bfloat16)


def _wrapper(dtype):
    def wrap(hook):
        def compressed(state, bucket):
            buffer = bucket.buffer()
            bucket.set_buffer(buffer.to(dtype))

            def widen(future):
                value = future.value()
                value = value[0] if isinstance(value, (list, tuple)) else value
                return buffer.copy_(value)

            return hook(state, bucket).then(widen)

        return compressed

    return wrap


fp16_compress_wrapper = _wrapper(torch.float16)
fp16_compress_wrapper.__doc__ = "Another hook whose bucket is float16."
bf16_compress_wrapper = _wrapper(torch.bfloat16)
bf16_compress_wrapper.__doc__ = "Another hook whose bucket is bfloat16."
