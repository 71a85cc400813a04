"""Modules with a leading underscore that published libraries import."""

import collections.abc
import importlib
import io
import linecache
import math
import os
import pickle
import queue
import random
import signal
import subprocess
import sys
import threading
import types

import jax
import pytest
import torch as reference

import ftorch
from tests.oracle import assert_same


def test_suggested_memory_format():
    from torch._prims_common import suggest_memory_format as theirs

    from ftorch._prims_common import suggest_memory_format as ours

    rng = random.Random(0)
    for _ in range(300):
        shape = [rng.choice([0, 1, 1, 2, 3]) for _ in range(rng.choice([3, 4, 5]))]
        stride = [rng.choice([0, 1, 2, 3, 6, 8]) for _ in shape]
        one, two = (library.empty(500).as_strided(shape, stride) for library in (reference, ftorch))
        assert str(theirs(one)) == str(ours(two)), (shape, stride)


def _outcome(function):
    try:
        return function()
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize(
    "call",
    (
        "f(t.ops.aten.mm.default, t.int32, a, a.t())", "f(t.ops.aten.mul.Tensor, t.int32, a, a)",
        "f(t.ops.aten.mul.Tensor, t.int32, a, 2.7)", "f(t.ops.aten.mul.Scalar, t.int32, a.float(), 3.5)",
        "f(t.ops.aten.mm.default, t.float64, a.float(), a.t().float())", "f('x', t.int32, a)",
        "f(t.ops.aten.add_.Tensor, t.int32, a, a)",
    ),
)
def test_out_dtype(call):
    from torch._higher_order_ops.out_dtype import out_dtype as theirs

    from ftorch._higher_order_ops.out_dtype import out_dtype as ours

    found = []
    for library, f in ((reference, theirs), (ftorch, ours)):
        a = library.tensor([[100, -128, 7], [127, -1, 0]], dtype=library.int8)
        found.append(_outcome(lambda: eval(call, {"t": library, "f": f, "a": a})))
    if isinstance(found[0], tuple):
        assert found[0] == found[1]
    else:
        assert_same(found[1], found[0])


def test_helpers_of_block_sparse_kernels():
    from torch.sparse import _triton_ops as theirs
    from torch.sparse import _triton_ops_meta as their_meta

    from ftorch.sparse import _triton_ops as ours
    from ftorch.sparse import _triton_ops_meta as our_meta

    def target(p):
        return (p["a"] - 3) ** 2 + abs(p["b"] + 1) + 1.0

    def step(name, value, direction, parameters):
        return value + direction

    start = {"a": 0, "b": 0}
    tried: list[dict] = [{}, {}]
    found = [
        meta.minimize(target, start, start, step, all_values=values) for meta, values in zip((our_meta, their_meta), tried)
    ]
    assert found[0] == found[1]
    assert tried[0].items() >= {(3, -1): 1.0}.items() and set(map(len, tried[0])) == set(map(len, tried[1]))

    def stuck(name, value, direction, parameters):
        return value + direction if name == "a" else value

    assert our_meta.minimize(target, start, start, stuck) == their_meta.minimize(target, start, start, stuck)
    shapes = []
    for library, module in ((reference, theirs), (ftorch, ours)):
        bsr = library.eye(8).to_sparse_bsr((2, 2))
        shapes.append([tuple(x.shape) for x in module.prepare_inputs(bsr, library.ones(3, 8, 4))])
        assert module.tile_to_blocksize(library.arange(24).view(4, 6), (2, 3))[1, 0].tolist() == [
            [12, 13, 14],
            [18, 19, 20],
        ]
        assert list(map(type, module.ptr_stride_extractor(library.ones(2, 3)))) == [library.Tensor, int, int]
        with pytest.raises(ValueError, match="not broadcastable"):
            module.broadcast_batch_dims("f", library.ones(2, 3, 3), library.ones(4, 3, 3))
    assert shapes[0] == shapes[1]


def test_schemas_take_any_names_of_what_is_written():
    def scale(x: reference.Tensor) -> reference.Tensor:
        return x

    def ours(x: ftorch.Tensor) -> ftorch.Tensor:
        return x

    for names in ({}, set(), iter(["x"]), {"x": 1}, "x", 3, None):
        again = iter(["x"]) if type(names).__name__ == "list_iterator" else names
        one = _outcome(lambda: reference.library.infer_schema(scale, mutates_args=names))
        assert one == _outcome(lambda: ftorch.library.infer_schema(ours, mutates_args=again)), names


