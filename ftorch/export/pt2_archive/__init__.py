"""``.pt2`` files (``torch.export.pt2_archive``): is it one, and what is in it."""

import os

from ..._serialization.zip_archive import ArchiveReader

__all__ = ["is_pt2_package"]


def is_pt2_package(serialized_model) -> bool:
    """Whether a file, given by its path or its bytes, is a ``.pt2`` archive.

    >>> from ftorch.export.pt2_archive import is_pt2_package
    >>> is_pt2_package(b"text")
    False
    """
    import io

    try:
        if isinstance(serialized_model, (str, os.PathLike)):
            with open(serialized_model, "rb") as file:
                reader = ArchiveReader(file)
                return "archive_format" in reader and reader.read("archive_format") == b"pt2"
        reader = ArchiveReader(io.BytesIO(serialized_model))
        return "archive_format" in reader and reader.read("archive_format") == b"pt2"
    except RuntimeError:
        return False
