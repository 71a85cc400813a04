"""Low-discrepancy sequences (``torch.quasirandom``)."""

from __future__ import annotations

import numpy as np

import ftorch as torch

__all__ = ["SobolEngine"]


class SobolEngine:
    """Points of a Sobol sequence in the unit cube, PyTorch's ones.

    The directions are those of Joe and Kuo (new-joe-kuo-6.21201), which SciPy has; scrambling is
    Matousek's (a random lower triangular matrix for each dimension) with a digital shift.

    Args:
        dimension: from 1 to 21201.
        scramble: whether to scramble.
        seed: of the scrambling; the global generator's next numbers are used if there is none.

    Raises:
        ValueError: for a dimension out of range.

    >>> import ftorch as torch
    >>> torch.quasirandom.SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension, scramble=False, seed=None):
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(
                "Supported range of dimensionality for SobolEngine is [1, "
                f"{self.MAXDIM}]"
            )
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        directions = _directions(dimension, self.MAXBIT)
        shift = np.zeros(dimension, np.int64)
        if scramble:
            directions, shift = self._scrambled(directions)
        self.sobolstate = torch.from_numpy(directions)
        self.shift = torch.from_numpy(shift)
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2**self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def _scrambled(self, directions):
        """(directions, shift), in the order of PyTorch's random numbers."""
        generator = None
        if self.seed is not None:
            generator = torch.Generator()
            generator.manual_seed(self.seed)
        bits = self.MAXBIT
        digits = torch.randint(2, (self.dimension, bits), generator=generator).numpy()
        lower = torch.randint(2, (self.dimension, bits, bits), generator=generator).numpy()
        lower = np.tril(lower)
        lower[:, range(bits), range(bits)] = 1
        powers = 2 ** np.arange(bits)
        # Row p of a matrix, its first element the highest bit, times the bits of a direction.
        held = (directions[:, :, None] >> np.arange(bits - 1, -1, -1)) & 1
        parity = np.einsum("dpk,djk->djp", lower, held) % 2
        return parity @ powers[::-1], digits @ powers

    def draw(self, n: int = 1, out=None, dtype=None):
        """The next ``n`` points, of shape (n, dimension).

        Args:
            out: a tensor for the result, which is resized.
            dtype: the default dtype if None.
        """
        dtype = torch.get_default_dtype() if dtype is None else dtype
        first = self.num_generated == 0
        words = self._advance(n - 1 if first else n)
        if first:
            words = np.concatenate([self.shift.numpy()[None], words])
        points = torch.from_numpy(words).to(dtype) * 2.0**-self.MAXBIT
        self.num_generated += n
        if out is None:
            return points
        return out.resize_(points.shape).copy_(points)

    def draw_base2(self, m: int, out=None, dtype=None):
        """The next ``2**m`` points.

        Raises:
            ValueError: if the points so far and these are no power of two.
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(n, out=out, dtype=dtype)

    def fast_forward(self, n: int):
        """Skips ``n`` points."""
        place = self.num_generated + n - 1
        # The point of an index is made of the directions that its Gray code has.
        gray = place ^ (place >> 1)
        chosen = [j for j in range(self.MAXBIT) if gray >> j & 1]
        word = np.bitwise_xor.reduce(self.sobolstate.numpy()[:, chosen], axis=1) ^ self.shift.numpy()
        self.quasi.copy_(torch.from_numpy(word))
        self.num_generated += n
        return self

    def reset(self):
        """Back to the first point."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def _advance(self, count):
        """The next ``count`` points as integers, (count, dimension)."""
        start = max(self.num_generated - 1, 0)
        steps = np.arange(start, start + count)
        lowest = np.log2(~steps & (steps + 1)).astype(np.int64)  # the lowest bit that is 0
        words = np.bitwise_xor.accumulate(
            np.concatenate([self.quasi.numpy()[None], self.sobolstate.numpy().T[lowest]])
        )
        self.quasi.copy_(torch.from_numpy(words[-1].copy()))
        return words[1:]

    def __repr__(self):
        text = [f"dimension={self.dimension}"]
        if self.scramble:
            text.append("scramble=True")
        if self.seed is not None:
            text.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(text)})"


def _directions(dimension, bits):
    from scipy.stats import qmc

    # SciPy has the table of directions and no public way to it.
    return qmc.Sobol(dimension, scramble=False, bits=bits)._sv.astype(np.int64)
