"""Programs whose printed text is compared: kept in files ``printed.txt``, between lines of ``###``."""

from __future__ import annotations

import contextlib
import io
import linecache
import math
import re
import sys
import types
import typing
import warnings
import zlib
from pathlib import Path

import numpy as np
import torch as pt

import ftorch as ft

_IMPORT = re.compile(r"^(\s*)(import|from) torch\b", re.MULTILINE)
_TYPING = ("List", "Dict", "Optional", "Tuple", "Union", "Any", "NamedTuple", "Callable")


def programs(file) -> list[str]:
    """The programs of ``printed.txt`` beside a test's file."""
    text = (Path(file).parent / "printed.txt").read_text()
    return [p.strip("\n") + "\n" for p in re.split(r"^###\n", text, flags=re.MULTILINE) if p.strip()]


def printed(text: str, library) -> str:
    """What a program prints with one of the libraries, and the exception that ends it.

    ``torch``, ``np``, ``math``, ``nn``, ``F``, names of `typing` and ``t`` are there, which prints what a function
    gives, or its exception.
    """
    source = text
    if library is ft:
        source = re.sub(r"^(\s*)import torch$", r"\1import ftorch as torch", text, flags=re.MULTILINE)
        source = _IMPORT.sub(lambda m: f"{m[1]}{m[2]} ftorch", source)
    module = sys.modules["program"] = types.ModuleType("program")  # where classes are looked for
    scope = module.__dict__
    scope.update(torch=library, np=np, math=math, nn=library.nn, F=library.nn.functional, t=_shown)
    scope.update({name: getattr(typing, name) for name in _TYPING})
    file = scope["__file__"] = f"<program {zlib.crc32(text.encode()):08x}>"  # read once by what caches sources
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    out = io.StringIO()
    library.manual_seed(0)
    np.random.seed(0)
    library._dynamo.reset()
    with warnings.catch_warnings(), contextlib.redirect_stdout(out):
        warnings.simplefilter("ignore")
        try:
            exec(compile(source, file, "exec", dont_inherit=True), scope)
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
    linecache.cache.pop(file, None)
    del sys.modules["program"]
    return _neutral(out.getvalue())


def _shown(function, *args, **kwargs):
    try:
        result = function(*args, **kwargs)
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        return None
    print(result if isinstance(result, str) else repr(result))
    return result


def _neutral(text):
    text = re.sub(r"0x[0-9a-f]{6,}", "0x", text.replace("ftorch", "torch"))
    text = re.sub(r"___torch_mangle_\d+\.|(?<=<eval_with_key>)\.\d+", "", text)  # of what came before
    text = re.sub(r"/[\w/.\-]*/(?=torch/)", "", text)
    return re.sub(r"[ \t]+\n", "\n", text).strip()


def assert_prints_same(text: str) -> None:
    """Raises AssertionError unless a program prints the same with both libraries."""
    expected = printed(text, pt)
    assert printed(text, ft) == expected
