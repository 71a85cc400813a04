"""The Kullback-Leibler divergence between two distributions, by their types."""

from __future__ import annotations

import functools
import warnings

import ftorch as torch

from ..eager.tensor import Tensor as Tensor
from .distribution import Distribution as Distribution

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict = {}  # (type of p, type of q) -> function
_KL_MEMOIZE: dict = {}  # what was looked up, with subclasses resolved


def register_kl(type_p, type_q):
    """Registers the decorated function as `kl_divergence` of two types and their subclasses.

    The most specific of all matching pairs is used, the type of p before that of q.

    Raises:
        TypeError: if they are no classes. Any class will do: a library may have a base of its own, as pyro.

    >>> import ftorch as torch
    >>> D = torch.distributions
    >>> class Point(D.Normal): pass
    >>> @D.register_kl(Point, Point)
    ... def _(p, q):
    ...     return torch.tensor(7.0)
    >>> D.kl_divergence(Point(0.0, 1.0), Point(0.0, 1.0))
    tensor(7.)
    """
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def decorator(function):
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return decorator


def _more_specific(a, b):
    """Whether the types of a are subclasses of those of b up to the first that is another one."""
    for x, y in zip(a, b):
        if not issubclass(x, y):
            return False
        if x is not y:
            break
    return True


def _most_specific(pairs):
    return functools.reduce(lambda best, pair: pair if _more_specific(pair, best) else best, pairs)


def _dispatch_kl(type_p, type_q):
    """The function of the most specific pair of types, or NotImplemented."""
    matches = [
        pair for pair in _KL_REGISTRY if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])
    ]
    if not matches:
        return NotImplemented
    by_p = _most_specific(matches)
    by_q = tuple(reversed(_most_specific([tuple(reversed(pair)) for pair in matches])))
    if _KL_REGISTRY[by_p] is not _KL_REGISTRY[by_q]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). "
            f"Please register_kl({by_p[0].__name__}, {by_q[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[by_p]


def kl_divergence(p, q):
    """KL(p || q): the mean of log p(x) - log q(x) under p, of their batch shape.

    Raises:
        NotImplementedError: for types of which there is no formula.

    >>> import ftorch as torch
    >>> D = torch.distributions
    >>> D.kl_divergence(D.Normal(0.0, 1.0), D.Normal(1.0, 1.0))
    tensor(0.5000)
    """
    pair = type(p), type(q)
    function = _KL_MEMOIZE.get(pair)
    if function is None:
        function = _KL_MEMOIZE[pair] = _dispatch_kl(*pair)
    if function is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {p.__class__.__name__} and q type "
            f"{q.__class__.__name__}"
        )
    return function(p, q)


def infinite(p):
    """What a divergence is where p has events that q has not."""
    first = next(iter(p.arg_constraints))
    return torch.full_like(getattr(p, first), torch.inf)
