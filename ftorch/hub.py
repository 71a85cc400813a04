"""Models and weights that others publish (``torch.hub``), kept in a folder of the user's cache.

A repository says in its ``hubconf.py`` which models it offers. One that is written for PyTorch imports
``torch`` itself; run the program by ``python -m ftorch`` and it is given ftorch.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import urllib.request
import zipfile
from urllib.parse import urlparse

from .eager.native.contexts import contextmanager

__all__ = [
    "download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir",
]

ENV_GITHUB_TOKEN, ENV_TORCH_HOME, ENV_XDG_CACHE_HOME = "GITHUB_TOKEN", "TORCH_HOME", "XDG_CACHE_HOME"
DEFAULT_CACHE_DIR, MODULE_HUBCONF, VAR_DEPENDENCY = "~/.cache", "hubconf.py", "dependencies"
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_folder: list[str | None] = [None]


def _get_torch_home() -> str:
    """The folder of all that is downloaded: ``$TORCH_HOME``, by default ``~/.cache/torch``."""
    cache = os.environ.get(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR)
    return os.path.expanduser(os.environ.get(ENV_TORCH_HOME, os.path.join(cache, "torch")))


def get_dir() -> str:
    """The folder of downloads: what was given to `set_dir`, or ``hub`` in ``$TORCH_HOME``."""
    return _folder[0] or os.path.join(_get_torch_home(), "hub")


def set_dir(d) -> None:
    """Sets the folder of downloads."""
    _folder[0] = os.path.expanduser(str(d))


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None,
                         progress: bool = True) -> None:
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
            bar = tqdm(total=int(length) if length else None, disable=not progress, unit="B",
                       unit_scale=True, unit_divisor=1024)
            while chunk := response.read(1 << 17):
                file.write(chunk)
                digest.update(chunk)
                bar.update(len(chunk))
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


class _Silent:
    """What stands in for a bar where ``tqdm`` is not installed: it only counts."""

    def __init__(self, iterable=None, *, total=None, disable=False, **_):
        self.iterable, self.total, self.disable, self.n = iterable, total, disable, 0

    def __iter__(self):
        for item in self.iterable or ():
            yield item
            self.update()

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    def update(self, n=1):
        self.n += n

    def close(self):
        pass

    set_description = set_postfix = write = lambda self, *args, **kwargs: None


def tqdm(*args, **kwargs):
    """A bar of the package ``tqdm``, or one that shows nothing where that is not installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return _Silent(*args, **kwargs)
    return tqdm(*args, **kwargs)


def load_state_dict_from_url(url: str, model_dir: str | None = None, map_location=None,
                             progress: bool = True, check_hash: bool = False,
                             file_name: str | None = None, weights_only: bool = True):
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


# --- repositories ----------------------------------------------------------------------

_REPOSITORY = re.compile(r"([^/:]+)/([^/:]+)(?::(.+))?")


