"""Settings, devices and small functions of the public surface, as in PyTorch without a GPU."""

import importlib.util
from pathlib import Path

import pytest
import torch

import ftorch
from tests.oracle import assert_same, assert_shows_same

LIBRARIES = [ftorch, torch]


@pytest.mark.parametrize("program", [
    lambda t: t.is_tensor(t.ones(1)), lambda t: t.is_tensor(1),
    lambda t: t.is_storage(t.ones(1).untyped_storage()), lambda t: t.is_storage(t.ones(1)),
    lambda t: t.typename(t.ones(1)), lambda t: t.typename(3), lambda t: t.typename(t.LongTensor([1])),
    lambda t: t._check(False), lambda t: t._check(True), lambda t: t._check(False, lambda: "text"),
    lambda t: t._check_value(False, lambda: "text"), lambda t: t._check(1),
    lambda t: t.sym_int(-3.5), lambda t: t.sym_max(1, 2.0), lambda t: t.sym_min(1, 2.0),
    lambda t: t.sym_not(True), lambda t: t.sym_ite(False, 1, 2), lambda t: t.sym_sqrt(4),
    lambda t: t.result_type(t.tensor(1), 1.0), lambda t: t.result_type(1, 2.0),
    lambda t: t.result_type(t.tensor(1), t.tensor([1.0]).half()),
    lambda t: t.is_nonzero(t.tensor([1, 2])), lambda t: t.is_nonzero(t.tensor(0.0)),
    lambda t: (t.pi, t.e, t.inf, t.nan, t.newaxis),
])
def test_small_functions(program):
    assert_shows_same(program)


@pytest.mark.parametrize("program", [
    lambda t: t.set_num_threads(0), lambda t: t.set_num_threads("a"),
    lambda t: t.set_num_interop_threads(0),
    lambda t: t.use_deterministic_algorithms(1),
    lambda t: t.set_deterministic_debug_mode("x"), lambda t: t.get_deterministic_debug_mode(),
    lambda t: t.set_default_tensor_type(t.LongTensor), lambda t: t.set_default_tensor_type(3),
    lambda t: t.get_float32_matmul_precision(), lambda t: t.are_deterministic_algorithms_enabled(),
])
def test_settings(program):
    assert_shows_same(program)


def test_settings_are_read_back():
    def program(t):
        found = []
        t.use_deterministic_algorithms(True, warn_only=True)
        found += [t.get_deterministic_debug_mode(), t.are_deterministic_algorithms_enabled(),
                  t.is_deterministic_algorithms_warn_only_enabled()]
        t.use_deterministic_algorithms(False)
        t.set_float32_matmul_precision("high")
        found.append(t.backends.cuda.matmul.allow_tf32)
        t.set_float32_matmul_precision("highest")
        t.set_default_tensor_type(t.DoubleTensor)
        found.append(t.ones(1).dtype)
        t.set_default_tensor_type("torch.FloatTensor")
        threads = t.get_num_threads()
        t.set_num_threads(3)
        found.append(t.get_num_threads())
        t.set_num_threads(threads)
        return found, t.ones(1).dtype

    assert_shows_same(program)


def test_backend_flags():
    def program(t):
        cudnn = t.backends.cudnn
        found = [cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32]
        cudnn.benchmark = True
        found.append(cudnn.benchmark)
        cudnn.benchmark = False
        with cudnn.flags(enabled=False):
            found.append(cudnn.enabled)
        return found, cudnn.enabled, t.backends.cuda.flash_sdp_enabled(), t.backends.mps.is_available()

    assert_shows_same(program)


