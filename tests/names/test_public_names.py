"""Names of the public modules: the same as PyTorch's, and what they do."""

import pytest
import torch

import ftorch
from ftorch.utils import _pytree


def test_return_types_are_the_same():
    names = [t.__name__ for t in ftorch.return_types.all_return_types]
    assert names == [t.__name__ for t in torch.return_types.all_return_types]
    for own, theirs in zip(ftorch.return_types.all_return_types, torch.return_types.all_return_types):
        assert own.__match_args__ == theirs.__match_args__
        assert (own.__module__, theirs.__module__) == ("ftorch.return_types", "torch.return_types")  # where pickles look


def test_results_of_out_are_of_their_own_type():
    out = ftorch.empty(2), ftorch.empty(2, dtype=ftorch.int64)
    assert type(ftorch.max(ftorch.ones(2, 2), 0, out=out)) is ftorch.return_types.max_out


def test_named_results_are_nodes_of_pytrees():
    found = ftorch.ones(2, 2).sort()
    leaves, spec = _pytree.tree_flatten(found)
    assert type(_pytree.tree_unflatten(leaves, spec)) is ftorch.return_types.sort
    with_keys, _ = torch.utils._pytree.tree_flatten_with_path(torch.ones(2, 2).sort())
    own, _ = _pytree.tree_flatten_with_path(found)
    assert [str(k) for k, _ in own] == [str(k) for k, _ in with_keys]


def test_docstrings_say_how_overloads_are_called():
    lines = ftorch.sum.__doc__.splitlines()
    assert "sum(input, *, dtype=None) -> Tensor" in lines
    assert "sum(*, dtype=None) -> Tensor" in ftorch.Tensor.sum.__doc__.splitlines()


_CALLS = """
nn.factory_kwargs(None)
nn.factory_kwargs({"device": 1, "factory_kwargs": {"dtype": 2}})
nn.factory_kwargs({"device": 1, "factory_kwargs": {"device": 2}})
nn.factory_kwargs({"device": 1, "x": 2})
autograd.variable(1)
autograd.profiler.EnforceUnique().see(1)
serialization.validate_cuda_device("cuda:0")
serialization.validate_hpu_device("hpu:0")
serialization.normalize_storage_type(torch.HalfStorage).__name__
serialization.storage_to_tensor_type(torch.ones(2)).__name__
cuda.FloatStorage(3)
cuda.current_blas_handle()
cuda.FloatStorage.dtype.itemsize
accelerator.current_stream()
accelerator.max_memory_reserved()
accelerator.empty_host_cache()
accelerator.reset_accumulated_memory_stats()
accelerator.memory_stats()
autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(True)
autograd.graph.set_override_stale_capture_stream(False)
autograd.graph.region_activation_memory_budget(2.0).__enter__()
autograd.graph.region_activation_memory_budget(0.5).__enter__()
""".strip().splitlines()


def _outcome(call, library):
    owner = library
    if "torch." in call:
        call = call.replace("torch.", "library.")
    try:
        return eval(f"owner.{call}", {"owner": owner, "library": library})
    except Exception as error:
        return type(error).__name__, str(error).replace("ftorch", "torch")


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("call", _CALLS)
def test_calls(call):
    assert _outcome(call, ftorch) == _outcome(call, torch)


def test_steps_are_those_of_the_requester_with_most():
    counts = []
    for library in (torch, ftorch):
        tracker = library.autograd.profiler.KinetoStepTracker
        before = tracker.current_step()
        found = [tracker.increment_step(name) - before for name in "abab"]
        found += [tracker.erase_step_count("a"), tracker.erase_step_count("a")]
        tracker.erase_step_count("b")
        counts.append(found)
    assert counts[0] == counts[1]


def test_older_questions():
    for name in ("has_cuda", "has_cudnn", "has_mkldnn", "has_mps"):
        said = []
        for library in (torch, ftorch):
            with pytest.warns(UserWarning) as warned:
                assert isinstance(getattr(library, name), bool)
            said.append([str(w.message) for w in warned])
        assert said[0] == said[1]
    theirs, ours = (t.onnx.symbolic_helper.cast_pytorch_to_onnx for t in (torch, ftorch))
    assert {k: int(v) for k, v in ours.items()} == {k: int(v) for k, v in theirs.items()}
    assert ftorch._C._show_config() == ftorch.__config__.show()
    assert ftorch._C._parallel_info() == ftorch.__config__.parallel_info()
