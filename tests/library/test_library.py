"""``torch.library``: the same operators in both libraries, called in every way."""

from __future__ import annotations

import itertools
import re
import typing
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch as pt

import ftorch as ft
from ftorch.fx.experimental.proxy_tensor import make_fx

_names = (f"space{i}" for i in itertools.count())


def text(value):
    """A result as text that both libraries write alike."""
    if isinstance(value, (pt.Tensor, ft.Tensor)):
        kind = str(value.dtype)
        if value.device.type == "meta":
            return f"{kind} meta {tuple(value.shape)}"
        return f"{kind} {np.round(value.detach().double().numpy(), 4).tolist()} {value.requires_grad}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(text, value))})"
    if isinstance(value, dict):
        return text([*value.items()])
    return re.sub(r"<(function|module) .*?>| at 0x\w+", "", str(value)).replace("ftorch", "torch")


def run(torch, program):
    """The lines that a program logs, or its error, in one library."""
    lines: list[str] = []
    space = "own" + str(next(_names))
    fx = make_fx if torch is ft else pt.fx.experimental.proxy_tensor.make_fx

    def attempt(function, *args, **kwargs):
        try:
            lines.append(text(function(*args, **kwargs)))
        except Exception as error:
            lines.append(f"{type(error).__name__}: {text(error)[:1200].partition(' only available')[0]}")

    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        program(torch, space, lambda *v: lines.append(text(v)), attempt, fx)
    return [line.replace(space, "space") for line in lines]


def same(program):
    ours, theirs = run(ft, program), run(pt, program)
    assert ours == theirs
    assert ours


def defined(torch, space, **more):
    """An op with everything registered: ``x * by + y.sin()``."""
    Tensor = torch.Tensor

    def f(x: Tensor, y: Tensor, by: float = 2.0) -> Tensor:
        return torch.from_numpy(x.numpy() * by + np.sin(y.numpy()))

    f.__annotations__ = {"x": Tensor, "y": Tensor, "by": float, "return": Tensor}
    op = torch.library.custom_op(f"{space}::f", f, mutates_args=(), **more)
    op.register_fake(lambda x, y, by=2.0: torch.empty_like(x))

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[1])
        ctx.by = inputs[2]

    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * ctx.by, grad * y.cos(), None

    op.register_autograd(backward, setup_context=setup)
    return op


# --- custom_op -----------------------------------------------------------------------


def _eager(torch, space, log, attempt, fx):
    op = defined(torch, space)
    x, y = torch.arange(3.0), torch.ones(3)
    log(op, op._opoverload, op._opoverload._schema, op._qualname, op._opoverload.tags)
    attempt(op, x, y)
    attempt(op, x, y, 3.0)
    attempt(op, x, y, by=3)
    attempt(getattr(torch.ops, space).f, x, y)
    attempt(getattr(torch.ops, space).f.default, x, y)
    for bad in [(1, y), (x,), (x, y, 1.0, 2), (x, y, "a"), (x, None)]:
        attempt(op, *bad)
    attempt(op, x, y, wrong=1)
    attempt(op, x, y, 1.0, by=1.0)
    attempt(op, x.to("meta"), y.to("meta"))
    attempt(lambda: getattr(torch.ops, space).missing)
    attempt(lambda: getattr(torch.ops, space).f.missing)
    packet = getattr(torch.ops, space).f
    log(packet, repr(packet), repr(packet.default), packet.overloads(), packet.default.name(),
        packet.default.namespace, packet.default.__name__, packet.default.overloadpacket)


def _autograd(torch, space, log, attempt, fx):
    op = defined(torch, space)
    x, y = torch.arange(3.0, requires_grad=True), torch.ones(3, requires_grad=True)
    out = op(x, y)
    log(out, type(out.grad_fn).__name__)
    out.sum().backward()
    log(x.grad, y.grad)
    (g,) = torch.autograd.grad(op(x, y, 3.0).sum(), y, create_graph=True)
    log(torch.autograd.grad(g.sum(), y))
    with torch.no_grad():
        log(op(x, y))
    log(op(x.detach(), y).requires_grad)


