"""``torch.hub``: loading from a folder and from what was downloaded, against PyTorch."""

import pytest
import torch as reference

import ftorch as torch

PACKAGES = (torch, reference)
CONF = '''
dependencies = {dependencies!r}
import helpers
from {package} import nn

def small(width, *, bias=True):
    """A small model."""
    return nn.Linear(width, helpers.OUT, bias=bias)

def _hidden():
    return None

number = 3
'''


def repository(folder, package, dependencies=("numpy",)):
    folder.mkdir(parents=True)
    (folder / "helpers.py").write_text("OUT = 2\n")
    (folder / "hubconf.py").write_text(
        CONF.format(package=package.__name__, dependencies=[*dependencies])
    )
    return str(folder)


def outcomes(function):
    seen = []
    for package in PACKAGES:
        try:
            seen.append(function(package))
        except Exception as e:  # noqa: BLE001 - the same from both
            seen.append((type(e).__name__, str(e)))
    assert seen[0] == seen[1]
    return seen[1]


@pytest.mark.parametrize("call", [
    ("small", (3,), {}), ("small", (3,), {"bias": False}), ("number", (), {}), ("none", (), {}),
    (3, (), {}),
], ids=str)
def test_loading_from_a_folder(call, tmp_path):
    name, args, kwargs = call

    def run(package):
        folder = repository(tmp_path / package.__name__, package)
        return repr(package.hub.load(folder, name, *args, source="local", **kwargs))

    outcomes(run)


def test_missing_packages_and_sources(tmp_path):
    def missing(package):
        folder = repository(tmp_path / package.__name__, package, ["numpy", "surely_not_there"])
        return package.hub.load(folder, "small", 3, source="local")

    assert outcomes(missing)[0] == "RuntimeError"
    assert outcomes(lambda p: p.hub.load("x", "small", source="web"))[0] == "ValueError"


def test_a_repository_that_is_there(tmp_path, monkeypatch):
    def run(package):
        home = tmp_path / package.__name__
        monkeypatch.setattr(package.hub, "_folder" if package is torch else "_hub_dir",
                            [str(home)] if package is torch else str(home))
        repository(home / "owner_name_main", package)
        options = {"trust_repo": True, "skip_validation": True}
        return [
            package.hub.list("owner/name:main", verbose=False, **options),
            package.hub.help("owner/name:main", "small", **options),
            repr(package.hub.load("owner/name:main", "small", 4, verbose=False, **options)),
        ]

    assert outcomes(run)[0] == ["small"]
