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
import runpy
import sys
import uuid
from collections.abc import Callable
from importlib.metadata import entry_points

from ..numa.binding import AffinityMode as _AffinityMode
from ..numa.binding import NumaOptions as _NumaOptions
from .argparse_util import check_env, env
from .elastic.multiprocessing import DefaultLogsSpecs, LogsSpecs, Std
from .elastic.multiprocessing.errors import record
from .elastic.rendezvous.utils import _parse_rendezvous_config
from .elastic.utils import macros
from .elastic.utils.logging import get_logger
from .launcher.api import LaunchConfig, elastic_launch

__all__ = ["main", "run"]

logger = get_logger(__name__)


def _texts(value: str) -> list[str]:
    """The texts between commas; two commas are one that belongs to a text."""
    return [part.replace("\0", ",") for part in value.replace(",,", "\0").split(",")]


def get_args_parser() -> argparse.ArgumentParser:
    """The parser of ``torchrun``'s command line."""
    parser = argparse.ArgumentParser(description="Torch Distributed Elastic Training Launcher")

    def add(name, short=None, *, flag=False, **options):
        names = dict.fromkeys(f"--{name}" for name in (name.replace("_", "-"), name))
        options.setdefault("action", check_env if flag else env)
        if not flag:
            options.setdefault("type", str)
        parser.add_argument(*([short] if short else []), *names, **options)

    add("nnodes", default="1:1", help="number of nodes, or MIN:MAX")
    add("nproc_per_node", default="1", help="processes of each node: a number, cpu, gpu or auto")
    add("rdzv_backend", default="static", help="how nodes meet: static (numbered) or c10d (whoever comes)")
    add("rdzv_endpoint", default="", help="HOST:PORT where nodes meet")
    add("rdzv_id", default="none", help="the job's id")
    add("rdzv_conf", default="", help="options of the rendezvous: KEY=VALUE,KEY=VALUE")
    add("standalone", flag=True, help="one node, any free port")
    add("max_restarts", type=int, default=0, help="how often workers are started again when one fails")
    add("monitor_interval", type=float, default=0.1, help="seconds between looks at workers")
    add("start_method", default="spawn", choices=["spawn", "fork", "forkserver"], help="how processes are started")
    add("event_log_handler", default="null", help="where records of events go")
    add("role", default="default", help="the workers' role")
    add("module", "-m", flag=True, help="the script is a module")
    add("no_python", flag=True, help="the script is a program of its own")
    add("run_path", flag=True, help="run the script by runpy.run_path, in processes of this interpreter")
    add("log_dir", default=None, help="where logs of workers go")
    add("redirects", "-r", default="0", help="streams into files: 0 none, 1 out, 2 err, 3 both, or RANK:N,...")
    add("tee", "-t", default="0", help="like --redirects, and to the console")
    add("local_ranks_filter", default="", help="workers whose output is shown: RANK,RANK")
    for stream in ("stdout", "stderr"):
        add(f"duplicate_{stream}_filters", type=_texts, default=[], help="lines with one of TEXT,TEXT also go into a file")
    add("node_rank", type=int, default=0, help="the node's number (static)")
    add("master_addr", default="127.0.0.1", help="the address of node 0 (static)")
    add("master_port", type=int, default=None, help="the port of node 0 (static; 29500)")
    add("local_addr", default=None, help="the address of this node")
    add("logs_specs", action="store", default=None, help="the entry point in torchrun.logs_specs that says where logs go")
    add("numa_binding", action="store", choices=[m.value for m in _AffinityMode], default=None,
        help="bind workers to processors near their devices")
    add("signals_to_handle", default="SIGTERM,SIGINT,SIGHUP,SIGQUIT", help="signals that workers get, too")
    add("shutdown_timeout", type=int, default=None, help="seconds between the end of workers and SIGKILL (30)")
    add("virtual_local_rank", flag=True, help="each worker sees one device, as the first")
    parser.add_argument("training_script", type=str, help="the script, or module with -m")
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


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def determine_local_world_size(nproc_per_node: str) -> int:
    """The number of processes that ``auto``, ``cpu``, ``gpu`` or a number means.

    Raises:
        ValueError: for other texts, or ``gpu`` without one.
    """
    try:
        return int(nproc_per_node)
    except ValueError:
        pass
    if nproc_per_node == "cpu":
        return _processors()
    if nproc_per_node in ("gpu", "xpu", "auto"):
        import ftorch as torch

        device = torch.xpu if nproc_per_node == "xpu" else torch.cuda
        if device.is_available():
            return device.device_count()
        if nproc_per_node == "auto":
            return _processors()
        raise ValueError(f"{'Xpu' if nproc_per_node == 'xpu' else 'Cuda'} is not available.")
    raise ValueError(f"Unsupported nproc_per_node value: {nproc_per_node}")


def get_rdzv_endpoint(args) -> str:
    """Where nodes meet."""
    if args.rdzv_backend == "static" and not args.rdzv_endpoint:
        return f"{args.master_addr}:{args.master_port}"
    return args.rdzv_endpoint