class Wrapped(ftorch.Tensor):
    """A wrapper subclass, as quantized weights are."""

    @staticmethod
    def __new__(cls, inner):
        return ftorch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    __torch_function__ = ftorch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is ftorch.ops.aten.detach.default:
            return cls(args[0].inner)
        return func(*(a.inner if isinstance(a, cls) else a for a in args), **(kwargs or {}))


@pytest.mark.parametrize("as_parameter", (False, True))
def test_wrapper_subclasses_are_saved(as_parameter):
    saved = Wrapped(ftorch.arange(3.0))
    if as_parameter:
        saved = ftorch.nn.Parameter(saved, requires_grad=False)
    saved.note = "kept"
    file = io.BytesIO()
    ftorch.save({"weight": saved}, file)
    file.seek(0)
    loaded = ftorch.load(file, weights_only=False)["weight"]
    assert type(loaded) is Wrapped and loaded.note == "kept" and loaded.inner.tolist() == [0.0, 1.0, 2.0]
    assert isinstance(loaded, ftorch.nn.Parameter) is as_parameter
    file.seek(0)
    with ftorch.serialization.safe_globals([Wrapped]):
        assert ftorch.load(file)["weight"].inner.tolist() == [0.0, 1.0, 2.0]


def test_products_of_unsigned_by_signed_bytes():
    a, b = [[255, 0, 7], [200, 128, 1]], [[-128], [127], [5]]
    found = [
        library._int_mm(library.tensor(a, dtype=library.uint8), library.tensor(b, dtype=library.int8)).tolist()
        for library in (reference, ftorch)
    ]
    assert found[0] == found[1]
    long = ftorch.full((1, 1500), 255, dtype=ftorch.uint8)
    assert ftorch._int_mm(long, ftorch.full((1500, 1), -128, dtype=ftorch.int8)).item() == 1500 * 255 * -128


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_parts_of_sparse_tensors_are_operators():
    for library in (reference, ftorch):
        aten, rows, matrix = library.ops.aten, library.eye(2).to_sparse_csr(), library.eye(2).to_sparse()
        assert str(aten.values.default) == "aten.values.default"
        assert aten.values(matrix).tolist() == aten.values.default(rows).tolist() == [1.0, 1.0]
        assert aten.crow_indices(rows).tolist() == [0, 1, 2] and aten.indices(matrix).tolist() == [[0, 1], [0, 1]]


@pytest.mark.parametrize("name", ("associative_scan", "cond", "map", "scan", "while_loop"))
def test_modules_of_control_flow(name):
    import importlib

    function = getattr(importlib.import_module(f"ftorch._higher_order_ops.{name}"), name)
    assert getattr(ftorch._higher_order_ops, name) is function  # the module does not take the function's place


def test_modes_of_functions_are_counted():
    from torch.overrides import TorchFunctionMode as TheirMode

    from ftorch.overrides import TorchFunctionMode

    for m, mode in ((reference, TheirMode), (ftorch, TorchFunctionMode)):
        assert (m._C._is_torch_function_mode_enabled(), m._C._len_torch_function_stack()) == (False, 0)
        with mode():
            assert (m._C._is_torch_function_mode_enabled(), m._C._len_torch_function_stack()) == (True, 1)
    assert ftorch._guards.detect_fake_mode() is None


def test_environments_are_described():
    from torch.utils import collect_env as theirs

    from ftorch.utils import collect_env as ours

    names = ours.SystemEnv._fields
    assert names == theirs.SystemEnv._fields
    rng = random.Random(0)
    values = [None, "", "text", "two\nlines", "False"]
    for _ in range(50):
        found = {name: rng.choice(values) for name in names} | {"pip_version": "pip3", "cpu_info": "one"}
        found["caching_allocator_config"] = rng.choice([{}, {"a": "b"}])
        assert ours.pretty_str(ours.SystemEnv(**found)) == theirs.pretty_str(theirs.SystemEnv(**found))
    assert ours.run("echo 3; exit 2") == theirs.run("echo 3; exit 2") == (2, "3", "")
    assert ours.get_libc_version() == theirs.get_libc_version()
    assert ours.get_os(ours.run) == theirs.get_os(theirs.run)


