"""``__torch_function__``: subclasses, foreign types and modes, in ftorch as in PyTorch."""

import inspect

import pytest
import torch

import ftorch

LIBRARIES = [ftorch, torch]


def assert_same(program):
    ours, theirs = [repr(program(t)) for t in LIBRARIES]
    assert ours == theirs


def names_seen(t, program):
    """The names of the functions that a logging subclass sees."""
    seen = []

    class Logged(t.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append((func.__name__, [k.__name__ for k in types], len(args), sorted(kwargs or {})))
            return super().__torch_function__(func, types, args, kwargs)

    program(t, t.ones(2, 3).as_subclass(Logged))
    return seen


@pytest.mark.parametrize("program", [
    lambda t, x: x + 1,
    lambda t, x: x - x,
    lambda t, x: -x,
    lambda t, x: x @ x.t(),
    lambda t, x: x.sum(),
    lambda t, x: t.sum(x, dim=1),
    lambda t, x: x.shape,
    lambda t, x: x.reshape(-1),
    lambda t, x: x.add_(1),
    lambda t, x: t.cat([x, t.ones(2, 3)]),
    lambda t, x: t.nn.functional.linear(x, x),
    lambda t, x: t.stack([x, x]),
    lambda t, x: x.max(0),
    lambda t, x: t.ones(2, 3) + x,
    lambda t, x: x.to(t.float64),
    lambda t, x: t.einsum("ij,ij->i", x, x), lambda t, x: t.einsum("ij,ij->i", [x, x]),
    lambda t, x: t.meshgrid([x[0], x[1]], indexing="ij"), lambda t, x: t.functional.einsum("ij->j", x),
])
def test_subclass_sees_the_public_function(program):
    assert names_seen(ftorch, program) == names_seen(torch, program)


def test_subclass_without_override_keeps_its_class():
    def program(t):
        class Named(t.Tensor):
            pass

        x = Named([1.0, 2.0])
        results = [x + 1, t.ones(2) + x, x.sum(), x.clone(), x.detach(), x[0], x[None].T, x.max(0)[0],
                   t.stack([x, x]), x.to(t.int64), x.unbind()[0], x.reshape(2, 1)]
        return [type(r).__name__ for r in results], x, results[0]

    assert_same(program)


def test_gradients_reach_leaves_of_a_subclass():
    def program(t):
        class Named(t.Tensor):
            pass

        x = Named([1.0, 2.0]).requires_grad_()
        y = (x * x).sum()
        y.backward()
        return type(y).__name__, x.grad

    assert_same(program)


def test_inplace_on_a_view_of_a_subclass():
    def program(t):
        class Named(t.Tensor):
            pass

        w = t.tensor([3.0], requires_grad=True)
        x = Named([1.0, 2.0])
        x[:1].mul_(w)
        x.sum().backward()
        return x.detach(), w.grad

    assert_same(program)


def test_foreign_types():
    def program(t):
        class Diagonal:
            def __init__(self, n):
                self.n = n

            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                if func is t.mean:
                    return args[0].n
                if func is t.stack:
                    return [a.n for a in args[0]]
                return NotImplemented

        declined = None
        try:
            t.add(Diagonal(2), 1)
        except TypeError as e:
            declined = str(e).splitlines()[0]
        return t.mean(Diagonal(3)), t.stack([Diagonal(1), Diagonal(2)]), declined

    assert_same(program)


def test_the_subclass_is_asked_before_its_base():
    def program(t):
        asked = []

        class Base(t.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                asked.append(cls.__name__)
                return NotImplemented

        class Derived(Base):
            pass

        with pytest.raises(TypeError):
            t.add(t.ones(2).as_subclass(Base), t.ones(2).as_subclass(Derived))
        return asked

    assert_same(program)


def test_modes_nest_and_may_replace_results():
    def program(t):
        class Double(t.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                result = func(*args, **(kwargs or {}))
                return result * 2 if func is t.add else result

        x = t.ones(2)
        with Double():
            y = t.add(x, 1)
            with Double():
                z = t.add(x, 1)
        return y, z, t.add(x, 1)

    assert_same(program)


def test_disable_torch_function_subclass():
    def program(t):
        class Named(t.Tensor):
            pass

        x = Named([1.0])
        with t._C.DisableTorchFunctionSubclass():
            y = x + 1
        return type(y).__name__, t.overrides.has_torch_function((x,))

    assert_same(program)


def test_helpers():
    def program(t):
        o = t.overrides
        return (
            o.is_tensor_like(t.ones(1)), o.is_tensor_like(1), o.has_torch_function((t.ones(1),)),
            o.has_torch_function_unary(3), o.has_torch_function_variadic(1, t.nn.Parameter(t.ones(1))),
            o.resolve_name(t.add), o.is_tensor_method_or_property(t.Tensor.add),
            o.is_tensor_method_or_property(t.add),
        )

    assert_same(program)


def test_wrap_torch_function():
    def program(t):
        @t.overrides.wrap_torch_function(lambda a: (a,))
        def function(a):
            return "ran"

        class Foreign:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return func is function, args[0] is not None

        return function(1), function(Foreign())

    assert_same(program)


def test_parameters_give_plain_tensors():
    assert_same(lambda t: type(t.nn.Parameter(t.ones(2)) * 2).__name__)


@pytest.mark.parametrize("arguments", [
    lambda t: (), lambda t: (3,), lambda t: (2, 3), lambda t: (t.Size([2, 3]),), lambda t: ([1, 2],),
    lambda t: ((2, 3),), lambda t: (t.tensor([1]),), lambda t: (3.0,), lambda t: ("a",),
    lambda t: (None,),
])
def test_constructor(arguments):
    def program(t):
        try:
            made = t.Tensor(*arguments(t))
        except TypeError as e:
            return str(e)
        return tuple(made.shape), made.dtype

    assert_same(program)


def test_names():
    def program(t):
        resolve = t.overrides.resolve_name
        return [resolve(f) for f in (
            t.Tensor.add, t.Tensor.add_, t.add, t.nn.functional.relu, t.Tensor.shape.__get__,
            t.ops.aten.add.Tensor, t.ops.aten.add, len, t.linalg.norm, t.fft.fft, t.special.erf,
        )]

    assert_same(program)


@pytest.mark.parametrize("name, count", [
    ("add", 2), ("matmul", 2), ("cat", 1), ("sin", 1), ("linalg.norm", 1), ("nn.functional.relu", 1),
    ("Tensor.view", 2), ("Tensor.add_", 2), ("Tensor.shape", 1), ("zeros", 1), ("set_printoptions", 1),
])
def test_overridable_functions(name, count):
    def program(t):
        function = t
        for part in name.split("."):
            function = getattr(function, part)
        if name == "Tensor.shape":
            function = function.__get__
        everything = [f for fs in t.overrides.get_overridable_functions().values() for f in fs]
        stand_in = t.overrides.get_testing_overrides().get(function)
        result = None if stand_in is None else stand_in(*[1] * count)
        return function in everything, result, function in t.overrides.get_ignored_functions()

    assert_same(program)


def test_stack_of_modes():
    def program(t):
        o, seen = t.overrides, []

        class Mode(o.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                seen.append(func.__name__)
                return func(*args, **(kwargs or {}))

        with Mode() as mode:
            inside = o._get_current_function_mode() is mode, o._len_torch_function_stack()
            with o._pop_mode_temporarily() as popped:
                t.ones(2).sin()
                inside += (popped is mode, o._len_torch_function_stack())
            t.ops.aten.sin.default(t.zeros(2))
        return inside, seen, o._get_current_function_mode()

    assert_same(program)


def test_subclasses_see_each_call_of_a_name_with_several_overloads():
    found = []
    for T in (ftorch, torch):
        class Seen(T.Tensor):
            calls = 0

            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                cls.calls += func.__name__ in ("sum", "max")
                return super().__torch_function__(func, types, args, kwargs or {})

        x = T.ones(2, 3).as_subclass(Seen)
        kinds = [type(v).__name__ for _ in range(3) for v in (x.sum(), T.sum(x, 1), x.max(1).values)]
        found.append((kinds, Seen.calls))
    assert found[0] == found[1]


def test_methods_show_their_parameters_while_a_mode_is_active():
    def program(t):
        class Mode(t.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                return func(*args, **(kwargs or {}))

        def shown():
            return list(inspect.signature(t.Tensor.register_hook).parameters), list(
                inspect.signature(t.Tensor.backward).parameters
            )

        before = shown()
        with Mode():
            inside = shown()
        return before, inside, shown()

    assert_same(program)


# What PyTorch sees through ``__index__`` first, or has for backends that are not here.
_UNSEEN = ("fbgemm", "quantized_", "sym_", "_nested", "_indices", "_copy", "_dim", "_sym", "is_distributed")


def _seen_by_a_subclass(library, path, count):
    class Seen(library.Tensor):
        calls = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            name = library.overrides.resolve_name(func).replace("ftorch", "torch")
            cls.calls.append((name, len(args), sorted(kwargs or {}), kwargs is None))
            return -1

    x = library.ones(2, 2).as_subclass(Seen)
    *owner, name = path.split(".")[1:]
    try:
        if path.startswith("torch.Tensor."):
            getattr(x, name)(*[x] * (count - 1))
        else:
            for part in owner:
                library = getattr(library, part)
            getattr(library, name)(*[x] * count)
    except Exception as error:
        return [str(type(error))]
    return Seen.calls


def test_handlers_get_the_functions_names_and_keywords_of_pytorch():
    different, seen = [], 0
    for function, example in torch.overrides.get_testing_overrides().items():
        path = torch.overrides.resolve_name(function)
        if path is None or path.endswith("__get__") or any(part in path for part in _UNSEEN):
            continue
        parameters = inspect.signature(example).parameters.values()
        count = sum(p.default is p.empty and p.kind in (0, 1) for p in parameters)
        theirs = _seen_by_a_subclass(torch, path, count)
        if len(theirs) == 1 and isinstance(theirs[0], tuple):  # not asked for numbers by ``__index__``
            seen += 1
            mine = _seen_by_a_subclass(ftorch, path, count)
            if mine != theirs:
                different.append((path, mine, theirs))
    assert seen > 800
    assert len(different) <= 20, "\n".join(map(str, different))
