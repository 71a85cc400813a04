"""Loading images with a `DataLoader` against PyTorch's: epochs of both in one process, in turns.

    python benchmarks/data.py [--images 512] [--size 224] [--rounds 5] [--workers 0 1 2]

Needs PyTorch and Pillow. Each item is a JPEG, decoded, flipped at random and normalised with tensors of
the library; batches of 32 are summed, so that somebody looks at every value. A ratio below 1 means
ftorch is faster; the goal is 1.0. "new workers" starts worker processes for each epoch, "kept" keeps them.
"""

from __future__ import annotations

import argparse
import importlib
import io
import statistics
import time
import warnings

import numpy as np
from PIL import Image

BATCH = 32


class Images:
    """JPEG images in memory, decoded when asked for, as tensors of a library (3, size, size)."""

    def __init__(self, library, count, size):
        rng = np.random.default_rng(0)
        self.library, self.files = library, []
        for _ in range(count):
            file = io.BytesIO()
            coarse = rng.integers(0, 256, (size // 8, size // 8, 3), np.uint8)
            Image.fromarray(coarse).resize((size, size)).save(file, "JPEG")
            self.files.append(file.getvalue())

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        torch = importlib.import_module(self.library)
        pixels = np.asarray(Image.open(io.BytesIO(self.files[index]))).copy()
        image = torch.from_numpy(pixels).permute(2, 0, 1).float().div(255)
        if index % 2:
            image = image.flip(-1)
        return (image - 0.5) / 0.25, index


def epoch(loader):
    """Seconds for an epoch, each batch looked at."""
    start = time.perf_counter()
    for images, _ in loader:
        images.sum().item()
    return time.perf_counter() - start


def main():
    """Prints a line for each number of workers."""
    # PyTorch's workers are forked from this process, which JAX runs in; ftorch's are not.
    warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, nargs="*", default=[0, 1, 2])
    options = parser.parse_args()
    print(f"{'':24}{'PyTorch':>14}{'ftorch':>14}{'ratio':>8}   (images a second)")
    for workers in options.workers:
        for kept in [False, True] if workers else [False]:
            times = {}
            loaders = {}
            for name in ("torch", "ftorch"):
                library = importlib.import_module(name)
                data = importlib.import_module(f"{name}.utils.data")
                library.manual_seed(0)
                loaders[name] = data.DataLoader(
                    Images(name, options.images, options.size), BATCH, shuffle=True,
                    num_workers=workers, persistent_workers=kept,
                )
                epoch(loaders[name])
                times[name] = []
            for _ in range(options.rounds):
                for name, loader in loaders.items():
                    times[name].append(epoch(loader))
            theirs, mine = (statistics.median(times[name]) for name in ("torch", "ftorch"))
            what = f"{workers} workers" + (", kept" if kept else ", new" if workers else "")
            rates = "".join(f"{options.images / t:14.0f}" for t in (theirs, mine))
            print(f"{what:24}{rates}{mine / theirs:8.2f}", flush=True)


if __name__ == "__main__":
    main()