@contextmanager
def _in_path(folder):
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _hubconf(folder):
    """The repository's ``hubconf.py``, run as a module."""
    path = os.path.join(folder, MODULE_HUBCONF)
    spec = importlib.util.spec_from_file_location("hubconf.py", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with _in_path(folder):
        spec.loader.exec_module(module)
    return module


def _entry(module, name):
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    needed = getattr(module, VAR_DEPENDENCY, None) or ()
    missing = [package for package in needed if not _is_installed(package)]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    function = getattr(module, name, None)
    if not callable(function):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return function


def _is_installed(package):
    # What runs is ftorch, also where ``torch`` is asked for.
    return package == "torch" or importlib.util.find_spec(package) is not None


def _check_trust(folder, owner, name, trust_repo):
    """Asks whether a repository's code may run, unless it has been trusted before.

    Raises:
        Exception: if not, as in PyTorch.
    """
    path = os.path.join(get_dir(), "trusted_list")
    trusted = set()
    if os.path.exists(path):
        with open(path) as file:
            trusted = set(file.read().split())
    known = f"{owner}_{name}" in trusted or os.path.isdir(folder)
    if trust_repo is False or (trust_repo == "check" and not known):
        answer = input(
            f"The repository {owner}_{name} does not belong to the list of trusted repositories and "
            "as such cannot be downloaded. Do you trust this repository and wish to add it to the "
            "trusted list of repositories (y/N)?"
        ).lower()
        if answer in ("n", "no", ""):
            raise Exception("Untrusted repository.")
        if answer not in ("y", "yes"):
            raise ValueError(f"Unrecognized response {answer}.")
    if not known:
        with open(path, "a") as file:
            file.write(f"{owner}_{name}\n")


def _repository(github, force_reload, trust_repo, verbose=True):
    """The folder of a repository on GitHub, downloaded unless it is there."""
    match = _REPOSITORY.fullmatch(github)
    if match is None:
        raise ValueError(
            f"Invalid repository {github!r}: it should have the form owner/name or owner/name:ref"
        )
    owner, name, ref = match.groups()
    os.makedirs(get_dir(), exist_ok=True)
    candidates = [ref] if ref else ["main", "master"]
    folders = [
        os.path.join(get_dir(), f"{owner}_{name}_{r.replace('/', '_')}") for r in candidates
    ]
    for folder in folders:
        if os.path.isdir(folder) and not force_reload:
            _check_trust(folder, owner, name, trust_repo)
            if verbose:
                sys.stderr.write(f"Using cache found in {folder}\n")
            return folder
    _check_trust(folders[0], owner, name, trust_repo)
    url = f"https://github.com/{owner}/{name}/zipball/{ref or 'HEAD'}"
    with tempfile.TemporaryDirectory(dir=get_dir()) as work:
        archive = os.path.join(work, "archive.zip")
        sys.stdout.write(f'Downloading: "{url}" to {archive}\n')
        download_url_to_file(url, archive, progress=False)
        with zipfile.ZipFile(archive) as file:
            top = file.namelist()[0].split("/")[0]
            file.extractall(os.path.join(work, "content"))
        shutil.rmtree(folders[0], ignore_errors=True)
        shutil.move(os.path.join(work, "content", top), folders[0])
    return folders[0]


def list(github, force_reload=False, skip_validation=False, trust_repo="check", verbose=True):
    """The names of the models that a repository offers.

    Args:
        github: ``"owner/name"`` or ``"owner/name:ref"``, a branch or tag.
        force_reload: whether to download it again.
        trust_repo: True runs its code, False asks, ``"check"`` asks unless it has been trusted.
    """
    module = _hubconf(_repository(github, force_reload, trust_repo, verbose))
    return [n for n in dir(module) if callable(getattr(module, n)) and not n.startswith("_")]


def help(github, model, force_reload=False, skip_validation=False, trust_repo="check"):
    """The docstring of a model's function; for the arguments see `list`."""
    folder = _repository(github, force_reload, trust_repo)
    return _entry(_hubconf(folder), model).__doc__


def load(repo_or_dir, model, *args, source="github", trust_repo="check", force_reload=False,
         verbose=True, skip_validation=False, **kwargs):
    """Calls the function of a repository's ``hubconf.py`` that makes a model.

    Args:
        repo_or_dir: ``"owner/name:ref"`` on GitHub, or with ``source="local"`` a folder.
        model: the function's name; it is given ``args`` and ``kwargs``.

    Raises:
        ValueError: for another source. RuntimeError: for no such function, or missing packages.

    >>> import ftorch as torch, os, tempfile
    >>> code = "from ftorch import nn\\ndef model(n):\\n    return nn.Linear(n, 1)\\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(os.path.join(folder, "hubconf.py"), "w") as file:
    ...         _ = file.write(code)
    ...     torch.hub.load(folder, "model", 3, source="local")
    Linear(in_features=3, out_features=1, bias=True)
    """
    source = source.lower()
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        repo_or_dir = _repository(repo_or_dir, force_reload, trust_repo, verbose)
    with _in_path(repo_or_dir):
        return _entry(_hubconf(repo_or_dir), model)(*args, **kwargs)
