"""Why modules that cannot be packaged are needed."""

from ..package_exporter import PackagingError

__all__ = ["find_first_use_of_broken_modules"]


def find_first_use_of_broken_modules(exc: PackagingError) -> dict[str, list[str]]:
    """{module: the modules that lead to it} of each that an error is about.

    Raises:
        TypeError: for another exception.
    """
    if not isinstance(exc, PackagingError):
        raise TypeError("exception must be a PackagingError")
    return {m: exc.dependency_graph.first_path(m) for m in exc.broken}
