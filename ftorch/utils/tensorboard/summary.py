"""The messages that TensorBoard reads, made of values."""

from __future__ import annotations

import io
import json
import wave

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
from tensorboard.plugins.hparams import metadata as hparams_metadata
from tensorboard.plugins.mesh import metadata as mesh_metadata
from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData
from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

from ...eager.core import dtype as _dtype
from ...eager.tensor import Tensor
from . import _pictures

_MOST_THRESHOLDS = 127


def make_np(x) -> np.ndarray:
    """A NumPy array of a tensor, an array or a number.

    Raises:
        NotImplementedError: for anything else, as in PyTorch.
    """
    if isinstance(x, np.ndarray):
        return x
    if np.isscalar(x):
        return np.array([x])
    if isinstance(x, Tensor):
        # NumPy has no bfloat16 that TensorBoard's code knows.
        return (x.float() if str(x.dtype) == "torch.bfloat16" else x).numpy(force=True)
    raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")


def _metadata(plugin, content=b""):
    data = SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    return SummaryMetadata(plugin_data=data)


def _shape(*sizes):
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in sizes])


def _one(tag, **what):
    return Summary(value=[Summary.Value(tag=tag, **what)])


def scalar(name, tensor, collections=None, new_style=False, double_precision=False):
    array = make_np(tensor).squeeze()
    if array.ndim != 0:
        raise AssertionError(
            "Tensor should contain one element (0 dimensions).             "
            f"Was given size: {array.size} and {array.ndim} dimensions."
        )
    value = float(array)
    if not new_style:
        return _one(name, simple_value=value)
    message = TensorProto(float_val=[value], dtype="DT_FLOAT")
    if double_precision:
        message = TensorProto(double_val=[value], dtype="DT_DOUBLE")
    return _one(name, tensor=message, metadata=_metadata("scalars"))


def histogram_raw(name, min, max, num, sum, sum_squares, bucket_limits, bucket_counts):
    message = HistogramProto(
        min=min, max=max, num=num, sum=sum, sum_squares=sum_squares, bucket_limit=bucket_limits,
        bucket=bucket_counts,
    )
    return _one(name, histo=message)


