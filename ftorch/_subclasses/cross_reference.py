"""`CrossRefFakeMode`: runs every operator on fake tensors, too, and compares what it says of the results."""

from __future__ import annotations

from ..eager.core.formats import strided
from ..eager.tensor import Tensor
from ..utils import _pytree as pytree
from ..utils._python_dispatch import TorchDispatchMode
from .fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)

_UNKNOWN = (DataDependentOutputException, DynamicOutputShapeException, NotImplementedError, UnsupportedFakeTensorException)


def _storages(leaves):
    return [x._ftorch_storage if isinstance(x, Tensor) and hasattr(x, "_ftorch_storage") else None for x in leaves]


class CrossRefFakeMode(TorchDispatchMode):
    """A mode for tests of what fake tensors say.

    Args:
        ignore_op_fn: which operators are not compared.
        check_strides, check_aliasing: whether strides are compared, and which results share memory with arguments.
        only_check_ops_with_meta: leave out operators that fake tensors do not know.

    Raises:
        AssertionError: an operator gives something else on fake tensors.

    >>> import ftorch as torch
    >>> with torch._subclasses.CrossRefFakeMode():
    ...     torch.ones(2, 3).sum(0).shape
    torch.Size([3])
    """

    def __init__(self, ignore_op_fn=None, *, check_strides=True, check_aliasing=True, only_check_ops_with_meta=True):
        super().__init__()
        self.ignore_op_fn = ignore_op_fn or (lambda op: False)
        self.check_strides, self.check_aliasing = check_strides, check_aliasing
        self.only_check_ops_with_meta = only_check_ops_with_meta

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        fake = None if self.ignore_op_fn(func) else self._on_fakes(func, args, kwargs)
        given = _storages(pytree.tree_leaves((args, kwargs)))
        result = func(*args, **kwargs)
        if fake is not None:
            self._compare(func, given, result, *fake)
        return result

    def _on_fakes(self, func, args, kwargs):
        leaves = pytree.tree_leaves((args, kwargs))
        if any(isinstance(x, Tensor) and (x.layout is not strided or type(x) is not Tensor) for x in leaves):
            return None
        with FakeTensorMode() as mode:
            fakes, options = pytree.tree_map_only(Tensor, mode.from_tensor, (args, kwargs))
            try:
                result = func(*fakes, **options)
            except _UNKNOWN:
                if self.only_check_ops_with_meta:
                    return None
                raise
        return _storages(pytree.tree_leaves((fakes, options))), result

    def _compare(self, func, given, result, fake_given, fake):
        real, fakes = pytree.tree_leaves(result), pytree.tree_leaves(fake)
        if len(real) != len(fakes):
            raise AssertionError(f"{func}: {len(real)} results, {len(fakes)} of fake tensors")
        for x, y in zip(real, fakes, strict=True):
            if not isinstance(x, Tensor):
                continue
            said = [("size", x.size(), y.size()), ("dtype", x.dtype, y.dtype), ("device", x.device.type, y.device.type)]
            if self.check_strides:
                said.append(("stride", x.stride(), y.stride()))
            for what, theirs, ours in said:
                if theirs != ours:
                    raise AssertionError(f"{func}: the {what} is {theirs}, of fake tensors {ours}")
        if self.check_aliasing:
            alias, fake_alias = (
                [any(s is t for t in before if s is not None) for s in _storages(after)]
                for before, after in ((given, real), (fake_given, fakes))
            )
            if alias != fake_alias:
                raise AssertionError(f"{func}: other results share memory with arguments than of fake tensors")
