"""The documentation's site: ``python -m sphinx -W -b html docs site``."""

import runpy
import shutil
from pathlib import Path

from ftorch import version

project, author = "ftorch", "The ftorch authors"
copyright = "2026, The ftorch authors"
version = release = version.__version__.partition("+ftorch")[2] or version.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
nb_execution_mode = "off"  # they keep their outputs; the tests run them
html_theme = "furo"
html_title = "ftorch"
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
exclude_patterns = ["_build"]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_use_ivar = True
# Sphinx reads below its own folder only.
_here = Path(__file__).parent
shutil.rmtree(_here / "notebooks", ignore_errors=True)
shutil.copytree(
    _here.parent / "notebooks", _here / "notebooks", ignore=shutil.ignore_patterns(".*")
)
# What each file is for, from the files themselves.
(_here / "modules.md").write_text(runpy.run_path(str(_here.parent / "tools/modules.py"))["page"]())
# Files beside the site: they are read in the repository.
suppress_warnings = ["myst.xref_missing"]
