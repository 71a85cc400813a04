"""The operator registry: ``@op``, ``@view``, and what a declaration holds.

Kernels (``ftorch/eager/kernels``) import this module and nothing above it: they are pure functions of
arrays. How an operator is called lives in ``ftorch.eager.call.op``; its public forms are derived in
``ftorch.eager.surface.attach``.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable

from . import schema as _schema
from .dtype import dtype as Dtype

# What the kernel parameter of a schema type is, once the call path is done with it.
TENSOR, OPTIONAL_TENSOR, TENSORS, SCALAR, STATIC = range(5)

_PROMOTE = (None, "common", "float", "compare")

# Where PyTorch takes Python numbers for tensors: its Scalar overloads, and the arithmetic functions
# whose arguments are wrapped.
_BOTH = "self other x n exponent"
_NUMBERS = {
    **dict.fromkeys(
        ("add", "sub", "mul", "div", "floor_divide", "remainder", "pow",
         "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift",
         "where", "xlogy", "special_xlogy", "special_xlog1py", "special_zeta"), _BOTH,
    ),
    **dict.fromkeys(("rsub", "fmod", "copysign", "eq", "ne", "lt", "le", "gt", "ge"), "other"),
    "clamp_min": "min", "clamp_max": "max", "clamp": "min max", "clip": "min max",
}

OPS: dict[str, OpDef] = {}  # "add.Tensor" -> definition
OVERLOADS: dict[str, list[OpDef]] = {}  # "add" -> its definitions, in order of declaration


class RegistrationError(TypeError):
    """A declaration contradicts itself or another one."""


class Shape:
    """Annotates parameters of value checks (`OpDef.check`) of which ``.shape`` and ``.dtype`` are all they read."""


class OpDef:
    """The declaration of one operator overload.

    Attributes:
        schema: the parsed schema.
        kernel: the pure function on arrays (for a view: the geometry rule).
        kinds: for each argument one of TENSOR, OPTIONAL_TENSOR, TENSORS, SCALAR, STATIC.
        promote: how tensor arguments are cast before the kernel sees them (see `op`).
        numbers: indices of the tensor arguments that may be Python numbers.
        promoting: indices of the arguments that take part in promotion.
        forms: which public forms exist: "function", "method", "inplace", "out".
        public: dotted path of the namespace the function is found in ("" for the top level).
        host: whether the kernel works on NumPy arrays (data-dependent result shapes).
        differentiable: False for ops whose results never require grad.
        constant: places of the results that never do, beside others.
        backward: the declared derivative or None (then ``jax.vjp`` of the kernel is used).
        backward_saves: names of the arguments and results that the derivative reads.
        checks: functions that look at the values of index arguments before the op runs.
        passing: for some of them what values pass (`check`).
        bounds: what it reads, and the function of it that bounds the integers of the last result (`bound`), or None.
        dtype_checks: functions that look at the operands' dtypes when a call is planned.
        alternative: the function that says which op runs instead (`instead`).
        element: what each element of the result is: a number, "scalar" (the op's), or None (`every`).
        changes: what part of its first operand the result differs in (`changing`), or None.
        exclusive: whether nothing that an in-place form reads may lie in what it writes to (`overlap`).
        expanded: what in-place forms make of expanded targets (`overlap`).
        compared: how many of the tensors, the target among them, are asked whether they lie in it (`overlap`).
        fitting: names of the arguments whose numbers the results' dtype must be able to hold (`fits`).
        anywhere: places of the operands that may be on the CPU beside an accelerator's (`of_any_device`).
        regime: names of arguments, and the function of them that says in which of several ways the kernel goes (`by_regime`).
        composed: of an op that runs on the host, the function of its operands and static arguments that makes the same of
            other ops, for where gradients are wanted; it gives None where the op refuses the call.
        saves_operands: whether nodes save all tensors, which their derivative alone depends on (`saving_operands`).
        precise: the place of the operand that half precision gets in float32 if it is a number or 0-d (`wide`).
    """

    make_gradients = None
    runs_kernels = True  # nothing but them: no function of the user's
    alternative: Callable | None = None
    known = gradient_op = None  # what says the results of derived ops without tracing, and their gradients: see `planning`
    element: int | str | None = None
    changes: str | None = None
    exclusive = saves_operands = False
    expanded: str | None = None
    compared: int | None = None
    composed: Callable | None = None
    anywhere: tuple[int, ...] = ()
    fitting: tuple[tuple[str, bool], ...] = ()
    precise: int | None = None
    regime: tuple[tuple[str, ...], Callable] | None = None
    bounds: tuple[tuple[str, ...], Callable] | None = None

    def __init__(self, schema, kernel, *, promote, promoting, forms, public, aliases, host,
                 differentiable, dunder, layout, is_view, constant=()):
        self.schema = schema
        self.name = schema.name
        self.full_name = f"{schema.name}.{schema.overload}" if schema.overload else schema.name
        self.kernel = kernel
        self.promote = promote
        self.forms = frozenset(forms.split())
        self.public = public
        self.aliases = tuple(aliases.split())
        self.host = host
        self.differentiable = differentiable
        self.constant = constant
        self.dunder = tuple(dunder.split())
        self.layout = layout
        self.is_view = is_view
        self.argument_names = tuple(a.name for a in schema.arguments)
        self.kinds = tuple(kind_of(a.type) for a in schema.arguments)
        self.tensor_positions = tuple(i for i, k in enumerate(self.kinds) if k <= TENSORS)
        self.promoting = self._promoting(promoting)
        self.numbers = self._number_positions()
        self.backward: Callable | None = None
        self.backward_saves: tuple[str, ...] = ()
        self.checks: list = []
        self.passing: dict[Callable, Callable] = {}
        self.notices: list = []
        self.dtype_checks: list = []
        self.backend_kernels: dict[str, Callable] = {}
        self.backend_derivatives: dict[str, Callable] = {}
        self._check_kernel()

    def __repr__(self):
        return f"<op {self.schema}>"

    def __call__(self, *args, **kwargs):
        """Runs the kernel itself: kernels may call each other."""
        return self.kernel(*args, **kwargs)

    def derivative(self, function):
        """Declares the gradient: ``@exp.derivative def _(grad, *, result): ...``.

        The function names what it reads: ``grad`` first (a tuple for several results), then any of
        the op's argument names, ``result`` (a tuple for several results) and ``needs`` (which tensor
        arguments want a gradient). It returns one gradient per tensor argument, None where there is
        none; a single one may stand alone. Shapes that were broadcast and dtypes that were promoted
        are folded back by the caller.
        """
        parameters = list(inspect.signature(function).parameters)
        allowed = {*self.argument_names, "result", "needs"}
        unknown = [p for p in parameters[1:] if p not in allowed]
        if parameters[:1] != ["grad"] or unknown:
            raise RegistrationError(f"{self.full_name}: derivative with parameters {parameters}")
        self.backward, self.backward_saves = function, tuple(parameters[1:])
        return self

    def check(self, function=None, *, waits=False, passes=None):
        """Declares a check of values, given NumPy arrays of the arguments that it names.

        It raises PyTorch's exception (an index out of range) before the op runs. Values that are
        still pending are not checked, unless ``waits`` (True, or a function of static arguments):
        then they are computed, for errors that programs rely on (a singular matrix). A parameter
        annotated `Shape` is an argument of which only the shape is read: it may be pending.

        ``passes`` says, for the loops in C, which values pass: of the same parameters (tensors as their geometries, static
        values; None for the rest) it makes tuples (parameter, or (parameter, place in the list), lowest, bound) of
        integers that have to be in ``lowest <= value < bound``, or None: only the check itself can say. Of sizes it may give
        one or its negative, and nothing that was computed with it: these are of all sizes.
        """
        if function is None:
            return functools.partial(self.check, waits=waits, passes=passes)
        names = tuple(inspect.signature(function).parameters)
        unknown = set(names) - set(self.argument_names)
        if unknown:
            raise RegistrationError(f"{self.full_name}: check of {sorted(unknown)}")
        if passes is not None:
            self.passing[function] = passes
        self.checks.append((names, function, waits))
        return self

    def bound(self, function):
        """Declares what integers the last result can have, so that a check of indices need not wait for them.

        The function is given what it names of the arguments (tensors as their geometries, static values, numbers), and gives
        the lowest and the bound (``lowest <= value < bound``), or None. What has another dtype than int64 is not asked for.
        """
        self.bounds = tuple(inspect.signature(function).parameters), function
        return self

    def notice(self, function):
        """Declares a warning of every call: the function is given what it names of the static arguments and
        of the tensors their geometries (``.shape``, ``.dtype``), and gives the warning's text, a function that
        gives it (or raises) at each call, or None."""
        names = tuple(inspect.signature(function).parameters)
        if set(names) - set(self.argument_names):
            raise RegistrationError(f"{self.full_name}: notice of {sorted(set(names) - set(self.argument_names))}")
        self.notices.append((names, function))
        return self

    def dtypes(self, function):
        """Declares a check of the operands' dtypes as they were before promotion.

        It names arguments, and receives each one's dtype: a ``ftorch`` one for a tensor (a list of
        them for a list), the Python type of a number, or None. It raises PyTorch's exception.
        """
        names = tuple(inspect.signature(function).parameters)
        unknown = set(names) - set(self.argument_names)
        if unknown:
            raise RegistrationError(f"{self.full_name}: dtypes of {sorted(unknown)}")
        self.dtype_checks.append((tuple(map(self.argument_names.index, names)), function))
        return self

    def instead(self, function):
        """Declares that another op runs for certain Python numbers, which become part of its program.

        The function gets the operands and gives (the op's full name, operands, static arguments), or
        None. Levels and modes see the op that was called.
        """
        self.alternative = function
        return self

    def every(self, number=None):
        """Declares that each element of the result is a number: the op's `Scalar`, or the one given (0 or 1).

        Such a call by itself is a NumPy array: XLA would compile a program for every shape.
        """
        self.element = "scalar" if number is None else number
        return self

    def changing(self, what):
        """Declares that the result is the first operand with parts changed, at an index tensor along a dimension.

        Args:
            what: "set", "add" or "fill" (with a number), and "rows", one for each index, or "elements"; or "places", of
                `index_put`. The in-place form then changes memory without running the kernel, where indices are in range.
        """
        self.changes = what
        return self

    def overlap(self, exclusive=False, expanded=None, compared=None):
        """Declares what in-place forms make of memory that the target has several times, or that is read, too.

        Args:
            exclusive: nothing that is read, but the target, may lie in the target, not even in the same places; by default it
                may, as long as each element is read where it is written.
            expanded: the target may be expanded: "" for those for which it is as good as another, else an example of
                indexing that does the same, for the warning that it is deprecated.
            compared: how many tensors, the target among them, are asked; those behind are read before anything is written.
        """
        self.exclusive, self.expanded, self.compared = exclusive, expanded, compared
        return self

    def fits(self, names, halves=True, floats=False):
        """Declares that numbers among the named arguments are refused where the results' dtype cannot hold them.

        Args:
            halves: also in float16, of which infinity is what does not fit otherwise; or a function of the result's geometry
                that says so.
            floats: also in float32; and in bfloat16 where in float16.
        """
        self.fitting = tuple((name, halves, floats) for name in names.split())
        return self

    def saving_operands(self):
        """Declares that nodes save all tensors, as PyTorch's do, of which the derivative of the first reads nothing but them.

        The sizes of what runs on the host follow from values: so one op is the derivative of all.
        """
        self.saves_operands = True
        return self

    def of_any_device(self, names):
        """Declares arguments that may be on the CPU where the others are on an accelerator: they are put there."""
        self.anywhere = tuple(map(self.argument_names.index, names.split()))
        return self

    def wide(self, name):
        """Declares an argument that PyTorch takes in the precision of intermediate results.

        The kernel gets a number or a 0-d tensor in float32 where the common dtype is float16 or bfloat16.
        """
        self.precise = self.argument_names.index(name)
        return self

    def by_regime(self, function):
        """Declares that the kernel compares sizes: the function is given what it names of the arguments (tensors as what has
        a ``.shape``), and says by something hashable which way the kernel goes. Each has size classes of its own."""
        names = tuple(inspect.signature(function).parameters)
        if set(names) - set(self.argument_names):
            raise RegistrationError(f"{self.full_name}: regime of {sorted(set(names) - set(self.argument_names))}")
        self.regime = names, function
        return self

    def backend(self, platform):
        """Registers a kernel for one platform: ``@conv2d.backend("cpu")``."""

        def register(kernel):
            self.backend_kernels[platform] = kernel
            return self

        return register

    def backend_derivative(self, platform):
        """Registers the gradient for one platform; it names what the one of `derivative` does."""

        def register(function):
            names = tuple(inspect.signature(function).parameters)[1:]
            if names != self.backward_saves:
                raise RegistrationError(f"{self.full_name}: derivatives with parameters {names} and {self.backward_saves}")
            self.backend_derivatives[platform] = function
            return self

        return register

    def _promoting(self, names):
        if self.promote is None:
            return ()
        if names is None:
            return tuple(i for i in self.tensor_positions if self.kinds[i] != OPTIONAL_TENSOR)
        return tuple(self.argument_names.index(name) for name in names.split())

    def _number_positions(self):
        """Indices of the tensor arguments that Python numbers may stand for."""
        default = _BOTH if "polynomial" in self.name else ""
        names = _NUMBERS.get(self.name, default).split()
        return frozenset(i for i, name in enumerate(self.argument_names) if name in names)

    def _check_kernel(self):
        parameters, self.keywords = _parameters(self.kernel)
        if self.is_view:
            parameters = ("self", *parameters[1:])
        if parameters != self.argument_names:
            raise RegistrationError(
                f"{self.full_name}: the kernel takes {parameters}, the schema {self.argument_names}"
            )


def _parameters(function):
    """(all parameter names, the keyword-only ones); `inspect.signature` would take ten times as long."""
    code = getattr(function, "__code__", None)
    takes_any = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    if code is None or code.co_flags & takes_any or hasattr(function, "__wrapped__"):
        found = inspect.signature(function).parameters
        return tuple(found), tuple(p.name for p in found.values() if p.kind is p.KEYWORD_ONLY)
    count = code.co_argcount
    total = count + code.co_kwonlyargcount
    return code.co_varnames[:total], code.co_varnames[count:total]


def kind_of(type_):
    """Which of TENSOR ... STATIC an argument of a schema type is."""
    if type_.base == "Tensor":
        if type_.is_list:
            return TENSORS
        return OPTIONAL_TENSOR if type_.is_optional else TENSOR
    return SCALAR if type_.base == "Scalar" and not type_.is_list else STATIC


def op(schema: str, *, promote: str | None = None, promoting: str | None = None,
       forms: str = "function", public: str | None = None, aliases: str = "", host: bool = False,
       differentiable: bool = True, constant: tuple[int, ...] = (), dunder: str = "",
       layout: str | Callable = "contiguous"):
    """Declares an operator: its schema, and (decorated) its kernel.

    The kernel's parameters are the schema's arguments, in order and by name. It receives

    - ``Tensor``: a ``jax.Array`` (often a tracer), ``Tensor?`` also None, ``Tensor[]`` a list;
    - ``Scalar``: a traced, weakly typed 0-d array (``x * alpha`` keeps the dtype of ``x``), so a new
      value does not compile again; as a promoting argument, an array of the common dtype;
    - ``ScalarType``: a NumPy dtype; everything else: the Python value, static (lists as tuples).

    Args:
        promote: "common" casts the promoting tensors to PyTorch's common dtype; "float" the same
            with integers going to the default dtype; "compare" is "common" for results that are
            bool. Shapes are checked to broadcast. Python numbers are taken where tensors are.
        promoting: names of the arguments that take part (default: the tensors). Naming a ``Scalar``
            makes it take part, as PyTorch's wrapped numbers do.
        forms: which of "function method inplace out" exist in public.
        public: the dotted namespace of the function, if the name's prefix (``linalg_``, ``fft_``,
            ``special_``) does not say it: ``"nn.functional"``. Several may be given, and "." is the
            top level.
        aliases: more names of the function and method (``"absolute"``).
        host: the kernel takes and returns NumPy arrays (shapes that depend on values).
        differentiable: False where results never require grad.
        constant: the places of results that never do, where others may.
        dunder: operator methods, ``"add radd iadd"``.
        layout: how the results' strides follow: "contiguous", "pointwise" (they follow the inputs'
            memory order, as PyTorch's TensorIterator does), "preserve" (the first input's, exactly,
            if it is dense), "channels" (channels last if an image or the weight is), or a function of
            the inputs' geometries, the static arguments by name and the results' shapes, which gives
            strides or None (contiguous) for each result; with an attribute ``is_basic`` that is true, contiguous
            ones wherever the inputs are.

    Raises:
        RegistrationError: a duplicate, or a kernel that does not fit its schema.
    """
    if promote not in _PROMOTE:
        raise RegistrationError(f"promote={promote!r}")
    return _declare(
        schema, promote=promote, promoting=promoting, forms=forms, public=public, aliases=aliases,
        host=host, differentiable=differentiable, constant=constant, dunder=dunder, layout=layout,
        is_view=False,
    )


def view(schema: str, *, forms: str = "function method", public: str | None = None,
         aliases: str = "", differentiable: bool = True):
    """Declares an operator whose result aliases its argument, by its geometry rule.

    The decorated function takes the argument's `Geometry` and the static arguments, and returns the
    result's ``(size, stride, offset)``. Its kernel, gradient and batching follow from that.
    """
    return _declare(
        schema, promote=None, promoting=None, forms=forms, public=public, aliases=aliases,
        host=False, differentiable=differentiable, dunder="", layout="contiguous", is_view=True,
    )


_PREFIXES = {"linalg_": "linalg", "fft_": "fft", "special_": "special"}


def _declare(text, *, public, **properties):
    parsed = _schema.parse(text)
    if public is None:
        public = next((path for p, path in _PREFIXES.items() if parsed.name.startswith(p)), ".")

    def register(kernel):
        definition = OpDef(parsed, kernel, public=tuple(public.split()), **properties)
        if definition.full_name in OPS:
            raise RegistrationError(f"{definition.full_name} is declared twice")
        OPS[definition.full_name] = definition
        OVERLOADS.setdefault(definition.name, []).append(definition)
        return definition

    return register


# --- static arguments -------------------------------------------------------------------


class MinusZero(float):
    """The static argument -0.0, which as a part of a cache key is not 0.0 (``F.threshold(x, 0., -0.)`` has another sign)."""

    __slots__ = ()

    def __eq__(self, other):
        return other.__class__ is MinusZero

    def __ne__(self, other):
        return other.__class__ is not MinusZero

    def __hash__(self):
        return 0x80000000

    def __reduce__(self):
        return float, (-0.0,)


_MINUS_ZERO = MinusZero(-0.0)


def static_key(static: tuple) -> tuple:
    """Static arguments as a part of a cache key, which tells -0.0 from 0.0."""
    for value in static:
        if value.__class__ is float and value == 0 and math.copysign(1, value) < 0:
            return tuple([_MINUS_ZERO if v.__class__ is float and v == 0 and math.copysign(1, v) < 0 else v for v in static])
    return static


def static_value(value):
    """A static argument as kernels get it: dtypes as NumPy's, numbers as Python's own."""
    if isinstance(value, Dtype):
        return value.numpy
    return -0.0 if value.__class__ is MinusZero else value
