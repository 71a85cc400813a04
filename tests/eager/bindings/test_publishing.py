"""Public functions are to Python what PyTorch's are: builtins, method descriptors, functions."""

import copy
import inspect
import os
import pickle
import re
import subprocess
import sys
import weakref

import pytest
import torch as pt

import ftorch as ft
from ftorch.eager.bindings import inline_caches
from ftorch.eager.core.public_functions import is_function, public_of, python_of
from tests.oracle import shown_call

LIBRARIES = (pt, ft)
SPACES = ("", "linalg", "fft", "special", "nn.functional", "functional", "Tensor")
native = pytest.mark.skipif(os.environ.get("FTORCH_NATIVE") == "0", reason="builtins are made by the extension module")

# Functions in Python here that are builtins in PyTorch: settings, constructors of sparse tensors, and methods about the object.
_SETTINGS = """autocast_decrement_nesting autocast_increment_nesting can_cast clear_autocast_cache cudnn_is_acceptable from_file
get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype get_default_dtype get_device
get_num_interop_threads get_num_threads is_anomaly_check_nan_enabled is_anomaly_enabled
is_autocast_cache_enabled is_autocast_cpu_enabled is_autocast_enabled is_distributed is_grad_enabled
is_inference_mode_enabled promote_types set_anomaly_enabled set_autocast_cache_enabled set_autocast_cpu_dtype
set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype set_flush_denormal
set_num_interop_threads set_num_threads sym_constrain_range sym_constrain_range_for_size wait fork as_strided_
embedding_bag has_torch_function has_torch_function_unary has_torch_function_variadic sparse_bsc_tensor
sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor"""
_METHODS = """apply_ as_strided as_strided_ as_subclass bfloat16 bool byte cdouble cfloat chalf char clone contiguous copy_
cpu cuda data_ptr detach detach_ double element_size expand_as float get_device half int is_complex is_conj
is_floating_point is_inference is_neg is_pinned is_same_size is_set_to is_signed item long map_ numpy
pin_memory requires_grad_ reshape reshape_as resize_ resize_as_ retain_grad set_ short squeeze_ storage_offset
swapaxes_ swapdims_ t_ to to_padded_tensor tolist transpose_ type type_as unsqueeze_ untyped_storage view_as"""
_HERE = {"": set(_SETTINGS.split()), "nn.functional": set(_SETTINGS.split()), "Tensor": set(_METHODS.split())}


def found(library, path):
    for part in filter(None, path.split(".")):
        library = getattr(library, part)
    return library


@native
@pytest.mark.parametrize("space", SPACES)
def test_kinds_are_those_of_pytorch(space):
    theirs, own = found(pt, space), found(ft, space)
    kinds = {"builtin_function_or_method", "method_descriptor", "function"}
    differing = {
        name for name in dir(theirs)
        if not name.startswith("_") and hasattr(own, name) and type(getattr(theirs, name)).__name__ in kinds
        and type(getattr(own, name)).__name__ != type(getattr(theirs, name)).__name__
    } - {"classproperty"}
    assert differing <= _HERE.get(space, set())


NAMES = """add relu zeros conv2d relu_ flatten where cat absolute linalg.det linalg.norm fft.fft special.erf
special.expit nn.functional.gelu nn.functional.conv2d nn.functional.relu_ Tensor.add Tensor.add_ Tensor.size
Tensor.numel Tensor.__add__ Tensor.__eq__ Tensor.flatten Tensor.sum Tensor.ndimension""".split()
LOOKS = (
    lambda f: type(f).__name__, repr, lambda f: f.__module__, lambda f: f.__name__, lambda f: f.__qualname__,
    lambda f: f.__objclass__.__name__, lambda f: f.__text_signature__, inspect.signature, lambda f: f.__dict__,
    lambda f: pickle.loads(pickle.dumps(f)) is f, lambda f: copy.deepcopy(f) is f, lambda f: {f: 1}[f],
    lambda f: weakref.ref(f)() is f, lambda f: setattr(f, "mark", 1), inspect.isbuiltin, inspect.isroutine, inspect.isfunction,
    inspect.ismethoddescriptor, lambda f: hasattr(f, "__get__"), lambda f: hasattr(f, "__code__"),
    lambda f: hasattr(f, "__wrapped__"), lambda f: f == f, lambda f: f(),
)


