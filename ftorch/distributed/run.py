"""``torchrun``: starts the processes of a program on a node, watches them and starts them again.

    torchrun --nproc-per-node 2 train.py --lr 0.1
    python -m ftorch.distributed.run --nnodes 2 --node-rank 0 --master-addr 10.0.0.1 ... train.py
    torchrun --nnodes 1:4 --rdzv-backend c10d --rdzv-endpoint 10.0.0.1:29400 ... train.py

The launcher hosts the store (`TCPStore`) that its workers meet at, so that no worker's end takes it away,
and hands them a token that the store's port asks for. On several nodes all launchers need the same
token: set ``FTORCH_DISTRIBUTED_TOKEN`` to the same random text on each of them.
"""

from __future__ import annotations

import argparse
import os
import sys
import uuid

from .elastic.multiprocessing.errors import record
from .launcher.api import LaunchConfig, elastic_launch

__all__ = ["main", "run"]


def get_args_parser() -> argparse.ArgumentParser:
    """The parser of ``torchrun``'s command line."""
    parser = argparse.ArgumentParser(prog="torchrun", description="Starts the processes of a program")

    def add(name, *, flag=False, **options):
        names = {f"--{name}", f"--{name.replace('_', '-')}"}
        if flag:
            options["action"] = "store_true"
        parser.add_argument(*sorted(names), dest=name, **options)

    env = os.environ.get
    add("nnodes", default=env("PET_NNODES", "1:1"), help="number of nodes, or MIN:MAX")
    add("nproc_per_node", default=env("PET_NPROC_PER_NODE", "1"), help="processes a node: auto, cpu, gpu, int")
    add("rdzv_backend", default=env("PET_RDZV_BACKEND", "static"), help="static or c10d")
    add("rdzv_endpoint", default=env("PET_RDZV_ENDPOINT", ""), help="HOST:PORT where nodes meet")
    add("rdzv_id", default=env("PET_RDZV_ID", "none"), help="the job's id")
    add("rdzv_conf", default=env("PET_RDZV_CONF", ""), help="k1=v1,k2=v2")
    add("standalone", flag=True, help="one node, any free port")
    add("max_restarts", type=int, default=int(env("PET_MAX_RESTARTS", "0")))
    add("monitor_interval", type=float, default=float(env("PET_MONITOR_INTERVAL", "0.1")))
    add("start_method", default=env("PET_START_METHOD", "spawn"), choices=["spawn", "fork", "forkserver"])
    add("role", default=env("PET_ROLE", "default"))
    add("event_log_handler", default="null")
    parser.add_argument("-m", "--module", action="store_true", help="the script is a module")
    add("no_python", flag=True, help="the script is run as it is")
    add("run_path", flag=True, help="run the script with runpy.run_path")
    add("log_dir", default=env("PET_LOG_DIR"), help="where logs of workers go")
    parser.add_argument("-r", "--redirects", default=env("PET_REDIRECTS", "0"),
                        help="streams into files: 0 none, 1 out, 2 err, 3 both, or RANK:N,...")
    parser.add_argument("-t", "--tee", default=env("PET_TEE", "0"), help="like -r, and to the console")
    add("local_ranks_filter", default=env("PET_LOCAL_RANKS_FILTER", ""), help="ranks whose output is shown")
    add("node_rank", type=int, default=int(env("PET_NODE_RANK", "0")))
    add("master_addr", default=env("PET_MASTER_ADDR", "127.0.0.1"))
    add("master_port", type=int, default=int(env("PET_MASTER_PORT", "29500")))
    add("local_addr", default=env("PET_LOCAL_ADDR"))
    add("logs_specs", default=None)
    add("signals_to_handle", default="SIGTERM,SIGINT,SIGHUP,SIGQUIT")
    parser.add_argument("training_script", help="the script, or module with -m")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return parser


def parse_args(args=None):
    """The parsed command line."""
    return get_args_parser().parse_args(args)


def parse_min_max_nnodes(nnodes: str) -> tuple[int, int]:
    """The least and largest number of nodes of ``N`` or ``MIN:MAX``.

    Raises:
        RuntimeError: for other texts.
    """
    parts = nnodes.split(":")
    if len(parts) == 1:
        return int(parts[0]), int(parts[0])
    if len(parts) == 2:
        return int(parts[0]), int(parts[1])
    raise RuntimeError(f'nnodes={nnodes} is not in "MIN:MAX" format')


def determine_local_world_size(nproc_per_node: str) -> int:
    """The number of processes that ``auto``, ``cpu``, ``gpu`` or a number means.

    Raises:
        ValueError: for other texts, or ``gpu`` without one.
    """
    try:
        return int(nproc_per_node)
    except ValueError:
        pass
    if nproc_per_node in ("gpu", "auto"):
        import ftorch as torch

        if torch.cuda.is_available():
            return torch.cuda.device_count()
        if nproc_per_node == "gpu":
            raise ValueError("Cuda is not available.")
        return os.cpu_count() or 1
    if nproc_per_node == "cpu":
        return os.cpu_count() or 1
    raise ValueError(f"Unsupported nproc_per_node value: {nproc_per_node}")


def config_from_args(args) -> tuple[LaunchConfig, str | object, list[str]]:
    """What a command line means: (configuration, the program, its arguments)."""
    least, most = parse_min_max_nnodes(args.nnodes)
    if not 0 < least <= most:
        raise AssertionError("nnodes must be MIN:MAX with 0 < MIN <= MAX")
    if args.max_restarts < 0:
        raise AssertionError("max_restarts must not be negative")
    backend, endpoint, run_id = args.rdzv_backend, args.rdzv_endpoint, args.rdzv_id
    if args.standalone:
        backend, endpoint, run_id = "c10d", "localhost:0", str(uuid.uuid4())
        least = most = 1
    if backend == "static" and not endpoint:
        endpoint = f"{args.master_addr}:{args.master_port}"
    local = determine_local_world_size(args.nproc_per_node)
    if "OMP_NUM_THREADS" not in os.environ and local > 1:
        os.environ["OMP_NUM_THREADS"] = "1"
    configs = dict(pair.split("=", 1) for pair in args.rdzv_conf.split(",") if "=" in pair)
    if backend == "static":
        configs["rank"] = args.node_rank
    config = LaunchConfig(
        min_nodes=least, max_nodes=most, nproc_per_node=local, run_id=run_id, role=args.role,
        rdzv_endpoint=endpoint, rdzv_backend=backend, rdzv_configs=configs,
        max_restarts=args.max_restarts, monitor_interval=args.monitor_interval,
        start_method=args.start_method, log_dir=args.log_dir, redirects=args.redirects, tee=args.tee,
        local_ranks_filter=args.local_ranks_filter, local_addr=args.local_addr,
    )
    program: list[str] = []
    if not args.no_python:
        program = [os.getenv("PYTHON_EXEC", sys.executable), "-u"]
        if args.module:
            program.append("-m")
        elif args.run_path:
            program += ["-c", "import runpy, sys; sys.argv = sys.argv[1:]; "
                        "runpy.run_path(sys.argv[0], run_name='__main__')"]
    elif args.module:
        raise ValueError("Don't use both the '--no_python' flag and the '--module' flag at the same time.")
    program += [args.training_script, *args.training_script_args]
    return config, program[0], program[1:]


def run(args) -> None:
    """Runs what a parsed command line says."""
    config, program, arguments = config_from_args(args)
    elastic_launch(config, program)(*arguments)


@record
def main(args=None) -> None:
    """The command ``torchrun``."""
    run(parse_args(args))


if __name__ == "__main__":
    main()
