"""The rewriting pass: kernels of this package take the place of what XLA does badly on the CPU.

The pass works on a traced function: whoever wrote the operation (a kernel, a derivative, `vmap`), and
inside whatever loop, it is found when its program is compiled.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from ...core import jaxprs
from ...core.jax_internals import bind
from ...core.lock_sharing import rest
from .. import available, call
from . import (
    attention,
    epilogue_fusion,
    indexing,
    long_programs,
    narrow_products,
    packed,
    pooling,
    rnn,
    rounding,
    row_updates,
    rowwise,
    scans_and_sorts,
    sparse,
    zero_sums,
)
from . import multi_output_fusion as groups
from .inlining import Flat
from .views import Origins, in_three_dimensions, merged, strides

# Pixels from which a convolution by a single tap is a product with the images' rows: vectors of pixels.
_MANY = 128
# Products with less than this many multiplications cost less where XLA compiles them in line; those with a
# vector, which memory decides, unless they are worth a second thread.
_SMALL, _SMALL_BY_VECTOR = 1 << 13, 1 << 19


def rewritten(function, donated=None, rounded=False):
    """``function`` with this package's kernels, to be compiled for the CPU.

    Args:
        donated: which argument's arrays results may take the memory of.
        rounded: whether each step gives the bits that it gives by itself (`rounding`).
    """
    if not available:
        return function

    @functools.wraps(function)
    def replaced(*operands):
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*operands)
        leaves = jax.tree.leaves(operands)
        given = () if donated is None else range(
            len(jax.tree.leaves(operands[:donated])), len(jax.tree.leaves(operands[: donated + 1]))
        )
        run = _Run(closed, leaves, Origins(leaves, rounded), given)
        results = run.results()
        if long_programs.is_long(run.flat):
            results = long_programs.beside(results)
        return jax.tree.unflatten(jax.tree.structure(shape), results)

    return replaced


def _evaluate(closed, operands, origins, donated=()):
    """Runs a traced function, with replacements."""
    return _Run(closed, operands, origins, donated).results()


class _Run:
    """A traced function being run.

    Attributes:
        values: {name: value}.
        done: numbers of steps that others have made.
        over: {result: the input whose memory JAX gives it}.
    """

    def __init__(self, closed, operands, origins, donated):
        self.flat, self.origins = Flat(closed), origins
        self.flat.groups = groups.find(self.flat)
        self.rounding, self.zeros = None, zero_sums.ZeroSums(self.flat)
        if origins.rounded:
            self.flat.groups = {**self.flat.groups, **rounding.find(self.flat)}
            self.rounding = rounding.Rounding(self.flat)
        self.over = self.flat.laid_over(donated)
        self.values = {**self.flat.constants, **dict(zip(self.flat.inputs, operands, strict=True))}
        self.done: set[int] = set()

    def results(self):
        for number, step in enumerate(self.flat.steps):
            if number in self.done:
                continue
            if (group := self.flat.groups.get(number)) is not None:
                if number == group.steps[-1]:
                    if isinstance(group, rounding.Cluster):
                        made = rounding.run(self.flat, group, self._read)
                        self.origins.add_results(made)
                    else:
                        made = groups.run(self.flat, group, self._read, self.over)
                    self.values.update(zip(group.results, made, strict=True))
                continue
            rest()
            inputs = [self._read(atom) for atom in step.inputs]
            after = self._transpose(step)
            if (after is None or not self._native(step, inputs, after)) and not self._native(step, inputs):
                self._plain(step, inputs)
        return [self._read(atom) for atom in self.flat.outputs]

    def _read(self, atom):
        return atom.val if isinstance(atom, Literal) else self.values[atom]

    def _transpose(self, step):
        """The number of the transpose that alone uses a result which can be written in any order."""
        if step.eqn.primitive.name not in _TURNED:
            return None
        number = self.flat.only_user(step.outputs[0])
        is_one = number is not None and self.flat.steps[number].eqn.primitive.name == "transpose"
        return number if is_one else None

    def _native(self, step, inputs, after=None):
        """Whether a kernel made a step, together with the transpose ``after``."""
        kernel = _KERNELS.get(step.eqn.primitive.name)
        if kernel is None:
            return False
        outputs, options, chain = step.outputs, {}, None
        if after is not None:
            outputs = self.flat.steps[after].outputs
            options["order"] = self.flat.steps[after].eqn.params["permutation"]
        if kernel in _CHAINED:
            options["chain"] = chain = epilogue_fusion.Chain(self.flat, outputs[0], self.values, self.origins)
        results = kernel(step.eqn, inputs, self.origins, **options)
        if results is None:
            return False
        if after is not None:
            self.done.add(after)
        if chain is not None and chain.taken:
            self.done.update(number for link in chain.taken for number in link.steps)
            outputs, shape = [chain.taken[-1].output], chain.taken[-1].shape
            results = [r if r.shape == shape else jax.lax.reshape(r, shape) for r in results]
        self.origins.add_results(results)
        self.values.update(zip(outputs, results, strict=True))
        return True

    def _plain(self, step, inputs):
        """A step as it is, or as XLA is told it for this package's reasons."""
        eqn, results = step.eqn, None
        if eqn.primitive.name == "optimization_barrier" and step.once:
            results = _barrier(eqn, inputs)
        if eqn.primitive.name == "dynamic_update_slice":
            results = row_updates.written(step, self.flat, self._read)
            if results is not None:
                self.origins.add_results(results)
        if results is None:
            results = self.zeros.made(step, inputs)
        if results is None and self.rounding is not None:
            results = self.rounding.made(step, inputs)
        if results is None:
            rounded = self.rounding is not None
            params = {key: _inside(value, rounded and eqn.primitive.name in _BODIES) for key, value in eqn.params.items()}
            results = bind(eqn, inputs, params)
            if inputs:
                self.origins.add(eqn, inputs, results[0])
        self.values.update(zip(step.outputs, results, strict=True))


