"""``torch.cuda.jiterator``: kernels from C++ text, which XLA does not compile."""

from __future__ import annotations

import re
from collections.abc import Callable

__all__: list[str] = []

_FORM = re.compile(r"(?P<template>template\s*<[^>]+>)?\s*(?P<type>\w+)\s+(?P<name>\w+)\s*\((?P<args>[^)]*)\)")


def _made(code_string: str) -> Callable:
    found = _FORM.search(code_string)
    if found is None or not found["template"]:
        raise RuntimeError(f"Couldn't parse code, please check correctness:\n {code_string}")

    def kernel(*tensors, **kwargs):
        raise AssertionError(
            f"Jiterator compiles C++ for GPUs, which XLA does not take: write {found['name']} with tensor "
            "calls and torch.compile it, which makes one kernel."
        )

    kernel.__name__ = found["name"]
    return kernel


def _create_jit_fn(code_string: str, **kwargs) -> Callable:
    """A function that raises AssertionError when called. Raises RuntimeError for text that is no template."""
    return _made(code_string)


def _create_multi_output_jit_fn(code_string: str, num_outputs: int, **kwargs) -> Callable:
    """The same with several results."""
    return _made(code_string)
