"""``opcheck``: whether what was registered for an op is consistent."""

from __future__ import annotations

from .. import _ops
from ..eager.core import api
from ..eager.tensor import TensorBase, modes
from ..utils import _pytree as pytree
from . import _callback, _operators
from ._custom_op import CustomOpDef
from ._operators import Operator

_UTILS = (
    "test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_static",
    "test_aot_dispatch_dynamic",
)
_DEFAULT = ("test_schema", "test_autograd_registration", "test_faketensor",
            "test_aot_dispatch_dynamic")


class OpCheckError(Exception):
    """A check of `opcheck` that failed."""


def opcheck(op, args, kwargs=None, *, test_utils=_DEFAULT, raise_exception=True, atol=None,
            rtol=None):
    """Tests what was registered for an op, on an example call.

    The checks: ``test_schema`` (what is written to or aliased is what the schema says),
    ``test_autograd_registration`` (autograd is registered where it is looked for),
    ``test_faketensor`` (the fake kernel's results look like the real ones) and
    ``test_aot_dispatch_dynamic`` (`compile` gives the same results and gradients).

    Args:
        op: an overload or a `CustomOpDef`; args, kwargs: the example.
        test_utils: names of checks.
        raise_exception: whether the first failure is raised; else it is in the result.

    Returns:
        {name of the check: "SUCCESS" or the exception}.

    Raises:
        OpCheckError: a check failed. ValueError: ``op`` is no overload, or a check is unknown.
    """
    kwargs = {} if kwargs is None else kwargs
    if isinstance(op, CustomOpDef):
        op = op._opoverload
    if isinstance(op, _ops.OpOverloadPacket) and len(op.overloads()) == 1:
        op = getattr(op, op.overloads()[0])
    if not isinstance(op, _ops.OpOverload):
        raise ValueError(
            "opcheck(op, ...): op must be instance of torch._ops.OpOverload, e.g. "
            f"torch.ops.aten.sin.default, got {type(op)}"
        )
    if test_utils == "ALL":
        test_utils = _UTILS
    if isinstance(test_utils, str):
        test_utils = (test_utils,)
    if not isinstance(test_utils, (tuple, list)) or not set(test_utils) <= set(_UTILS):
        raise ValueError(
            f"opcheck(op, ..., test_utils={test_utils}), expected test_utils to be subset of "
            f"{_UTILS} but it was not"
        )
    results = {}
    for name in test_utils:
        try:
            _CHECKS[name](op, args, kwargs, atol, rtol)
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(
                    f"opcheck(op, ...): {name} failed with {error} (scroll up for stack trace)"
                ) from error
            results[name] = error
    return results


def _copies(tree):
    """Arguments of their own, with the same wishes for gradients."""

    def copy(t):
        if not isinstance(t, TensorBase):
            return t
        return t.detach().clone().requires_grad_(t.requires_grad)

    return pytree.tree_map(copy, tree)


def _tensors(tree):
    return [t for t in pytree.tree_leaves(tree) if isinstance(t, TensorBase)]


def _check_schema(op, args, kwargs, atol, rtol):
    args, kwargs = pytree.tree_map(
        lambda t: t.detach().clone() if isinstance(t, TensorBase) else t, (args, kwargs)
    )
    before = [t.clone() for t in _tensors((args, kwargs))]
    allowed: set = set()
    if isinstance(op, Operator):
        given, named = _operators._schema.bind(op.name(), op._schema, args, kwargs)
        allowed = {id(t) for t in _callback._written(op, given, named)}
    result = op(*args, **kwargs)
    for t, old in zip(_tensors((args, kwargs)), before):
        changed = not api.equal(api.nan_to_num(t), api.nan_to_num(old))
        if changed and id(t) not in allowed:
            raise RuntimeError(
                "Argument x is not defined as mutable but was mutated"
                if not isinstance(op, Operator) else
                f"Argument {_name_of(op, given, named, t)} is not defined as mutable but was mutated"
            )
    stored = {id(t._ftorch_storage) for t in _tensors((args, kwargs))}
    for t in _tensors(result):
        if id(t._ftorch_storage) in stored and not op._schema.is_view and id(t) not in allowed:
            raise RuntimeError(
                "Argument x is not defined to alias output but was aliasing"
                if not isinstance(op, Operator) else
                f"Argument {_name_of(op, given, named, t)} is not defined to alias output but was "
                "aliasing"
            )


def _name_of(op, given, named, t):
    """The name of the argument that shares the tensor's memory."""
    values = [*zip((a.name for a in op._schema.arguments if not a.is_keyword_only), given),
              *named.items()]
    return next(
        (k for k, v in values for own in _tensors(v) if own._ftorch_storage is t._ftorch_storage), "?"
    )


