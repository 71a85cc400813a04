"""From files' bytes to objects, by the extension of the file's name."""

from __future__ import annotations

import importlib
import io
import json
import os
import pickle
import tempfile

import ftorch as torch

from .common import StreamWrapper

__all__ = [
    "Decoder",
    "ImageHandler",
    "MatHandler",
    "audiohandler",
    "basichandlers",
    "extension_extract_fn",
    "handle_extension",
    "imagehandler",
    "mathandler",
    "videohandler",
]


def basichandlers(extension: str, data):
    """Decodes text, integers, JSON, pickles and ``.pt`` files; None for other extensions.

    >>> basichandlers("json", b'{"a": 1}')
    {'a': 1}
    """
    if extension in "txt text transcript":
        return data.decode("utf-8")
    if extension in ("cls", "cls2", "class", "count", "index", "inx", "id"):
        try:
            return int(data)
        except ValueError:
            return None
    if extension in "json jsn":
        return json.loads(data)
    if extension in ("pyd", "pickle"):
        return pickle.loads(data)
    if extension == "pt":
        return torch.load(io.BytesIO(data))
    return None


# What to make (NumPy array, tensor or PIL image), of which values, and the mode of the picture.
imagespecs = {
    "l8": ("numpy", "uint8", "l"),
    "rgb8": ("numpy", "uint8", "rgb"),
    "rgba8": ("numpy", "uint8", "rgba"),
    "l": ("numpy", "float", "l"),
    "rgb": ("numpy", "float", "rgb"),
    "rgba": ("numpy", "float", "rgba"),
    "torchl8": ("torch", "uint8", "l"),
    "torchrgb8": ("torch", "uint8", "rgb"),
    "torchrgba8": ("torch", "uint8", "rgba"),
    "torchl": ("torch", "float", "l"),
    "torchrgb": ("torch", "float", "rgb"),
    "torch": ("torch", "float", "rgb"),
    "torchrgba": ("torch", "float", "rgba"),
    "pill": ("pil", None, "l"),
    "pil": ("pil", None, "rgb"),
    "pilrgb": ("pil", None, "rgb"),
    "pilrgba": ("pil", None, "rgba"),
}


def handle_extension(extensions, f):
    """A handler that calls ``f(data)`` for keys that end in the extension, in any case; of
    several in a string with spaces, the first one decides, as in PyTorch."""
    targets = [extension.split(".") for extension in extensions.lower().split()]

    def handler(key, data):
        parts = key.lower().split(".")
        for target in targets:
            if len(target) <= len(parts):
                return f(data) if parts[-len(target) :] == target else None
        return None

    return handler


def _need(module, package, purpose):
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as e:
        shown = module.split(".")[0]
        raise ModuleNotFoundError(
            f"Package `{shown}` is required to be installed for {purpose}."
            f"Please use `pip install {package}` to install the package"
        ) from e


class ImageHandler:
    """Decodes pictures with Pillow.

    Args:
        imagespec: a key of ``imagespecs``: what to make (nothing for NumPy arrays of shape
            (H, W, C), ``torch`` for tensors of shape (C, H, W), ``pil`` for images), then the
            mode (``l``, ``rgb``, ``rgba``), then ``8`` for uint8 instead of float32 in [0, 1].

    Raises:
        AssertionError: for an unknown ``imagespec``.
    """

    def __init__(self, imagespec) -> None:
        if imagespec not in imagespecs:
            raise AssertionError(f"unknown image specification: {imagespec}")
        self.imagespec = imagespec.lower()

    def __call__(self, extension, data):
        if extension.lower() not in ("jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm"):
            return None
        import numpy as np

        pil = _need("PIL.Image", "Pillow", "default image decoder")
        kind, values, mode = imagespecs[self.imagespec]
        with io.BytesIO(data) as stream:
            image = pil.open(stream)
            image.load()
        image = image.convert(mode.upper())
        if kind == "pil":
            return image
        array = np.asarray(image)
        if kind == "numpy":
            return array if values == "uint8" else array.astype("f") / 255.0
        tensor = torch.from_numpy(np.array(array.transpose(2, 0, 1)))
        return tensor if values == "uint8" else tensor / 255.0


def imagehandler(imagespec):
    """An `ImageHandler`."""
    return ImageHandler(imagespec)


def _decode_file(extension, data, load):
    """Calls ``load`` with the path of a file that holds the data for the moment."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"file.{extension}")
        with open(path, "wb") as stream:
            stream.write(data)
        return load(path)


def videohandler(extension, data):
    """Decodes films with torchvision, which has to be there."""
    if extension not in ("mp4", "ogv", "mjpeg", "avi", "mov", "h264", "mpg", "webm", "wmv"):
        return None
    video = _need("torchvision.io", "torchvision", "default video file loader")
    return _decode_file(extension, data, video.read_video)


def audiohandler(extension, data):
    """Decodes sound with torchaudio, which has to be there."""
    if extension not in ("flac", "mp3", "sox", "wav", "m4a", "ogg", "wma"):
        return None
    audio = _need("torchaudio", "torchaudio", "default audio file loader")
    return _decode_file(extension, data, audio.load)


class MatHandler:
    """Decodes MATLAB's files with SciPy; arguments are those of `scipy.io.loadmat`."""

    def __init__(self, **loadmat_kwargs) -> None:
        self.sio = _need("scipy.io", "scipy", "mat file")
        self.loadmat_kwargs = loadmat_kwargs

    def __call__(self, extension, data):
        if extension != "mat":
            return None
        with io.BytesIO(data) as stream:
            return self.sio.loadmat(stream, **self.loadmat_kwargs)


def mathandler(**loadmat_kwargs):
    """A `MatHandler`."""
    return MatHandler(**loadmat_kwargs)


def extension_extract_fn(pathname):
    """The extension of a path, without its dot."""
    return os.path.splitext(pathname)[1].removeprefix(".")


class Decoder:
    """Tries handlers in turn: functions of (key, bytes) that return None to decline.

    Args:
        handler: the handlers.
        key_fn: from a path to the key that handlers see; the extension by default.
    """

    def __init__(self, *handler, key_fn=extension_extract_fn) -> None:
        self.handlers = list(handler)
        self.key_fn = key_fn

    def add_handler(self, *handler) -> None:
        """Puts handlers before the others."""
        self.handlers = [*handler, *self.handlers]

    @staticmethod
    def _is_stream_handle(data):
        file = data.file_obj if isinstance(data, StreamWrapper) else data
        return isinstance(file, (io.BufferedIOBase, io.RawIOBase))

    def decode1(self, key, data):
        """The object for bytes or a stream, or these themselves if no handler knows the key."""
        if not data:
            return data
        if self._is_stream_handle(data):
            stream, data = data, b"".join(data)
            stream.close()
        for handler in self.handlers:
            if (result := handler(key, data)) is not None:
                return result
        return data

    def decode(self, data):
        """A dict from paths to objects, for a pair of path and data or several."""
        result = {}
        for path, value in [data] if isinstance(data, tuple) else data or ():
            if path[0] == "_" and isinstance(value, bytes):
                result[path] = value.decode("utf-8")
            else:
                result[path] = self.decode1(self.key_fn(path), value)
        return result

    def __call__(self, data):
        return self.decode(data)