def _no_formula(torch, space, log, attempt, fx):
    def f(x):
        return x.detach() * 2

    f.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
    op = torch.library.custom_op(f"{space}::f", f, mutates_args=())
    x = torch.ones(2, requires_grad=True)
    log(op(x))
    attempt(lambda: op(x).sum().backward())
    attempt(op, x.to("meta"))
    attempt(torch.vmap(op), torch.ones(2, 3))
    op.register_autograd(lambda ctx, g: (g, g))
    attempt(lambda: op(x).sum().backward())
    op.register_autograd(lambda ctx, g: g * 5)
    op(x).sum().backward()
    log(x.grad)


def _lists_and_tuples(torch, space, log, attempt, fx):
    def f(xs, y, *, k=2.0):
        return [x * y * k for x in xs], y + k

    Tensor = torch.Tensor
    f.__annotations__ = {"xs": list[Tensor], "y": Tensor, "k": float,
                         "return": tuple[list[Tensor], Tensor]}
    op = torch.library.custom_op(f"{space}::f", f, mutates_args=())
    log(op._schema)

    def setup(ctx, inputs, keyword_only_inputs, output):
        log("setup", inputs, keyword_only_inputs, output)
        ctx.k = keyword_only_inputs["k"]

    def backward(ctx, grads, gy):
        log("backward", grads, gy, ctx.needs_input_grad)
        return [g * ctx.k for g in grads], gy

    op.register_autograd(backward, setup_context=setup)
    x, y = torch.ones(2, requires_grad=True), torch.ones(2)
    outs, extra = op([x, y], y, k=3.0)
    log(outs, extra)
    (outs[0] + outs[1]).sum().backward()
    log(x.grad)
    attempt(torch.vmap(op, in_dims=([0, None], None)), [torch.ones(3, 2), y], y)
    op.register_vmap(lambda info, dims, xs, y, *, k=2.0: (
        log(info.batch_size, info.randomness, dims), (f(xs, y, k=k), ([0, None], None)))[1])
    attempt(torch.vmap(op, in_dims=([0, None], None)), [torch.ones(3, 2), y], y)
    attempt(op, [x, 1], y)
    attempt(op, x, y)
    attempt(op, [x], y, 1.0)


def _mutation(torch, space, log, attempt, fx):
    def f(x, y):
        x.numpy()[:] += y.numpy()

    f.__annotations__ = {"x": torch.Tensor, "y": torch.Tensor, "return": None}
    op = torch.library.custom_op(f"{space}::f", f, mutates_args={"x"})
    log(op._schema)
    x, y = torch.ones(2), torch.ones(2)
    log(op(x, y), x, x._version)
    z = torch.ones(2, requires_grad=True) * 1
    op(z, y)
    log(z, z._version)
    attempt(op.register_autograd, lambda ctx, g: g)
    attempt(torch.vmap(op), torch.ones(3, 2), torch.ones(3, 2))
    w = torch.ones(2, requires_grad=True)
    out = (w * w).exp()
    op(out, y)
    attempt(lambda: out.sum().backward())

    def same(x):
        return x

    same.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
    alias = torch.library.custom_op(f"{space}::alias", same, mutates_args=())
    attempt(lambda: type(alias(x)))


def _transforms(torch, space, log, attempt, fx):
    op = defined(torch, space)
    x, y = torch.arange(6.0).reshape(2, 3), torch.ones(3)
    log(torch.vmap(op, in_dims=(0, None))(x, y))
    log(torch.vmap(lambda a: op(a, y, by=4.0))(x))
    log(torch.vmap(torch.vmap(op))(x.expand(2, 2, 3), x.expand(2, 2, 3)))
    a = x.clone().requires_grad_()
    torch.vmap(op, in_dims=(0, None))(a, y).sum().backward()
    log(a.grad)

    def rule(info, in_dims, x, y, by=2.0):
        log(info.batch_size, in_dims)
        x = x.movedim(in_dims[0], 0)
        return x * by + y.sin(), 0

    op.register_vmap(rule)
    log(torch.vmap(op, in_dims=(1, None))(torch.ones(3, 4), y))


def _kernels(torch, space, log, attempt, fx):
    def f(x):
        return x + 1

    f.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
    op = torch.library.custom_op(f"{space}::f", f, mutates_args=(), device_types="cuda")
    attempt(op, torch.ones(2))
    op.register_kernel("cpu", lambda x: x + 2)
    log(op(torch.ones(2)))
    with op.set_kernel_enabled("cpu", False):
        log(op(torch.ones(2)))
    log(op(torch.ones(2)))
    attempt(op.register_kernel, "nowhere", f)
    torch.library.register_kernel(op, "cpu", lambda x: x + 3)
    log(op(torch.ones(2)))
    torch.library.register_kernel(f"{space}::f", ["cpu", "cuda"])(lambda x: x + 4)
    log(op(torch.ones(2)))


