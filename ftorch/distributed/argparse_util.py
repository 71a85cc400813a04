"""Options of command lines whose defaults the environment gives (``torch.distributed.argparse_util``)."""

from __future__ import annotations

import os
from argparse import Action

__all__ = ["check_env", "env"]


class env(Action):  # noqa: N801
    """An option whose default is the environment variable ``PET_<NAME>``.

    >>> import argparse, os
    >>> from ftorch.distributed.argparse_util import env
    >>> os.environ["PET_STEPS"] = "3"
    >>> parser = argparse.ArgumentParser()
    >>> _ = parser.add_argument("--steps", action=env, type=int, default=1)
    >>> parser.parse_args([]).steps
    3
    >>> del os.environ["PET_STEPS"]
    """

    def __init__(self, dest, default=None, required=False, **kwargs):
        default = os.environ.get(f"PET_{dest.upper()}", default)
        super().__init__(dest=dest, default=default, required=required and not default, **kwargs)

    def __call__(self, parser, namespace, values, option_string=None):
        setattr(namespace, self.dest, values)


class check_env(Action):  # noqa: N801
    """A switch that the environment variable ``PET_<NAME>`` (0 or 1) can set, too."""

    def __init__(self, dest, default=False, **kwargs):
        default = bool(int(os.environ.get(f"PET_{dest.upper()}", int(bool(default)))))
        super().__init__(dest=dest, const=True, default=default, nargs=0, **kwargs)

    def __call__(self, parser, namespace, values, option_string=None):
        setattr(namespace, self.dest, self.const)
