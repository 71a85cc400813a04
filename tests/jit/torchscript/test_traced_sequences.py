"""Packed sequences and spectrograms in traces and scripts: lengths and batches of other inputs, PyTorch's steps and files."""

import io

import pytest
import torch

import ftorch
from tests.oracle import LIBRARIES

pytestmark = pytest.mark.filterwarnings("ignore")
STEPS = ("_pack_padded_sequence", "_pad_packed_sequence", "lstm", "gru", "rnn_tanh", "quantized_lstm", "quantized_gru")


def _model(t, kind, sorts):
    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = getattr(t.nn, kind)(4, 3, 2, bidirectional=True, batch_first=True)

        def forward(self, x, lengths):
            rnn = t.nn.utils.rnn
            packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=not sorts)
            return rnn.pad_packed_sequence(self.layer(packed)[0], batch_first=True)

    return Net().eval()


def _traced(t, model, lengths):
    return t.jit.trace(model, (t.randn(3, 5, 4), t.tensor(lengths)), check_trace=False)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("sorts", [True, False])
def test_other_lengths_and_batches(kind, sorts):
    theirs, own = _model(torch, kind, sorts), _model(ftorch, kind, sorts)
    own.load_state_dict({k: ftorch.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    traced = [_traced(t, m, [3, 5, 2] if sorts else [5, 3, 2]) for t, m in ((torch, theirs), (ftorch, own))]
    names = [[n.kind()[6:] for n in m.inlined_graph.nodes() if n.kind()[6:] in STEPS] for m in traced]
    assert names[0] == names[1]
    file = io.BytesIO()
    ftorch.jit.save(traced[1], file)
    file.seek(0)
    loaded = torch.jit.load(file)
    for shape, lengths in (((3, 5, 4), [5, 4, 1]), ((4, 6, 4), [4, 4, 3, 2]), ((1, 2, 4), [2])):
        x = torch.randn(shape)
        expected = theirs(x, torch.tensor(lengths))
        found = traced[1](ftorch.tensor(x.numpy()), ftorch.tensor(lengths))
        for wanted, a, b in zip(expected, found, loaded(x, torch.tensor(lengths))):
            torch.testing.assert_close(torch.tensor(a.detach().numpy()), wanted, rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(b, wanted, rtol=1e-5, atol=1e-6)


def test_functions_of_packed_data():
    for t in (torch, ftorch):
        data, sizes = t._pack_padded_sequence(t.arange(6.0).reshape(3, 2), t.tensor([3, 1]), False)
        assert (data.tolist(), sizes.tolist()) == ([0, 1, 2, 4], [2, 1, 1])
        padded, lengths = t._VF._pad_packed_sequence(data, sizes, True, -1.0, 4)
        assert (padded.tolist(), lengths.tolist()) == ([[0, 2, 4, -1], [1, -1, -1, -1]], [3, 1])
        with pytest.raises(RuntimeError, match="Expected total_length to be at least the length"):
            t._pad_packed_sequence(data, sizes, True, 0.0, 2)
        with pytest.raises(RuntimeError, match="1D CPU int64 tensor, but got 1D cpu Float tensor"):
            t._pack_padded_sequence(t.ones(3, 2), t.tensor([3.0, 1.0]), False)


@pytest.mark.parametrize("transform", [
    lambda t, x: t.stft(x, 16, window=t.hann_window(16), return_complex=True).abs(),
    lambda t, x: t.stft(x, 16, 5, 12, t.hann_window(12), center=False, normalized=True, onesided=False,
                        return_complex=True).abs(),
    lambda t, x: t.view_as_real(t.stft(x, 16, pad_mode="constant", return_complex=True)),
    lambda t, x: t.istft(t.stft(x, 16, window=t.hann_window(16), return_complex=True), 16, window=t.hann_window(16)),
    lambda t, x: x.reshape(6, 10)[:, :6].to_sparse_csr() @ x.reshape(6, 10),
    lambda t, x: t.sparse.mm(x.reshape(6, 10)[:, :6].to_sparse(), x.reshape(6, 10)),
    lambda t, x: x.reshape(6, 10).to_sparse(1).to_dense() + x.relu().to_sparse().coalesce().values().sum(),
])
def test_spectrograms_and_sparse_products_travel(transform):
    expected = transform(torch, torch.linspace(1, 9, 60).cos())
    for t in (ftorch, torch):  # who writes the file
        traced = t.jit.trace(lambda x: transform(t, x), t.linspace(0, 7, 60).sin(), check_trace=False)
        file = io.BytesIO()
        t.jit.save(traced, file)
        for u in (ftorch, torch):  # who reads it
            file.seek(0)
            found = u.jit.load(file)(u.linspace(1, 9, 60).cos())
            torch.testing.assert_close(torch.tensor(found.numpy()), expected)


def _centered(x):
    return torch.stft(x, 4, return_complex=True)


def _not_centered(x):
    return torch.functional.stft(x, 4, 2, center=False, normalized=True, return_complex=True)


def _padded_with_zeros(x):
    return torch.stft(x, 4, hop_length=2, window=torch.ones(4), pad_mode="constant", onesided=False, return_complex=True)


def _method(x):  # which is the operator: it pads nothing
    return x.stft(4, return_complex=True)


@pytest.mark.parametrize("function", [_centered, _not_centered, _padded_with_zeros, _method])
def test_scripts_pad_spectrograms_as_pytorch_does(function, monkeypatch):
    found = []
    for t in LIBRARIES:
        monkeypatch.setitem(globals(), "torch", t)
        script = t.jit.script(function)
        file = io.BytesIO()
        t.jit.save(script, file)
        for u in LIBRARIES:
            file.seek(0)
            found.append(u.jit.load(file)(u.linspace(1, 9, 12).cos()).numpy())
        found.append(script(t.linspace(1, 9, 12).cos()).numpy())
        monkeypatch.undo()
    for other in found[1:]:
        assert other.shape == found[0].shape
        assert abs(other - found[0]).max() < 1e-5