def test_tensors_by_device_and_dtype():
    found = []
    for library in (reference, ftorch):
        from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype as theirs

        from ftorch.utils._foreach_utils import _group_tensors_by_device_and_dtype as ours

        group = theirs if library is reference else ours
        one = [library.full((1,), i, dtype=d) for i, d in enumerate((library.float32, library.int64, library.float32))]
        two = [None, library.ones(2), library.ones(3)]
        rows = []
        for options in ({}, {"with_indices": True}):
            for (device, dtype), (lists, places) in group([one, two, []], **options).items():
                shapes = [[None if t is None else tuple(t.shape) for t in part] for part in lists]
                rows.append((str(device), str(dtype), shapes, places))
        found.append(sorted(rows, key=str))
    assert found[0] == found[1]


def test_other_parameters_for_a_while():
    found = []
    for library in (reference, ftorch):
        if library is reference:
            from torch.nn.utils.stateless import _reparametrize_module as context
        else:
            from ftorch.nn.utils.stateless import _reparametrize_module as context
        module = library.nn.Linear(1, 1)
        former = module.weight
        with context(module, {"weight": library.ones(1, 1), "bias": library.zeros(1)}):
            found.append(module(library.ones(1) * 3).item())
        assert module.weight is former
    assert found == [3, 3]


def test_flags_are_frozen():
    program = (
        "import sys, {0} as torch\n"
        "b = torch.backends\n"
        "print(b.flags_frozen()); b.disable_global_flags(); print(b.flags_frozen())\n"
        "for module in (b.cudnn, b.mkldnn, b.opt_einsum):\n"
        "    try:\n        module.enabled = True; print('set')\n"
        "    except RuntimeError as error:\n        print(error)\n"
        "with b.cudnn.flags(enabled=False):\n    print(b.cudnn.enabled, b.flags_frozen())\n"
        "print(b.cudnn.enabled)\n"
        "with getattr(b, '__allow_nonbracketed_mutation')():\n    b.cudnn.enabled = False\n"
        "print(b.cudnn.enabled)\n"
    )
    said = [
        subprocess.run([sys.executable, "-c", program.format(name)], capture_output=True, text=True, check=True).stdout
        for name in ("torch", "ftorch")
    ]
    assert said[0] == said[1]


@pytest.mark.filterwarnings("ignore")
def test_graph_of_a_run_with_its_parameters():
    found = []
    for library in (reference, ftorch):
        library.manual_seed(0)
        module = library.nn.Sequential(library.nn.Linear(3, 4), library.nn.ReLU(), library.nn.BatchNorm1d(4))
        graph, out, inputs = library.jit._get_trace_graph(module, (library.ones(2, 3),), return_inputs=True)
        found.append((
            [node.kind() for node in graph.nodes()], [value.debugName() for value in graph.inputs()],
            out.shape, [tuple(t.shape) for t in inputs],
            module[2].num_batches_tracked.item(),
        ))
    assert found[0] == found[1]


def test_patches_of_tracers():
    for library in (reference, ftorch):
        fx = library.fx._symbolic_trace

        class Owner:
            def method(self):
                return "own"

        scope = {"f": len}
        with fx._Patcher() as patcher:
            patcher.patch(scope, "f", lambda x: "f")
            patcher.patch(scope, "abs", lambda x: "abs")
            patcher.patch_method(Owner, "method", lambda self: "other")
            assert (scope["f"](1), scope["abs"](-1), Owner().method()) == ("f", "abs", "other")
            patcher.revert_all_patches()
            assert scope == {"f": len} and Owner().method() == "own"
            patcher.reapply_all_patches()
            assert scope["f"](1) == "f"
            assert patcher.visit_once(scope) and not patcher.visit_once(scope)
        assert scope == {"f": len} and Owner().method() == "own"
        with fx._new_patcher() as patcher:
            fx._autowrap_check(patcher, scope, {id(len)})
            assert scope["f"] is not len and scope["f"]([1, 2]) == 2
        assert scope == {"f": len}
        assert repr(fx.PH) == "PH" and isinstance(fx.PHWithMeta("key"), fx.PHBase)