def _check_autograd(op, args, kwargs, atol, rtol):
    if not isinstance(op, Operator):
        return
    if not any(t.requires_grad for t in _tensors((args, kwargs))):
        return
    if op.formula is None and not any(k.startswith("Autograd") for k in op.kernels):
        result = _tensors(op(*_copies(args), **_copies(kwargs)))
        if any(t.requires_grad for t in result) and "CompositeImplicitAutograd" not in op.kernels:
            raise OpCheckError(
                f"{op}: at least one output of this operator has requires_grad=True but the "
                "operator does not have an autograd kernel defined at an autograd key (e.g. "
                "DispatchKey::Autograd). This could mean that you have incorrectly registered an "
                "autograd kernel to a non-Autograd DispatchKey, which may lead to silently "
                "incorrect results. If your operator consists of regular PyTorch operations, "
                "consider not using an operator at all or registering your operator as "
                "CompositeImplicitAutograd. If you have an autograd.Function registered to a "
                "backend (CPU/CUDA) key, the correct location for it is the Autograd key."
            )


def _check_fake(op, args, kwargs, atol, rtol):
    outer, modes.grad = modes.grad, False
    try:
        args, kwargs = _copies((args, kwargs))
        fake_args, fake_kwargs = pytree.tree_map(
            lambda t: t.detach().to("meta") if isinstance(t, TensorBase) else t, (args, kwargs)
        )
        fake = op(*fake_args, **fake_kwargs)
        real = op(*args, **kwargs)
    finally:
        modes.grad = outer
    flat_fake, flat_real = _tensors(fake), _tensors(real)
    context = f"When comparing the output of {op} on FakeTensor and concrete Tensors, found"
    if len(flat_fake) != len(flat_real):
        raise RuntimeError(
            f"{context} mismatch in number of returns: {len(flat_fake)} != {len(flat_real)}"
        )
    shared = [{id(t._ftorch_storage) for t in _tensors(given)} for given in
              ((fake_args, fake_kwargs), (args, kwargs))]
    aliases = [any(id(t._ftorch_storage) in own for t in flat)
               for flat, own in zip((flat_fake, flat_real), shared)]
    if aliases[0] != aliases[1]:
        raise RuntimeError(
            f"{context} mismatch in outputs_alias_inputs check {aliases[0]} != {aliases[1]}"
        )
    for a, b in zip(flat_fake, flat_real):
        for what, x, y in (("Shapes", a.shape, b.shape), ("Dtypes", a.dtype, b.dtype),
                           ("Strides", a.stride(), b.stride())):
            if x != y:
                raise RuntimeError(
                    f"{context} mismatch. {what} {_plain(x)} and {_plain(y)} are not equal!"
                )


def _plain(value):
    return tuple(value) if isinstance(value, tuple) else value


def _run_with_gradients(op, function, args, kwargs):
    args, kwargs = _copies((args, kwargs))
    result = function(*args, **kwargs)
    outputs = [t for t in _tensors(result) if t.requires_grad]
    leaves = [t for t in _tensors((args, kwargs)) if t.requires_grad]
    grads: tuple = ()
    if outputs and leaves:
        from ..autograd import grad

        total = sum((o.sum().abs() for o in outputs[1:]), outputs[0].sum().abs())
        grads = grad(total, leaves, allow_unused=True)
    return [t.detach() for t in _tensors(result)], list(grads), _tensors((args, kwargs))


def _check_compile(op, args, kwargs, atol, rtol):
    from .. import compile as make_compiled
    from ..testing import assert_close

    expected = _run_with_gradients(op, op, args, kwargs)
    compiled = make_compiled(lambda *a, **k: op(*a, **k))
    for _ in range(3):  # the first calls run eagerly, later ones as a program
        found = _run_with_gradients(op, compiled, args, kwargs)
        for mine, theirs, what in zip(found, expected, ("outputs", "gradients", "inputs")):
            for a, b in zip(mine, theirs):
                if a is not None and b is not None:
                    assert_close(
                        a, b, atol=atol, rtol=rtol, equal_nan=True,
                        msg=lambda text, what=what: f"compiled {what} of {op}: {text}",
                    )


_CHECKS = {
    "test_schema": _check_schema, "test_autograd_registration": _check_autograd,
    "test_faketensor": _check_fake, "test_aot_dispatch_static": _check_compile,
    "test_aot_dispatch_dynamic": _check_compile,
}