def histogram(name, values, bins, max_bins=None):
    values = make_np(values).astype(float).reshape(-1)
    if values.size == 0:
        raise ValueError("The input has no element.")
    counts, limits = np.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        counts, limits = _coarser(counts, limits, len(counts) // max_bins)
    # Empty buckets on the left (but one) and on the right are left out.
    filled = np.flatnonzero(counts)
    first, last = (filled[0], filled[-1]) if len(filled) else (0, len(counts) - 1)
    shown = counts[first - 1 : last + 1] if first > 0 else np.concatenate([[0], counts[: last + 1]])
    limits = limits[first : last + 2]
    return histogram_raw(
        name, values.min(), values.max(), len(values), values.sum(), values.dot(values),
        limits.tolist(), shown.tolist(),
    )


def _coarser(counts, limits, step):
    """Histograms with ``step`` buckets in one."""
    rest = len(counts) % step
    if rest:
        counts = np.pad(counts, (0, step - rest))
    counts = counts.reshape(-1, step).sum(axis=-1)
    return counts, np.append(limits[:-1:step], limits[-1])


def image(tag, tensor, rescale=1, dataformats="NCHW"):
    array = _pictures.to_hwc(make_np(tensor), dataformats)
    return _one(tag, image=_pictures.png(_pictures.as_bytes(array), rescale))


def image_boxes(tag, tensor_image, tensor_boxes, rescale=1, dataformats="CHW", labels=None):
    array = _pictures.as_bytes(_pictures.to_hwc(make_np(tensor_image), dataformats))
    return _one(tag, image=_pictures.png(array, rescale, make_np(tensor_boxes).tolist(), labels))


def video(tag, tensor, fps=4):
    return _one(tag, image=_pictures.gif(make_np(tensor), fps))


def audio(tag, tensor, sample_rate=44100):
    array = make_np(tensor).squeeze()
    if abs(array).max() > 1:
        print("warning: audio amplitude out of range, auto clipped.")
        array = array.clip(-1, 1)
    if array.ndim != 1:
        raise AssertionError("input tensor should be 1 dimensional.")
    array = (array * np.iinfo(np.int16).max).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(sample_rate)
        sound.writeframes(array.tobytes())
    message = Summary.Audio(
        sample_rate=sample_rate, num_channels=1, length_frames=len(array),
        encoded_audio_string=file.getvalue(), content_type="audio/wav",
    )
    return _one(tag, audio=message)


def text(tag, text):
    content = TextPluginData(version=0).SerializeToString()
    message = TensorProto(
        dtype="DT_STRING", string_val=[text.encode()], tensor_shape=_shape(1)
    )
    return _one(tag + "/text_summary", tensor=message, metadata=_metadata("text", content))


# dtype: (its name in messages, the field, the dtype whose elements are written)
_TENSOR_KINDS = {
    "float16": ("DT_HALF", "half_val", "int16"), "bfloat16": ("DT_BFLOAT16", "half_val", "int16"),
    "float32": ("DT_FLOAT", "float_val", None), "float64": ("DT_DOUBLE", "double_val", None),
    "complex64": ("DT_COMPLEX64", "scomplex_val", "float32"),
    "complex128": ("DT_COMPLEX128", "dcomplex_val", "float64"),
    "bool": ("DT_BOOL", "bool_val", None), "uint8": ("DT_UINT8", "uint32_val", None),
    "int8": ("DT_INT8", "int_val", None), "int16": ("DT_INT16", "int_val", None),
    "int32": ("DT_INT32", "int_val", None), "int64": ("DT_INT64", "int64_val", None),
}


def tensor(tag, value):
    name = str(value.dtype).removeprefix("torch.")
    if name not in _TENSOR_KINDS:
        raise ValueError(f"{tag} has unsupported tensor dtype {value.dtype}")
    dtype, field, written = _TENSOR_KINDS[name]
    flat = value.detach().cpu().contiguous().view(-1)
    if written is not None:
        flat = flat.view(getattr(_dtype, written))
    numbers = flat.numpy()
    if field == "half_val":
        numbers = numbers.view(np.uint16)
    message = TensorProto(
        dtype=dtype, tensor_shape=_shape(*value.shape), **{field: numbers.tolist()}
    )
    return _one(tag, tensor=message, metadata=_metadata("tensor"))


def pr_curve_raw(tag, tp, fp, tn, fn, precision, recall, num_thresholds=127, weights=None):
    count = min(num_thresholds, _MOST_THRESHOLDS)
    data = np.stack([make_np(x) for x in (tp, fp, tn, fn, precision, recall)])
    content = PrCurvePluginData(version=0, num_thresholds=count).SerializeToString()
    message = TensorProto(
        dtype="DT_FLOAT", float_val=data.reshape(-1).tolist(), tensor_shape=_shape(*data.shape)
    )
    return _one(tag, tensor=message, metadata=_metadata("pr_curves", content))


def pr_curve(tag, labels, predictions, num_thresholds=127, weights=None):
    count = min(num_thresholds, _MOST_THRESHOLDS)
    weights = 1.0 if weights is None else weights
    positive = labels.astype(np.float64)
    bucket = np.int32(np.floor(predictions * (count - 1)))

    def at_least(weights):
        """For each threshold the weight of what is predicted with no less."""
        counts, _ = np.histogram(bucket, bins=count, range=(0, count - 1), weights=weights)
        return np.cumsum(counts[::-1])[::-1]

    tp, fp = at_least(positive * weights), at_least((1.0 - positive) * weights)
    tn, fn = fp[0] - fp, tp[0] - tp
    least = 1e-7
    precision, recall = tp / np.maximum(least, tp + fp), tp / np.maximum(least, tp + fn)
    return pr_curve_raw(tag, tp, fp, tn, fn, precision, recall, count)


def custom_scalars(layout):
    categories = []
    for category, charts in layout.items():
        messages = []
        for title, (kind, tags) in charts.items():
            if kind == "Margin":
                if len(tags) != 3:
                    raise AssertionError("len(tags) != 3")
                series = layout_pb2.MarginChartContent.Series(
                    value=tags[0], lower=tags[1], upper=tags[2]
                )
                content = {"margin": layout_pb2.MarginChartContent(series=[series])}
            else:
                content = {"multiline": layout_pb2.MultilineChartContent(tag=tags)}
            messages.append(layout_pb2.Chart(title=title, **content))
        categories.append(layout_pb2.Category(title=category, chart=messages))
    message = TensorProto(
        dtype="DT_STRING", tensor_shape=TensorShapeProto(),
        string_val=[layout_pb2.Layout(category=categories).SerializeToString()],
    )
    return _one("custom_scalars__config__", tensor=message, metadata=_metadata("custom_scalars"))


# (types, DataType, field of a protobuf value)
_HPARAM_KINDS = (
    ((int, float), "DATA_TYPE_FLOAT64", "number_value"),
    (str, "DATA_TYPE_STRING", "string_value"),
)


def hparams(hparam_dict, metric_dict, hparam_domain_discrete=None):
    """Three summaries: of the experiment, of a session's start, of its end."""
    if not isinstance(hparam_dict, dict):
        raise TypeError("parameter: hparam_dict should be a dictionary, nothing logged.")
    if not isinstance(metric_dict, dict):
        raise TypeError("parameter: metric_dict should be a dictionary, nothing logged.")
    hparam_domain_discrete = hparam_domain_discrete or {}
    if not isinstance(hparam_domain_discrete, dict):
        raise TypeError(
            "parameter: hparam_domain_discrete should be a dictionary, nothing logged."
        )
    for name, options in hparam_domain_discrete.items():
        if name not in hparam_dict or not isinstance(options, list) or not all(
            isinstance(o, type(hparam_dict[name])) for o in options
        ):
            raise TypeError(
                f"parameter: hparam_domain_discrete[{name}] should be a list of same type as "
                f"hparam_dict[{name}]."
            )
    start, infos = plugin_data_pb2.SessionStartInfo(), []
    for name, value in hparam_dict.items():
        if value is None:
            continue
        if isinstance(value, Tensor):
            value = make_np(value).reshape(-1)[0].item()
        for types, kind, field in _HPARAM_KINDS:
            if isinstance(value, types):
                break
        else:
            raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")
        setattr(start.hparams[name], field, value)
        info = api_pb2.HParamInfo(name=name, type=api_pb2.DataType.Value(kind))
        for option in hparam_domain_discrete.get(name, ()):
            setattr(info.domain_discrete.values.add(), field, option)
        infos.append(info)
    content = {
        hparams_metadata.EXPERIMENT_TAG: {
            "experiment": api_pb2.Experiment(
                hparam_infos=infos,
                metric_infos=[
                    api_pb2.MetricInfo(name=api_pb2.MetricName(tag=name)) for name in metric_dict
                ],
            )
        },
        hparams_metadata.SESSION_START_INFO_TAG: {"session_start_info": start},
        hparams_metadata.SESSION_END_INFO_TAG: {
            "session_end_info": plugin_data_pb2.SessionEndInfo(
                status=api_pb2.Status.Value("STATUS_SUCCESS")
            )
        },
    }
    return [
        _one(tag, metadata=_metadata(
            hparams_metadata.PLUGIN_NAME,
            plugin_data_pb2.HParamsPluginData(
                version=hparams_metadata.PLUGIN_DATA_VERSION, **fields
            ).SerializeToString(),
        ))
        for tag, fields in content.items()
    ]


def mesh(tag, vertices, colors, faces, config_dict, display_name=None, description=None):
    parts = [(vertices, MeshPluginData.VERTEX), (faces, MeshPluginData.FACE),
             (colors, MeshPluginData.COLOR)]
    parts = [(make_np(t), kind) for t, kind in parts if t is not None]
    components = mesh_metadata.get_components_bitmask([kind for _, kind in parts])
    config = json.dumps({} if config_dict is None else config_dict, sort_keys=True)
    values = []
    for array, kind in parts:
        metadata = mesh_metadata.create_summary_metadata(
            tag, display_name, kind, components, array.shape, description, json_config=config
        )
        message = TensorProto(
            dtype="DT_FLOAT", float_val=array.reshape(-1).tolist(),
            tensor_shape=_shape(*array.shape),
        )
        name = mesh_metadata.get_instance_name(tag, kind)
        values.append(Summary.Value(tag=name, tensor=message, metadata=metadata))
    return Summary(value=values)
