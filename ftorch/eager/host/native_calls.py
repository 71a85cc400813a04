"""Rules of the host tier that call the package's C++ kernels on NumPy arrays, without XLA.

`OVERRIDES` has them by primitive. Their ``make`` is given what `ftorch.eager.host.rules` says, and the rule in NumPy
whose place they take; it gives None where there is no kernel for the dtypes. `install` puts them in the place of
NumPy's. The elementwise programs are in `elementwise_programs`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..core.geometry import contiguous_stride
from ..native import NUMBERS, PARTS, SUMMED, available, module
from ..native.numpy_calls import Shaped, prepared, run
from ..native.passes import (
    indexing,
    narrow_products,
    packed,
    pooling,
    rewrite,
    rnn,
    rowwise,
    scans_and_sorts,
    sparse,
)
from .elementwise_programs import DTYPES, PRIMITIVES, REDUCTIONS, elementwise, supports
from .pointwise import in_float32
from .rules import RULES, MissingRule, Rule, is_narrow

__all__ = [
    "DTYPES",
    "OVERRIDES",
    "PRIMITIVES",
    "REDUCTIONS",
    "available",
    "elementwise",
    "install",
    "module",
    "supports",
]

_FLOAT = np.dtype(np.float32)
_FEW, _MANY = 1 << 6, 1 << 14  # elements from which NumPy's conversions, or a result's memory, cost more than calling a program
#: {primitive: make(params, inputs, outputs, plain) -> run, or None}
OVERRIDES: dict[str, Callable] = {}


def override(*primitives):
    def register(make):
        OVERRIDES.update(dict.fromkeys(primitives, make))
        return make

    return register


# --- elementwise functions and reductions ----------------------------------------------

# What has other bits in NumPy, or is slower there; sums of two numbers are the same everywhere.
_FUNCTIONS = (
    "exp exp2 expm1 log log1p tanh logistic erf erfc sin cos tan asin acos atan sinh cosh asinh acosh atanh pow cbrt "
    "atan2 select_n clamp sign rem"
).split()


@override(*_FUNCTIONS)
def _(params, inputs, outputs, plain, name):
    dtype = inputs[-1].dtype
    if len(inputs) > 3 or any(x.dtype != dtype for x in inputs[1:]) or not supports(name, dtype):
        return None
    if name == "select_n" and len(inputs) != 3:
        return None
    if inputs[0].dtype != (np.bool_ if name == "select_n" else dtype) or dtype.name not in DTYPES:
        return None
    if name == "rem" and dtype.kind != "f":
        return None
    return _single(name, [x.dtype for x in inputs])


def _single(name, dtypes):
    """A function of arrays that is one instruction."""
    count = len(dtypes)
    program = elementwise(dtypes, ((name, dtypes[-1], *range(count)),), (count,))
    if count == 1:
        return lambda x: program((x,), x.shape)[0]

    def run_program(*xs):
        shape = xs[-1].shape
        if any(x.shape != shape for x in xs):  # numbers and dimensions of size 1 stand for all elements
            shape = np.broadcast_shapes(*(x.shape for x in xs))
        return program(xs, shape)[0]

    return run_program


@override("add", "sub", "mul", "max", "min")
def _(params, inputs, outputs, plain, name):
    """Operands that are repeated along each other's dimensions: NumPy's loops go along the last one, of two perhaps.

    And large ones: memory that is new costs more than the step, and what NumPy allocates JAX would copy.
    """
    dtype, rank = inputs[0].dtype, inputs[0].ndim
    if rank < 1 or inputs[1].ndim != rank or any(x.dtype != dtype for x in (inputs[1], outputs[0])):
        return None
    if dtype.name not in DTYPES or not supports(name, dtype):
        return None
    program, numpy = elementwise((dtype, dtype), ((name, dtype, 0, 1),), (2,)), plain()

    def both(x, y):
        mine, other = x.shape, y.shape
        if mine != other:
            shape = tuple([m if n == 1 else n for m, n in zip(mine, other)])
            if mine != shape and other != shape and 0 not in shape:
                return program((x, y), shape)[0]
        elif x.size > _MANY:
            return program((x, y), mine)[0]
        return numpy(x, y)

    return both


@override("convert_element_type")
def _(params, inputs, outputs, plain, name):
    """Large arrays, for the same reasons, and floats of 16 bits, one by one converted by NumPy."""
    source, target = inputs[0].dtype, outputs[0].dtype
    if source == target or not inputs[0].ndim or not supports(name, source, target):
        return None
    program, numpy = elementwise((source,), ((name, source, target, 0),), (1,)), plain()
    least = _FEW if is_narrow(source) or is_narrow(target) else _MANY
    return lambda x: program((x,), x.shape)[0] if x.size > least else numpy(x)


@override(*REDUCTIONS)
def _(params, inputs, outputs, plain, name):
    axes, dtype = tuple(params["axes"]), inputs[0].dtype
    if axes and name in ("reduce_sum", "reduce_prod") and is_narrow(dtype) and outputs[0].dtype == dtype:
        if dtype.name not in DTYPES:
            program = elementwise((_FLOAT,), (), ((name, 0),), axes=axes)
            return in_float32(lambda x: program((np.ascontiguousarray(x),), x.shape)[0], dtype)
        program = elementwise((dtype,), (("convert_element_type", dtype, _FLOAT, 0),), ((name, 1),), axes=axes)
        return lambda x: program((np.ascontiguousarray(x),), x.shape)[0].astype(dtype)
    if axes and dtype in PARTS and name == "reduce_sum":  # of their parts, which are one more dimension
        part = PARTS[dtype]
        program = elementwise((part,), (), ((name, 0),), axes=axes)

        def total(x):
            x = np.ascontiguousarray(x)
            (found,) = program((x.view(part).reshape(*x.shape, 2),), (*x.shape, 2))
            return found.view(dtype)[..., 0]

        return total
    if not axes or dtype != outputs[0].dtype or not supports(name, dtype):
        return None
    program = elementwise((dtype,), (), ((name, 0),), axes=axes)
    if dtype.kind == "f" and name in ("reduce_sum", "reduce_prod"):  # in the order of an array that lies dense
        return lambda x: program((x if x.flags.c_contiguous else np.ascontiguousarray(x),), x.shape)[0]
    return lambda x: program((x,), x.shape)[0]


# --- products --------------------------------------------------------------------------


@override("dot_general")
def _(params, inputs, outputs, plain, name):
    dtypes = [x.dtype for x in (*inputs, *outputs)]
    if narrow_products.is_narrow(*dtypes) or narrow_products.is_product_of_bytes(*dtypes):
        return _product_by_pass(params, inputs, outputs, plain())
    if any(dtype != _FLOAT for dtype in dtypes) or not all(x.ndim for x in inputs):  # NumPy's steps give numbers for these
        return None
    (sums, batches) = params["dimension_numbers"]
    return module.Product(*(tuple(map(int, dims)) for dims in (*sums, *batches)))


def _product_by_pass(params, inputs, outputs, rule):
    (sums, batches), dtype = params["dimension_numbers"], outputs[0].dtype
    free = [[d for d in range(x.ndim) if d not in (*sums[k], *batches[k])] for k, x in enumerate(inputs)]

    def product(a, b):
        shape = tuple([a.shape[d] for d in (*batches[0], *free[0])] + [b.shape[d] for d in free[1]])
        found = run(rewrite._product, "dot_general", params, [a, b], [Shaped(shape, dtype)], True)
        return rule(a, b) if found is None else found[0]

    return product


# --- kernels that a pass over XLA's programs calls, too --------------------------------


def _by_kernel(kernel, *primitives, dtypes=(_FLOAT,), sizes=(), chained=False, least=0):
    """Rules by a function of `ftorch.eager.native.passes`; NumPy's where it gives None.

    Args:
        dtypes: of the first operand.
        sizes: parameters that come behind the arrays.
        least: elements of the last operand (of the result, if that has more) below which NumPy is sooner done.
    """

    @override(*primitives)
    def _(params, inputs, outputs, plain, name):
        if dtypes is not None and inputs[0].dtype not in dtypes:
            return None
        count, made, many = len(inputs), [np.dtype(x.dtype) for x in outputs], len(outputs) > 1
        many = many or name == "sort" or name.startswith("ftorch_")  # primitives with several results
        known: dict = {}  # calls that came, by the first array's shape

        def step(*given):
            call = known.get(given[0].shape)
            if call is not None and (found := call(*given)) is not None:
                return found
            if least and given[count - 1].size < least and math.prod(given[-1][0]) < least:
                return plain()(*given[:-1])
            arrays, own, shapes = given[:count], given[count:-1], given[-1]
            all_params = {**params, **dict(zip(sizes, own, strict=True))} if sizes else params
            results = [Shaped(tuple(shape), dtype) for shape, dtype in zip(shapes, made, strict=True)]
            found, call = prepared(given, count, lambda: run(kernel, name, all_params, arrays, results, chained), many)
            if found is None:
                return plain()(*given[:-1])
            if call is not None:
                if len(known) >= _MOST_CALLS:
                    known.clear()
                known[given[0].shape] = call
            return tuple(found) if many else found[0]

        return step

    for primitive in primitives:
        _SHAPED.add(primitive)


_MOST_CALLS = 16  # of one primitive and its parameters that are known for their sizes
# Without kernels, or of other dtypes, these are what they mean: NumPy has no rule.
_ALONE = {"ftorch_linear_dynamic": (_FLOAT,), "ftorch_convolve_pairs": None, **dict.fromkeys(rnn.LOOPS, (_FLOAT,))}
_SHAPED: set[str] = set()  # primitives whose rules are given the results' shapes behind everything else

_by_kernel(rewrite._convolution, "conv_general_dilated", sizes=("padding",), chained=True)
_by_kernel(indexing.take_along, "gather", dtypes=None, sizes=("slice_sizes",), least=1 << 12)
_by_kernel(indexing.add_along, "scatter-add", "scatter_add", dtypes=NUMBERS, least=1 << 10)
_by_kernel(scans_and_sorts.scan, "cumsum", dtypes=SUMMED, least=1 << 10)
_by_kernel(scans_and_sorts.scan, "cumprod", "cummax", "cummin", "cumlogsumexp", dtypes=NUMBERS, least=1 << 10)
_by_kernel(scans_and_sorts.sort, "sort", dtypes=(np.dtype(np.int64),), least=1 << 14)
_by_kernel(scans_and_sorts.top, "top_k", sizes=("k",))
_by_kernel(scans_and_sorts.select, "ftorch_select", dtypes=None, sizes=("count", "rank"))
_by_kernel(scans_and_sorts.extremum, "ftorch_cummax", "ftorch_cummin", dtypes=NUMBERS)
_by_kernel(rowwise.softmax, "ftorch_softmax", "ftorch_softmax_gradient")
_by_kernel(rowwise.layer_norm, "ftorch_layer_norm", "ftorch_layer_norm_gradient")
_by_kernel(indexing.bags, "ftorch_bags")
_by_kernel(sparse.product, "ftorch_multiply_sparse")
_by_kernel(packed.weights8, "ftorch_multiply_weights8", dtypes=None)
_by_kernel(packed.weights4, "ftorch_multiply_weights4")
_by_kernel(packed.linear_dynamic, "ftorch_linear_dynamic")
_by_kernel(narrow_products.convolution, "ftorch_convolve_pairs", dtypes=None)
_by_kernel(rnn.loop, *rnn.LOOPS)
_by_kernel(pooling.maximum, "ftorch_max_pool", sizes=("window",))
_by_kernel(pooling.gradient, "ftorch_max_pool_gradient", sizes=("window",), chained=True)
_ATTENTION = "ftorch_attention", "ftorch_attention_gradient", "ftorch_attention_mask_gradient"
_SHAPED.update(_ATTENTION)


@override(*_ATTENTION)
def _(params, inputs, outputs, plain, name):
    """As `passes.attention` says it, with less in between: a cache grows from call to call, so that none comes twice."""
    is_forward, counted = name == "ftorch_attention", bool(params.get("counted", False))
    is_causal, dtypes = params["is_causal"], [np.dtype(x.dtype) for x in outputs]
    count = 3 if is_forward else 4  # before the masks
    masks, total = len(inputs) - counted, len(inputs)
    names = ("scale", "sizes", *(["out"] if is_forward else ["grad"]), "query", "key", "value", "mask")
    handler = module.Handler(name, names, "f" + "q" * 6)
    empty, dense, float32 = module.empty, np.ascontiguousarray, np.float32

    def step(*given):
        arrays, (scale, shapes) = list(given[:total]), given[total:]
        query, key, value = arrays[count - 3 : count]
        batch, heads, rows, width = query.shape
        groups = key.shape[1]
        sizes = batch, heads, rows, key.shape[2], width, value.shape[3], is_causal, heads // groups, counted
        strides: list = [contiguous_stride(shapes[0])[:3]] if is_forward else []
        for i in range(count):
            own = _element_strides(arrays[i])
            if own[3] != 1 and arrays[i].shape[3] != 1:  # rows are dense
                arrays[i] = dense(arrays[i])
                own = _element_strides(arrays[i])
            strides.append(own[:3])
        strides.append([])
        for i in range(count, masks):
            strides[-1] = _element_strides(arrays[i])
        if counted:
            arrays[-1] = dense(arrays[-1])
        made = [empty(tuple(shape), dtype) for shape, dtype in zip(shapes, dtypes)]
        handler(arrays, made, (float32(scale), sizes, *strides))
        return tuple(made)

    return step


def _element_strides(x):
    """Elements from one to the next along an array's dimensions."""
    item = x.itemsize
    return [0 if n == 1 else step // item for n, step in zip(x.shape, x.strides)]


# --- in the place of NumPy's -----------------------------------------------------------


def _missing(params, inputs, outputs):
    raise MissingRule


def install():
    """Puts `OVERRIDES` in the place of NumPy's rules, which remain for what they do not have."""
    if not available:
        return
    for name, make in OVERRIDES.items():
        rule = RULES.get(name) or (Rule(_missing, (), dtypes=_ALONE[name]) if name in _ALONE else None)
        if rule is None or isinstance(rule.make, _Override):
            continue
        sizes = (*rule.sizes, "out_shapes") if name in _SHAPED else rule.sizes
        RULES[name] = Rule(_Override(name, make, rule, name in _SHAPED), sizes, dtypes=rule.dtypes)


class _Override:
    """The ``make`` of a rule that calls a kernel where there is one."""

    def __init__(self, name, make, rule, shaped):
        self.name, self.make, self.rule, self.shaped = name, make, rule, shaped

    def __call__(self, params, inputs, outputs):
        missing, rule = None, None
        try:
            rule = self.rule.make(params, inputs, outputs)
        except MissingRule as error:
            missing = error

        def plain():
            if rule is None:
                raise MissingRule(*missing.args)
            return rule

        found = None if getattr(rule, "is_best", False) else self.make(params, inputs, outputs, plain, self.name)
        if found is not None:
            return found
        rule = plain()
        return (lambda *given: rule(*given[:-1])) if self.shaped else rule