def _inside(value, rounded=False):
    """A parameter of an equation; the bodies of loops and branches are rewritten too."""
    if isinstance(value, ClosedJaxpr) and _has_work(value.jaxpr, rounded):
        return jax.make_jaxpr(lambda *operands: _evaluate(value, operands, Origins(rounded=rounded)))(
            *(jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in value.in_avals)
        )
    if type(value) is tuple and any(isinstance(v, ClosedJaxpr) for v in value):
        return tuple(_inside(v, rounded) for v in value)
    return value


def _has_work(jaxpr, rounded):
    return any(
        eqn.primitive.name in _KERNELS or zero_sums.is_visible(eqn)
        or (rounded and eqn.primitive.name in rounding.CHANGED)
        or any(
            isinstance(inner, ClosedJaxpr) and _has_work(inner.jaxpr, rounded)
            for inner in jaxprs.inner(eqn.params.values())
        )
        for eqn in jaxpr.eqns
    )


# Those whose jaxprs are computed as they are; those of reductions join two numbers.
_BODIES = frozenset({"while", "scan", "cond", "custom_linear_solve", *jaxprs.CALLS})


def _is_float(eqn):
    return all(v.aval.dtype == np.float32 for v in (*eqn.invars, *eqn.outvars))


# --- matrix products -------------------------------------------------------------------


