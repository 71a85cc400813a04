"""What the generators draw: sizes, and the steps that operands have in memory."""

from __future__ import annotations

from ..utils.fuzzer import FuzzedParameter, ParameterAlias

__all__ = ["MAX_BYTES", "aliases", "dimensions", "entropy", "named", "sizes", "steps"]

_MIN_SIZE, _MAX_SIZE = 16, 16 * 1024**2
_POWERS = tuple(2**i for i in range(_MIN_SIZE.bit_length() - 1, _MAX_SIZE.bit_length()))
_PLACES = range(3)
MAX_BYTES = 2 * 1024**3


def named(prefix):
    """The three parameters of a prefix, one a dimension."""
    return tuple(f"{prefix}{i}" for i in _PLACES)


def dimensions(name):
    """How many dimensions there are."""
    return FuzzedParameter(name, distribution={1: 0.3, 2: 0.4, 3: 0.3}, strict=True)


def aliases(prefix, chances):
    """Parameters that are others' values, or numbers: {prefix of others or number: how often}."""
    def one(i):
        return {ParameterAlias(f"{k}{i}") if isinstance(k, str) else k: p for k, p in chances.items()}

    return [FuzzedParameter(name=f"{prefix}{i}", distribution=one(i), strict=True) for i in _PLACES]


def sizes(special="pow2", values=_POWERS, chance=0.2, largest=_MAX_SIZE, special_first=False):
    """Sizes ``k0`` ...: any, or (by a chance) of the values that matter most."""
    spread = {value: 1.0 / len(values) for value in values}
    chances = {"k_any_": 1 - chance if special_first else 0.8, f"k_{special}_": chance}
    return [
        [FuzzedParameter(f"k_any_{i}", minval=_MIN_SIZE, maxval=largest, distribution="loguniform") for i in _PLACES],
        [FuzzedParameter(name=f"k_{special}_{i}", distribution=spread) for i in _PLACES],
        aliases("k", dict(reversed(chances.items())) if special_first else chances),
    ]


def steps(*prefixes):
    """How far apart elements are, for each prefix and dimension."""
    spread = {1: 0.8, 2: 0.06, 4: 0.06, 8: 0.04, 16: 0.04}
    return [FuzzedParameter(name=f"{prefix}{i}", distribution=spread) for i in _PLACES for prefix in prefixes]


def entropy():
    """A number for what a benchmark draws itself."""
    return FuzzedParameter(name="random_value", minval=0, maxval=2**32 - 1, distribution="uniform")