def _autocast(torch, space, log, attempt, fx):
    def f(x):
        return x + 1

    f.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
    op = torch.library.custom_op(f"{space}::f", f, mutates_args=())
    op.register_autocast("cpu", torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        log(op(torch.ones(2)))
    log(op(torch.ones(2)))
    attempt(op.register_autocast, "nowhere", torch.bfloat16)
    attempt(op.register_autocast, 3, torch.bfloat16)


def _graphs(torch, space, log, attempt, fx):
    op = defined(torch, space)
    y = torch.ones(3)
    log(fx(lambda x: op(x, x) + 1)(y).code)
    log(fx(lambda x: op(x, x, 3.0))(y).code)

    def write(x):
        x.add_(1)

    write.__annotations__ = {"x": torch.Tensor, "return": None}
    mutate = torch.library.custom_op(f"{space}::write", write, mutates_args={"x"})
    log(fx(lambda x: (mutate(x), x + 1)[1])(y).code)
    traced = torch.fx.symbolic_trace(lambda x: getattr(torch.ops, space).f(x, x))
    log(traced.code, traced(y))


# --- Library -------------------------------------------------------------------------


def _library(torch, space, log, attempt, fx):
    lib = torch.library.Library(space, "DEF")
    log(lib, lib.define("a(Tensor x) -> Tensor"))
    a = getattr(torch.ops, space).a
    x = torch.ones(2, requires_grad=True)
    attempt(a, x)
    attempt(lib.define, "b(Tensor x)")
    lib.impl("a", lambda x: x * 3, "CPU")
    log(a(x))
    a(x).sum().backward()
    log(x.grad)
    attempt(a, x.to("meta"))
    lib.impl("a", lambda x: torch.empty_like(x), "Meta")
    attempt(a, x.detach().to("meta"))
    attempt(lib.impl, "a", 3, "CPU")
    attempt(lib.impl, "a", lambda x: x, "Nothing")
    attempt(lib.fallback, lambda op, x: x, "CPU")
    attempt(torch.library.Library, space, "WRONG")
    attempt(torch.library.Library, "prim", "DEF")
    log(torch.library.Library(space, "IMPL", "CPU"))
    log(torch.ops.aten.sin.default.has_kernel_for_dispatch_key("CPU") if torch is pt else True)
    with torch.library._scoped_library(space + "x", "FRAGMENT") as short:
        short.define("f(Tensor x) -> Tensor")
        short.impl("f", lambda x: x + 1, "CompositeImplicitAutograd")
        log(getattr(torch.ops, space + "x").f(x))


def _composites(torch, space, log, attempt, fx):
    lib = torch.library.Library(space, "DEF")
    ns = getattr(torch.ops, space)
    lib.define("implicit(Tensor x) -> Tensor")
    lib.impl("implicit", lambda x: x.sin() * 2, "CompositeImplicitAutograd")
    lib.define("explicit(Tensor x) -> Tensor")
    lib.impl("explicit", lambda x: x.sin() * 2, "CompositeExplicitAutograd")
    lib.define("own(Tensor x) -> Tensor")
    lib.impl("own", lambda x: x * 3, "CPU")

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch._C._AutoDispatchBelowAutograd():
                return ns.own(x)

        @staticmethod
        def backward(ctx, g):
            return g * 7

    lib.impl("own", Own.apply, "Autograd")
    for op in ns.implicit, ns.explicit, ns.own:
        x = torch.ones(2, requires_grad=True)
        out = op(x)
        out.sum().backward()
        log(out, x.grad)
    log(torch.vmap(ns.implicit)(torch.ones(2, 3)))
    log(torch.func.grad(lambda x: ns.implicit(x).sum())(torch.ones(3)))
    log(torch.func.jvp(ns.implicit, (torch.ones(3),), (torch.ones(3),)))
    log(fx(lambda x: ns.implicit(x))(torch.ones(2)).code)


def _casting(torch, space, log, attempt, fx):
    lib = torch.library.Library(space, "DEF")
    lib.define("t(Tensor? x, int[] n, bool b, Scalar s, ScalarType d, Device dev, str q, float[]? g="
               "None, Tensor[]? l=None) -> Tensor")
    seen = []
    lib.impl("t", lambda *a, **k: (seen.append((a, k)), torch.ones(2))[1], "CompositeExplicitAutograd")
    t, x, f = getattr(torch.ops, space).t, torch.ones(1), torch.float32
    calls = [
        (x, [1, 2], True, 3, f, "cpu", "q"), (None, (1, 2), 1, 3.5, f, torch.device("cpu"), "q", [1]),
        (1, [1], True, 3, f, "cpu", "q"), (x, [1.5], True, 3, f, "cpu", "q"),
        (x, 3, True, 3, f, "cpu", "q"), (x, [1], "s", 3, f, "cpu", "q"),
        (x, [1], True, "s", f, "cpu", "q"), (x, [1], True, 3, "s", "cpu", "q"),
        (x, [1], True, 3, f, 3, "q"), (x, [1], True, 3, f, "cpu", 3), (x, [1], True, 3, f, "cpu", "3", 3),
        (x, [1], True, 3, f, "cpu", "3", [3.0], [x, None]), (x, [1], True, 3, f, "cpu", "3", [3], (x, x)),
    ]
    for call in calls:
        attempt(t, *call)
    log(seen)
    lib.define("i(int n, float f) -> Tensor")
    lib.impl("i", lambda n, f: torch.tensor([n, f]), "CompositeExplicitAutograd")
    for call in (torch.tensor(3), torch.tensor(2.0)), (True, 1), (1.0, 1), (1, "a"):
        attempt(getattr(torch.ops, space).i, *call)
    lib.define("m.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
    lib.define("m(Tensor x, float[] s, str? t=None) -> (Tensor, Tensor[])")
    m = getattr(torch.ops, space).m
    log(m.overloads(), m.out._schema, m.default._schema, m.out._schema.is_mutable,
        [(a.name, a.kwarg_only, a.has_default_value(),
          a.default_value, a.is_out) for a in m.default._schema.arguments])
    attempt(m, x, ["s"])
    attempt(m, 1)


def _module_functions(torch, space, log, attempt, fx):
    name = f"{space}::f"
    library = torch.library
    library.define(name, "(Tensor x) -> Tensor")
    attempt(library.define, name, "f(Tensor x)")
    attempt(library.define, 3, "(Tensor x) -> Tensor")
    attempt(library.define, "f", "(Tensor x) -> Tensor")
    library.impl(name, "default")(lambda x: x * 5)
    f = getattr(torch.ops, space).f
    log(f(torch.ones(2)))
    library.impl(name, ("cpu", "cuda"))(lambda x: x * 6)
    log(f(torch.ones(2)))
    attempt(library.impl, name, "foo", lambda x: x)
    library.register_fake(name)(lambda x: torch.empty_like(x))
    log(f(torch.ones(2, device="meta")))
    library.register_autograd(name, lambda ctx, g: g * 7)
    x = torch.ones(2, requires_grad=True)
    f(x).sum().backward()
    log(x.grad)
    library.register_vmap(name, lambda info, dims, x: (x * 6, dims[0]))
    log(torch.vmap(f)(torch.ones(2, 3)))
    attempt(library.register_autograd, f"{space}::none", lambda ctx, g: g)
    attempt(library.fallthrough_kernel)
    other = library.Library(space, "FRAGMENT")
    other.define("g(Tensor x) -> Tensor")
    library.impl(other, "g", "CompositeImplicitAutograd")(lambda x: x - 1)
    log(getattr(torch.ops, space).g(torch.ones(2)))


def _keyset(torch, space, log, attempt, fx):
    lib = torch.library.Library(space, "DEF")
    lib.define("f(Tensor x) -> Tensor")
    key = torch._C.DispatchKey
    lib.impl("f", lambda keys, x: x * (3 if keys.has(key.CPU) else 4), "CPU", with_keyset=True)
    lib.impl("f", torch.library.fallthrough_kernel, "Autograd")
    log(getattr(torch.ops, space).f(torch.ones(2)))
    log(getattr(torch.ops, space).f(torch.ones(2, requires_grad=True)))
    log(key.CPU.name, torch._C._dispatch_keys(torch.ones(2)), torch._C._dispatch_key_for_device("cuda"))
    log(torch._C._dispatch_has_kernel(f"{space}::f"),
        torch._C._dispatch_has_kernel_for_dispatch_key(f"{space}::f", "CUDA"),
        torch._C._dispatch_has_kernel_for_dispatch_key(f"{space}::f", "CPU"))


PROGRAMS = [_eager, _autograd, _no_formula, _lists_and_tuples, _mutation, _transforms, _kernels,
            _autocast, _graphs, _library, _composites, _casting, _module_functions,
            _keyset]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_same_in_both(program):
    same(program)


# --- infer_schema --------------------------------------------------------------------

ANNOTATIONS = [
    lambda t: ({"x": t.Tensor, "return": t.Tensor}, {}, ()),
    lambda t: ({"x": t.Tensor, "return": t.Tensor}, {}, {"x"}),
    lambda t: ({"x": t.Tensor, "return": t.Tensor}, {}, "unknown"),
    lambda t: ({"x": t.Tensor, "return": t.Tensor}, {}, {"q"}),
    lambda t: ({"x": t.Tensor, "return": t.Tensor}, {}, "x"),
    lambda t: ({"x": int, "return": t.Tensor}, {}, {"x"}),
    lambda t: ({"x": dict, "return": dict}, {}, ()) and ({"x": t.Tensor}, {}, ()),
    lambda t: ({"return": t.Tensor}, {}, ()),
    lambda t: ({"x": typing.Optional[t.Tensor], "return": None}, {"x": None}, {"x"}),  # noqa: UP045
    lambda t: ({"x": list[t.Tensor], "return": list[t.Tensor]}, {}, ()),
    lambda t: ({"x": typing.Sequence[int], "return": (tuple[t.Tensor, int, float])}, {}, ()),
    lambda t: ({"x": t.dtype, "return": t.Tensor}, {"x": t.float32}, ()),
    lambda t: ({"x": t.device, "return": t.Tensor}, {}, ()),
    lambda t: ({"x": str, "return": t.Tensor}, {"x": "a"}, ()),
    lambda t: ({"x": bool, "return": t.Tensor}, {"x": True}, ()),
    lambda t: ({"x": float | int | bool, "return": float}, {"x": 2.5}, ()),
    lambda t: ({"x": typing.Optional[list[float]], "return": bool}, {"x": None}, ()),  # noqa: UP045
]


@pytest.mark.parametrize("number", range(len(ANNOTATIONS)))
def test_infer_schema(number):
    def program(torch, space, log, attempt, fx):
        annotations, defaults, mutates = ANNOTATIONS[number](torch)

        def f(x):
            return x

        f.__annotations__ = annotations
        f.__defaults__ = tuple(defaults.values())
        attempt(torch.library.infer_schema, f, mutates_args=mutates)

    same(program)


# --- what only ftorch has to show ----------------------------------------------------


def _op(space):
    return defined(ft, space)


def test_transforms_of_what_looks_at_values():
    op = _op("own_transforms")
    x, y = ft.arange(3.0), ft.ones(3)
    expected = pt.cos(pt.ones(3)).numpy()
    gradient = ft.func.grad(lambda y: op(x, y).sum())(y)
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-6)
    mapped = ft.vmap(ft.func.grad(lambda x, y: op(x, y).sum(), argnums=1))(
        x.expand(2, 3), y.expand(2, 3)
    )
    np.testing.assert_allclose(mapped.numpy(), np.stack([expected] * 2), rtol=1e-6)
    _, pushed = ft.func.jvp(op, (x, y), (ft.ones(3), ft.ones(3)))
    np.testing.assert_allclose(pushed.numpy(), 2 + expected, rtol=1e-6)
    assert ft.autograd.gradcheck(
        op, (x.double().requires_grad_(), y.double().requires_grad_()), fast_mode=True
    )


def test_compiled_and_in_jax():
    op = _op("own_compiled")
    x, y = ft.arange(3.0), ft.ones(3)
    expected = op(x, y).numpy() + 1
    compiled = ft.compile(lambda x, y: op(x, y) + 1)
    for _ in range(3):
        np.testing.assert_allclose(compiled(x, y).numpy(), expected, rtol=1e-6)

    def pure(a):
        return op(ft.from_jax(a), ft.ones(3)).jax() + 1

    np.testing.assert_allclose(jax.jit(pure)(jnp.arange(3.0)), expected, rtol=1e-6)


def test_a_traceable_kernel_is_part_of_the_program():
    def f(x):
        return x.sin() + 1

    f.__annotations__ = {"x": ft.Tensor, "return": ft.Tensor}
    op = ft.library.custom_op("own_traceable::f", f, mutates_args=())
    op.register_fake(lambda x: ft.empty_like(x))

    def program(function):
        return str(jax.make_jaxpr(lambda a: function(ft.from_jax(a)).jax())(jnp.ones(3)))

    assert "callback" not in program(op) and "sin" in program(op)
    looks = _op("own_looking")
    assert "callback" in program(lambda x: looks(x, x))


@pytest.mark.parametrize("change, failing", [
    (lambda op: None, None),
    (lambda op: op.register_fake(lambda x, y, by=2.0: x.new_empty(1)), "test_faketensor"),
    (lambda op: op.register_fake(lambda x, y, by=2.0: x.new_empty(x.shape, dtype=ft.float64)),
     "test_faketensor"),
    (lambda op: op.register_kernel("cpu", lambda x, y, by=2.0: (x.zero_(), x + y)[1]), "test_schema"),
    (lambda op: op.register_autograd(None), "test_aot_dispatch_dynamic"),
])
def test_opcheck(change, failing):
    op = _op("own_check" + next(_names))
    change(op)
    args = (ft.rand(3, requires_grad=True), ft.rand(3))
    if failing is None:
        assert set(ft.library.opcheck(op, args).values()) == {"SUCCESS"}
        return
    found = ft.library.opcheck(op, args, raise_exception=False)
    assert isinstance(found[failing], Exception)
    with pytest.raises(Exception, match=failing):
        ft.library.opcheck(op, args)


def test_opcheck_refuses():
    with pytest.raises(ValueError, match="op must be instance of"):
        ft.library.opcheck(ft.sin, (ft.ones(2),))
    with pytest.raises(ValueError, match="to be subset of"):
        ft.library.opcheck(ft.ops.aten.sin.default, (ft.ones(2),), test_utils="foo")


def test_declared_kernels_can_be_replaced():
    x = ft.ones(2, requires_grad=True)
    original = ft.library.get_kernel("aten::sin", "CPU")
    with ft.library._scoped_library("aten", "IMPL") as lib:
        lib.impl("sin", lambda x: original.call_boxed(None, x) + 10, "CPU")
        out = ft.sin(x)
        np.testing.assert_allclose(out.detach().numpy(), np.sin(np.ones(2)) + 10, rtol=1e-6)
        out.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.cos(np.ones(2)), rtol=1e-6)
    np.testing.assert_allclose(ft.sin(x).detach().numpy(), np.sin(np.ones(2)), rtol=1e-6)