def _product(eqn, inputs, origins, order=None, *, chain):
    """The product, its dimensions in ``order``, and what of a `Chain` its call can make; None if XLA is to."""
    shape = eqn.outvars[0].aval.shape
    order = range(len(shape)) if order is None else order
    shape = tuple(shape[d] for d in order)
    dtypes = [v.aval.dtype for v in (*eqn.invars, *eqn.outvars)]
    narrow, bytes_ = (
        narrow_products.is_narrow(*dtypes),
        narrow_products.is_product_of_bytes(*dtypes),
    )
    if not (narrow or bytes_ or _is_float(eqn)) or 0 in shape:
        return None
    views = [origins.get(x, "transpose") for x in inputs]
    # Reading through transposes, else of what they give.
    for left in (views[0], None) if views[0] else (None,):
        for right in (views[1], None) if views[1] else (None,):
            found = _plan_product(eqn, inputs, (left, right), shape, order, narrow, origins)
            if found:
                swapped, attributes, loops = found
                operands = [v.source if v else x for v, x in zip((left, right), inputs, strict=True)]
                operands = operands[:: -1 if swapped else 1]
                if bytes_:
                    return [call("ftorch_multiply_bytes", jax.ShapeDtypeStruct(shape, np.int32), *operands, **attributes)]
                if narrow:
                    return [
                        narrow_products.product(
                            operands, attributes, shape, eqn.outvars[0].aval.dtype
                        )
                    ]
                if attributes["sizes"][2] == 1:
                    return [call("ftorch_outer", _floats(shape), *operands, **attributes)]
                others, after = chain.take(shape, loops)
                unread = origins.last(operands, shape) or origins.before(operands, shape)
                result = call("ftorch_multiply", _floats(shape), *operands, *others, *unread, **attributes, **after)
                origins.add_product(operands, result)
                return [origins.add_last(operands, result)]
    return None


def _floats(shape):
    return jax.ShapeDtypeStruct(shape, np.float32)


class _Dim(NamedTuple):
    """A dimension of a product: how far apart its elements lie in the operands and the result.

    An operand that does not have the dimension has step 0 there.
    """

    size: int
    left: int
    right: int
    out: int

    @property
    def swapped(self):
        return self._replace(left=self.right, right=self.left)


def _plan_product(eqn, inputs, views, shape, order, narrow, origins):
    """(whether the operands change places, the call's attributes, the loops over the result), or None."""
    contracting, batch = eqn.params["dimension_numbers"]
    steps = []
    for x, view in zip(inputs, views, strict=True):
        own = strides(x.shape if view is None else view.source.shape)
        steps.append(own if view is None else [own[d] for d in view.params["permutation"]])
    sizes = inputs[0].shape, inputs[1].shape
    dims = [_Dim(sizes[0][i], steps[0][i], steps[1][j], 0) for i, j in zip(*batch, strict=True)]
    for k in (0, 1):
        dims += [
            _Dim(size, *((steps[0][d], 0) if k == 0 else (0, steps[1][d])), 0)
            for d, size in enumerate(sizes[k])
            if d not in contracting[k] and d not in batch[k]
        ]
    dims = [dims[d]._replace(out=step) for d, step in zip(order, strides(shape), strict=True)]
    dims = [d for d in dims if d.size != 1]
    terms = merged(
        sorted(
            (_Dim(sizes[0][i], steps[0][i], steps[1][j], 0)
             for i, j in zip(*contracting, strict=True) if sizes[0][i] != 1),
            key=lambda d: -d.left,  # a sum takes them in any order
        )
    )
    is_line = not dims or (dims[-1].left != 0 and dims[-1].right != 0)  # lines times lines: there are no columns
    if len(terms) > 1 or (is_line and origins.is_few(0, 1)):
        return None
    swapped = not is_line and dims[-1].right == 0  # the result's rows are those of the operand whose come last
    if swapped:
        dims, terms = [d.swapped for d in dims], [d.swapped for d in terms]
    terms = terms[0] if terms else _Dim(1, 1, 1, 0)
    columns, rows = _Dim(1, 0, 1, 1), None
    if not is_line:
        columns, dims = _innermost(dims, lambda d: d.left == 0)
        rows, dims = _innermost(dims, lambda d: d.right == 0)
    outer = merged(dims)
    if columns is None or columns.out != 1 or len(outer) > 2:
        return None
    rows = rows or _Dim(1, 0, 0, 0)
    m, n, depth = rows.size, columns.size, terms.size
    least = _SMALL if narrow or min(m, n) > 1 else _SMALL_BY_VECTOR
    if not depth or origins.is_few(m * n * depth, least) or (m > 1 and 1 not in (rows.left, terms.left)):
        return None
    outer = [_Dim(1, 0, 0, 0)] * (2 - len(outer)) + outer
    loops = [(d.size, d.out) for d in (*outer, rows, columns)]
    return swapped, {
        "sizes": (m, n, depth), "outer": [d.size for d in outer],
        "left": (*(d.left for d in outer), rows.left, terms.left),
        "right": (*(d.right for d in outer), terms.right, columns.right),
        "result": (*(d.out for d in outer), rows.out),
    }, loops


