"""How distributions hold their parameters: expanded, in two forms, or inside another one."""

from __future__ import annotations

import ftorch as torch

from .distribution import Distribution
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits


def expandable(carried="", nested=""):
    """A class decorator that gives a distribution its ``expand``.

    What ``arg_constraints`` names and the instance holds is expanded, but for the rightmost
    dimensions that its constraint takes together.

    Args:
        carried: names of attributes that stay as they are, if the instance holds them.
        nested: names of attributes that are distributions over the same batch.
    """

    def decorate(cls):
        above = next(base for base in cls.__mro__[1:] if "expand" in vars(base))

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(cls, _instance)
            batch_shape = torch.Size(batch_shape)
            for name in carried.split():
                if name in self.__dict__:
                    new.__dict__[name] = self.__dict__[name]
            for name in nested.split():
                new.__dict__[name] = self.__dict__[name].expand(batch_shape)
            own = cls.arg_constraints if isinstance(cls.arg_constraints, dict) else None
            for name, constraint in (own or self.arg_constraints).items():
                if name in self.__dict__:
                    value = self.__dict__[name]
                    kept = value.shape[value.dim() - constraint.event_dim :]
                    new.__dict__[name] = value.expand(batch_shape + kept)
            if above is not Distribution:
                return above.expand(self, batch_shape, _instance=new)
            Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
            new._validate_args = self._validate_args
            return new

        expand.__doc__ = Distribution.expand.__doc__
        expand.__qualname__ = f"{cls.__qualname__}.expand"
        cls.expand = expand
        return cls

    return decorate


def delegated(attribute, names):
    """Read-only properties that are another distribution's, one for each of ``names``."""

    def make(name):
        return property(lambda self: getattr(getattr(self, attribute), name))

    return [make(name) for name in names.split()]


class ProbsOrLogits(Distribution):
    """Distributions with ``probs`` or ``logits`` as their parameter, the other one derived of it."""

    _ftorch_binary = True  # of two outcomes (a logit is the log-odds), or as many as the last dim has

    def _ftorch_set_probs_or_logits(self, probs, logits, *others):
        """Sets one of the two, broadcast together with others, which are returned."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        name, value = ("probs", probs) if logits is None else ("logits", logits)
        *others, value = broadcast_all(*others, value)
        setattr(self, name, value)
        return others

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, is_binary=self._ftorch_binary)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits, is_binary=self._ftorch_binary)

    @lazy_property
    def _param(self):
        return self.__dict__.get("probs", self.__dict__.get("logits"))

    @property
    def param_shape(self):
        """The shape of the parameter."""
        return self._param.size()

    def _new(self, *args, **kwargs):
        return self._param.new(*args, **kwargs)
