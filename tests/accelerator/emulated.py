"""An accelerator on machines without one: of two CPU devices of XLA the first, JAX's default, plays the GPU, the other the CPU.

It finds whatever computes on JAX's default device instead of its tensors', or forgets to move. To be imported before
anything else of JAX or ftorch; ``python -m pytest -p tests.accelerator.emulated`` runs any test so.
"""

import os
import sys

_TWO = "--xla_force_host_platform_device_count=2"
if _TWO not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_TWO}"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402

from ftorch.eager.core import device  # noqa: E402

GPU, CPU = jax.devices("cpu")
_DEVICES = {"cpu": (CPU,), "cuda": (GPU,)}


def _jax_devices(kind):
    return _DEVICES.get(kind, ())


def _from_jax(jax_device):
    return device.CPU if jax_device is CPU else device.device("cuda:0")


def _replace(name, by):
    """Another function under a name of `device`, in the modules that took it from there, too."""
    old = getattr(device, name)
    if hasattr(old, "cache_info"):
        by.cache_info = old.cache_info
    for module in [*sys.modules.values()]:
        if vars(module).get(name) is old:
            setattr(module, name, by)


_replace("jax_devices", _jax_devices)
_replace("from_jax", _from_jax)
jax.devices = lambda backend=None: [CPU] if backend == "cpu" else [GPU]