def _innermost(dims, belongs):
    """The last dimensions that belong, as far as they lie behind each other: (one, the others)."""
    chosen = [d for d in dims if belongs(d)]
    if not chosen:
        return None, dims
    joined = merged(chosen)
    others = [d for d in dims if not belongs(d)] + joined[:-1]
    return joined[-1], sorted(others, key=lambda d: -d.out)


# --- convolutions ----------------------------------------------------------------------


def _convolution(eqn, inputs, origins, *, chain):
    """The convolution, and what of a `Chain` its call can make; None if XLA is to."""
    params, out = eqn.params, eqn.outvars[0].aval.shape
    rank = len(out)
    if not _is_float(eqn) or not 3 <= rank <= 5 or 0 in (*out, *inputs[0].shape, *inputs[1].shape):
        return None
    numbers = params["dimension_numbers"]
    usual, swapped = tuple(range(rank)), (1, 0, *range(2, rank))
    specs = numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec
    if specs[0] == specs[1] == swapped and specs[2] in (usual, swapped):
        return _weight_gradient(params, inputs, out, specs[2] == swapped, origins)
    if specs[0] == specs[2] == usual and specs[1] in (usual, swapped):
        flip = origins.get(inputs[1], "rev")
        flipped = flip is not None and flip.params["dimensions"] == tuple(range(2, rank))
        if flipped:
            inputs = inputs[0], flip.source
        return _forward(params, inputs, out, specs[1] == swapped, flipped, origins, chain)
    return None


def _forward(params, inputs, out, swapped, flipped, origins, chain):
    if params["batch_group_count"] != 1:
        return None
    x, weight = inputs
    groups, window = params["feature_group_count"], weight.shape[2:]
    taps, channels, outputs = math.prod(window), x.shape[1] // groups, out[1] // groups
    if swapped:
        steps = (taps, out[1] * taps, outputs * taps)
    else:
        steps = (channels * taps, taps, outputs * channels * taps)
    pixels = math.prod(out[2:])
    loops = (x.shape[0], out[1] * pixels), (groups, outputs * pixels), (outputs, pixels), (pixels, 1)
    others, after = chain.take(out, loops)
    others = *others, *origins.last(inputs, out)
    if taps == 1 and x.shape[2:] == out[2:] and pixels >= _MANY and not any(map(any, params["padding"])):
        result = call(
            "ftorch_multiply", _floats(out), weight, x, *others, sizes=(outputs, pixels, channels),
            outer=(x.shape[0], groups), left=(0, steps[2], *steps[:2]),
            right=(groups * channels * pixels, channels * pixels, pixels, 1),
            result=(groups * outputs * pixels, outputs * pixels, pixels), **after,
        )
        return [origins.add_last(inputs, result)]
    return _call(
        "ftorch_convolve", out, inputs, others, origins,
        (x.shape[0], groups, channels, outputs, *steps, int(flipped)), x.shape[2:], out[2:], window,
        params["window_strides"], [low for low, _ in params["padding"]], params["rhs_dilation"],
        params["lhs_dilation"], **after,
    )


