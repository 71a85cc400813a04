"""Where classes say they are defined, and what default devices, modes and deprecated names do to single calls."""

import importlib
import pickle
import warnings

import pytest
import torch

import ftorch

LIBRARIES = [ftorch, torch]

PLACES = {
    "optim.lr_scheduler": "LRScheduler ChainedScheduler SequentialLR CosineAnnealingWarmRestarts CyclicLR OneCycleLR StepLR",
    "distributions.transforms": "ComposeTransform Transform CatTransform IndependentTransform ReshapeTransform StackTransform",
    "nn": "MultiheadAttention Linear",
    "serialization": "LoadEndianness set_default_mmap_options skip_data StorageType",
    "sparse": "check_sparse_tensor_invariants",
    "utils.checkpoint": "CheckpointPolicy SelectiveCheckpointContext",
    "utils.data.datapipes.iter": "Mapper",
    "autograd.profiler": "record_function",
    "autograd.profiler_util": "EventList FunctionEvent",
    "profiler": "ProfilerAction profile",
    "export.unflatten": "FlatArgsAdapter UnflattenedModule",
    "cuda.amp": "GradScaler autocast",
    "utils.hooks": "BackwardHook",
    "jit": "CompilationUnit strict_fusion",
    "utils.data": "DataLoader",
}


@pytest.mark.parametrize(("place", "name"), [(p, n) for p, names in PLACES.items() for n in names.split()])
def test_classes_name_the_module_that_pytorch_pickles_them_by(place, name):
    ours, theirs = (getattr(importlib.import_module(f"{t.__name__}.{place}"), name) for t in LIBRARIES)
    assert ours.__module__ == theirs.__module__.replace("torch", "ftorch", 1)
    assert getattr(importlib.import_module(ours.__module__), ours.__qualname__) is ours


def _constructed(t):
    with t.device("meta"):
        made = [t.Tensor(2), t.Tensor([1.0]), t.Tensor(), t.FloatTensor(2), t.ones(1, device="cpu").new(2), t.ones(1)]
    t.set_default_device("meta")
    try:
        return [x.device.type for x in (*made, t.Tensor(2), t.empty(2))]
    finally:
        t.set_default_device(None)


