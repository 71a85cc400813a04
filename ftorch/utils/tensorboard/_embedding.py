"""The files of TensorBoard's projector."""

from __future__ import annotations

import math
import os
import re

import numpy as np
from google.protobuf import text_format
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

from . import _pictures

_CONFIG = "projector_config.pbtxt"


def write(folder, points, metadata, images, step, tag, header):
    """Writes points, labels and pictures, and adds them to the folder's configuration."""
    if points.ndim != 2:
        raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
    name = re.sub(r"[%/\\]", lambda found: f"%{ord(found[0]):02x}", tag)
    place = f"{str(step).zfill(5)}/{name}"
    target = os.path.join(folder, place)
    os.makedirs(target, exist_ok=True)
    config = ProjectorConfig()
    if os.path.exists(path := os.path.join(folder, _CONFIG)):
        with open(path) as file:
            text_format.Parse(file.read(), config)
    entry = config.embeddings.add()
    entry.tensor_name = f"{tag}:{str(step).zfill(5)}"
    entry.tensor_path = f"{place}/tensors.tsv"
    _write_rows(os.path.join(target, "tensors.tsv"), points.tolist())
    if metadata is not None:
        if len(metadata) != len(points):
            raise AssertionError("#labels should equal with #data points")
        entry.metadata_path = f"{place}/metadata.tsv"
        rows = [header, *metadata] if header else [[m] for m in metadata]
        _write_rows(os.path.join(target, "metadata.tsv"), rows)
    if images is not None:
        if len(images) != len(points):
            raise AssertionError("#images should equal with #data points")
        entry.sprite.image_path = f"{place}/sprite.png"
        entry.sprite.single_image_dim.extend([images.shape[3], images.shape[2]])
        _sprite(images, os.path.join(target, "sprite.png"))
    with open(path, "w") as file:
        file.write(text_format.MessageToString(config))


def _write_rows(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines("\t".join(map(str, row)) + "\n" for row in rows)


def _sprite(images, path):
    """All pictures in one, in a square."""
    from PIL import Image

    side = math.ceil(math.sqrt(len(images)))
    canvas = np.zeros((side * side, *images.shape[1:]), images.dtype)
    canvas[: len(images)] = images
    n, channels, height, width = canvas.shape
    grid = canvas.reshape(side, side, channels, height, width).transpose(0, 3, 1, 4, 2)
    whole = _pictures.to_hwc(grid.reshape(side * height, side * width, channels), "HWC")
    Image.fromarray(_pictures.as_bytes(whole)).save(path)