def _weight_gradient(params, inputs, out, swapped, origins):
    x, grad = inputs
    images, groups, taps = x.shape[0], params["batch_group_count"], math.prod(out[2:])
    channels = x.shape[1] // groups
    if params["feature_group_count"] != 1:  # of each image by itself, as `vmap` asks
        if groups != 1 or params["feature_group_count"] != images:
            return None
        images, groups = 1, images
    outputs = grad.shape[1] // groups
    stride, dilation, spread = (
        params[name] for name in ("rhs_dilation", "window_strides", "lhs_dilation")
    )
    low = [low for low, _ in params["padding"]]
    sizes, unread = (images, groups), origins.last(inputs, out)
    if swapped:
        steps, by_group = (channels * taps, taps), outputs * channels * taps
    else:
        steps, by_group = (taps, groups * outputs * taps), outputs * taps
    if all(s == 1 for s in spread):
        return _call(
            "ftorch_weight_gradient",
            out,
            (x, grad),
            unread,
            origins,
            (*sizes, channels, outputs, *steps, by_group, 0),
            x.shape[2:],
            grad.shape[2:],
            out[2:],
            stride,
            low,
            dilation,
            spread,
        )
    if any(s != 1 for s in stride):
        return None
    # Of a transposed convolution: every image element meets `spread` apart in the results' gradient.
    return _call(
        "ftorch_weight_gradient",
        out,
        (grad, x),
        unread,
        origins,
        (*sizes, outputs, channels, *steps[::-1], by_group, 0),
        grad.shape[2:],
        x.shape[2:],
        out[2:],
        spread,
        [-v for v in low],
        [-d for d in dilation],
        stride,
    )


def _call(name, shape, operands, others, origins, sizes, extent, out, window, stride, low, dilation, spread, **after):
    """A call on convolution's terms, of one to three dimensions, as one of three."""
    spatial = in_three_dimensions(
        extent=(extent, 1), out=(out, 1), window=(window, 1), stride=(stride, 1), low=(low, 0),
        dilation=(dilation, 1), spread=(spread, 1),
    )
    result = call(name, _floats(shape), *operands, *others, sizes=sizes, **spatial, **after)
    return [origins.add_last(operands, result)]


# --- what is computed once ---------------------------------------------------------------


def _barrier(eqn, inputs):
    if any(not isinstance(x.dtype, np.dtype) for x in inputs):  # keys of random numbers
        return None
    return [call("ftorch_keep", v.aval, x, over=0) for v, x in zip(eqn.outvars, inputs, strict=True)]


# --- all of them -----------------------------------------------------------------------

# primitive: what gives its results, or None if XLA is to make them
_KERNELS = {
    "dot_general": _product, "conv_general_dilated": _convolution, "gather": indexing.take,
    **dict.fromkeys(("scatter", "scatter-add", "scatter-mul", "scatter-min", "scatter-max"), indexing.put),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"), scans_and_sorts.scan),
    "sort": scans_and_sorts.sort, "top_k": scans_and_sorts.top, "ftorch_select": scans_and_sorts.select,
    **dict.fromkeys(("ftorch_cummax", "ftorch_cummin"), scans_and_sorts.extremum),
    "reduce_sum": rowwise.total,
    **dict.fromkeys(("ftorch_softmax", "ftorch_softmax_gradient"), rowwise.softmax),
    **dict.fromkeys(("ftorch_layer_norm", "ftorch_layer_norm_gradient"), rowwise.layer_norm),
    **dict.fromkeys(rnn.LOOPS, rnn.loop), "ftorch_bags": indexing.bags, "ftorch_multiply_sparse": sparse.product,
    "ftorch_multiply_weights8": packed.weights8, "ftorch_multiply_weights4": packed.weights4,
    "ftorch_linear_dynamic": packed.linear_dynamic, "ftorch_convolve_pairs": narrow_products.convolution,
    "ftorch_max_pool": pooling.maximum, "ftorch_max_pool_gradient": pooling.gradient,
    "ftorch_attention": attention.forward, "ftorch_attention_gradient": attention.gradient,
    "ftorch_attention_mask_gradient": attention.gradient,
}
_CHAINED = _product, _convolution, pooling.gradient
_TURNED = ("dot_general", "ftorch_attention")  # those that write their result in any order
