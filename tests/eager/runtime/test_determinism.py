"""Operations without a deterministic form, under ``use_deterministic_algorithms``."""

import warnings

import pytest
import torch

import ftorch

CALLS = {
    "put_": lambda t: t.zeros(3).put_(t.tensor([0, 1]), t.ones(2)),
    "put": lambda t: t.put(t.zeros(3), t.tensor([0, 1]), t.ones(2)),
    "adding": lambda t: t.zeros(3).put_(t.tensor([0, 0]), t.ones(2), accumulate=True),
    "unpooling": lambda t: t.nn.functional.max_unpool2d(
        *t.nn.functional.max_pool2d(t.arange(16.0).reshape(1, 1, 4, 4), 2, return_indices=True), 2),
    "line": lambda t: t.nn.functional.max_unpool1d(
        *t.nn.functional.max_pool1d(t.arange(4.0).reshape(1, 1, 4), 2, return_indices=True), 2),
}


def _outcomes(t, name, warn_only):
    call, found = CALLS[name], [CALLS[name](t).tolist()]
    t.use_deterministic_algorithms(True, warn_only=warn_only)
    try:
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            for _ in range(2):
                try:
                    found.append(call(t).tolist())
                except RuntimeError as error:
                    found.append(str(error))
    finally:
        t.use_deterministic_algorithms(False)
    texts = {str(w.message).split(" (Triggered")[0] for w in given}
    return [*found, call(t).tolist(), texts]


@pytest.mark.parametrize("warn_only", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_what_has_no_deterministic_form_is_refused(name, warn_only):
    assert _outcomes(ftorch, name, warn_only) == _outcomes(torch, name, warn_only)
