"""Arrays as pictures: any order of dimensions, grids of many, PNG and GIF."""

from __future__ import annotations

import io

import numpy as np
from tensorboard.compat.proto.summary_pb2 import Summary


def _grid(images, columns=8):
    """(N, C, H, W) side by side in rows of eight, with three channels: (H', W', 3)."""
    if images.shape[1] == 1:
        images = np.concatenate([images] * 3, 1)
    if images.shape[1] != 3:
        raise AssertionError("Input should be a 4D numpy array with 3 channels")
    count, _, height, width = images.shape
    columns = min(count, columns)
    rows = -(-count // columns)
    canvas = np.zeros((rows * columns, 3, height, width), images.dtype)
    canvas[:count] = images
    canvas = canvas.reshape(rows, columns, 3, height, width).transpose(0, 3, 1, 4, 2)
    return canvas.reshape(rows * height, columns * width, 3)


def to_hwc(array, layout):
    """An array whose dimensions a string like ``"NCHW"`` names, as one picture (H, W, C)."""
    if len(set(layout)) != len(layout):
        raise AssertionError(
            f"You can not use the same dimension shorthand twice. input_format: {layout}"
        )
    if array.ndim != len(layout):
        raise AssertionError(
            "size of input tensor and input format are different. "
            f"tensor shape: {array.shape}, input_format: {layout}"
        )
    wanted = {4: "NCHW", 3: "HWC", 2: "HW"}[len(layout)]
    array = array.transpose([layout.upper().find(c) for c in wanted])
    if wanted == "NCHW":
        return _grid(array)
    if wanted == "HW":
        array = array[:, :, None]
    return np.concatenate([array] * 3, 2) if array.shape[2] == 1 else array


def as_bytes(array):
    """Values 0 to 255 of bytes, or of numbers from 0 to 1."""
    factor = 1 if array.dtype == np.uint8 else 255
    return (array.astype(np.float32) * factor).clip(0, 255).astype(np.uint8)


def png(array, rescale=1, boxes=None, labels=None):
    """A picture (H, W, C) of bytes as the message that TensorBoard shows, with boxes drawn in it."""
    from PIL import Image, ImageDraw

    height, width, channels = array.shape
    image = Image.fromarray(array)
    if boxes is not None:
        draw = ImageDraw.Draw(image)
        for i, (left, top, right, bottom) in enumerate(boxes):
            corners = [(left, top), (left, bottom), (right, bottom), (right, top), (left, top)]
            draw.line(corners, width=2, fill="Red")
            if labels:
                draw.text((left, bottom), labels[i], fill="Black")
    image = image.resize(
        (int(width * rescale), int(height * rescale)), Image.Resampling.LANCZOS
    )
    file = io.BytesIO()
    image.save(file, format="PNG")
    return Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=file.getvalue()
    )


def gif(video, fps):
    """A video (N, T, C, H, W) as an animated picture, the N side by side."""
    from PIL import Image

    n, t, c, h, w = video.shape
    frames = [Image.fromarray(as_bytes(to_hwc(video[:, i], "NCHW"))) for i in range(t)]
    file = io.BytesIO()
    frames[0].save(
        file, format="GIF", save_all=True, append_images=frames[1:], duration=1000 / fps, loop=0
    )
    return Summary.Image(
        height=frames[0].height, width=frames[0].width, colorspace=c,
        encoded_image_string=file.getvalue(),
    )


def of_figures(figures, close=True):
    """Matplotlib's figures as (C, H, W), a list of them as (N, C, H, W)."""
    import matplotlib.backends.backend_agg as agg
    import matplotlib.pyplot as plt

    def picture(figure):
        canvas = agg.FigureCanvasAgg(figure)
        canvas.draw()
        array = np.asarray(canvas.buffer_rgba())[:, :, :3].transpose(2, 0, 1)
        if close:
            plt.close(figure)
        return array

    return np.stack([picture(f) for f in figures]) if isinstance(figures, list) else picture(figures)
