"""Modules are attributes of their packages where PyTorch imports them with itself."""

import importlib
import json
import subprocess
import sys

import pytest

import ftorch

_LOADED = """
import json, sys
import torch
print(json.dumps(sorted(name for name in sys.modules if name.startswith("torch."))))
"""
_ASKED = """
import importlib.util, json, sys
import ftorch
absent = []
for name in json.load(sys.stdin):
    owner, path = ftorch, "ftorch"
    for part in name.split(".")[1:]:
        path += "." + part
        try:
            owner = getattr(owner, part)
        except AttributeError:
            package = path.rpartition(".")[0] in sys.modules and hasattr(owner, "__path__")
            if package and importlib.util.find_spec(path) is not None:
                absent.append(path)
            break
print(json.dumps(absent))
"""


def test_what_pytorch_imports_with_itself_is_an_attribute():
    pytest.importorskip("torch")
    loaded = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True).stdout
    names = loaded.splitlines()[-1]
    assert len(json.loads(names)) > 500
    absent = subprocess.run([sys.executable, "-c", _ASKED], input=names, capture_output=True, text=True, check=True).stdout
    assert json.loads(absent.splitlines()[-1]) == []


@pytest.mark.parametrize("name", ["ops", "classes"])
def test_objects_that_are_modules_can_be_imported(name):
    module = importlib.import_module(f"ftorch.{name}")
    assert module is getattr(ftorch, name) is sys.modules[f"ftorch.{name}"]
    namespace: dict = {}
    exec(f"from ftorch.{name} import quantized", namespace)
    assert namespace["quantized"] is module.quantized
