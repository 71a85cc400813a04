"""Calls on `DTensor`s: local calls between redistributions."""

from __future__ import annotations

import math

import ftorch as torch

from ...utils._pytree import tree_flatten, tree_unflatten
from .. import distributed_c10d as dist
from . import _rules as rules
from ._choices import cheapest, listed
from ._redistribute import OfMean, global_strides, gradient_placements, redistributed, with_gradient
from ._rules import Decision, Input
from ._special import SPECIAL
from ._strategies import Strategy, decided
from ._structure_rules import STRUCTURE, contracted, indexed, is_advanced, items_of, joined, picked
from .placement_types import Partial, Replicate, Shard, divides

RULES = {
    **{n: rules.matmul for n in ("matmul", "mm", "bmm", "linear", "addmm", "__matmul__")},
    **{n: rules.reduction for n in (*rules.REDUCED, *rules.KEPT)},
    **{n: rules.rowwise("normalized") for n in ("layer_norm", "rms_norm")},
    **{n: rules.rowwise("argument") for n in (
        "softmax", "log_softmax", "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "sort", "normalize")},
    "embedding": rules.embedding, "scaled_dot_product_attention": rules.attention,
    **{n: rules.permutation for n in ("permute", "transpose", "t", "T", "mT", "swapaxes", "swapdims")},
    **{n: rules.inserted for n in ("unsqueeze", "squeeze")},
    **{n: rules.rowwise(1, 2, 3) for n in ("conv2d", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d")},
    **{n: rules.rowwise(1, 2) for n in ("conv1d", "max_pool1d", "avg_pool1d", "adaptive_avg_pool1d")},
    **STRUCTURE,
}
_RESHAPES = frozenset("view reshape flatten ravel unflatten view_as reshape_as expand expand_as broadcast_to".split())
_OF_TABLES = frozenset(("embedding", "embedding_bag"))
_EXPANSIONS = frozenset(("expand", "expand_as", "broadcast_to"))
_RESHAPED_AS = {n: "reshape" for n in ("flatten", "ravel", "unflatten", "view_as", "reshape_as")} | {
    "expand_as": "expand"
}
_PUBLIC = {"_method_split": "split", "_norm_method": "norm"}
# What would give a tensor another geometry; PyTorch refuses these.
_OF_GEOMETRY = {name: name for name in "transpose_ t_ unsqueeze_ resize_ as_strided_".split()}
_OF_GEOMETRY |= dict.fromkeys(("swapdims_", "swapaxes_"), "transpose_")
_PARTS = frozenset("split chunk __getitem__ select narrow split_with_sizes tensor_split unbind".split())
# Where several placements would do, and the cheapest is taken; the others lie as their first input does.
_CHOOSING = frozenset({rules.pointwise, rules.matmul, joined, contracted, picked, indexed})
REGISTERED: dict = {}  # the user's rules by the operators' names (`register_sharding`)
_known: dict = {}  # {all that a choice among placements follows from: the choice}
_MOST_KNOWN = 4096
_implicit = [0]
replicated: list[dict] = []  # storages of local tensors that all processes have alike, where somebody asks


class _Spread:
    def __init__(self, on):
        self.on = on

    def __enter__(self):
        _implicit[0] += 1

    def __exit__(self, *_):
        _implicit[0] -= 1


# ``cross_entropy`` of logits that stay divided along the classes, for each `parallel.loss_parallel` that is entered.
divided_losses: list = []


def implicit_replication():
    """Within, plain tensors in calls with `DTensor`s count as replicated."""
    return _Spread(True)


def evenly_divided(shape, mesh, placements):
    sizes = list(shape)
    for m, p in enumerate(placements):
        if divides(p):
            if sizes[p.dim] % (mesh.size(m) * getattr(p, "split_factor", 1)):
                return False
            sizes[p.dim] //= mesh.size(m)
    return True


def _operator(name):
    """What PyTorch calls an operator in errors: the overload of tensors, or the one that there is."""
    name = {"linear": "mm"}.get(name, name)
    packet = getattr(torch.ops.aten, name, None)
    overloads = [] if packet is None else packet.overloads()
    overload = next((o for o in ("self", "default", "Tensor") if o in overloads), overloads[0] if overloads else "default")
    return f"aten.{name}.{overload}"


def call(func, args, kwargs):
    """The result of a function of `DTensor`s."""
    from ._api import DTensor

    name = getattr(func, "__name__", str(func))
    name = _PUBLIC.get(name, name).removeprefix("special_")
    if name == "embedding" and func is not torch.nn.functional.embedding:
        func, args, kwargs = _of_table(func, args, kwargs)
    if name.startswith("_foreach_"):
        return _each(func, args, kwargs)
    if kwargs.get("out") is not None:
        return _written(
            kwargs["out"], call(func, args, {k: v for k, v in kwargs.items() if k != "out"})
        )
    if name in _OF_GEOMETRY:
        raise NotImplementedError(
            f"Operator aten.{_OF_GEOMETRY[name]}.default does not have a sharding strategy registered."
        )
    over_devices = _over_devices(args, kwargs)
    if name in _OF_TABLES and not over_devices and rules._argument(args, kwargs, 3, "max_norm") is not None:
        raise NotImplementedError(  # rows are written where they lie, by their whole norms
            "Operator aten.embedding_renorm_.default does not have a sharding strategy registered."
        )
    if name == "cross_entropy" and not over_devices and divided_losses:
        return divided_losses[-1](*args, **kwargs)
    if name in SPECIAL and not over_devices:
        result = SPECIAL[name](func, args, kwargs)
        if result is not NotImplemented:
            return result
    if name in ("squeeze", "squeeze_"):
        args, kwargs = (args[0], _of_one(args[0], args, kwargs)), {}
    leaves, spec = tree_flatten((args, kwargs))
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
    known = [leaves[i] for i in places if isinstance(leaves[i], DTensor)]
    mesh = known[0].device_mesh
    for x in known[1:]:
        if x.device_mesh != mesh:
            raise NotImplementedError(
                f"{name}: DTensor does not support cross-mesh operation yet! Got meshes: "
                f"{mesh} {x.device_mesh}"
            )
    tensors = []
    for i in places:
        x = leaves[i]
        if not isinstance(x, DTensor):
            if x.numel() != 1 and not _implicit[0]:
                raise RuntimeError(
                    f"{_operator(name)} got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to "
                    "DTensor before calling distributed operators!"
                )
            x = DTensor._made(x, mesh, [Replicate()] * mesh.ndim, tuple(x.shape))
        tensors.append(x)
    targets, outputs, sizes, local_args = _decide(name, mesh, tensors, args, kwargs)
    inplace = name == "__setitem__" or name.endswith("_") and not name.endswith("__")
    if over_devices:  # the local tensors are whole, and so is the call
        sizes, local_args = [], None
        if inplace:
            targets[0], outputs = list(tensors[0].placements), list(tensors[0].placements)
    if not over_devices and mesh.get_coordinate() is None:
        if name == "equal":
            return _of_all(None)
        return (
            tensors[0]
            if inplace
            else _of_nobody(func, tensors, places, leaves, spec, mesh, outputs)
        )
    if inplace:
        own = tensors[0]
        wanted = list(own.placements)
        if targets[0] != wanted or outputs != wanted:
            _in_place_whole(func, own, tensors, places, leaves, spec, mesh)
            return None if name == "__setitem__" else own
    local = []
    for i, (x, to) in enumerate(zip(tensors, targets)):
        comes, leaves_as = _on_the_way(targets, i, mesh)
        for m in x._terms:
            leaves_as[m] = comes[m]
        if comes != leaves_as and not x._terms and not over_devices and not (inplace and not i):
            if list(to) != list(x.placements):
                local.append(redistributed(x._local_tensor, mesh, tuple(x.shape), x.placements, to, name, tuple(comes)))
                continue
            again = x._sums_taken and x._sums_taken.again(x._local_tensor, comes)
            if again is not None:
                local.append(again)
                continue
        t = redistributed(x._local_tensor, mesh, tuple(x.shape), x.placements, to, name)
        local.append(with_gradient(t, mesh, tuple(x.shape), comes, leaves_as))
    if replicated:
        for t, to in zip(local, targets):
            if all(p.is_replicate() for p in to):
                replicated[-1][id(t._ftorch_storage)] = t._ftorch_storage
    if local_args is not None:
        result = getattr(local[0], _RESHAPED_AS.get(name, name))(*local_args)
    else:
        for i, t in zip(places, local):
            leaves[i] = t
        local_arguments, local_options = tree_unflatten(leaves, spec)
        result = func(*local_arguments, **local_options)
    if inplace:
        return None if name == "__setitem__" else tensors[0]
    if name == "equal" and not over_devices:
        return _of_all(result)
    count = math.prod(
        mesh.size(m)
        for m, p in enumerate(outputs)
        if p.is_partial("avg") and not any(t[m].is_partial("avg") for t in targets)
    )
    if count > 1 and not over_devices and isinstance(result, torch.Tensor) and result.requires_grad:
        result = OfMean.apply(result, count)
    result = _wrapped(result, mesh, outputs, sizes, tensors, name)
    if any(x._terms for x in known):
        _hand_on(result, tensors)
    return result


def _of_table(func, args, kwargs):
    """`torch.embedding`, whose table comes first, as `nn.functional.embedding`."""
    named = dict(zip(("weight", "indices", "padding_idx", "scale_grad_by_freq", "sparse"), args)) | kwargs
    index, padding = named.pop("indices"), named.pop("padding_idx", -1)
    return torch.nn.functional.embedding, (index,), {**named, "padding_idx": None if padding < 0 else padding}


def _of_one(x, args, kwargs):
    """The dimensions that `squeeze` takes away: parts may have others of size 1."""
    dim = rules._argument(args, kwargs, 1, "dim")
    dims = range(x.dim()) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
    rank = max(x.dim(), 1)
    for d in dims:
        if not -rank <= d < rank:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {d})"
            )
    return tuple(d for d in dims if x.dim() and x.shape[d] == 1)


def _of_nobody(func, tensors, places, leaves, spec, mesh, outputs):
    """The results for a process that is not in the mesh: nothing, of the shapes that they have."""
    from ._api import DTensor

    leaves = list(leaves)
    for i, x in zip(places, tensors):
        leaves[i] = torch.empty(tuple(x.shape), dtype=x.dtype, device="meta")
    args, kwargs = tree_unflatten(leaves, spec)
    found, structure = tree_flatten(func(*args, **kwargs))
    made = []
    for t in found:
        if isinstance(t, torch.Tensor):
            nothing = torch.zeros(() if not t.dim() else 0, dtype=t.dtype)
            t = DTensor._made(nothing, mesh, outputs, tuple(t.shape))
        made.append(t)
    return tree_unflatten(made, structure)


def _of_all(result):
    """Whether what is compared is equal in all processes; those outside of the mesh (None) are told, too."""
    found: list = [None] * dist.get_world_size()
    dist.all_gather_object(found, result)
    return all(each for each in found if each is not None)


def _hand_on(result, operands):
    """What is computed of parameters alone gives them gradients as they want them: terms of a sum."""
    derived = [x for x in operands if x._local_tensor.requires_grad]
    if derived and all(x._terms == derived[0]._terms for x in derived):
        for made in tree_flatten(result)[0]:
            if hasattr(made, "_spec"):
                made._terms = derived[0]._terms


def _over_devices(args, kwargs):
    """Whether the mesh of a call's `DTensor`s lies over the devices of this process."""
    from ._api import DTensor

    first = next(x for x in tree_flatten((args, kwargs))[0] if isinstance(x, DTensor))
    return first.device_mesh._places is not None


def _on_the_way(targets, i, mesh):
    """How the gradient of an input comes out of the local call, and how it has to be."""
    own = gradient_placements(targets[i])
    comes = list(own)
    for m in range(mesh.ndim):
        divided = any(not t[m].is_replicate() for t in targets)
        if targets[i][m].is_replicate() and divided:
            mean = any(t[m].is_partial("avg") for t in targets)  # a factor of each term
            comes[m] = Partial("avg" if mean else "sum")
    return comes, own


def _is_derived(x):
    return torch.is_grad_enabled() and x._local_tensor.requires_grad


def _inputs(tensors, mesh, m):
    inputs = []
    for x in tensors:
        made = Input(tuple(x.shape), x.placements[m])
        made.derived = _is_derived(x)
        made.even, made.is_bool = evenly_divided(x.shape, mesh, x.placements), x.dtype is torch.bool
        made.is_complex = x.dtype.is_complex
        inputs.append(made)
    return inputs


def _decide(name, mesh, tensors, args, kwargs):
    """(what each tensor is moved to, how the result lies, its sizes, other arguments of the local call)"""
    whole = [Replicate()] * mesh.ndim
    targets = [list(whole) for _ in tensors]
    outputs, sizes, local_args = list(whole), [], None
    base = name.rstrip("_") if not name.startswith("__") else name
    by_tensors = name == "__getitem__" and is_advanced(items_of(args))
    if base in _RESHAPES or base in _PARTS and not by_tensors:
        decisions = []
        for m in range(mesh.ndim):
            first = _inputs(tensors[:1], mesh, m)[0]
            if base in _PARTS:
                decision = _part(base, first, args, kwargs)
            else:
                decision, shape = _reshape(base, first, tensors, args, kwargs, mesh, m)
                if decision is not None and shape is not None:
                    local_args = shape if local_args is None else _both(local_args, shape, decision, mesh, m)
            decisions.append(decision or Decision([Replicate()], Replicate()))
    else:
        decisions = _chosen(name, base, mesh, tensors, args, kwargs)
    for m, decision in enumerate(decisions):
        for i, placement in enumerate(decision.inputs[: len(tensors)]):
            targets[i][m] = placement
        outputs[m] = decision.output
        if decision.sizes:
            sizes.append(decision.sizes)
    return targets, outputs, sizes, local_args


def _rule_of(name, base, tensors):
    """The rule of an operation, and the name by which it is asked."""
    if base in rules.POINTWISE or name in rules.POINTWISE:
        return rules.pointwise, name if name.startswith("__") else base
    if base in ("matmul", "__matmul__") and len(tensors) > 1 and tensors[1].dim() == 1 < tensors[0].dim():
        return contracted, "matmul"
    return RULES.get(base), base


def _chosen(name, base, mesh, tensors, args, kwargs):
    """For each dimension of the mesh a rule's answer, so that the tensors are moved most cheaply."""
    registered = REGISTERED.get(name) or REGISTERED.get(base)
    rule, asked = (None, base) if registered else _rule_of(name, base, tensors)
    if rule is None and registered is None:
        return [Decision([Replicate()] * len(tensors), Replicate())] * mesh.ndim
    if name.endswith("_") and not name.startswith("__"):  # what is written lies as it does
        elementwise = rule is rules.pointwise
        found = [
            (rule, name if elementwise and not x.is_partial() else base)
            for x in tensors[0].placements
        ]
        return [
            (r(n, _inputs(tensors, mesh, m), args, kwargs) if r is not None else None)
            or Decision([Replicate()] * len(tensors), Replicate()) for m, (r, n) in enumerate(found)
        ]
    if registered is None and rule not in _CHOOSING:
        whole = Decision([Replicate()] * len(tensors), Replicate())
        return [rule(asked, _inputs(tensors, mesh, m), args, kwargs) or whole for m in range(mesh.ndim)]
    sizes = tuple(mesh.shape)
    lying = [(tuple(x.placements), tuple(x.shape), x.numel() * x.dtype.itemsize) for x in tensors]
    if isinstance(registered, Strategy):
        return decided(registered, mesh, tensors, args, kwargs)
    if registered is not None:
        return cheapest([_registered(registered, tensors, args, kwargs)] * mesh.ndim, lying, sizes)
    if all(p.is_replicate() for x in tensors for p in x.placements):
        return [Decision([Replicate()] * len(tensors), Replicate())] * mesh.ndim
    derived = tuple(map(_is_derived, tensors))
    key = rule, asked, sizes, *lying, derived, _hashable(args), _hashable(tuple(kwargs.items()))
    try:
        found = _known.get(key)
    except TypeError:  # an argument that has no hash
        key = found = None
    if found is None:
        divided = any(divides(p) for x in tensors for p in x.placements)
        found = cheapest([
            listed(rule, asked, _inputs(tensors, mesh, m), args, kwargs, sizes[m], divided) for m in range(mesh.ndim)
        ], lying, sizes)
        if key is not None:
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            _known[key] = found
    return found


def _hashable(x):
    """What a rule may read of an argument, as a part of a key."""
    if isinstance(x, torch.Tensor):
        return torch.Tensor, x.dtype is torch.bool
    return tuple(map(_hashable, x)) if x.__class__ is list or x.__class__ is tuple else (x.__class__, x)


def _registered(rule, tensors, args, kwargs):
    """What a user's rule allows."""
    from ._api import DTensor

    def shown(x):
        return x._spec if isinstance(x, DTensor) else x

    found = []
    for outputs, given in rule(*[shown(a) for a in args], **{k: shown(v) for k, v in kwargs.items()}):
        placed = [p for p in given if p is not None]
        out = outputs[0]
        same = any(p == out for p in placed)
        size = tensors[0].shape[out.dim] if divides(out) and out.dim < tensors[0].dim() else None
        found.append(Decision(placed, out, sizes=(out.dim, size) if divides(out) and same else None))
    return found


def _both(first, second, decision, mesh, m):
    shape = list(first[0])
    if divides(decision.output) and shape[decision.output.dim] == -1:
        return first
    if divides(decision.output):
        shape[decision.output.dim] //= mesh.size(m)
    return (shape,)


def _target_shape(name, x, tensors, args, kwargs):
    if name in ("view_as", "reshape_as", "expand_as"):
        return list(args[1].shape)
    if name == "ravel":
        return [math.prod(x.shape)]
    if name == "flatten":
        start = rules._argument(args, kwargs, 1, "start_dim", default=0)
        end = rules._argument(args, kwargs, 2, "end_dim", default=-1)
        rank = len(x.shape)
        start, end = start % max(rank, 1), end % max(rank, 1)
        return [*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]]
    if name == "unflatten":
        dim = rules._argument(args, kwargs, 1, "dim") % len(x.shape)
        parts = list(rules._argument(args, kwargs, 2, "sizes"))
        if -1 in parts:
            parts[parts.index(-1)] = x.shape[dim] // -math.prod(parts)
        return [*x.shape[:dim], *parts, *x.shape[dim + 1 :]]
    rest = args[1:] or (kwargs.get("shape", kwargs.get("size")),)
    shape = rest[0] if isinstance(rest[0], (tuple, list)) else rest
    if isinstance(shape, torch.dtype) or isinstance(shape[0], torch.dtype):
        return None
    shape = list(shape)
    if -1 in shape and name not in _EXPANSIONS:
        shape[shape.index(-1)] = math.prod(x.shape) // max(1, -math.prod(shape))
    return shape


def _expanded(x, shape):
    """`expand`: dimensions that stay are left as they are, so that their parts may have any size."""
    new = len(shape) - len(x.shape)
    kept = [-1 if d >= new and s in (-1, x.shape[d - new]) else s for d, s in enumerate(shape)]
    if x.dim is None:
        return Decision([x.placement], x.placement), (kept,)
    out = x.dim + new
    if kept[out] != -1:
        return Decision([Replicate()], Replicate()), (kept,)
    return Decision([Shard(x.dim)], Shard(out), sizes=(out, x.shape[x.dim])), (kept,)


def _reshape(name, x, tensors, args, kwargs, mesh, m):
    shape = _target_shape(name, x, tensors, args, kwargs)
    if shape is None:
        return None, None
    if name in _EXPANSIONS:
        return _expanded(x, shape)
    if x.placement.is_partial():
        return Decision([x.placement], x.placement), (shape,)
    if x.dim is None:
        return Decision([Replicate()], Replicate()), (shape,)
    # several mesh dimensions may divide the same one: all of them have to fit
    count = math.prod(
        mesh.size(i) for i, p in enumerate(tensors[0].placements) if divides(p, x.dim)
    )
    is_alone = count == mesh.size(m) and mesh._places is None  # a layout over devices has no strides
    out = rules.reshaped(x.shape, shape, x.placement, count, is_alone) if x.even else None
    if out is None:
        return Decision([Replicate()], Replicate()), (shape,)
    local = list(shape)
    local[out.dim] //= mesh.size(m)
    return Decision([x.placement], out, sizes=(out.dim, shape[out.dim])), (local,)


def _part(name, x, args, kwargs):
    if x.dim is None:
        return Decision([x.placement], x.placement)
    rank = len(x.shape)
    if name == "__getitem__":
        dim, out = 0, 0
        for i in items_of(args):
            if i is None:
                out += 1
                continue
            if dim == x.dim:
                return Decision([Shard(dim)], Shard(out), sizes=(out, x.shape[dim])) if (
                    isinstance(i, slice) and i == slice(None)
                ) else None
            out += isinstance(i, slice)
            dim += 1
        out += x.dim - dim
        return Decision([Shard(x.dim)], Shard(out), sizes=(out, x.shape[x.dim]))
    place = 1 if name in ("select", "narrow", "unbind") else 2
    dim = rules._argument(args, kwargs, place, "dim", default=0) % rank
    if dim == x.dim:
        return None
    out = x.dim - (name in ("select", "unbind") and dim < x.dim)
    return Decision([Shard(x.dim)], Shard(out), sizes=(out, x.shape[x.dim]))


def _in_place_whole(func, own, tensors, places, leaves, spec, mesh):
    """A write that the parts cannot make alone: made on whole tensors, of which the parts are taken."""
    whole, name = [Replicate()] * mesh.ndim, getattr(func, "__name__", "")
    full = [redistributed(x._local_tensor, mesh, tuple(x.shape), x.placements, whole, name) for x in tensors]
    full[0] = full[0].clone()
    for i, t in zip(places, full):
        leaves[i] = t
    args, kwargs = tree_unflatten(leaves, spec)
    result = func(*args, **kwargs)
    result = full[0] if result is None else result
    own._local_tensor.copy_(redistributed(result, mesh, tuple(own.shape), whole, own.placements))


def _wrapped(result, mesh, outputs, sizes, tensors, name):
    from ._api import DTensor

    if isinstance(result, torch.Tensor):
        shape = list(result.shape)
        for m, p in enumerate(outputs if mesh._places is None else ()):
            if divides(p):
                shape[p.dim] *= mesh.size(m)
        if name in rules.POINTWISE or name.rstrip("_") in rules.POINTWISE:
            shape = list(torch.broadcast_shapes(*[tuple(t.shape) for t in tensors]))
        for dim, size in sizes:
            if size is not None and any(divides(p, dim) for p in outputs):
                shape[dim] = size
        return DTensor._made(result, mesh, outputs, tuple(shape), global_strides(result, shape))
    if isinstance(result, (tuple, list)):
        made = [_wrapped(r, mesh, outputs, sizes, tensors, name) for r in result]
        return type(result)(made)
    return result


def _written(out, result):
    """``out=``: the result, put where it was wanted."""
    if isinstance(out, torch.Tensor):
        return out.copy_(result)
    for one, value in zip(out, result):
        one.copy_(value)
    return out


def _each(func, args, kwargs):
    """``torch._foreach_*``: elementwise on lists."""
    base, inplace = func.__name__.removeprefix("_foreach_").rstrip("_"), func.__name__.endswith("_")
    first = next(a for a in args if isinstance(a, (list, tuple)))
    out = []

    def at(value, i):
        return value[i] if isinstance(value, (list, tuple)) else value

    for i in range(len(first)):
        row = [at(a, i) for a in args]
        named = {"value" if k == "scalars" else k: at(v, i) for k, v in kwargs.items()}
        if base in ("addcdiv", "addcmul") and len(row) > 3:
            named["value"] = row.pop()
        if base == "norm":
            out.append(torch.linalg.vector_norm(*row, **named))
        elif isinstance(row[0], torch.Tensor):
            out.append(getattr(row[0], base + ("_" if inplace else ""))(*row[1:], **named))
        else:
            out.append(getattr(torch, base)(*row, **named))
    return None if inplace else out
