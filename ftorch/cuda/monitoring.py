"""What NVIDIA's driver says of a GPU (``torch.cuda.utilization`` and others), by ``nvidia-ml-py`` if it is installed."""

from __future__ import annotations

from ..eager.core import device as _device
from .index import device_index


def _nvml():
    try:
        import pynvml  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "nvidia-ml-py does not seem to be installed or it can't be imported."
        ) from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_DriverNotLoaded as error:
        raise RuntimeError("cuda driver can't be loaded, is cuda enabled?") from error
    return pynvml


def _handle(device):
    nvml = _nvml()
    found = _device.jax_devices("cuda")[device_index(device)]
    return nvml, nvml.nvmlDeviceGetHandleByIndex(getattr(found, "local_hardware_id", 0) or 0)


def utilization(device=None) -> int:
    """Percent of the time in which a kernel ran.

    Raises:
        ModuleNotFoundError: without nvidia-ml-py.
    """
    nvml, handle = _handle(device)
    return nvml.nvmlDeviceGetUtilizationRates(handle).gpu


def memory_usage(device=None) -> int:
    """Percent of the time in which memory was read or written."""
    nvml, handle = _handle(device)
    return nvml.nvmlDeviceGetUtilizationRates(handle).memory


def device_memory_used(device=None) -> int:
    """Bytes that all processes use."""
    nvml, handle = _handle(device)
    return nvml.nvmlDeviceGetMemoryInfo(handle).used


def temperature(device=None) -> int:
    """Degrees Celsius."""
    nvml, handle = _handle(device)
    return nvml.nvmlDeviceGetTemperature(handle, 0)


def power_draw(device=None) -> int:
    """Milliwatts."""
    nvml, handle = _handle(device)
    return nvml.nvmlDeviceGetPowerUsage(handle)


def clock_rate(device=None) -> int:
    """MHz of the streaming multiprocessors."""
    nvml, handle = _handle(device)
    return nvml.nvmlDeviceGetClockInfo(handle, 1)


def list_gpu_processes(device=None) -> str:
    """The processes that use a GPU and their memory, as text."""
    try:
        nvml, handle = _handle(device)
    except ModuleNotFoundError:
        return "pynvml module not found, please install nvidia-ml-py"
    except RuntimeError as error:
        return str(error)
    processes = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    lines = [f"GPU:{device_index(device)}"]
    if not processes:
        lines.append("no processes are running")
    lines += [f"process {p.pid:>10d} uses {p.usedGpuMemory / 2**20:>12.3f} MB GPU memory" for p in processes]
    return "\n".join(lines)