@native
@pytest.mark.parametrize("name", NAMES)
def test_attributes_are_those_of_pytorch(name):
    theirs, own = found(pt, name), found(ft, name)
    for look in LOOKS:
        assert shown_call(lambda: look(own)) == shown_call(lambda: look(theirs))


def held_by_a_class(m):
    class Held(m.nn.Module):
        conv, act, write = m.conv2d, m.relu, m.relu_
        gelu = m.nn.functional.gelu

    x = m.arange(16.0).reshape(1, 1, 4, 4) - 8
    held = Held()
    return held.conv(x, m.ones(1, 1, 2, 2)), held.act(x), held.gelu(x).round(), held.write(x)


def bound_methods(m):
    x = m.arange(3.0)
    return [f(2) for f in (x.add, x.__add__, x.mul_, x.__eq__)], x.add.__name__, x.add.__self__ is x


def same_objects(m):
    return m.nn.functional.conv2d is m.conv2d, m.Tensor.add is m.Tensor.add, len({m.add, m.sub, m.add}), m.add == m.sub


@pytest.mark.parametrize("program", [held_by_a_class, bound_methods, same_objects])
def test_programs(program):
    assert str(program(ft)) == str(program(pt))


CALLS = """
add(x, y) | add(x, 2) | add(x, 2.5) | add(x, y, alpha=2) | add(x, alpha=2, other=y) | add(input=x, other=y) | x.add(y)
x.add(other=1) | x + y | x + 1 | 1 + x | x - 1 | 1 - x | x * True | x @ y | x == 1 | x < y | -x | abs(x) | ~(x > 1)
x / 2 | 2 / x | x ** 2 | x % 2 | x.sum() | x.sum(1) | x.sum(dim=1) | x.sum((0, 1)) | x.sum([0, 1])
x.sum(dim=[0], keepdim=True) | x.sum(1, True) | sum(x, 0) | x.sum(axis=1) | x.sum(dtype=float64) | x.view(4, 1)
x.view((1, 4)) | x.view([4]) | x.view(-1) | x.view(int32) | x.t() | x.permute(1, 0) | x.permute((1, 0))
x.permute(dims=(1, 0)) | x.transpose(0, 1) | x.unsqueeze(0) | x.unsqueeze(dim=-1) | x.expand(2, 2, 2) | x.size()
x.size(0) | x.size(-1) | x.size(2) | x.size(dim=1) | x.stride() | x.stride(1) | x.numel() | x.dim() | x.is_contiguous()
x.t().stride() | where(x > 1, x, y) | where(x > 1, x, 0) | where(x > 1) | cat([x, y]) | cat((x, y), 1)
cat([x, y], dim=1) | cat([x] * 12) | stack([x, y]) | max(x) | max(x, 1) | x.max(dim=0)[1] | clamp(x, 1)
clamp(x, max=2) | clamp(x, y) | x.clone().add_(1) | x.clone().add_(y) | add(x, y, out=zeros(2, 2))
sum(x, 1, out=zeros(2)) | max(x, 1, out=(zeros(2), zeros(2, dtype=int64))) | add(x, y, out=None) | flatten(x)
x.flatten(0, -1) | x.flatten(start_dim=0) | relu(x - 2) | relu(input=x) | softmax(x, 1) | softmax(x, dim=0)
x.softmax(-1) | nn.functional.linear(x, y) | nn.functional.linear(x, y, x[0]) | conv2d(x[None, None], y[None, None])
zeros(2) | zeros((2, 3)) | ones(2, 3) | x.repeat(2, 1) | x.repeat((1, 2)) | x.reshape(4) | x.split(1)[1]
split(x, [1, 1], 1)[0] | x.chunk(2)[0] | arange(3) | full((2,), 1.5) | add(x, 1j) | x.add(None)
add(x, [1]) | x.sum("a") | x.view(2.5) | relu_(1) | relu_(x.clone(), 2) | x.unsqueeze() | x.permute(x) | x.add_(y, 2, 3)
trunc_(input=x.clone()) | x.trunc_(1) | clamp_(x.clone(), 1, foo=2) | Tensor.add(1, 2) | Tensor.add() | x.add(*[y] * 20)
cat([x, 1]) | where(x > 1, x)
"""