def get_use_env(args) -> bool:
    """Whether workers find their rank in the environment alone, without ``--local-rank``."""
    return getattr(args, "use_env", True)


def _get_logs_specs_class(name: str | None) -> type[LogsSpecs]:
    if name is None:
        return DefaultLogsSpecs
    for found in entry_points(group="torchrun.logs_specs", name=name):
        return found.load()
    raise ValueError(f"Could not find entrypoint under 'torchrun.logs_specs[{name}]' key")


def _shown_ranks(text: str) -> set[int] | None:
    try:
        return {int(rank) for rank in text.split(",")} if text else None
    except ValueError as error:
        raise ValueError(
            "--local_ranks_filter must be a comma-separated list of integers e.g. --local_ranks_filter=0,1,2"
        ) from error


def config_from_args(args) -> tuple[LaunchConfig, Callable | str, list[str]]:
    """What a command line means: (configuration, the program, its arguments)."""
    least, most = parse_min_max_nnodes(args.nnodes)
    if not 0 < least <= most:
        raise AssertionError(
            f"min_nodes must be > 0 and <= max_nodes, got min_nodes={least}, max_nodes={most}"
        )
    if args.max_restarts < 0:
        raise AssertionError("max_restarts must be >= 0")
    if args.rdzv_backend != "static" and not args.rdzv_endpoint:
        logger.warning(
            "master_addr is only used for static rdzv_backend and when rdzv_endpoint is not specified."
        )
    if args.node_rank != 0 and args.rdzv_backend != "static":
        logger.warning(
            "node_rank is only used for static rdzv_backend. It will be ignored for rdzv_backend=%s.",
            args.rdzv_backend,
        )
    local = determine_local_world_size(args.nproc_per_node)
    if "OMP_NUM_THREADS" not in os.environ and local > 1:
        stars = "*" * 41
        logger.warning(
            "\n%s\nSetting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your "
            "system being overloaded, please further tune the variable for optimal performance in your application "
            "as needed. \n%s", stars, stars,
        )
        os.environ["OMP_NUM_THREADS"] = "1"
    configs: dict = _parse_rendezvous_config(args.rdzv_conf)
    if args.rdzv_backend == "static":
        configs["rank"] = args.node_rank
    logs = _get_logs_specs_class(args.logs_specs)(
        log_dir=args.log_dir, redirects=Std.from_str(args.redirects), tee=Std.from_str(args.tee),
        local_ranks_filter=_shown_ranks(args.local_ranks_filter),
    )
    numa = None if args.numa_binding is None else _NumaOptions(affinity_mode=_AffinityMode(args.numa_binding))
    config = LaunchConfig(
        min_nodes=least, max_nodes=most, nproc_per_node=local, run_id=args.rdzv_id, role=args.role,
        rdzv_endpoint=get_rdzv_endpoint(args), rdzv_backend=args.rdzv_backend, rdzv_configs=configs,
        max_restarts=args.max_restarts, monitor_interval=args.monitor_interval, start_method=args.start_method,
        log_line_prefix_template=os.environ.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"), local_addr=args.local_addr,
        logs_specs=logs, event_log_handler=args.event_log_handler, numa_options=numa,
        signals_to_handle=args.signals_to_handle, duplicate_stdout_filters=args.duplicate_stdout_filters,
        duplicate_stderr_filters=args.duplicate_stderr_filters, virtual_local_rank=args.virtual_local_rank,
        shutdown_timeout=args.shutdown_timeout,
    )
    program: Callable | str = args.training_script
    arguments: list[str] = []
    if args.run_path:
        program, arguments = run_script_path, [args.training_script]
    elif not args.no_python:
        program = os.environ.get("PYTHON_EXEC", sys.executable)
        arguments = ["-u", *(["-m"] if args.module else []), args.training_script]
    elif args.module:
        raise ValueError(
            "Don't use both the '--no-python' flag and the '--module' flag at the same time."
        )
    if not get_use_env(args):
        arguments.append(f"--local-rank={macros.local_rank}")
    return config, program, [*arguments, *args.training_script_args]


def run_script_path(training_script: str, *training_script_args: str) -> None:
    """Runs a script in this interpreter."""
    sys.argv = [training_script, *training_script_args]
    runpy.run_path(training_script, run_name="__main__")


def run(args) -> None:
    """Runs what a parsed command line says."""
    single = parse_min_max_nnodes(args.nnodes)[1] == 1
    no_place = args.rdzv_backend == "static" and not args.rdzv_endpoint and args.master_port is None
    if args.standalone or (no_place and single):
        args.rdzv_backend, args.rdzv_endpoint, args.rdzv_id = "c10d", "localhost:0", str(uuid.uuid4())
    if args.master_port is None:
        args.master_port = 29500
    config, program, arguments = config_from_args(args)
    elastic_launch(config, program)(*arguments)


@record
def main(args=None) -> None:
    """The command ``torchrun``."""
    run(parse_args(args))


if __name__ == "__main__":
    main()
