"""Kernels that compare sizes with each other, or with what counts from behind: right also between the sample points."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import ftorch

CALLS = {
    # The samples of a class are far apart: that columns decide where there are about as many rows shows beside them only.
    "diag": (lambda t, x: t.diag(x, -3), [(20, 12), (37, 21), (50, 30), (90, 31), (15, 14), (40, 38), (14, 15)]),
    "diag above": (lambda t, x: t.diag(x, 2), [(12, 20), (21, 37), (30, 50), (31, 90), (14, 15), (39, 40), (15, 14)]),
    # More than there is: as small as that are few samples.
    "roll": (lambda t, x: t.roll(x, -5, 1), [(21, 19), (23, 8), (9, 30), (26, 4), (4, 4)]),
    "roll of as many": (lambda t, x: t.roll(x, -13, 1), [(15, 15), (23, 23), (30, 30), (8, 8), (12, 12)]),
    "roll of all": (lambda t, x: t.roll(x, -40), [(21, 19), (23, 8), (9, 30), (5, 4)]),
    "roll on": (lambda t, x: t.roll(x, 9, 1), [(25, 20), (25, 26), (12, 31), (16, 7), (21, 6)]),
    "padding": (lambda t, x: t.nn.functional.pad(x, (-9, 4)), [(21, 19), (23, 18), (9, 30), (10, 6), (34, 7)]),
    "end of a part": (
        lambda t, x: t.slice_scatter(x, x[:, -4:] * 2, 1, -4, None), [(20, 9), (17, 12), (11, 30), (19, 7), (9, 5)],
    ),
    "row from behind": (lambda t, x: t.select_copy(x, 1, -9), [(20, 19), (17, 12), (11, 30), (19, 7)]),
    "row's gradient": (
        lambda t, x: t.ops.aten.select_backward(x[:, 0] + 0, list(x.shape), 1, -5), [(20, 19), (17, 12), (11, 30), (19, 4)],
    ),
}  # fmt: skip


def _said(library, call, x):
    try:
        return call(library, library.tensor(x)).numpy()
    except (IndexError, RuntimeError) as error:
        return type(error)


@pytest.mark.parametrize("name", CALLS)
def test_sizes_between_the_samples_give_pytorchs_values(name):
    call, shapes = CALLS[name]
    for shape in shapes:
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1
        expected, found = _said(torch, call, x), _said(ftorch, call, x)
        if isinstance(expected, type):
            assert found is expected, shape
        else:
            np.testing.assert_array_equal(found, expected, str(shape))


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize(
    "shape, pad",
    [
        ((3, 4), (-6, 2)), ((3, 6), (-6, 2)), ((3, 6), (-6, 0)), ((2, 5, 6), (0, 0, -5, 0)), ((2, 5, 6), (-3, -3, -5, 0)),
        ((2, 5, 6, 7), (-7, 0, -6, 0, -5, 0)), ((2, 5, 6, 7), (-7, 0, -6, 0, 0, 0)),
    ],
)  # fmt: skip
def test_padding_that_leaves_nothing_along_all_dimensions_is_refused(mode, shape, pad):
    found = []
    for library in (torch, ftorch):
        try:
            found.append(tuple(library.nn.functional.pad(library.ones(shape), pad, mode=mode).shape))
        except RuntimeError as error:
            found.append(str(error))
    assert found[0] == found[1]
