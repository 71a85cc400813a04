"""``torch.nn.utils`` against PyTorch: clipping, vectors of parameters, sequences."""

import numpy as np
import pytest
import torch as reference

import ftorch as torch
import ftorch.nn.utils

from ..oracle import assert_shows_same_values

PACKAGES = (torch, reference)


def close(function):
    """As `assert_shows_same_values`, for floating-point results."""
    ours, theirs = (
        [x.tolist() for x in function(package)] for package in PACKAGES
    )
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def parameters(package, values=((3.0, -4.0), (12.0,))):
    made = []
    for row in values:
        p = package.nn.Parameter(package.zeros(len(row)))
        p.grad = package.tensor(row)
        made.append(p)
    return [*made, package.nn.Parameter(package.zeros(2))]  # one without a gradient


@pytest.mark.parametrize("norm_type", [2.0, 1, 0.5, "inf", float("inf")])
@pytest.mark.parametrize("max_norm", [1.0, 100])
def test_clip_grad_norm(norm_type, max_norm):
    def run(package):
        ps = parameters(package)
        norm = package.nn.utils.clip_grad_norm_(ps, max_norm, norm_type)
        assert ps[2].grad is None
        return [norm, *(p.grad for p in ps[:2])]

    close(run)


def test_clip_one_parameter_and_generators():
    def run(package):
        p = parameters(package)[0]
        norms = [package.nn.utils.clip_grad_norm_(p, 1.0)]
        norms.append(package.nn.utils.clip_grad_norm_((q for q in parameters(package)), 1.0))
        norms.append(package.nn.utils.clip_grad_norm_([], 1.0))
        norms.append(package.nn.utils.get_total_norm(package.ones(4)))
        return [*norms, p.grad]

    close(run)
    with pytest.warns(UserWarning, match="is an empty generator"):
        torch.nn.utils.clip_grad_norm_((p for p in []), 1.0)
    with pytest.warns(FutureWarning, match="is now deprecated"):
        torch.nn.utils.clip_grad_norm(parameters(torch), 1.0)


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_norms_that_are_not_finite(bad):
    message = assert_shows_same_values(lambda p: p.nn.utils.clip_grad_norm_(
        parameters(p, [(bad, 1.0)]), 1.0, error_if_nonfinite=True))
    assert "is non-finite, so it cannot be clipped" in message[1]
    torch.nn.utils.clip_grad_norm_(parameters(torch, [(bad, 1.0)]), 1.0)


def test_clip_grad_value():
    def run(package):
        ps = parameters(package)
        package.nn.utils.clip_grad_value_(ps, 3.5)
        return [p.grad for p in ps[:2]]

    close(run)


def test_half_precision_gradients():
    def run(package):
        p = package.nn.Parameter(package.zeros(2, dtype=package.bfloat16))
        p.grad = package.tensor([3.0, 4.0], dtype=package.bfloat16)
        return [package.nn.utils.clip_grad_norm_([p], 1.0), p.grad]

    assert_shows_same_values(run)


def test_clipping_is_not_recorded():
    p = torch.nn.Parameter(torch.ones(2))
    (p * p).sum().backward(create_graph=True)
    assert torch.nn.utils.clip_grad_norm_([p], 1.0).grad_fn is None


def test_vectors():
    def run(package):
        ps = [package.nn.Parameter(package.arange(n * 1.0).reshape(n, 1)) for n in (2, 3)]
        vector = package.nn.utils.parameters_to_vector(ps)
        package.nn.utils.vector_to_parameters(vector * 2, ps)
        return [vector, *ps]

    assert_shows_same_values(run)
    assert_shows_same_values(lambda package: package.nn.utils.vector_to_parameters(3, []))


# --- sequences -------------------------------------------------------------------------


