"""What a report of a bug says of its environment: ``python -m ftorch.utils.collect_env``."""

from __future__ import annotations

import collections
import locale
import os
import platform
import re
import subprocess
import sys

import ftorch as torch

SystemEnv = collections.namedtuple("SystemEnv", [
    "torch_version", "is_debug_build", "cuda_compiled_version", "gcc_version", "clang_version", "cmake_version", "os",
    "libc_version", "python_version", "python_platform", "is_cuda_available", "cuda_runtime_version",
    "cuda_module_loading", "nvidia_driver_version", "nvidia_gpu_models", "cudnn_version", "is_xpu_available",
    "pip_version", "pip_packages", "conda_packages", "hip_compiled_version", "hip_runtime_version",
    "miopen_runtime_version", "caching_allocator_config", "is_xnnpack_available", "cpu_info",
])
COMMON_PATTERNS = ["torch", "numpy", "triton", "optree"]
PIP_PATTERNS = ["mypy", "flake8", "onnx", "jax"]
CONDA_PATTERNS = ["cudatoolkit", "soumith", "mkl", "magma"]
NVIDIA_PATTERNS = ["cuda-", "cublas", "cudnn", "cufft", "curand", "cusolver", "cusparse", "nccl", "nvjitlink", "nvtx"]


def run(command) -> tuple[int, str, str]:
    """Runs a command, a text for the shell or a list: (status, output, errors)."""
    done = subprocess.run(command, capture_output=True, shell=isinstance(command, str))
    encoding = "oem" if sys.platform == "win32" else locale.getpreferredencoding()
    return done.returncode, done.stdout.decode(encoding).strip(), done.stderr.decode(encoding).strip()


def run_and_read_all(run_lambda, command) -> str | None:
    """What a command writes, or None where it fails."""
    status, out, _ = run_lambda(command)
    return out if status == 0 else None


def run_and_parse_first_match(run_lambda, command, regex) -> str | None:
    """The first group of a pattern in what a command writes, or None."""
    found = re.search(regex, run_and_read_all(run_lambda, command) or "")
    return found.group(1) if found else None


def run_and_return_first_line(run_lambda, command) -> str | None:
    """The first line that a command writes, or None where it fails."""
    out = run_and_read_all(run_lambda, command)
    return None if out is None else out.split("\n")[0]


def get_platform() -> str:
    """``"linux"``, ``"darwin"``, ``"win32"``, ..."""
    return "linux" if sys.platform.startswith("linux") else sys.platform


def get_gcc_version(run_lambda):
    """GCC's version."""
    return run_and_parse_first_match(run_lambda, "gcc --version", r"gcc (.*)")


def get_clang_version(run_lambda):
    """Clang's version."""
    return run_and_parse_first_match(run_lambda, "clang --version", r"clang version (.*)")


def get_cmake_version(run_lambda):
    """CMake's version."""
    return run_and_parse_first_match(run_lambda, "cmake --version", r"cmake (.*)")


def get_nvidia_driver_version(run_lambda):
    """The version of NVIDIA's driver."""
    return run_and_parse_first_match(run_lambda, "nvidia-smi", r"Driver Version: (.*?) ")


def get_gpu_info(run_lambda):
    """The GPUs, a line each."""
    out = run_and_read_all(run_lambda, "nvidia-smi -L")
    return None if out is None else re.sub(r" \(UUID: .+?\)", "", out)


def get_running_cuda_version(run_lambda):
    """The version of CUDA's tools."""
    return run_and_parse_first_match(run_lambda, "nvcc --version", r"release .+ V(.*)")


def get_cpu_info(run_lambda):
    """What ``lscpu`` says."""
    return run_and_read_all(run_lambda, "lscpu") if get_platform() == "linux" else platform.processor()


def get_os(run_lambda) -> str:
    """The operating system and its machine."""
    name = None
    if get_platform() == "linux":
        name = run_and_parse_first_match(run_lambda, "lsb_release -a", r"Description:\t(.*)")
        name = name or run_and_parse_first_match(run_lambda, "cat /etc/*-release", r'PRETTY_NAME="(.*)"')
    elif get_platform() == "darwin":
        name = f"macOS {platform.mac_ver()[0]}"
    return f"{name or platform.system()} ({platform.machine()})"


def get_python_platform() -> str:
    """The platform, as `platform` names it."""
    return platform.platform()


def get_libc_version() -> str:
    """The C library's name and version."""
    return "-".join(platform.libc_ver()) if get_platform() == "linux" else "N/A"


def _chosen(lines, patterns):
    return "\n".join(line for line in lines if any(pattern in line for pattern in patterns))


