"""In-place view methods, which change a tensor's own geometry: ``t_``, ``squeeze_``, ``as_strided_``."""

from __future__ import annotations

from ..autograd.inplace_history import check_inplace
from ..autograd.tape import node_class
from ..autograd.views import ViewNode, view_call
from ..autograd.views import as_strided as _as_strided
from ..call import op as _op
from ..core.registry import OPS
from ..tensor import count_write, counter_of, modes
from .methods import METHODS, leave_capture, method


def _reshaping_inplace(public, name, number=1):
    def function(self, *args, **kwargs):
        definition, named = OPS[name], dict(kwargs)
        values = args
        for argument in definition.argument_names[1 + len(args) :]:
            if argument not in named:
                raise TypeError(f'{public}() missing 1 required positional arguments: "{argument}"')
            values += (named.pop(argument),)
        for argument in named:
            raise TypeError(f"{public}() got an unexpected keyword argument '{argument}'")
        _op.check_writable(self)
        if modes.grad:
            check_inplace(self)
        return _become(self, view_call(definition, self, values), public, values, number)

    function.__name__ = function.__qualname__ = public  # as `__torch_function__` sees it, which knows functions by their code
    function.__code__ = function.__code__.replace(co_name=public, co_qualname=public)
    function.__doc__ = f"``{public[:-1]}`` in place: the tensor's own geometry changes."
    return function


def _become(t, view, name, args, number=1):
    """Gives a tensor the geometry and history of a view of it, as ``x.t_()`` does; ``number`` ends its node's name."""
    if (level := getattr(t, "_ftorch_level", None)) is not None:
        level.become(t, view, name, args)
    leave_capture(t)
    t._ftorch_geometry, t._ftorch_offset = view._ftorch_geometry, view._ftorch_offset
    count_write(t)
    node = view._grad_fn
    if view._ftorch_requires_grad and node is not None:
        node.__class__ = node_class(f"{node.name()[:-1]}{number}", ViewNode)
        t._grad_fn, t._ftorch_output_nr = node, 0
        if t._base is not None:
            t._ftorch_attr_version = counter_of(t).version
    return t


for _public, _rule in (("transpose_", "transpose.int"), ("unsqueeze_", "unsqueeze"), ("t_", "t"),
                       ("swapaxes_", "swapaxes"), ("swapdims_", "swapdims")):
    METHODS[_public] = _reshaping_inplace(_public, _rule)


@method
def squeeze_(self, dim=None):
    """``squeeze`` in place: the tensor's own geometry changes."""
    _op.check_writable(self)
    if dim is None:
        return _squeeze_all(self)
    return _squeeze_one(self, (dim,)) if isinstance(dim, int) else _squeeze_some(self, tuple(dim))


_squeeze_all = _reshaping_inplace("squeeze_", "squeeze", 3)
_squeeze_one = _reshaping_inplace("squeeze_", "squeeze.dims", 4)
_squeeze_some = _reshaping_inplace("squeeze_", "squeeze.dims", 5)


@method
def as_strided_(self, size, stride, storage_offset=None):
    _op.check_writable(self)
    if modes.grad:
        check_inplace(self)
    rest = () if storage_offset is None else (storage_offset,)
    return _become(self, _as_strided(self, size, stride, storage_offset), "as_strided_", (list(size), list(stride), *rest))