def sequences(package, lengths=(3, 1, 4), trailing=(2,)):
    return [package.arange(1.0, 1 + n * int(np.prod(trailing))).reshape(n, *trailing)
            for n in lengths]


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("trailing", [(), (2,), (2, 3)])
@pytest.mark.parametrize("side", ["left", "right"])
def test_pad_sequence(batch_first, trailing, side):
    def run(package):
        rnn = package.nn.utils.rnn
        padded = rnn.pad_sequence(sequences(package, trailing=trailing), batch_first, -1.5, side)
        lengths = package.tensor([3, 1, 4])
        back = rnn.unpad_sequence(padded.clone(), lengths, batch_first) if side == "right" else []
        return [padded, back]

    assert_shows_same_values(run)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("lengths", [[4, 2, 1], [3, 3, 3], [1, 3, 2]])
@pytest.mark.parametrize("as_tensor", [False, True])
def test_pack_and_pad(batch_first, lengths, as_tensor):
    def run(package):
        rnn = package.nn.utils.rnn
        x = package.arange(24.0).reshape((3, 4, 2) if batch_first else (4, 3, 2))
        given = package.tensor(lengths) if as_tensor else lengths
        packed = rnn.pack_padded_sequence(x, given, batch_first, enforce_sorted=lengths[0] >= 3)
        padded = [
            rnn.pad_packed_sequence(packed, batch_first),
            rnn.pad_packed_sequence(packed, not batch_first, -1.0, total_length=6),
        ]
        return [*packed, padded, rnn.unpack_sequence(packed), rnn.pack_sequence(
            sequences(package), enforce_sorted=False)]

    assert_shows_same_values(run)


def test_gradients_go_through_packing():
    def run(package):
        rnn = package.nn.utils.rnn
        x = package.arange(6.0).reshape(3, 2).requires_grad_()
        y = package.ones(1, 2, requires_grad=True)
        packed = rnn.pack_sequence([x, y])
        padded, _ = rnn.pad_packed_sequence(packed)
        (padded * package.arange(12.0).reshape(3, 2, 2)).sum().backward()
        return [x.grad, y.grad]

    assert_shows_same_values(run)


@pytest.mark.parametrize(
    "make",
    [
        lambda p, r: r.pack_padded_sequence(p.ones(4, 3), [4, 2]),
        lambda p, r: r.pack_padded_sequence(p.ones(4, 3), [4, 2, 0]),
        lambda p, r: r.pack_padded_sequence(p.ones(4, 3), [2, 4, 1]),
        lambda p, r: r.pack_padded_sequence(p.ones(4, 3), p.tensor([[3, 2, 1]])),
        lambda p, r: r.pack_padded_sequence(p.zeros(0, 3), [3, 2, 1]),
        lambda p, r: r.pad_packed_sequence(r.pack_sequence([p.ones(3)]), total_length=2),
        lambda p, r: r.pad_sequence([]), lambda p, r: r.pad_sequence(5),
        lambda p, r: r.pad_sequence([p.ones(2), p.ones(2, 2)]),
        lambda p, r: r.pad_sequence([p.ones(2, 3), p.ones(2, 2)]),
        lambda p, r: r.pad_sequence([p.ones(2)], padding_side="x"),
        lambda p, r: r.PackedSequence(p.ones(2)),
    ],
)
def test_errors_of_sequences(make):
    assert_shows_same_values(lambda package: make(package, package.nn.utils.rnn))


def test_dtypes_of_padding():
    def run(package):
        pad = package.nn.utils.rnn.pad_sequence
        return [
            pad([package.tensor([1]), package.tensor([1.5, 2])], padding_value=7.5),
            pad([package.tensor([1.5]), package.tensor([1, 2])]),
            pad([package.tensor([True]), package.tensor([False, True])]),
            pad(package.arange(6).reshape(2, 3)),
        ]

    assert_shows_same_values(run)


def test_packed_sequences_convert():
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(2), torch.ones(3)], enforce_sorted=False)
    assert packed.to(torch.float32) is packed
    half = packed.half()
    assert type(half) is torch.nn.utils.rnn.PackedSequence
    assert half.data.dtype is torch.float16
    assert half.sorted_indices.tolist() == packed.sorted_indices.tolist() == [1, 0]
    assert packed.cpu() is packed
    assert not packed.is_cuda
    assert packed.pin_memory().data.tolist() == packed.data.tolist()
    assert (packed.double().data.dtype, packed.int().data.dtype) == (torch.float64, torch.int32)
