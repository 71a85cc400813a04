"""Logic variables: what unification finds values for."""

from __future__ import annotations

from ....eager.native.contexts import contextmanager, putting_back

__all__ = ["Var", "var", "vars", "isvar", "variables"]

_variables: set = set()  # of values that stand for variables within `variables`
_count = [0]


class Var:
    """A logic variable; one without a name is like no other."""

    __slots__ = ("token",)

    def __init__(self, *token):
        if not token:
            _count[0] += 1
            token = (f"_{_count[0]}",)
        self.token = token[0] if len(token) == 1 else token

    def __str__(self):
        return f"~{self.token}"

    __repr__ = __str__

    def __eq__(self, other):
        return type(self) is type(other) and self.token == other.token

    def __hash__(self):
        return hash((type(self), self.token))


def var(*token):
    """A `Var`."""
    return Var(*token)


def vars(n: int):
    """Some variables without names."""
    return [var() for _ in range(n)]


def isvar(v) -> bool:
    """Whether something is a variable.

    >>> isvar(var("x")), isvar(1)
    (True, False)
    """
    if isinstance(v, Var):
        return True
    try:
        return bool(_variables) and v in _variables
    except TypeError:
        return False


@contextmanager
def variables(*variables):
    """Within, these values are variables.

    >>> with variables(1):
    ...     print(isvar(1))
    True
    """
    with putting_back(_variables.intersection_update, _variables.copy()):
        _variables.update(variables)
        yield