@pytest.mark.skipif(ftorch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.skipif(torch.version.cuda is not None, reason="PyTorch was built for GPUs: it misses the driver")
@pytest.mark.parametrize("program", [
    lambda t: t.cuda.is_available(), lambda t: t.cuda.device_count(), lambda t: t.cuda.is_initialized(),
    lambda t: t.cuda.current_device(), lambda t: t.cuda.synchronize(), lambda t: t.cuda.empty_cache(),
    lambda t: t.cuda.memory_allocated(), lambda t: t.cuda.memory_reserved(),
    lambda t: t.cuda.get_device_name(), lambda t: t.cuda.current_stream(),
    lambda t: t.cuda.is_bf16_supported(), lambda t: t.cuda.get_rng_state(),
    lambda t: t.cuda.get_rng_state_all(), lambda t: t.cuda.manual_seed(1),
    lambda t: t.cuda.manual_seed_all(1), lambda t: t.cuda.get_arch_list(),
    lambda t: t.cuda.ipc_collect(), lambda t: t.cuda.mem_get_info(),
    lambda t: t.mps.synchronize() if False else t.mps.device_count(),
    lambda t: t.xpu.is_available(), lambda t: t.xpu.synchronize(), lambda t: t.xpu.device_count(),
    lambda t: t.accelerator.is_available(), lambda t: t.accelerator.current_accelerator(),
    lambda t: t.accelerator.device_count(), lambda t: t.accelerator.synchronize(),
    lambda t: t.cpu.is_available(), lambda t: t.cpu.current_device(), lambda t: t.cpu.synchronize(),
])
def test_devices_without_a_gpu(program):
    assert_shows_same(program)


@pytest.mark.parametrize("program", [
    lambda t: t.zeros(4, 2).fill_diagonal_(1, wrap=True),
    lambda t: t.zeros(7, 2).fill_diagonal_(1, wrap=True),
    lambda t: t.zeros(8, 3).fill_diagonal_(1, wrap=True),
    lambda t: t.zeros(3, 2).fill_diagonal_(1, wrap=True),
    lambda t: t.zeros(7, 2).fill_diagonal_(1), lambda t: t.zeros(2, 5).fill_diagonal_(1),
    lambda t: t.zeros(3).fill_diagonal_(1), lambda t: t.zeros(2, 2, 3).fill_diagonal_(1),
    lambda t: t.zeros(2, 2, 2).fill_diagonal_(1),
    lambda t: t.ones(2, 3, 4, 5).transpose(1, 2).dim_order(),
    lambda t: list(reversed(t.tensor([1, 2]))), lambda t: t.ones(2).resize(2, 1),
    lambda t: t.ones(4).narrow_copy(0, 1, 2), lambda t: t.ones(2).coalesce(),
    lambda t: t.ones(2).values(), lambda t: t.ones(2).to_dense(), lambda t: t.ones(2, 3).dense_dim(),
    lambda t: t.tensor([1, 2]).map2_(t.tensor([1, 1]), t.tensor([2, 2]), lambda a, b, c: a + b * c),
    lambda t: t._shape_as_tensor(t.ones(2, 3)),
    lambda t: (t.jit.annotate(int, 3), t.jit.is_scripting(), t.compiler.is_compiling()),
    lambda t: t.utils.dlpack.from_dlpack(t.utils.dlpack.to_dlpack(t.arange(3))),
])
def test_tensor_methods(program):
    assert_shows_same(program)


def test_compiler_disable_keeps_a_function_out_of_programs():
    seen = []

    @ftorch.compiler.disable
    def look(x):
        seen.append(x.sum().item())

    @ftorch.compile
    def function(x):
        look(x)
        return x * 2

    for value in (1.0, 2.0, 3.0, 4.0):
        assert function(ftorch.full((2,), value)).tolist() == [2 * value] * 2
    assert seen == [2, 4, 6, 8]


def test_timer():
    timer = ftorch.utils.benchmark.Timer("x + 1", globals={"x": ftorch.ones(3)}, label="add")
    found = timer.blocked_autorange(min_run_time=0.01)
    assert found.median > 0 and "add" in repr(found)
    assert timer.timeit(5).number_per_run == 5


def test_the_stub_is_up_to_date():
    spec = importlib.util.spec_from_file_location("stubs", Path(__file__).parents[1] / "tools/stubs.py")
    stubs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stubs)
    with open(stubs.path()) as file:
        assert file.read() == stubs.generate(), "run: python tools/stubs.py"


def test_the_version_is_compared_as_one():
    version = ftorch.__version__
    assert version >= "2.9" and version < "2.14" and version >= (2, 13) and version != "2.13.0"
    assert version == str(version) and not version > "nothing like one" and version < "a"
    assert torch.__version__.split("+")[0] == version.split("+")[0]


def test_gradients_of_convolutions():
    x, w, g = torch.randn(2, 4, 9, 9), torch.randn(6, 2, 3, 3), torch.randn(2, 6, 5, 5)
    mine = [ftorch.from_numpy(t.numpy()) for t in (x, w, g)]
    settings = {"stride": 2, "padding": 1, "groups": 2}

    def gradients(t, x, w, g):
        module = importlib.import_module(f"{t.__name__}.nn.grad")
        return (module.conv2d_input(tuple(x.shape), w, g, **settings),
                module.conv2d_weight(x, tuple(w.shape), g, **settings))

    for found, expected in zip(gradients(ftorch, *mine), gradients(torch, x, w, g)):
        assert_same(found, expected, tolerance=(1e-5, 1e-5))


OLD_SPARSE = [
    lambda t: t.sparse.FloatTensor(t.tensor([[0, 1], [1, 0]]), t.ones(2), t.Size([2, 3])).to_dense(),
    lambda t: t.sparse.LongTensor(t.tensor([[0, 1], [1, 0]]), t.tensor([1, 2])).to_dense(),
    lambda t: (t.sparse.DoubleTensor(2, 3).to_dense(), t.sparse.FloatTensor().shape),
    lambda t: t.sparse.FloatTensor([1, 2]),
    lambda t: [isinstance(t.eye(2).to_sparse(), k) for k in (t.sparse.FloatTensor, t.sparse.IntTensor)],
    lambda t: isinstance(t.eye(2), t.sparse.FloatTensor),
]


@pytest.mark.parametrize("program", OLD_SPARSE)
def test_old_constructors_of_sparse_tensors(program):
    assert_shows_same(program)


def test_an_optimizer_written_for_pytorch():
    """What such ones import from the private names of torch.optim.optimizer."""
    values = []
    for t in LIBRARIES:
        base = importlib.import_module(f"{t.__name__}.optim.optimizer")

        class Plain(base.Optimizer):
            def __init__(self, params: base.ParamsT, lr=0.5):
                super().__init__(params, {"lr": lr, "differentiable": False})

            @base._use_grad_for_differentiable
            def step(self, closure=None):
                for group in self.param_groups:
                    for p in group["params"]:
                        p.add_(p.grad, alpha=-base._get_value(group["lr"]))

        w = t.nn.Parameter(t.tensor([1.0, 2.0]))
        (w * w).sum().backward()
        Plain([w], lr=t.tensor(0.25)).step()
        values.append((w.tolist(), w.requires_grad, base._default_to_fused_or_foreach([w], False)))
    assert values[0] == values[1]
