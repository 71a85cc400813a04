"""The operators of `_functional_collectives`: ``torch.ops._c10d_functional``, which graphs and tensor subclasses name."""

from __future__ import annotations

import ftorch as torch

from ..library import Library
from . import _functional_collectives as collectives
from . import distributed_c10d as dist


def _each(one):
    """A rule of one tensor, for a list of them."""
    return lambda tensors, *args: [one(t, *args) for t in tensors]


def _gather(x, group_size, group_name):
    return collectives.gathered(x, 0, group_name)


def _reduce(x, reduce_op, group_name):
    return collectives.reduced(x, reduce_op, group_name)


def _scatter(x, reduce_op, group_size, group_name):
    return collectives.scattered(x, reduce_op, 0, group_name)


def _broadcast(x, src, group_name):
    return collectives.spread(x, src, group_name)


def _exchange(x, output_split_sizes, input_split_sizes, group_name):
    return collectives.exchanged(x, output_split_sizes, input_split_sizes, group_name)


def _inplace(rule):
    return lambda x, *args: x.copy_(rule(x, *args))


def _out(rule):
    return lambda *args, out: out.copy_(rule(*args))


def _gathered_shape(x, group_size, group_name):
    return x.new_empty((x.shape[0] * group_size, *x.shape[1:]))


def _scattered_shape(x, reduce_op, group_size, group_name):
    return x.new_empty((x.shape[0] // group_size, *x.shape[1:]))


def _like(x, *args):
    return torch.empty_like(x)


def _exchanged_shape(x, output_split_sizes, input_split_sizes, group_name):
    return x.new_empty((sum(output_split_sizes), *x.shape[1:])) if output_split_sizes else torch.empty_like(x)


# (schema, what computes it, what gives the result's form on meta tensors)
_ALONE = (
    ("all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor", _reduce, _like),
    ("broadcast(Tensor input, int src, str group_name) -> Tensor", _broadcast, _like),
    ("all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor", _gather, _gathered_shape),
    (
        "reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor",
        _scatter,
        _scattered_shape,
    ),
    (
        "all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes, str group_name) -> Tensor",
        _exchange,
        _exchanged_shape,
    ),
    ("wait_tensor(Tensor tensor) -> Tensor", lambda x: x.clone(), _like),
    ("_wrap_tensor_autograd(Tensor input) -> Tensor", lambda x: x.clone(), _like),
)
_WRITING = (
    ("all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)", _inplace(_reduce)),
    ("broadcast_(Tensor(a!) input, int src, str group_name) -> Tensor(a!)", _inplace(_broadcast)),
    ("all_gather_into_tensor_out(Tensor input, int group_size, str group_name, *, Tensor(a!) out) -> Tensor(a!)",
     _out(_gather)),
    ("reduce_scatter_tensor_out(Tensor input, str reduce_op, int group_size, str group_name, *, Tensor(a!) out) -> "
     "Tensor(a!)", _out(_scatter)),
)
_COALESCED = (
    ("all_reduce_coalesced(Tensor[] inputs, str reduce_op, str group_name) -> Tensor[]", _reduce, _like),
    (
        "all_gather_into_tensor_coalesced(Tensor[] inputs, int group_size, str group_name) -> Tensor[]",
        _gather,
        _gathered_shape,
    ),
    (
        "reduce_scatter_tensor_coalesced(Tensor[] inputs, str reduce_op, int group_size, str group_name) -> Tensor[]",
        _scatter,
        _scattered_shape,
    ),
)


_DIFFERENTIABLE = {
    "wait_tensor", "all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single",
    "all_reduce_coalesced", "all_gather_into_tensor_coalesced", "reduce_scatter_tensor_coalesced",
}


def _on_tape(rule, form):
    """A rule, whose steps are on the tape; of meta tensors what gives the result's form."""
    def run(x, *args):
        return (form if (x if isinstance(x, torch.Tensor) else x[0]).is_meta else rule)(x, *args)

    return run


def _define(library, schema, rule, form=None):
    name = schema.partition("(")[0]
    library.define(schema)
    library.impl(name, rule, "CompositeExplicitAutograd")
    if name in _DIFFERENTIABLE and form is not None:
        library.impl(name, _on_tape(rule, form), "Autograd")
    if form is not None:
        library._register_fake(name, form)


functional, with_gradients = Library("_c10d_functional", "DEF"), Library("_c10d_functional_autograd", "DEF")
for _schema, _rule, _form in _ALONE:
    _define(functional, _schema, _rule, _form)
for _schema, _rule in _WRITING:
    _define(functional, _schema, _rule)
for _schema, _rule, _form in _COALESCED:
    _define(functional, _schema, _each(_rule), _each(_form))
for _schema, _rule, _form in _ALONE:
    if _schema.partition("(")[0] in ("all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single"):
        with_gradients.define(_schema)
        with_gradients.impl(_schema.partition("(")[0], _rule, "CompositeImplicitAutograd")

# The older operators, which name a group by a tag and ranks.
older = Library("c10d_functional", "DEF")


def _older(rule):
    """A rule of these from one that takes (tensor, ..., group)."""
    def run(x, *args):
        *rest, tag, ranks, size = args
        return rule(x, *rest, dist._find_or_create_pg_by_ranks_and_tag(tag, list(ranks), size))

    return run


_GROUP = "str tag, int[] ranks, int group_size) -> "
for _schema, _rule in (
    (f"broadcast(Tensor self, int src, {_GROUP}Tensor", _broadcast),
    (f"all_reduce(Tensor self, str reduceOp, {_GROUP}Tensor", _reduce),
    (f"all_gather_into_tensor(Tensor shard, {_GROUP}Tensor", lambda x, group: _gather(x, 0, group)),
    (
        f"reduce_scatter_tensor(Tensor input, str reduceOp, {_GROUP}Tensor",
        lambda x, op, group: _scatter(x, op, 0, group),
    ),
    (
        f"all_to_all_single(Tensor input, SymInt[]? output_split_sizes, SymInt[]? input_split_sizes, {_GROUP}Tensor",
        _exchange,
    ),
    (f"all_reduce_coalesced(Tensor[] self, str reduceOp, {_GROUP}Tensor[]", _each(_reduce)),
    (
        f"all_gather_into_tensor_coalesced(Tensor[] input, {_GROUP}Tensor[]",
        _each(lambda x, group: _gather(x, 0, group)),
    ),
    (
        f"reduce_scatter_tensor_coalesced(Tensor[] inputs, str reduceOp, {_GROUP}Tensor[]",
        _each(lambda x, op, group: _scatter(x, op, 0, group)),
    ),
):
    _define(older, _schema, _older(_rule))
_define(older, "wait_tensor(Tensor self) -> Tensor", lambda x: x.clone())
