"""Builds the kernels of `ftorch.eager.native`; everything else is in pyproject.toml.

Where there is no compiler the package is installed without them, and XLA's are used. Files are compiled several at a
time (``MAX_JOBS`` says how many), and only those that changed or include what changed.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

folder = Path("ftorch/eager/native/src")
headers = [str(folder)]  # files include each other as "room/file.h"
compiled_with = sys.implementation.cache_tag
for package, include in (("jaxlib", "include"), ("numpy", "_core/include")):  # jaxlib requires NumPy
    if found := find_spec(package):
        headers.append(str(Path(found.origin).parent / include))
        compiled_with += f"-{package}-{version(package)}"


class Build(build_ext):
    """Compiles in parallel, and each file only if it is older than what it is made from.

    The object files of an editable install stay beside the sources: pip runs each install in a folder of its own.
    """

    def run(self):
        if self.editable_mode:
            self.build_temp = str(Path("build/objects", compiled_with))
        super().run()

    def build_extensions(self):
        compiler = self.compiler
        compile_files, lists = compiler.compile, compiler.compiler_type == "unix"

        def compile_one(source, output_dir, extra_postargs, **options):
            (made,) = compiler.object_filenames([source], output_dir=output_dir)
            used = Path(made).with_suffix(".d")  # a makefile's rule, written by the compiler
            if not self.force and lists and is_new(Path(made), used):
                return made
            more = [*(extra_postargs or ()), *(["-MMD", "-MF", str(used)] if lists else [])]
            compile_files([source], output_dir=output_dir, extra_postargs=more, **options)
            return made

        def compile_all(sources, output_dir=None, extra_postargs=None, **options):
            jobs = int(os.environ.get("MAX_JOBS", 0)) or os.cpu_count() or 1
            with ThreadPoolExecutor(jobs) as pool:
                return list(
                    pool.map(
                        lambda s: compile_one(s, output_dir, extra_postargs, **options), sources
                    )
                )

        compiler.compile = compile_all
        super().build_extensions()


def is_new(made, used):
    """Whether an object file is newer than everything that it was compiled from, this file among it."""
    if not made.exists() or not used.exists():
        return False
    files = used.read_text().partition(":")[2].replace("\\\n", " ").split()
    # pip's folder with NumPy's and jaxlib's headers is gone by now; the object's folder names their versions.
    paths = [p for p in (Path(f) for f in (*files, __file__)) if not p.is_absolute() or p.exists()]
    return all(p.exists() and p.stat().st_mtime < made.stat().st_mtime for p in paths)


setup(
    cmdclass={"build_ext": Build},
    ext_modules=[
        Extension(
            "ftorch.eager.native._kernels",
            sorted(str(path) for path in folder.rglob("*.cpp")),
            depends=[str(path) for path in sorted([*folder.rglob("*.inc"), *folder.rglob("*.h")])],
            include_dirs=headers,
            extra_compile_args=[
                "-std=c++17",
                "-O3",
                "-ffp-contract=fast",
                "-g0",
                "-w",
                "-Wno-psabi",
            ],
            language="c++",
            optional=True,
        )
    ],
)
