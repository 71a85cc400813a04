"""The names of ``torch`` that published libraries use: those that are missing may only become fewer.

``torch_names.csv`` is what ``tools/torch_names.py scan`` found in some 180 packages.
"""

import importlib.util
import pathlib
import warnings

HERE = pathlib.Path(__file__).parent


def test_missing_names_become_fewer():
    spec = importlib.util.spec_from_file_location(
        "torch_names", HERE.parent.parent / "tools" / "torch_names.py"
    )
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    known = set((HERE / "torch_names_missing.txt").read_text().split())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        missing = {name for name in tool.read(HERE / "torch_names.csv") if not tool.resolves(name)}
    assert sorted(missing - known) == []
    assert len(known - missing) < 40, "take the names that are there now off torch_names_missing.txt"
