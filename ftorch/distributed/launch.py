"""The older name of `ftorch.distributed.run`, whose workers also get ``--local-rank``."""

from __future__ import annotations

import warnings

from .run import get_args_parser, run

__all__ = ["launch", "main"]


def parse_args(args=None):
    """The parsed command line."""
    parser = get_args_parser()
    parser.add_argument("--use-env", "--use_env", action="store_true", default=False, dest="use_env")
    return parser.parse_args(args)


def launch(args) -> None:
    """Runs what a parsed command line says."""
    if args.no_python and not args.use_env:
        raise ValueError("When using the '--no-python' flag, you must also set the '--use-env' flag.")
    run(args)


def main(args=None) -> None:
    """The command."""
    warnings.warn(
        "The module torch.distributed.launch is deprecated\nand will be removed in future. Use torchrun.",
        FutureWarning, stacklevel=2,
    )
    launch(parse_args(args))


if __name__ == "__main__":
    main()