def test_flat_parameters():
    for library in (reference, ftorch):
        if library is reference:
            from torch.distributed.fsdp._flat_param import FlatParameter
        else:
            from ftorch.distributed.fsdp._flat_param import FlatParameter
        flat = FlatParameter(library.ones(2))
        assert isinstance(flat, FlatParameter) and type(flat) is library.nn.Parameter and flat.requires_grad
        assert not isinstance(library.nn.Parameter(library.ones(2)), FlatParameter)
        assert not library.cuda._is_in_bad_fork()


def test_programs_compiled_anew():
    from ftorch._inductor.utils import fresh_inductor_cache

    entries: dict = {}
    with fresh_inductor_cache(entries):
        assert ftorch.compile(lambda x: x * 5 + 1)(ftorch.ones(3)).tolist() == [6, 6, 6]
    assert jax.config.jax_compilation_cache_dir != ""


@pytest.mark.parametrize("method", [
    "crow_indices", "col_indices", "ccol_indices", "row_indices", "_nnz", "_indices", "_values", "values", "to_sparse",
    "to_sparse_csr", "to_sparse_csc",
])
@pytest.mark.filterwarnings("ignore")
def test_methods_of_sparse_tensors_in_scripts(method, tmp_path):
    found = []
    for name, library in (("torch", reference), ("ftorch", ftorch)):
        file = tmp_path / f"{name}.py"
        file.write_text(f"import {name} as torch\n\ndef f(x: torch.Tensor):\n    return x.{method}()\n")
        scope: dict = {"__name__": f"scripted_{name}"}
        exec(compile(file.read_text(), str(file), "exec"), scope)
        linecache.getlines(str(file))
        x = library.tensor([[1.0, 0, 2], [0, 0, 3]])
        layout = {"ccol_indices": "sparse_csc", "row_indices": "sparse_csc", "_nnz": "sparse_coo", "_indices": "sparse_coo",
                  "_values": "sparse_coo", "crow_indices": "sparse_csr", "col_indices": "sparse_csr", "values": "sparse_csr"}
        if method in layout:
            x = x.to_sparse(layout=getattr(library, layout[method]))
        script = library.jit.script(scope["f"])
        kinds = [node.kind() for node in script.graph.nodes()]
        found.append((str(script(x)), [kind for kind in kinds if kind != "prim::Constant"]))
    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore")
def test_operators_of_ones_own_that_take_functions():
    found = []
    for library in (reference, ftorch):
        ops = importlib.import_module(f"{library.__name__}._ops")
        key = library._C.DispatchKey

        class Twice(ops.HigherOrderOperator):
            def __init__(self, name):
                super().__init__(name)

            def __call__(self, function, x):
                return super().__call__(function, x)

        own, bare = Twice("tests_twice"), Twice("tests_bare")

        @own.py_impl(key.CompositeExplicitAutograd)
        def _(function, x):
            return ["plain", *function(function(x)).tolist()]

        @own.py_impl(key.Autograd)
        def _(function, x, own=own, library=library):
            with library._C._AutoDispatchBelowAutograd():
                return ["autograd", *own(function, x)]

        with pytest.raises(NotImplementedError) as error:
            bare(len, library.ones(1))
        found.append((
            own(lambda x: x + 1, library.ones(1)), str(error.value), own.name(), str(own), own.namespace,
            library.ops.higher_order.tests_twice is own, isinstance(own, ops.OperatorBase),
            isinstance(library.ops.aten.add.Tensor, ops.OperatorBase),
        ))
    assert found[0] == found[1]


@pytest.mark.parametrize("registered", ["", "CPU", "Meta", "AutogradCPU", "Autograd", "CompositeExplicitAutograd",
                                        "CompositeImplicitAutograd", "CompositeImplicitAutograd CPU"])
def test_kernels_of_operators_that_take_functions(registered):
    """Where a call looks for a kernel: of which key it is, and what is said if there is none."""
    found = []
    for library in (reference, ftorch):
        ops, key = importlib.import_module(f"{library.__name__}._ops"), library._C.DispatchKey

        class Asked(ops.HigherOrderOperator):
            def __call__(self, *args):
                return super().__call__(*args)

        def given(call):
            try:
                return call()
            except NotImplementedError as error:
                return str(error)

        def below(own, x, library=library):
            with library.inference_mode():
                return own(x)

        own, passed = Asked("tests_asked"), Asked("tests_passed")
        passed.fallthrough(key.AutogradCPU)
        for name in registered.split():
            for operator in (own, passed):
                operator.py_impl(getattr(key, name))(lambda *args, name=name: name)
        x = library.ones(1)
        found.append([
            *(given(lambda args=args, o=o: o(*args)) for args in ((x,), (3,), (), (library.ones(1, device="meta"),))
              for o in (own, passed)),
            *(given(lambda o=o: below(o, x)) for o in (own, passed)),
        ])
    assert found[0] == found[1]


