"""An accelerator on machines without one: of two CPU devices of XLA the first, JAX's default, plays the GPU, the other the CPU.

It finds whatever computes on JAX's default device instead of its tensors', or forgets to move.
"""

import os
import sys

FLAG = "--xla_force_host_platform_device_count=2"


def _replace(device, name, by):
    """Another function under a name of `device`, in the modules that took it from there, too."""
    old = getattr(device, name)
    if hasattr(old, "cache_info"):
        by.cache_info = old.cache_info
    for module in [*sys.modules.values()]:
        if vars(module).get(name) is old:
            setattr(module, name, by)


def install():
    """Makes "cuda" the emulated one in this process, in which JAX has not looked for devices yet."""
    if FLAG not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAG}"
    os.environ["JAX_PLATFORMS"] = "cpu"

    import jax

    from ftorch.eager.core import device

    gpu, cpu = jax.devices("cpu")
    devices = {"cpu": (cpu,), "cuda": (gpu,)}
    _replace(device, "jax_devices", lambda kind: devices.get(kind, ()))
    _replace(device, "from_jax", lambda found: device.CPU if found is cpu else device.device("cuda:0"))
    jax.devices = lambda backend=None: [cpu] if backend == "cpu" else [gpu]
