"""Groups and collectives under PyTorch's name of the module."""
# ruff: noqa: F403

from ._collectives import *
from ._groups import *