def test_scopes_of_traces():
    """fvcore names the modules by them, of whose calls it counts the operations."""
    found = []
    for library in (reference, ftorch):

        class Scoped(library.nn.Module):
            def forward(self, x):
                state = library._C._get_tracing_state()
                state.push_scope("a")
                y = x + 1
                state.push_scope("b.c")
                y = y.relu()
                state.pop_scope()
                y = y[0]
                state.pop_scope()
                return y * 2

        graph, _ = library.jit._get_trace_graph(Scoped(), library.ones(2, 2))
        nodes = [node for node in graph.nodes() if node.kind() != "prim::Constant"]
        found.append([(n.kind(), n.scopeName(), n.output().isCompleteTensor(), n.output().type().dim()) for n in nodes])
    assert found[0] == found[1] and len(found[0]) == 4


def test_numbers_of_backward_passes():
    for library in (reference, ftorch):
        seen = []
        number = library._C._current_graph_task_id
        for _ in range(2):
            x = library.ones(2, requires_grad=True)
            y = x * 2
            y.register_hook(lambda grad: seen.append(number()))
            (y * 3).sum().backward()
        assert seen[0] >= 0 and seen[1] != seen[0] and number() == -1


def test_sets_in_order():
    for library in (reference, ftorch):
        kind = importlib.import_module(f"{library.__name__}.utils._ordered_set").OrderedSet
        s = kind([3, 1, 3, 2])
        assert list(s | kind([0])) == [3, 1, 2, 0] and list(s - kind([1])) == [3, 2] and list(reversed(s)) == [2, 1, 3]
        assert repr(s) == "OrderedSet([3, 1, 2])" and s.pop() == 2 and list(s.union([7], [8])) == [3, 1, 7, 8]
        assert s.issuperset([1]) and list(s.symmetric_difference([1, 9])) == [3, 9] and s == {1, 3}
        assert list(s.intersection([1, 2], [1])) == [1] and pickle.loads(pickle.dumps(s)) == s
        s.difference_update([3])
        s.update([5])
        assert list(s) == [1, 5] and isinstance(s, collections.abc.MutableSet)
        with pytest.raises(KeyError):
            kind().pop()


@pytest.fixture
def _no_handler_of_children():
    """Once PyTorch has had workers its handler raises, in any statement, when a child ends."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGCHLD, before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
def test_watch_over_workers(_no_handler_of_children):
    for library in (reference, ftorch):
        utils = importlib.import_module(f"{library.__name__}.utils.data._utils")
        watch = utils.signal_handling
        assert utils.HAS_NUMPY and not utils.python_exit_status and utils.worker.ManagerWatchdog().is_alive()
        child = subprocess.Popen([sys.executable, "-c", "import os; os._exit(3)"])
        watch._set_worker_pids(1, (child.pid,))
        with pytest.raises(ValueError, match="only once"):
            watch._set_worker_pids(1, (child.pid,))
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(RuntimeError, match=rf"{child.pid}\) exited unexpectedly with exit code"):
            watch._error_if_any_worker_fails()
        watch._error_if_any_worker_fails()  # once
        watch._remove_worker_pids(1)
        with pytest.raises(ValueError, match="Cannot find worker information"):
            watch._remove_worker_pids(1)
        child.wait()


def test_threads_that_pin():
    """PyTorch's thread of this kind runs only where there is an accelerator."""
    utils = importlib.import_module("ftorch.utils.data._utils")
    given, pinned, done = queue.Queue(), queue.Queue(), threading.Event()
    broken = utils.ExceptionWrapper((ValueError, ValueError("no"), None), "here")
    given.put((0, {"a": [1, "b"]}))
    given.put((1, broken))
    thread = threading.Thread(target=utils.pin_memory._pin_memory_loop, args=(given, pinned, 0, done, None))
    thread.start()
    try:
        assert pinned.get(timeout=30) == (0, {"a": [1, "b"]}) and pinned.get(timeout=30) == (1, broken)
    finally:
        done.set()
        given.put((2, None))
        thread.join()


