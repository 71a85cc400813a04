"""The CTC loss: targets that are empty or have a wrong number of dimensions, given in one row or in several."""

import pytest
import torch as pt

import ftorch as ft


def _run(t, targets, lengths, reduction, scores):
    scores = t.tensor(scores, requires_grad=True)
    targets = t.zeros(3, 0, dtype=t.int64) if targets == [[]] else t.tensor(targets, dtype=t.int64)
    loss = t.nn.functional.ctc_loss(
        scores.log_softmax(-1), targets, t.tensor([6, 5, 6]), t.tensor(lengths), reduction=reduction)
    loss.sum().backward()
    return loss.tolist(), scores.grad.tolist()


SCORES = pt.randn(6, 3, 4, generator=pt.Generator().manual_seed(0)).tolist()


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(("targets", "lengths"), [([], [0, 0, 0]), ([[]], [0, 0, 0]), ([1, 2], [0, 2, 0])])
def test_without_labels(targets, lengths, reduction):
    expected, found = (_run(t, targets, lengths, reduction, SCORES) for t in (pt, ft))
    for a, b in zip(found, expected):
        pt.testing.assert_close(pt.tensor(a), pt.tensor(b))


def test_targets_without_dimensions():
    messages = []
    for t in (pt, ft):
        with pytest.raises(RuntimeError) as error:
            _run(t, 1, [1, 1, 1], "mean", SCORES)
        messages.append(str(error.value))
    assert messages[0] == messages[1]