@pytest.mark.parametrize("call", [call.strip() for line in CALLS.strip().splitlines() for call in line.split(" | ")])
def test_calls_are_the_same_the_first_time_and_afterwards(call):
    def run(library, kind):
        scope = {name: getattr(library, name) for name in dir(library)} | {"abs": abs}
        scope["x"] = library.tensor([[0.0, 1.0], [2.0, 3.0]], requires_grad=kind == "requires grad")
        scope["y"] = library.tensor([[5.0, 1.0], [0.5, 3.0]], dtype=library.float64 if kind == "double" else library.float32)
        return shown_call(lambda: eval(call, scope))

    for kind in ("float", "float", "double", "requires grad", "requires grad", "float"):
        assert run(ft, kind) == run(pt, kind)


@native
def test_a_static_argument_of_another_type_is_refused_where_a_plan_has_its_value():
    """``True == 1``: what is remembered of calls is not asked before the types are."""
    for _ in range(2):
        for m in LIBRARIES:
            m.softmax(m.ones(2, 2), 1)
        assert shown_call(lambda: ft.softmax(ft.ones(2, 2), True)) == shown_call(lambda: pt.softmax(pt.ones(2, 2), True))


def test_overrides_see_what_was_called():
    seen = []
    for m in LIBRARIES:
        calls = []

        class Logged(m.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                calls.append((func.__name__, type(func).__name__, len(args), sorted(kwargs or {})))  # noqa: B023
                return super().__torch_function__(func, types, args, kwargs or {})

        x = m.arange(4.0).as_subclass(Logged)
        for _ in range(2):
            m.add(x, 1)
            x.add(x, alpha=2)
            m.relu(m.ones(2))
            x + 1
            m.relu_(x)
            x.relu_()
            m.cat([x, x], dim=-1)
            x.sum(dim=0)
        seen.append(calls)
    assert seen[0] == seen[1] or os.environ.get("FTORCH_NATIVE") == "0"


def test_functions_in_python_stand_behind():
    assert is_function(ft.add) and is_function(ft.Tensor.add) and not is_function(len) and not is_function(3)
    assert inspect.isfunction(python_of(ft.add)) and public_of(python_of(ft.add)) is ft.add
    assert list(inspect.signature(python_of(ft.relu)).parameters) == ["input"]


def test_ways_are_by_type():
    assert inline_caches.types_of(([1, 2.0], (), [0] * 20, True)) == ((list, int, float), (tuple,), (list, None), bool)


def test_without_the_extension_functions_do_not_bind():
    program = (
        "import ftorch as t, pickle, copy\n"
        "class A: act = t.relu; w = t.relu_\n"
        "assert A().act(t.ones(2)).sum() == 2 and A().w(-t.ones(2)).sum() == 0\n"
        "assert pickle.loads(pickle.dumps(t.add)) is t.add and copy.deepcopy(t.add) is t.add\n"
        "print(t.add, t.linalg.det, t.add.__qualname__, t.linalg.det.__name__)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "FTORCH_NATIVE": "0"}, check=True,
    ).stdout
    assert re.sub("0x[0-9a-f]+", "0x", said) == (
        "<built-in method add of type object at 0x> <built-in function linalg_det> _VariableFunctionsClass.add linalg_det\n"
    )
