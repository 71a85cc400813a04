"""PyTorch's own modules for tests (``torch.testing._internal``), imported from its wheel over this package."""

import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

FOLDER = pathlib.Path(torch.testing.__file__).parent / "_internal"

# What cannot be imported, with what it needs: parts of PyTorch that tests of these parts alone ask for.
UNIMPORTABLE = {
    "common_distributed": "symmetric memory of GPUs",
    "common_fsdp": "torch.distributed.fsdp._common_utils",
    "common_methods_invocations": "torch.ops.aten._flash_attention_forward",
    "common_modules": "common_methods_invocations",
    "common_optimizers": "common_methods_invocations",
    "dist_utils": "debugging information of torch.distributed.rpc",
    "distributed.*": "inner parts of torch.distributed",
    "fake_config_module": "torch.utils._config_module.Config",
    "fake_config_module2": "torch.utils._config_module.Config",
    "fake_config_module3": "torch.utils._config_module.install_config_module",
    "generated.annotated_fn_args": "all of PyTorch's functions with an underscore",
    "hop_db": "torch._higher_order_ops.flex_attention",
    "inductor_utils": "the parts of PyTorch's compiler",
    "opinfo.definitions.nested": "symbolic sizes of nested tensors",
    "optests": "torch._subclasses.schema_check_mode",
    "optests.generate_tests": "torch._subclasses.schema_check_mode",
    "triton_utils": "inductor_utils",
}

PROGRAM = """
import importlib, importlib.util, pathlib, sys, warnings
warnings.simplefilter("ignore")
import ftorch
ftorch.install_as_torch()
folder = pathlib.Path(sys.argv[1])

class Finder:
    def find_spec(name, path, target=None):
        if not name.startswith("torch.testing._internal."):
            return None
        at = folder.joinpath(*name.split(".")[3:])
        for file, below in ((at.with_suffix(".py"), None), (at / "__init__.py", [str(at)])):
            if file.exists():
                return importlib.util.spec_from_file_location(name, file, submodule_search_locations=below)

for name in [n for n in sys.modules if n.startswith(("torch.testing._internal.", "ftorch.testing._internal."))]:
    del sys.modules[name]
sys.meta_path.insert(0, Finder)
for name in sys.argv[2:]:
    try:
        importlib.import_module(f"torch.testing._internal.{name}")
    except SyntaxError:  # a module for a newer Python
        pass
    except Exception as error:
        print("FAILED", name, repr(error).replace(chr(10), " "))
"""


def test_modules_are_imported():
    files = sorted(FOLDER.rglob("*.py"))
    names = [".".join(f.relative_to(FOLDER).with_suffix("").parts).removesuffix(".__init__") for f in files]
    names = [n for n in names if n != "__init__" and "test_module." not in n and not n.startswith("distributed.")]
    assert len(names) > 50
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(FOLDER), *names], capture_output=True, text=True, timeout=300, check=True
    )
    failed = dict(line.split(" ", 2)[1:] for line in run.stdout.splitlines() if line.startswith("FAILED "))
    assert {name: why for name, why in failed.items() if name not in UNIMPORTABLE} == {}
    assert [name for name in UNIMPORTABLE if name not in failed and "*" not in name] == []
