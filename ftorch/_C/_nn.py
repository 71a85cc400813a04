"""The layers' functions that PyTorch has in its extension module (``torch._C._nn``): ATen's operators of those names.

Where graphs call them (`ftorch.fx._targets`), the function of `nn.functional` is the same.
"""

from __future__ import annotations

_IN_PLACE = frozenset("gelu_ hardsigmoid_ hardswish_ mish_ relu6_ silu_".split())  # which `nn.functional` has no names for


def _in_place(name):
    from ..eager.call.op import call_inplace, op_named

    def function(input, **options):
        static = (options.pop("approximate", "none"),) if name == "gelu_" else ()
        if options:
            raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(options))}'")
        return call_inplace(op_named(name[:-1]), (input,), static)

    function.__name__ = function.__qualname__ = name
    globals()[name] = function
    return function


def __getattr__(name):
    if name in _IN_PLACE:
        return _in_place(name)
    from .. import ops
    from ..eager.dispatch.overridable_names import AT_NN
    from ..nn import functional
    from ..nn.modules._conversion import _parse_to

    if name in ("flatten_dense_tensors", "unflatten_dense_tensors"):
        from .. import _utils

        return getattr(_utils, f"_{name}")
    if name == "_parse_to":
        return _parse_to
    if name == "log_sigmoid":
        return functional.logsigmoid
    found = getattr(functional, name) if name in AT_NN else getattr(ops.aten, name, None)
    if found is None or name.startswith("__"):
        raise AttributeError(f"module 'torch._C._nn' has no attribute '{name}'")
    return found