def test_fallback():
    with ft.library._scoped_library("own_fallback", "DEF") as lib:
        lib.define("f(Tensor x, int n) -> Tensor")
        with ft.library._scoped_library("_", "IMPL") as everywhere:
            everywhere.fallback(lambda op, x, n: x * n, "CPU")
            assert ft.ops.own_fallback.f(ft.ones(2), 3).tolist() == [3.0, 3.0]
        with pytest.raises(NotImplementedError, match="Could not run 'own_fallback::f'"):
            ft.ops.own_fallback.f(ft.ones(2), 3)


def test_opcheck_of_an_op_without_results():
    @ft.library.custom_op(f"own::check_written{next(_names)}", mutates_args={"output"})
    def written(input: ft.Tensor, output: ft.Tensor) -> None:
        output.copy_(input.sin())

    assert set(ft.library.opcheck(written, (ft.rand(3), ft.empty(3))).values()) == {"SUCCESS"}


def test_what_a_kernel_raises_in_a_program_is_what_the_call_raises():
    found = []
    for t in (pt, ft):
        class Mine(LookupError):
            pass

        def compute(x):
            if float(x.sum()) < 0:
                raise Mine("mine")
            return x.clone()

        compute.__annotations__ = {"x": t.Tensor, "return": t.Tensor}
        of_negatives = t.library.custom_op(f"raising::of_negatives_{t.__name__}", compute, mutates_args=())

        @of_negatives.register_fake
        def _(x):
            return t.empty_like(x)

        run = t.compile(lambda x: of_negatives(x * 2) + 1, **({"backend": "eager"} if t is pt else {}))
        run(t.ones(3))
        for _ in range(2):
            with pytest.raises(Mine) as raised:
                run(-t.ones(3))
            found.append((str(raised.value), raised.traceback[-1].name))
        found.append(run(t.ones(3)).tolist())
    assert found[:3] == found[3:]
