"""What quantization keeps: states of scripted observers, settings of batch norms; grids on quantized images."""

import pytest
import torch as pt
from torch.ao.quantization import observer as pt_observer

import ftorch as ft
from ftorch.ao.quantization import observer as ft_observer

pytestmark = pytest.mark.filterwarnings("ignore")


def observed(torch, observer, kind):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.fc1(x)

    config = torch.ao.quantization.QConfig(activation=observer.default_observer, weight=getattr(observer, kind))
    return torch.ao.quantization.prepare_jit(torch.jit.script(Model().eval()), {"": config})


def kept(torch, observer, kind):
    first, second = (observed(torch, observer, kind) for _ in range(2))
    first(torch.arange(6.0).view(2, 3))
    state = observer.get_observer_state_dict(first)
    observer.load_observer_state_dict(second, state)
    now = second.state_dict()
    assert all(torch.equal(now[k], v) for k, v in state.items())
    return len(state), hasattr(state, "_metadata"), sorted({k.rpartition(".")[2] for k in state})


@pytest.mark.parametrize("kind", ["MinMaxObserver", "MovingAverageMinMaxObserver", "HistogramObserver"])
def test_states_of_scripted_observers_go_from_model_to_model(kind):
    assert kept(ft, ft_observer, kind) == kept(pt, pt_observer, kind)


def test_synchronized_batch_norms_keep_mode_and_configuration():
    def converted(torch):
        plain = torch.nn.Sequential(torch.nn.BatchNorm2d(2).eval(), torch.nn.BatchNorm1d(2))
        plain[0].qconfig = "a configuration"
        found = torch.nn.SyncBatchNorm.convert_sync_batchnorm(plain)
        return [(m.training, getattr(m, "qconfig", None)) for m in found]

    assert converted(ft) == converted(pt)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("scale, zero_point", [(0.1, 10), (0.05, 0), (1.0, 3)])
def test_grids_on_quantized_images(padding, scale, zero_point):
    x, grid = pt.randn(2, 3, 5, 6), pt.rand(2, 4, 4, 2) * 2.4 - 1.2

    def run(torch, x, grid):
        q = torch.quantize_per_tensor(x, scale, zero_point, torch.quint8)
        found = torch.nn.functional.grid_sample(q, grid, padding_mode=padding, align_corners=False)
        return found.int_repr().tolist(), found.q_scale(), found.q_zero_point()

    assert run(ft, ft.from_numpy(x.numpy()), ft.from_numpy(grid.numpy())) == run(pt, x, grid)


@pytest.mark.parametrize("dtype, mode, shape", [
    ("quint8", "nearest", (1, 1, 2, 2)), ("qint8", "bilinear", (1, 1, 2, 2)), ("qint32", "nearest", (1, 1, 2, 2)),
    ("quint8", "bilinear", (1, 1, 2, 2, 2)),
])
def test_grids_that_are_refused(dtype, mode, shape):
    def said(torch):
        q = torch.quantize_per_tensor(torch.ones(shape), 0.1, 0, getattr(torch, dtype))
        with pytest.raises((RuntimeError, NotImplementedError)) as caught:
            torch.nn.functional.grid_sample(q, torch.zeros(1, *shape[2:], len(shape) - 2), mode=mode, align_corners=False)
        return type(caught.value), str(caught.value)[:70]

    assert said(ft) == said(pt)
