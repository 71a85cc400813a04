"""What compilers of graphs are made with (``torch._functorch._aot_autograd.utils``)."""

from __future__ import annotations


def make_boxed_func(f):
    """A function of a list of inputs, which it empties."""

    def boxed(args):
        given = list(args)
        args.clear()
        return f(*given)

    boxed._boxed_call = True
    return boxed
