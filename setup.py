"""Builds the kernels of `ftorch.eager.native`; everything else is in pyproject.toml.

Where there is no compiler the package is installed without them, and XLA's are used.
"""

from importlib.util import find_spec
from pathlib import Path

from setuptools import Extension, setup

jaxlib = find_spec("jaxlib")
folder = Path("ftorch/eager/native")

setup(
    ext_modules=[
        Extension(
            "ftorch.eager.native._kernels",
            sorted(str(path) for path in folder.glob("*.cpp")),
            depends=[str(path) for path in sorted([*folder.glob("*.inc"), *folder.glob("*.h")])],
            include_dirs=[str(Path(jaxlib.origin).parent / "include")] if jaxlib else [],
            extra_compile_args=["-std=c++17", "-O3", "-ffp-contract=fast", "-g0", "-Wno-psabi"],
            language="c++",
            optional=True,
        )
    ]
)