def _modes_of_older_constructors(t):
    seen = []

    class Mode(t.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with Mode():
        made = [t.Tensor(2).shape, t.Tensor([1]).tolist(), t.LongTensor([3]).tolist(), t.FloatTensor(2, 3).shape,
                t.LongTensor().shape, t.BoolTensor([[True], [False]]).tolist(), t.FloatTensor(t.Size([2])).shape]
    return [list(m) for m in made], sorted(set(seen) & {"tensor", "empty", "empty_like"})


def _cast_contractions(t):
    a = t.ones(2, 2)
    equations = [
        ("ij->i", a), ("ij,ij->ij", a, a), ("ij,k->k", a, a[0]), ("ij,jk->ijk", a, a), ("i,ij,j->", a[0], a, a[0]),
        ("i,j,k->k", a[0], a[0], a[0]), ("i,j,ij->ij", a[0], a[0], a), ("ij,jk", a, a), ("...i,...i", a, a),
        ("ij , jk -> ik", a, a), ("i,i", a[0], a[0]),
    ]
    with t.autocast("cpu", dtype=t.bfloat16):
        found = [t.einsum(*e).dtype for e in equations]
        found += [t.tensordot(a, a, d).dtype for d in (0, 1, 2, ([0], [1]), ([0, 1], [1, 0]))]
        found.append(t.tensordot(a[0], a[0], 1).dtype)
        return [str(d) for d in (*found, t.tensordot(a.bfloat16(), a.bfloat16()).dtype)]


def _cast_contractions_of_single_rows(t):
    def one(*sizes):
        return t.ones(*sizes)

    equations = [
        ("ij,jk->ik", one(2, 1), one(1, 2)), ("ij,jk->ik", one(1, 2), one(2, 1)), ("ij,j->i", one(2, 1), one(1)),
        ("i,i", one(1), one(1)), ("ijl,jlk->ik", one(2, 1, 3), one(1, 3, 2)), ("...i,...i", one(2, 1), one(2, 1)),
        ("...i,...i->...", one(2, 3), one(3)), ("i...,i...->...", one(1, 4), one(1, 4)),
        ("i,j,ij->", one(1), one(2), one(1, 2)), ("ij,ij->", one(2, 1), one(2, 3)), ("ij,ij->i", one(2, 2), one(2, 1)),
        ("ij,jk,kl->il", one(2, 1), one(1, 1), one(1, 2)),
    ]
    sizes = [((2, 1), (1, 2), 1), ((1, 2), (2, 1), 1), ((2, 1), (1,), 1), ((1, 1), (1, 1), 1), ((2, 1, 3), (1, 3, 2), 2),
             ((2, 1), (1, 2), 0), ((2, 1), (2, 1), ([-2], [0])), ((2, 3), (2, 1), ([0], [-2]))]
    with t.autocast("cpu", dtype=t.bfloat16):
        found = [t.einsum(*e).dtype for e in equations]
        found += [t.tensordot(one(*a), one(*b), d).dtype for a, b, d in sizes]
    return [str(d).replace("ftorch", "torch") for d in found]


def _parameter_of_inference(t):
    with t.inference_mode():
        x = t.ones(2)
        inside = t.nn.Parameter(x)
    try:
        t.nn.Parameter(x)
    except RuntimeError as e:
        return inside.requires_grad, t.nn.Parameter(x, requires_grad=False).requires_grad, str(e)
    return None


def _functions_of_any_number(t):
    scope = {"Tensor": t.Tensor}
    exec("def f(x, *more) -> Tensor: return x\ndef g(x, *, k=1) -> Tensor: return x\ndef h(x) -> Tensor: return x", scope)
    return [t.fx.symbolic_trace(scope[name]).code.replace("ftorch", "torch") for name in "fgh"]


def _recomputed_otherwise(t):
    runs = []

    def f(x):
        runs.append(1)
        return x.reshape(1, 3).sin().sum(0) if len(runs) > 1 else x.sin()

    y = t.utils.checkpoint.checkpoint(f, t.ones(3, requires_grad=True), use_reentrant=False)
    try:
        y.sum().backward()
    except t.utils.checkpoint.CheckpointError as e:
        return str(e)
    return None


def _pickled_parts(t):
    x = t.arange(12.0).reshape(3, 4)
    c = t.complex(t.arange(3.0), t.ones(3))
    written = t.zeros(4)
    part = written[1:]
    written.add_(2)
    part[0] = 7
    found = []
    for v in (
        x, x[1], x[:, 1:3], x.t(), x[0, 0], x[::2], t.ones(1).expand(3), x[3:], c[1:], x.as_strided((2, 2), (1, 1)), part,
        x.bfloat16()[1], (x > 3)[1], t.ones(0), t.nn.Parameter(x[1]), t.empty(2, 0, 3), c.conj(),
        t.ones(2, 3, 4, 5).to(memory_format=t.channels_last),
    ):
        y = pickle.loads(pickle.dumps(v))
        found.append((y.tolist(), y.stride() if y.numel() else 0, y.storage_offset(), y.untyped_storage().nbytes(),
                      y.is_conj(), y.requires_grad, y._is_view(), type(y).__name__))
        if y.numel() and not y.requires_grad and v is not x and y.dtype is t.float32 and y.stride() != (0,):
            y.zero_()
    return found, x.tolist()


@pytest.mark.parametrize("program", [
    _pickled_parts, _constructed, _modes_of_older_constructors, _cast_contractions,
    _cast_contractions_of_single_rows, _parameter_of_inference,
    _functions_of_any_number, _recomputed_otherwise,
])
def test_single_calls(program):
    importlib.import_module("torch.utils.checkpoint")
    importlib.import_module("ftorch.utils.checkpoint")
    assert program(ftorch) == program(torch)


def _warned(program, t):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program(t)
    return [(w.category, str(w.message).partition(" (Triggered")[0].replace("ftorch", "torch")) for w in caught]


def test_errors_of_backends_shorten_their_tracebacks():
    def kinds(t):
        def bad(graph, examples):
            raise ValueError("no")

        try:
            t.compile(lambda x: x + 1, backend=bad)(t.ones(2))
        except t._dynamo.exc.ShortenTraceback as e:
            return [c.__name__ for c in type(e).__mro__]
        return None

    assert kinds(ftorch) == kinds(torch)


@pytest.mark.parametrize("program", [
    lambda t: t.is_autocast_cpu_enabled(), lambda t: t.get_autocast_cpu_dtype(), lambda t: t.get_autocast_gpu_dtype(),
    lambda t: t.set_autocast_cpu_enabled(False), lambda t: t.set_autocast_cpu_dtype(t.bfloat16),
    lambda t: t.set_autocast_gpu_dtype(t.float16),
])
def test_older_names_of_autocast_warn(program):
    assert _warned(program, ftorch) == _warned(program, torch) != []


def test_a_number_of_a_tensor_that_requires_grad_is_no_surprise_without_gradients():
    def program(t):
        before = t.is_warn_always_enabled()
        t.set_warn_always(True)
        try:
            x = t.ones(1, requires_grad=True)
            with t.no_grad():
                float(x)
                t.tensor([x, x])
            float(x)
        finally:
            t.set_warn_always(before)

    assert _warned(program, ftorch) == _warned(program, torch) != []
