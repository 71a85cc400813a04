"""Skip rules: whose code runs: the user's, this package's, or that of Python's library, JAX and NumPy."""

from __future__ import annotations

import itertools
import os
import sys
import sysconfig
import traceback as tb

from ..._alias import is_own
from ...eager.core import places

_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep
_SITE = tuple({os.path.join(sysconfig.get_paths()[k], "") for k in ("purelib", "platlib")})
# With `etils`, which Flax and Orbax bring, JAX reads and writes its files by it and by what that imports.
_SKIPPED_PACKAGES = (
    "jax", "jaxlib", "numpy", "ml_dtypes", "opt_einsum", "etils", "fsspec", "importlib_resources", "typing_extensions", "zipp",
)


def is_users(filename: str) -> bool:
    """Whether a file is the user's code: not this package, Python's library, JAX or NumPy."""
    if filename.startswith((*places.OWN, "<frozen")):
        return False
    for site in _SITE:
        if filename.startswith(site):
            return filename[len(site) :].split(os.sep, 1)[0].removesuffix(".py") not in _SKIPPED_PACKAGES
    return not filename.startswith(_STDLIB)


def is_made(scope) -> bool:
    """Whether code without a file is what the standard library made: a named tuple's, or of a library's class, whose
    globals it has."""
    package, _, rest = scope.get("__name__", "").partition(".")
    return is_own(package) or package in _SKIPPED_PACKAGES or (package.startswith("namedtuple_") and not rest)


VERBOSE = (
    "\n\nSet TORCHDYNAMO_VERBOSE=1 for the internal stack trace (please do this especially if you're reporting a bug "
    'to PyTorch). For even more developer context, set TORCH_LOGS="+dynamo"\n'
)


def users_line(traceback=None) -> str:
    """Where the user's code is now, from the compiled function on, as PyTorch's errors say it.

    Args:
        traceback: of an exception that came out of that function; without it, the place is where the thread is.
    """
    frames = []
    if traceback is not None:
        frames = [(f, n) for f, n in tb.walk_tb(traceback) if is_users(f.f_code.co_filename)]
        last = {id(t.tb_frame): t.tb_lasti for t in _parts(traceback)}
    else:
        frame, last = sys._getframe(1), {}
        while frame is not None and frame.f_code.co_name != "_capture":
            if is_users(frame.f_code.co_filename):
                frames.insert(0, (frame, frame.f_lineno))
            frame = frame.f_back
        if frame is None:
            del frames[:-1]
    if not frames:
        return VERBOSE
    shown = tb.format_list([_summary(f, n, last.get(id(f), f.f_lasti)) for f, n in frames])
    return f"\n\nfrom user code:\n {''.join(shown).rstrip()}" + VERBOSE


def _parts(traceback):
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _summary(frame, line, instruction):
    positions = next(itertools.islice(frame.f_code.co_positions(), instruction // 2, None), (None,) * 4)
    return tb.FrameSummary(
        frame.f_code.co_filename, line, frame.f_code.co_name, lookup_line=True,
        colno=positions[2], end_colno=positions[3],  # without the last line it is marked up to the line's end
    )