def test_small_private_names():
    for library in (reference, ftorch):
        x = library.tensor([-1e4, 0.0, 1e4])
        distributions = library.distributions
        assert library.allclose(distributions.transforms._clipped_sigmoid(x), library.tensor([0.0, 0.5, 1.0]))
        P = library.tensor([[2.0, 0.5], [0.5, 1.0]])
        found = distributions.multivariate_normal._precision_to_scale_tril(P)
        assert library.allclose(found @ found.T @ P, library.eye(2), atol=1e-6)
        importlib.import_module(f"{library.__name__}.profiler.profiler")
        assert library.profiler.profiler._default_schedule_fn(3) == library.profiler.ProfilerAction.RECORD
        assert library._VF.chunk(library.ones(2), 2)[1].tolist() == [1] and library.cuda._initialized is False
        assert library._disable_dynamo(lambda y: y + 1)(2) == 3 and library._disable_dynamo()(lambda y: y)(2) == 2
        groups = library.optim.Optimizer._group_tensors_by_device_and_dtype([[x, x.double()]])
        assert sorted(str(dtype) for _, dtype in groups) == ["torch.float32", "torch.float64"]
        assert library.ScriptObject is library._C.ScriptObject
        assert not library._C._is_tracing() and not library._C._has_xpu and library._C._get_cudnn_enabled()
        trace = library.fx._symbolic_trace
        assert trace.ScriptObject is library.ScriptObject and trace.FunctionType is types.FunctionType
        assert trace.functools.wraps and id(math.sin) in trace.Tracer()._autowrap_function_ids
        assert trace.Tracer()._autowrap_search == [math]
        parametrize = library.nn.utils.parametrize
        assert parametrize._cache_enabled == 0 and parametrize._cache == {}
        with parametrize.cached():
            assert parametrize._cache_enabled == 1
        conv = library.nn.modules.conv
        assert issubclass(conv._ConvTransposeMixin, conv._ConvTransposeNd)
    assert ftorch.fft.__all__ == reference.fft.__all__


def test_types_of_scripts_as_objects():
    found = []
    for library in (reference, ftorch):
        C = library._C
        integer, text, tensor = C.IntType.get(), C.StringType.get(), C.TensorType.get()
        types = [
            integer, text, tensor, C.FloatType.get(), C.BoolType.get(), C.NoneType.get(), C.NumberType.get(), C.AnyType.get(),
            C.DeviceObjType.get(), C.StreamObjType.get(), C.ComplexType.get(), C.SymIntType.get(), C.PyObjectType.get(),
            C.ListType(integer), C.ListType.ofTensors(), C.OptionalType(text), C.OptionalType.ofTensor(),
            C.DictType(text, C.ListType.ofFloats()), C.TupleType([integer, tensor]), C.TupleType([]),
            C.UnionType([integer, text]), C.FutureType(tensor), C.RRefType(integer), C.AwaitType(integer),
        ]
        with pytest.raises(TypeError, match="No constructor defined"):
            C.Type()
        assert library.ListType is C.ListType and issubclass(library.TensorType, library.Type)
        found.append((
            [(f"{t}", t.kind(), t.annotation_str, t.str()) for t in types],
            [[a == b for b in types] for a in types], [[a.isSubtypeOf(b) for b in types] for a in types],
            f"{C.DictType(text, tensor).getValueType()} {C.ListType(integer).getElementType()}",
            [f"{t}" for t in C.TupleType([integer, tensor]).elements()],
        ))
        graph = library.jit.script(_list_of_sizes).graph
        kinds = [type(t).__name__ for t in types]
        assert [k for k in dict.fromkeys(kinds) if isinstance(next(graph.outputs()).type(), getattr(C, k))] == ["ListType"]
        assert isinstance(next(graph.inputs()).type(), C.TensorType) and isinstance(next(graph.inputs()).type(), C.Type)
        assert next(graph.outputs()).type().annotation_str == "List[int]"
    assert found[0] == found[1]


def _list_of_sizes(x):
    return [x.size(0), x.size(1)]
