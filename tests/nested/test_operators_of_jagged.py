"""The functions that jagged tensors have: PyTorch's own samples of them, computed by both."""

import warnings

import numpy as np
import pytest

import ftorch
from ftorch.nested._internal.nested_tensor import NestedTensor

torch = pytest.importorskip("torch")
nested = pytest.importorskip("torch.testing._internal.opinfo.definitions.nested")
core = pytest.importorskip("torch.testing._internal.opinfo.core")

# Whose entry calls the function by other arguments than it has.
_CALLS = {
    "polygamma": lambda x, n: ftorch.polygamma(n, x),
    "special.polygamma": lambda x, n: ftorch.special.polygamma(n, x),
    "where": lambda x, condition, other: ftorch.where(condition, x, other),
    "nn.functional.embedding": lambda weight, indices: ftorch.nn.functional.embedding(indices, weight),
    "nn.functional.embedding_bag": lambda weight, x, *a, **k: ftorch.nn.functional.embedding_bag(x, weight, *a, **k),
}
_KINDS = (core.UnaryUfuncInfo, core.BinaryUfuncInfo, core.ReductionOpInfo)


def _has_samples(op):
    return isinstance(op, _KINDS) or op.full_name in nested.njt_sample_inputs


_DRAWS = ("rand", "dropout", "bernoulli", "empty", "normal")
_OPS = [op for op in nested.njt_op_db if _has_samples(op) and not any(word in op.name for word in _DRAWS)]


def _function(name):
    if name in _CALLS:
        return _CALLS[name]
    found = ftorch
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None or isinstance(found, ftorch.dtype):
        return lambda x, *args, **kwargs: getattr(x, name.rpartition(".")[2])(*args, **kwargs)
    return found


class _Mine:
    """Arguments with this package's tensors; those that share offsets share them here, too."""

    def __init__(self):
        self.structures = {}

    def __call__(self, value):
        if isinstance(value, torch.Tensor) and value.is_nested:
            offsets, lengths = value.offsets(), value.lengths()
            found = self.structures.setdefault(id(offsets), (self(offsets), self(lengths), offsets))
            made = NestedTensor(self(value._values), found[0], lengths=found[1], _ragged_idx=value._ragged_idx)
            self.extent = made.size(value._ragged_idx)
            return made
        if isinstance(value, torch.Tensor):
            return ftorch.from_numpy(value.detach().contiguous().numpy().copy())
        if isinstance(value, torch.SymInt):
            return self.extent
        if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
            return getattr(ftorch, str(value).removeprefix("torch."))
        if isinstance(value, (list, tuple)):
            return [self(v) for v in value] if isinstance(value, (list, torch.Size)) else tuple(map(self, value))
        return {k: self(v) for k, v in value.items()} if isinstance(value, dict) else value


def _parts(value):
    if isinstance(value, (list, tuple)):
        return [part for v in value for part in _parts(v)]
    if not isinstance(value, (torch.Tensor, ftorch.Tensor)):
        return [value]
    dense = list(value.detach().unbind()) if value.is_nested else [value.detach()]
    about = (value.is_nested, value.dim(), str(value.dtype).rpartition(".")[2])
    return [about, *[t.float().numpy() if "bfloat" in str(t.dtype) else t.numpy() for t in dense]]


@pytest.mark.parametrize("op", _OPS, ids=lambda op: op.full_name)
def test_functions_of_jagged_tensors_agree(op):
    function, compared = _function(op.name), 0
    for sample in list(op.sample_inputs("cpu", torch.float32))[::7]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                expected = _parts(op.op(sample.input, *sample.args, **sample.kwargs))
            except Exception:  # noqa: S112  (what PyTorch does not compute)
                continue
            mine = _Mine()
            x = mine(sample.input)
            got = _parts(function(x, *mine(list(sample.args)), **mine(sample.kwargs)))
        compared += 1
        assert len(got) == len(expected), sample.name
        for a, b in zip(got, expected):
            if isinstance(b, np.ndarray):
                np.testing.assert_allclose(a, b, 1e-4, 1e-4, err_msg=sample.name)
            else:
                assert a == b, sample.name
    if not compared:
        pytest.skip("PyTorch computes none of the samples")
