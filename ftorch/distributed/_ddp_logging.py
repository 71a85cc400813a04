"""What `DistributedDataParallel` tells of itself: its options, and times of some iterations."""

from __future__ import annotations

import os
import time

import ftorch as torch

_VARIABLES = (
    "RANK LOCAL_RANK WORLD_SIZE MASTER_PORT MASTER_ADDR CUDA_VISIBLE_DEVICES GLOO_SOCKET_IFNAME GLOO_DEVICE_TRANSPORT "
    "NCCL_SOCKET_IFNAME TORCH_NCCL_BLOCKING_WAIT NCCL_DEBUG NCCL_DEBUG_SUBSYS NCCL_IB_DISABLE NCCL_P2P_DISABLE "
    "NCCL_P2P_LEVEL NCCL_SHM_DISABLE NCCL_SOCKET_NTHREADS NCCL_NSOCKS_PERTHREAD NCCL_BUFFSIZE NCCL_NTHREADS NCCL_RINGS "
    "NCCL_MAX_NCHANNELS NCCL_MIN_NCHANNELS NCCL_CHECKS_DISABLE NCCL_CHECK_POINTERS NCCL_LAUNCH_MODE NCCL_IB_HCA "
    "NCCL_IB_TIMEOUT NCCL_IB_RETRY_CNT NCCL_IB_GID_INDEX NCCL_IB_SL NCCL_IB_TC NCCL_IB_AR_THRESHOLD "
    "NCCL_IB_CUDA_SUPPORT NCCL_NET_GDR_LEVEL NCCL_NET_GDR_READ NCCL_SINGLE_RING_THRESHOLD NCCL_LL_THRESHOLD "
    "NCCL_TREE_THRESHOLD NCCL_ALGO NCCL_PROTO NCCL_IGNORE_CPU_AFFINITY NCCL_DEBUG_FILE NCCL_COLLNET_ENABLE "
    "NCCL_TOPO_FILE NCCL_TOPO_DUMP_FILE TORCH_NCCL_ASYNC_ERROR_HANDLING"
).split()
_DTYPES = {"float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16"}
_EVERY = 100  # iterations between those whose times are kept, after the first ten


def print_variables() -> None:
    """Prints the variables of the environment that say how processes talk."""
    print("".join(f"env:{name}={os.environ.get(name, 'N/A')}\n" for name in _VARIABLES))


def _given(name):
    return os.environ.get(name, "N/A")


class Times:
    """When the parts of an iteration began and ended; averages over those that were kept."""

    def __init__(self):
        self.sample_rate, self.iteration, self.kept = _EVERY, 0, 0
        self.latest: dict[str, int] = {}
        self.error: str | None = None
        self._at: dict[str, int] = {}
        self._sums: dict[str, int] = {}

    @property
    def samples(self) -> bool:
        """Whether this iteration's times are kept."""
        return 0 < self.iteration and (self.iteration <= 10 or self.iteration % self.sample_rate == 0)

    def mark(self, name: str, again: bool = True) -> None:
        """Something happens now; with ``again`` False only the first time counts."""
        if again or name not in self._at:
            self._at[name] = time.time_ns()

    def begin(self) -> None:
        """A forward pass begins that is synchronized."""
        self._at = {"forward": time.time_ns()}

    def end(self) -> None:
        """Its gradients are averaged."""
        at, now = self._at, time.time_ns()
        if self.samples and {"forward", "backward", "communication", "computed"} <= at.keys():
            took = {
                "forward_compute_time": at["backward"] - at["forward"],
                "backward_compute_time": at["computed"] - at["backward"],
                "backward_comm_time": now - at["communication"],
                "backward_compute_comm_overlap_time": max(0, at["computed"] - at["communication"]),
            }
            took = {name: max(1, value) for name, value in took.items()}
            self.kept += 1
            for name, value in took.items():
                self._sums[name] = self._sums.get(name, 0) + value
            self.latest = took | {f"avg_{name}": total // self.kept for name, total in self._sums.items()} | {
                "forward_compute_time_start": at["forward"], "backward_compute_time_start": at["backward"],
                "backward_compute_time_end": at["computed"], "backward_comm_time_start": at["communication"],
                "backward_comm_time_end": now, "iteration": self.iteration, "num_buckets_reduced": 1,
            }
        self.iteration += 1


def _backend(group):
    """A group's backend; one that a program made itself says it."""
    known = group in torch.distributed.distributed_c10d._world.pg_map
    return torch.distributed.get_backend(group) if known else group.getBackendName()


def logging_data(ddp) -> dict:
    """The dictionary of ``_get_ddp_logging_data``; what does not apply is left out."""
    reducer, parameters = ddp.reducer, ddp.reducer.parameters
    times = reducer.times
    sizes = [p.numel() * p.element_size() for p in parameters]
    dtypes = dict.fromkeys(str(p.dtype).removeprefix("torch.") for p in parameters)
    data = {
        "backend_name": _backend(ddp.process_group),
        "bucket_sizes": reducer.sizes_of(reducer.first_buckets),
        "cuda_visible_devices": _given("CUDA_VISIBLE_DEVICES"), "device_ids": ", ".join(map(str, ddp.device_ids or ())),
        "dtypes": ", ".join(_DTYPES.get(d, d) for d in dtypes),
        "gloo_device_transport": _given("GLOO_DEVICE_TRANSPORT"), "gloo_socket_ifname": _given("GLOO_SOCKET_IFNAME"),
        "master_addr": _given("MASTER_ADDR"), "master_port": _given("MASTER_PORT"),
        "module_name": type(ddp.module).__name__, "torch_distributed_debug": _given("TORCH_DISTRIBUTED_DEBUG"),
        "broadcast_buffers": int(ddp.broadcast_buffers), "bucket_cap_bytes": ddp.bucket_bytes_cap,
        "find_unused_parameters": int(ddp.find_unused_parameters), "gloo_num_threads": 2,
        "gradient_as_bucket_view": int(ddp.gradient_as_bucket_view),
        "has_sync_bn": int(any(isinstance(m, torch.nn.SyncBatchNorm) for m in ddp.module.modules())),
        "is_multi_device_module": int(len({str(p.device) for p in parameters}) > 1), "iteration": 0,
        "num_parameter_tensors": len(parameters), "output_device": -1, "rank": ddp.process_group.rank(),
        "total_parameter_size_bytes": sum(sizes), "world_size": ddp.process_group.size(),
    }
    if ddp.static_graph:
        data["static_graph"] = 1
    if ddp._comm_hooks:
        data["comm_hook"] = getattr(ddp._comm_hooks[0][0], "__qualname__", "")
    data |= times.latest | reducer.noted
    if times.error is not None:
        data |= {"error": times.error, "has_error": 1, "iteration": times.iteration}
    return data
