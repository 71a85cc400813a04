"""``torch._disable_dynamo``: a function that stays outside programs, without importing the compiler before it is called."""

from __future__ import annotations


def _disable_dynamo(fn=None, recursive=True):
    """`torch.compiler.disable`, which is imported when the function is first called."""
    import functools

    if fn is None:
        return functools.partial(_disable_dynamo, recursive=recursive)

    @functools.wraps(fn)
    def call(*args, **kwargs):
        from . import disable

        outside = call.__dict__.get("_outside")
        if outside is None:
            outside = call._outside = disable(fn, recursive)
        return outside(*args, **kwargs)

    return call
