"""torchaudio's operators against what they stand for, written with PyTorch: all ways are added up, all alignments tried."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch as oracle

import ftorch as torch
from ftorch._extensions import torchaudio_ops  # noqa: F401  (registers the operators)


def cost_of_all_ways(logs, targets, frames, labels):
    """Minus the logarithm of the probability of all ways from the first frame through the last, blank being class 0."""
    ways = []
    for times in itertools.combinations_with_replacement(range(frames), labels):  # at which frame each label comes
        parts, u = [], 0
        for t in range(frames):
            while u < labels and times[u] == t:
                parts.append(logs[t, u, targets[u]])
                u += 1
            parts.append(logs[t, u, 0])
        ways.append(sum(parts))
    return -oracle.logsumexp(oracle.stack(ways), 0)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("clamp", [-1.0, 0.05])
def test_the_transducers_loss_adds_up_all_ways(fused, clamp):
    frames, labels = [5, 3, 1], [2, 3, 0]
    oracle.manual_seed(0)
    logits, targets = oracle.randn(3, 5, 4, 6), oracle.randint(1, 6, (3, 3), dtype=oracle.int32)
    x = (logits if fused else logits.log_softmax(-1)).requires_grad_()
    logs = x.log_softmax(-1) if fused else x
    expected = oracle.stack([cost_of_all_ways(logs[b], targets[b].long(), frames[b], labels[b]) for b in range(3)])
    (gradient,) = oracle.autograd.grad(expected.sum(), x)
    if clamp > 0:
        gradient = gradient.clamp(-clamp, clamp)
    costs, changes = torch.ops.torchaudio.rnnt_loss_forward(
        torch.tensor(x.detach().numpy()), torch.tensor(targets.numpy()), torch.tensor(frames, dtype=torch.int32),
        torch.tensor(labels, dtype=torch.int32), 0, clamp, fused,
    )
    np.testing.assert_allclose(costs.numpy(), expected.detach().numpy(), 1e-5)
    np.testing.assert_allclose(changes.numpy(), gradient.numpy(), 1e-4, 1e-6)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"logits": lambda x: x.double()}, "logits must be float32 or float16 (half) type"),
        ({"targets": lambda x: x.long()}, "targets must be int32 type"),
        ({"logit_lengths": lambda x: x - 1}, "input length mismatch"),
        ({"target_lengths": lambda x: x - 1}, "output length mismatch"),
        ({"logits": lambda x: x.transpose(1, 2)}, "logits must be contiguous"),
        ({"targets": lambda x: x[0]}, "targets must be 2-D (batch, max target length)"),
    ],
)
def test_the_transducers_loss_refuses_what_does_not_fit(change, text):
    given = {
        "logits": torch.zeros(2, 5, 4, 6), "targets": torch.ones(2, 3, dtype=torch.int32),
        "logit_lengths": torch.full((2,), 5, dtype=torch.int32), "target_lengths": torch.full((2,), 3, dtype=torch.int32),
    }
    for name, function in change.items():
        given[name] = function(given[name])
    with pytest.raises(RuntimeError) as error:
        torch.ops.torchaudio.rnnt_loss_forward(*given.values(), 0, -1.0, True)
    assert str(error.value).split("\n")[0] == text


@pytest.mark.parametrize("seed", range(6))
def test_an_alignment_is_the_best_of_all(seed):
    oracle.manual_seed(seed)
    classes, length, labels = 4, 6, oracle.randint(1, 4, (1 + seed % 3,)).tolist()
    logs = oracle.randn(1, length, classes).log_softmax(-1)

    def spelled(path):
        return [label for label, _ in itertools.groupby(path) if label]

    paths = [p for p in itertools.product(range(classes), repeat=length) if spelled(p) == labels]
    best = max(paths, key=lambda path: sum(logs[0, t, label].item() for t, label in enumerate(path)))
    found, scores = torch.ops.torchaudio.forced_align(
        torch.tensor(logs.numpy()), torch.tensor([labels]), torch.tensor([length]), torch.tensor([len(labels)]), 0
    )
    assert tuple(found[0].tolist()) == best
    np.testing.assert_array_equal(scores.numpy(), logs.numpy())


def test_alignments_that_do_not_fit_are_refused():
    given = torch.zeros(1, 2, 4), torch.tensor([[1, 1]]), torch.tensor([2]), torch.tensor([2])
    with pytest.raises(RuntimeError) as error:
        torch.ops.torchaudio.forced_align(*given, 0)
    assert str(error.value).startswith(
        "targets length is too long for CTC. Found log_probs length: 2, targets length: 2, and number of repeats: 1"
    )
