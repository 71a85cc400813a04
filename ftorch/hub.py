"""Downloads of weights (``torch.hub``), kept in a folder of the user's cache.

Models in repositories written for PyTorch (``torch.hub.load``) import ``torch`` themselves; run them by
``python -m ftorch``.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
import urllib.request
from urllib.parse import urlparse

__all__ = ["download_url_to_file", "get_dir", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_folder: list[str | None] = [None]


def _get_torch_home() -> str:
    """The folder of all that is downloaded: ``$TORCH_HOME``, by default ``~/.cache/torch``."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """The folder of downloads: what was given to `set_dir`, or ``hub`` in ``$TORCH_HOME``."""
    return _folder[0] or os.path.join(_get_torch_home(), "hub")


def set_dir(d) -> None:
    """Sets the folder of downloads."""
    _folder[0] = os.path.expanduser(str(d))


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None,
                         progress: bool = True) -> None:  # fmt: skip
    """Downloads a file; it is there only once it is complete.

    Args:
        hash_prefix: what the file's SHA-256 must begin with.
        progress: whether to show a bar (if ``tqdm`` is installed).

    Raises:
        RuntimeError: for another hash.
    """
    dst = os.path.expanduser(dst)
    request = urllib.request.Request(url, headers={"User-Agent": "ftorch.hub"})
    digest = hashlib.sha256()
    with (
        urllib.request.urlopen(request) as response,
        tempfile.NamedTemporaryFile(dir=os.path.dirname(dst) or ".", delete=False) as file,
    ):
        try:
            length = response.headers.get("Content-Length")
            bar = _bar(int(length) if length else None, progress)
            while chunk := response.read(1 << 17):
                file.write(chunk)
                digest.update(chunk)
                if bar is not None:
                    bar.update(len(chunk))
            if bar is not None:
                bar.close()
            file.close()
            found = digest.hexdigest()
            if hash_prefix is not None and not found.startswith(hash_prefix):
                raise RuntimeError(
                    f'invalid hash value (expected "{hash_prefix}", got "{found[: len(hash_prefix)]}")'
                )
            shutil.move(file.name, dst)
        finally:
            file.close()
            if os.path.exists(file.name):
                os.remove(file.name)


def _bar(total, progress):
    if not progress:
        return None
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm(total=total, unit="B", unit_scale=True, unit_divisor=1024)


def load_state_dict_from_url(url: str, model_dir: str | None = None, map_location=None,
                             progress: bool = True, check_hash: bool = False,
                             file_name: str | None = None, weights_only: bool = True):  # fmt: skip
    """Loads what `torch.save` wrote, from an address; a file downloaded before is used again.

    Args:
        model_dir: where it is kept; ``checkpoints`` in `get_dir` by default.
        check_hash: whether the name's last part (``-<hash>.pth``) is the beginning of its SHA-256.
    """
    from .serialization import load

    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        sys.stdout.write(f'Downloading: "{url}" to {path}\n')
        match = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, match[1] if match else None, progress)
    return load(path, map_location=map_location, weights_only=weights_only)