def get_pip_packages(run_lambda, patterns=None):
    """(``"pip3"``, the installed packages that matter here, a line each)."""
    patterns = patterns or PIP_PATTERNS + COMMON_PATTERNS + NVIDIA_PATTERNS
    out = run_and_read_all(run_lambda, [sys.executable, "-mpip", "list", "--format=freeze"])
    return "pip3", None if out is None else _chosen(out.splitlines(), patterns)


def get_conda_packages(run_lambda, patterns=None):
    """Conda's packages that matter here, a line each, or None without Conda."""
    patterns = patterns or CONDA_PATTERNS + COMMON_PATTERNS + NVIDIA_PATTERNS
    out = run_and_read_all(run_lambda, f"{os.environ.get('CONDA_EXE', 'conda')} list")
    return None if out is None else _chosen((line for line in out.splitlines() if not line.startswith("#")), patterns)


def get_env_info() -> SystemEnv:
    """What there is."""
    pip_version, pip_packages = get_pip_packages(run)
    has_cuda = torch.cuda.is_available()
    return SystemEnv(
        torch_version=torch.__version__, is_debug_build="False", cuda_compiled_version=torch.version.cuda,
        gcc_version=get_gcc_version(run), clang_version=get_clang_version(run), cmake_version=get_cmake_version(run),
        os=get_os(run), libc_version=get_libc_version(),
        python_version=f"{sys.version} ({sys.maxsize.bit_length() + 1}-bit runtime)".replace("\n", " "),
        python_platform=get_python_platform(), is_cuda_available=str(has_cuda),
        cuda_runtime_version=get_running_cuda_version(run),
        cuda_module_loading=os.environ.get("CUDA_MODULE_LOADING", "LAZY") if has_cuda else "N/A",
        nvidia_driver_version=get_nvidia_driver_version(run), nvidia_gpu_models=get_gpu_info(run),
        cudnn_version=torch.backends.cudnn.version() if has_cuda else None, is_xpu_available=str(torch.xpu.is_available()),
        pip_version=pip_version, pip_packages=pip_packages, conda_packages=get_conda_packages(run),
        hip_compiled_version="N/A", hip_runtime_version="N/A", miopen_runtime_version="N/A",
        caching_allocator_config={}, is_xnnpack_available="False", cpu_info=get_cpu_info(run),
    )


_LINES = (
    ("PyTorch version", "torch_version"), ("Is debug build", "is_debug_build"),
    ("CUDA used to build PyTorch", "cuda_compiled_version"), ("ROCM used to build PyTorch", "hip_compiled_version"), None,
    ("OS", "os"), ("GCC version", "gcc_version"), ("Clang version", "clang_version"), ("CMake version", "cmake_version"),
    ("Libc version", "libc_version"), None, ("Python version", "python_version"), ("Python platform", "python_platform"),
    ("Is CUDA available", "is_cuda_available"), ("CUDA runtime version", "cuda_runtime_version"),
    ("CUDA_MODULE_LOADING set to", "cuda_module_loading"), ("GPU models and configuration", "nvidia_gpu_models"),
    ("Nvidia driver version", "nvidia_driver_version"), ("cuDNN version", "cudnn_version"),
    ("Is XPU available", "is_xpu_available"), ("HIP runtime version", "hip_runtime_version"),
    ("MIOpen runtime version", "miopen_runtime_version"), ("Is XNNPACK available", "is_xnnpack_available"),
    ("Caching allocator config", "caching_allocator_config"), None,
)
_CUDA = ("cuda_runtime_version", "nvidia_gpu_models", "nvidia_driver_version")


def pretty_str(envinfo: SystemEnv) -> str:
    """What `get_env_info` found, in lines."""
    found = envinfo._asdict()
    gpus = found["nvidia_gpu_models"]
    found["nvidia_gpu_models"] = f"\n{gpus}\n" if gpus and "\n" in gpus else gpus
    if not torch.cuda.is_available() and all(found[name] is None for name in _CUDA):
        found |= dict.fromkeys((*_CUDA, "cudnn_version"), "No CUDA")
        if found["cuda_compiled_version"] is None:
            found["cuda_compiled_version"] = "None"
    shown = {True: "Yes", False: "No", None: "Could not collect"}
    if not found["caching_allocator_config"]:
        found["caching_allocator_config"] = "N/A"
    found = {name: shown[v] if isinstance(v, (bool, type(None))) else v for name, v in found.items()}
    lines = ["" if line is None else f"{line[0]}: {found[line[1]]}" for line in _LINES]
    lines += ["CPU:", str(found["cpu_info"]), "", "Versions of relevant libraries:"]
    for tag, name in ((found["pip_version"], "pip_packages"), ("conda", "conda_packages")):
        lines += [f"[{tag}] {line}" for line in (found[name] or "No relevant packages").split("\n")]
    return "\n".join(lines)


def get_pretty_env_info() -> str:
    """What there is, in lines."""
    return pretty_str(get_env_info())


def main() -> None:
    """Prints it."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
