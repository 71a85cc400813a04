"""Small programs whose sizes change from step to step, against PyTorch: what a size that never came before costs.

    python benchmarks/new_sizes.py [--steps 12] [--warm 14] [--only REGEX]

`dynamic.py` times eight programs of real magnitudes; these are many, of the operators that people meet: each step draws
sizes from a seed, both libraries take turns with the same ones, and the number that a step gives is compared. Each line is
the median processor time of a step on one thread in milliseconds, PyTorch's, their ratio, and the slowest step over
PyTorch's median. Needs PyTorch.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import time
import warnings
from collections.abc import Callable

import torch

import ftorch

CASES: dict[str, Callable] = {}


def case(make):
    """A program: library -> (random numbers for sizes) -> the number that a step gives."""
    CASES[make.__name__] = make
    return make


# --- sequences


@case
def attention_with_padding(lib):
    model = lib.nn.MultiheadAttention(64, 4, batch_first=True)
    optimizer = lib.optim.SGD(model.parameters(), 0.01)

    def step(sizes):
        batch, length = sizes.randint(2, 8), sizes.randint(5, 60)
        x = lib.randn(batch, length, 64)
        padded = lib.arange(length)[None] >= lib.randint(1, length + 1, (batch,))[:, None]
        y, _ = model(x, x, x, key_padding_mask=padded)
        loss = (y * (~padded)[..., None]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


@case
def packed_gru(lib):
    rnn = lib.nn.utils.rnn
    model = lib.nn.GRU(16, 32, 2, bidirectional=True, batch_first=True)

    def step(sizes):
        batch, length = sizes.randint(2, 8), sizes.randint(5, 40)
        lengths = sorted([sizes.randint(1, length) for _ in range(batch - 1)] + [length], reverse=True)
        y, h = model(rnn.pack_padded_sequence(lib.randn(batch, length, 16), lengths, batch_first=True))
        y, _ = rnn.pad_packed_sequence(y, batch_first=True)
        (y.sum() + h.sum()).backward()
        return y.sum().item()

    return step


@case
def tagger(lib):
    embedding = lib.nn.Embedding(50, 16, padding_idx=0)
    lstm, out = lib.nn.LSTM(16, 16, batch_first=True), lib.nn.Linear(16, 7)
    optimizer = lib.optim.Adam([*embedding.parameters(), *lstm.parameters(), *out.parameters()])

    def step(sizes):
        texts = [lib.randint(1, 50, (sizes.randint(3, 25),)) for _ in range(sizes.randint(2, 6))]
        x = lib.nn.utils.rnn.pad_sequence(texts, batch_first=True)
        logits = out(lstm(embedding(x))[0]).transpose(1, 2)
        loss = lib.nn.functional.cross_entropy(logits, x % 7, ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        lib.nn.utils.clip_grad_norm_(embedding.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


@case
def speech(lib):
    model = lib.nn.Linear(20, 10)

    def step(sizes):
        length, batch = sizes.randint(20, 60), sizes.randint(2, 5)
        scores = model(lib.randn(length, batch, 20)).log_softmax(2)
        lengths = lib.randint(1, 8, (batch,))
        targets = lib.randint(1, 10, (batch, int(lengths.max())))
        loss = lib.nn.functional.ctc_loss(scores, targets, lib.full((batch,), length), lengths)
        loss.backward()
        return loss.item()

    return step


@case
def random_field(lib):
    transitions = lib.randn(6, 6, requires_grad=True)

    def step(sizes):
        length = sizes.randint(4, 20)
        scores = lib.randn(sizes.randint(2, 6), length, 6)
        alpha = scores[:, 0]
        for t in range(1, length):
            alpha = lib.logsumexp(alpha[:, :, None] + transitions + scores[:, t, None], 1)
        loss = lib.logsumexp(alpha, 1).mean()
        loss.backward()
        return loss.item()

    return step


@case
def encoder_decoder(lib):
    model = lib.nn.Transformer(32, 2, 1, 1, 64, batch_first=True, dropout=0.0)

    def step(sizes):
        batch, source, target = sizes.randint(1, 4), sizes.randint(3, 20), sizes.randint(3, 20)
        mask = lib.nn.Transformer.generate_square_subsequent_mask(target)
        y = model(lib.randn(batch, source, 32), lib.randn(batch, target, 32), tgt_mask=mask, tgt_is_causal=True)
        y.pow(2).mean().backward()
        return y.sum().item()

    return step


# --- signals and pictures


@case
def spectrogram(lib):
    window = lib.hann_window(64)

    def step(sizes):
        spectrum = lib.stft(lib.randn(1, sizes.randint(500, 4000)), 64, 16, window=window, return_complex=True)
        return spectrum.abs().clamp(min=1e-5).log().mean().item()

    return step


@case
def convolutions_of_audio(lib):
    nn = lib.nn
    model = nn.Sequential(
        nn.Conv1d(1, 8, 9, 4), nn.GELU(), nn.GroupNorm(2, 8), nn.Conv1d(8, 16, 5, 2, dilation=2), nn.ELU(),
        nn.ConvTranspose1d(16, 8, 4, 2), nn.AdaptiveAvgPool1d(1),
    )

    def step(sizes):
        y = model(lib.randn(sizes.randint(1, 3), 1, sizes.randint(400, 2000)))
        y.sum().backward()
        return y.sum().item()

    return step


@case
def segmentation(lib):
    nn, functional = lib.nn, lib.nn.functional
    down, deep, up = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 16, 3, 2, 1), nn.ConvTranspose2d(16, 8, 2, 2)
    out = nn.Conv2d(16, 1, 3, padding=1)

    def step(sizes):
        height, width = 4 * sizes.randint(4, 20), 4 * sizes.randint(4, 20)
        first = down(lib.randn(1, 3, height, width)).relu()
        y = out(lib.cat([up(deep(first).relu()), first], 1))
        y = functional.interpolate(y, (height, width), mode="bilinear", align_corners=False)
        loss = functional.binary_cross_entropy_with_logits(y, lib.zeros_like(y))
        loss.backward()
        return loss.item()

    return step


@case
def pooled_pictures(lib):
    model = lib.nn.Sequential(lib.nn.Conv2d(3, 8, 5, 2), lib.nn.ReLU(), lib.nn.AdaptiveAvgPool2d(7), lib.nn.Flatten())

    def step(sizes):
        y = model(lib.randn(2, 3, sizes.randint(33, 90), sizes.randint(33, 90)))
        y.pow(2).sum().backward()
        return y.sum().item()

    return step


@case
def augmentation(lib):
    functional = lib.nn.functional

    def step(sizes):
        height, width = sizes.randint(20, 60), sizes.randint(20, 60)
        x, top, left = lib.rand(3, height, width), sizes.randint(0, height - 16), sizes.randint(0, width - 16)
        y = functional.pad(x[None, :, top : top + 16, left : left + 16].flip(3), (2, 2, 2, 2), mode="reflect")
        y = functional.avg_pool2d(y, 3, 1)
        y = (y - y.mean((2, 3), keepdim=True)) / y.std((2, 3), keepdim=True)
        return (y.sum() + functional.interpolate(x[None], size=(16, 16), mode="bicubic").mean()).item()

    return step


@case
def sampled_grid(lib):
    functional = lib.nn.functional

    def step(sizes):
        height, width = sizes.randint(8, 40), sizes.randint(8, 40)
        x = lib.randn(1, 3, height, width, requires_grad=True)
        grid = functional.affine_grid(lib.eye(2, 3)[None] * 0.9, (1, 3, width, height), align_corners=False)
        functional.grid_sample(x, grid, align_corners=False).sum().backward()
        return x.grad.sum().item()

    return step


# --- points, graphs and boxes


@case
def point_clouds(lib):
    nn = lib.nn
    model = nn.Sequential(nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 64, 1))
    head = nn.Linear(64, 5)

    def step(sizes):
        y = head(model(lib.randn(sizes.randint(2, 6), 3, sizes.randint(50, 300))).max(2).values)
        nn.functional.cross_entropy(y, lib.zeros(len(y), dtype=lib.long)).backward()
        return y.sum().item()

    return step


@case
def neighbours(lib):
    def step(sizes):
        x = lib.randn(sizes.randint(20, 200), 3)
        _, index = lib.cdist(x, x).topk(5, largest=False)
        return (x[index] - x[:, None]).norm(dim=-1).mean().item()

    return step


@case
def graph_attention(lib):
    project, score = lib.nn.Linear(16, 32), lib.nn.Linear(64, 1)

    def step(sizes):
        nodes, edges = sizes.randint(10, 80), sizes.randint(20, 300)
        source, target = lib.randint(0, nodes, (edges,)), lib.randint(0, nodes, (edges,))
        h = project(lib.randn(nodes, 16))
        weight = lib.nn.functional.leaky_relu(score(lib.cat([h[source], h[target]], 1)))[:, 0]
        top = lib.full((nodes,), -1e9).scatter_reduce(0, target, weight, "amax")
        weight = (weight - top[target]).exp()
        weight = weight / (lib.zeros(nodes).index_add(0, target, weight)[target] + 1e-9)
        y = lib.zeros(nodes, 32).index_add(0, target, h[source] * weight[:, None])
        y.pow(2).sum().backward()
        return y.sum().item()

    return step


@case
def sparse_products(lib):
    weight = lib.randn(200, 16, requires_grad=True)

    def step(sizes):
        count, rows = sizes.randint(20, 400), sizes.randint(10, 300)
        index = lib.stack([lib.randint(0, rows, (count,)), lib.randint(0, 200, (count,))])
        y = lib.sparse.mm(lib.sparse_coo_tensor(index, lib.ones(count), (rows, 200)), weight)
        y.pow(2).sum().backward()
        return y.sum().item()

    return step


@case
def suppression_of_boxes(lib):
    def step(sizes):
        boxes = lib.rand(sizes.randint(10, 60), 4) * 50
        boxes[:, 2:] += boxes[:, :2]
        order, kept = lib.rand(len(boxes)).argsort(descending=True), 0
        while order.numel() > 1:
            first, rest, kept = boxes[order[0]], boxes[order[1:]], kept + 1
            sides = (lib.minimum(first[2:], rest[:, 2:]) - lib.maximum(first[:2], rest[:, :2])).clamp(min=0)
            shared = sides[:, 0] * sides[:, 1]
            areas = (rest[:, 2] - rest[:, 0]) * (rest[:, 3] - rest[:, 1])
            own = (first[2] - first[0]) * (first[3] - first[1])
            order = order[1:][shared / (own + areas - shared) <= 0.3]
        return float(kept)

    return step


@case
def clusters(lib):
    def step(sizes):
        x = lib.randn(sizes.randint(30, 200), 4)
        centres = x[:5].clone()
        for _ in range(4):
            nearest = lib.cdist(x, centres).argmin(1)
            centres = lib.stack([x[nearest == k].mean(0) if (nearest == k).any() else centres[k] for k in range(5)])
        return centres.sum().item()

    return step


# --- algebra and derivatives


@case
def gaussian_process(lib):
    scale = lib.tensor(0.7, requires_grad=True)

    def step(sizes):
        x = lib.randn(sizes.randint(10, 100), 2)
        y = x.sum(1)
        kernel = lib.exp(-lib.cdist(x, x).pow(2) / (2 * scale**2)) + 0.1 * lib.eye(len(x))
        factor = lib.linalg.cholesky(kernel)
        loss = 0.5 * (y @ lib.cholesky_solve(y[:, None], factor)[:, 0]) + factor.diagonal().log().sum()
        loss.backward()
        return loss.item()

    return step


@case
def decompositions(lib):
    linalg = lib.linalg

    def step(sizes):
        x = lib.randn(*[sizes.randint(4, 40)] * 2)
        definite = x @ x.T + len(x) * lib.eye(len(x))
        found = linalg.eigvalsh(definite).sum() + linalg.svd(x, full_matrices=False)[1].sum()
        found = found + linalg.qr(x)[1].diagonal().abs().sum() + linalg.solve(definite, x).sum()
        return (found + linalg.slogdet(definite)[1] + linalg.inv(definite).trace()).item()

    return step


@case
def einsums(lib):
    def step(sizes):
        b, i, j, k = (sizes.randint(5, 40) for _ in range(4))
        x, y, z = lib.randn(b, i, j, requires_grad=True), lib.randn(b, j, k), lib.randn(k, i)
        first = lib.einsum("bik,ki->b", lib.einsum("bij,bjk->bik", x, y), z)
        (first.sum() + lib.einsum("bij,bkj->ijk", x, lib.randn(b, k, j)).sum()).backward()
        return x.grad.sum().item()

    return step


@case
def second_derivatives(lib):
    weight = lib.randn(8, 8, requires_grad=True)

    def step(sizes):
        loss = (lib.randn(sizes.randint(4, 40), 8) @ weight).tanh().pow(2).mean()
        (grad,) = lib.autograd.grad(loss, weight, create_graph=True)
        return lib.autograd.grad(grad.pow(2).sum(), weight)[0].sum().item()

    return step


@case
def gradients_by_example(lib):
    weight, func = lib.randn(8, 4), lib.func

    def step(sizes):
        x = lib.randn(sizes.randint(5, 60), 8)
        grads = func.vmap(func.grad(lambda w, x: (x @ w).tanh().sum()), (None, 0))(weight, x)
        return (grads.sum() + func.vmap(func.jacrev(lambda x: (x @ weight).sin()))(x).sum()).item()

    return step


@case
def spectra(lib):
    def step(sizes):
        x = lib.randn(sizes.randint(2, 6), sizes.randint(50, 900))
        y = lib.fft.rfft(x)
        return (y.abs().pow(2).mean() + lib.fft.irfft(y * 0.5, n=x.shape[1]).sum()).item()

    return step


# --- counting, choosing and sampling


@case
def counting(lib):
    def step(sizes):
        x = lib.randint(0, 20, (sizes.randint(20, 400),))
        values, _, counts = lib.unique(x, return_inverse=True, return_counts=True)
        f = x.float()
        found = counts.sum() + lib.bincount(x, minlength=25).max() + lib.histc(f, 10).max() + values.numel()
        return (found + f.median() + f.mode().values + lib.quantile(f, 0.3)).item()

    return step


@case
def windows(lib):
    def step(sizes):
        x = lib.randn(sizes.randint(40, 300))
        found = x.unfold(0, 7, 2).mean(1).max() + lib.cumsum(x, 0)[-1] + x.diff().abs().sum() + x.std()
        return (found + (lib.roll(x, 3) * x.flip(0)).sum() + x.kthvalue(5)[0] + lib.logcumsumexp(x, 0)[-1]).item()

    return step


@case
def masks(lib):
    def step(sizes):
        rows, columns = sizes.randint(5, 40), sizes.randint(5, 40)
        x = lib.randn(rows, columns, requires_grad=True)
        mask, most = x > 0, min(rows, columns)
        y = lib.where(mask, x, x * 0.1)
        other = x * 1
        other[mask] = 0
        (y.masked_fill(y > 1, 1.0).sum() + x[mask].pow(2).sum() + y[:most, :most].tril().sum() + other.sum()).backward()
        return (x.grad.sum() + mask.nonzero().sum()).item()

    return step


@case
def experts(lib):
    layers, gate = [lib.nn.Linear(16, 16) for _ in range(4)], lib.nn.Linear(16, 4)

    def step(sizes):
        x = lib.randn(sizes.randint(10, 80), 16)
        weights, chosen = gate(x).softmax(1).topk(2)
        y = lib.zeros_like(x)
        for k, layer in enumerate(layers):
            rows, places = (chosen == k).nonzero(as_tuple=True)
            if len(rows):
                y = y.index_add(0, rows, layer(x[rows]) * weights[rows, places][:, None])
        y.pow(2).sum().backward()
        return y.sum().item()

    return step


@case
def contrasts(lib):
    model, functional = lib.nn.Linear(16, 8), lib.nn.functional

    def step(sizes):
        count = sizes.randint(4, 40)
        a, b = (functional.normalize(model(lib.randn(count, 16))) for _ in range(2))
        scores, same = a @ b.T / 0.1, lib.arange(count)
        others = scores.masked_select(~lib.eye(count, dtype=lib.bool)).view(count, count - 1)
        loss = functional.cross_entropy(scores, same) + functional.cross_entropy(scores.T, same)
        (loss + others.logsumexp(1).mean() + functional.triplet_margin_loss(a, b, a.roll(1, 0))).backward()
        return loss.item()

    return step


@case
def policy(lib):
    model = lib.nn.Linear(8, 4)

    def step(sizes):
        logs, rewards = [], []
        for _ in range(sizes.randint(5, 40)):
            distribution = lib.distributions.Categorical(logits=model(lib.randn(8)))
            action = distribution.sample()
            logs.append(distribution.log_prob(action))
            rewards.append(float(action))
        gains = lib.tensor(rewards).flip(0).cumsum(0).flip(0)
        loss = -(lib.stack(logs) * (gains - gains.mean()) / (gains.std() + 1e-6)).sum()
        loss.backward()
        return loss.item()

    return step


@case
def epochs(lib):
    """Data sets whose last batch has another size each time."""
    model = lib.nn.Sequential(lib.nn.Linear(20, 40), lib.nn.ReLU(), lib.nn.Linear(40, 2))
    optimizer = lib.optim.SGD(model.parameters(), 0.1)

    def step(sizes):
        x, total = lib.randn(sizes.randint(100, 300), 20), 0.0
        y = (x[:, 0] > 0).long()
        for batch in lib.randperm(len(x)).split(32):
            loss = lib.nn.functional.cross_entropy(model(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        return total / len(x)

    return step


# --- measuring


def measure(make, steps, warm):
    """The processor times of the last steps by library, and the numbers that differ."""
    runs, times, differ = {}, {lib: [] for lib in (torch, ftorch)}, []
    for lib in times:
        lib.manual_seed(0)
        runs[lib] = make(lib), random.Random(1)
    for turn in range(warm + steps):
        found = []
        for lib, (step, sizes) in runs.items():
            lib.manual_seed(turn)
            start = time.process_time()
            found.append(step(sizes))
            if turn >= warm:
                times[lib].append(time.process_time() - start)
        if abs(found[0] - found[1]) > 1e-2 * (1 + abs(found[0])):
            differ.append(found)
    return times[ftorch], times[torch], differ


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--warm", type=int, default=14)
    parser.add_argument("--only", default="", help="a regular expression of names")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    ratios = []
    print(f"{'':24}{'ftorch ms':>11}{'PyTorch ms':>11}{'ratio':>8}{'slowest':>9}")
    for name, make in CASES.items():
        if not re.search(options.only, name):
            continue
        mine, theirs, differ = measure(make, options.steps, options.warm)
        median, reference = statistics.median(mine), statistics.median(theirs)
        ratios.append(median / reference)
        line = f"{name:24}{median * 1e3:>11.2f}{reference * 1e3:>11.2f}{ratios[-1]:>8.2f}{max(mine) / reference:>9.1f}"
        print(line + (f"  differs: {differ[0]}" if differ else ""), flush=True)
    if ratios:
        print(f"{'geometric mean':46}{statistics.geometric_mean(ratios):>8.2f}")


if __name__ == "__main__":
    main()
