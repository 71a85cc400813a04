"""Generators of inputs for benchmarks draw what PyTorch's draw."""

import importlib

import pytest
import torch.utils.benchmark.utils.fuzzer as theirs

from tests.oracle import LIBRARIES


def drawn(library, module, name, **options):
    """What a generator gives with some seeds."""
    make = getattr(importlib.import_module(f"{library.__name__}.utils.benchmark.op_fuzzers.{module}"), name)
    found = []
    for seed in range(3):
        for tensors, properties, parameters in make(seed=seed, **options).take(2):
            shown = {
                k: (tuple(t.shape), str(t.dtype), t.is_coalesced() if t.is_sparse else t.stride())
                for k, t in tensors.items()
            }
            found.append((shown, str(properties).replace("ftorch", "torch"), parameters))
    return found


@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
@pytest.mark.parametrize(("module", "name"), [
    ("unary", "UnaryOpFuzzer"), ("binary", "BinaryOpFuzzer"), ("sparse_unary", "UnaryOpSparseFuzzer"),
    ("sparse_binary", "BinaryOpSparseFuzzer"), ("spectral", "SpectralOpFuzzer"),
])
def test_draws(module, name, monkeypatch):
    # PyTorch 2.13 refuses distributions that add up to one, and so all of these (its comparison is the wrong way round).
    monkeypatch.setattr(theirs.FuzzedParameter, "_check_distribution", lambda self, distribution: distribution)
    assert drawn(LIBRARIES[0], module, name) == drawn(LIBRARIES[1], module, name)
    if module == "spectral":
        one, two = (drawn(library, module, name, probability_regular=0.3) for library in LIBRARIES)
        assert one == two
        sizes = [importlib.import_module(f"{t.__name__}.utils.benchmark.op_fuzzers.spectral") for t in LIBRARIES]
        assert sizes[0].REGULAR_SIZES == sizes[1].REGULAR_SIZES
