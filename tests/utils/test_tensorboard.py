"""`SummaryWriter` writes the events that PyTorch's writes."""

import glob
import importlib
import os

import numpy as np
import pytest
import torch as reference
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

import ftorch as torch

PACKAGES = (torch, reference)


def events(folder):
    """{run's folder: [(step, summary's value)]}, with the time left out."""
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "**", "events*"), recursive=True)):
        run = os.path.relpath(os.path.dirname(path), folder)
        for event in EventFileLoader(path).Load():
            for value in event.summary.value:
                found.setdefault(run, []).append((event.step, value))
    return found


def written(package, folder, write):
    writer = importlib.import_module(f"{package.__name__}.utils.tensorboard").SummaryWriter
    with writer(str(folder)) as w:
        write(package, w)
    return events(folder)


def picture(package, *shape):
    return package.arange(float(np.prod(shape))).view(shape) / 256


CASES = {
    "scalar": lambda p, w: w.add_scalar("a/b", 0.5, 3, walltime=1.0),
    "scalar of a tensor": lambda p, w: w.add_scalar("x", p.tensor([2.5], requires_grad=True), 1),
    "scalar, new style": lambda p, w: w.add_scalar("x", 2.5, 1, new_style=True),
    "scalar, double": lambda p, w: w.add_scalar("x", 0.1, new_style=True, double_precision=True),
    "scalars": lambda p, w: w.add_scalars("main/tag", {"a": 1, "b": p.tensor(2.0)}, 5),
    "histogram": lambda p, w: w.add_histogram("h", p.linspace(-2, 3, 50), 1),
    "histogram, auto": lambda p, w: w.add_histogram("h", p.arange(50) / 8, bins="auto"),
    "histogram, bins": lambda p, w: w.add_histogram("h", p.linspace(1, 3, 9), bins=7, max_bins=3),
    "histogram of one": lambda p, w: w.add_histogram("h", p.zeros(4)),
    "raw histogram": lambda p, w: w.add_histogram_raw("h", 0, 3, 4, 6, 10, [1, 2, 3], [2, 1, 1]),
    "image": lambda p, w: w.add_image("i", picture(p, 3, 4, 5), 2),
    "bytes": lambda p, w: w.add_image("i", p.arange(20, dtype=p.uint8).view(4, 5), dataformats="HW"),
    "images": lambda p, w: w.add_images("i", picture(p, 10, 1, 2, 3)),
    "other layout": lambda p, w: w.add_images("i", picture(p, 3, 4, 5, 3), dataformats="NHWC"),
    "text": lambda p, w: w.add_text("t", "*Grüße*", 4),
    "audio": lambda p, w: w.add_audio("s", p.linspace(-1, 1, 30).view(1, -1), sample_rate=100),
    "tensor": lambda p, w: w.add_tensor("t", p.arange(6).view(2, 3)),
    "complex tensor": lambda p, w: w.add_tensor("t", p.ones(2, dtype=p.complex64)),
    "pr curve": lambda p, w: w.add_pr_curve("p", p.tensor([0, 1, 1, 0]), p.tensor([.1, .4, .8, .3])),
    "raw pr curve": lambda p, w: w.add_pr_curve_raw("p", *[p.arange(3.0)] * 6, num_thresholds=3),
    "custom": lambda p, w: w.add_custom_scalars(
        {"c": {"x": ["Multiline", ["a", "b"]], "y": ["Margin", ["a", "b", "c"]]}}),
    "multiline": lambda p, w: w.add_custom_scalars_multilinechart(["a", "b"]),
    "margin": lambda p, w: w.add_custom_scalars_marginchart(["a", "b", "c"], title="t"),
    "hparams": lambda p, w: w.add_hparams(
        {"lr": 0.1, "name": "adam", "steps": 3, "none": None}, {"loss": 0.5},
        {"lr": [0.1, 0.2], "name": ["adam", "sgd"]}, run_name="run", global_step=2),
    "mesh": lambda p, w: w.add_mesh("m", picture(p, 1, 4, 3), faces=p.tensor([[[0, 1, 2]]])),
    "boxes": lambda p, w: w.add_image_with_boxes(
        "b", picture(p, 3, 20, 20), p.tensor([[2, 3, 10, 12]]), rescale=2),
    "not a number": lambda p, w: w.add_scalar("x", p.ones(2)),
    "no number": lambda p, w: w.add_scalar("x", [1.0]),
    "empty": lambda p, w: w.add_histogram("h", p.ones(0)),
    "bad layout": lambda p, w: w.add_image("i", p.ones(2, 2), dataformats="CHW"),
    "two tags": lambda p, w: w.add_custom_scalars({"c": {"y": ["Margin", ["a", "b"]]}}),
    "no dict": lambda p, w: w.add_hparams([], {}),
    "other domain": lambda p, w: w.add_hparams({"a": 1}, {"b": 1}, {"a": ["x"]}),
    "bool tensor": lambda p, w: w.add_tensor("t", p.ones(2, dtype=p.bool)),
    "tensor of bytes": lambda p, w: w.add_tensor("t", p.ones(2, dtype=p.uint8)),
    "unknown tensor": lambda p, w: w.add_tensor("t", p.ones(2).to(p.float8_e5m2)),
}


@pytest.mark.parametrize("case", CASES)
def test_events(case, tmp_path):
    seen = []
    for package in PACKAGES:
        try:
            seen.append(written(package, tmp_path / package.__name__, CASES[case]))
        except Exception as e:  # noqa: BLE001 - the same from both
            seen.append((type(e).__name__, " ".join(str(e).split())))
    ours, theirs = seen
    if isinstance(theirs, tuple):
        text = ours[1].replace("ftorch.", "torch.") if isinstance(ours, tuple) else ours
        assert (ours[0], text) == theirs
        return
    assert theirs and ours == theirs


def test_embeddings(tmp_path):
    def write(package, writer):
        writer.add_embedding(
            picture(package, 5, 3), ["a", "b", "c", "d", "e"], picture(package, 5, 3, 4, 4),
            global_step=2, tag="my/tag",
        )
        writer.add_embedding(picture(package, 2, 3), [["x", "1"], ["y", "2"]], tag="two",
                             metadata_header=["n", "i"])

    contents = []
    for package in PACKAGES:
        folder = tmp_path / package.__name__
        written(package, folder, write)
        files = {p: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
        contents.append({
            str(p.relative_to(folder)): data for p, data in files.items() if "events" not in p.name
        })
    assert contents[0].keys() == contents[1].keys()
    for name, data in contents[1].items():
        assert contents[0][name] == data, name


def test_video(tmp_path):
    folder = tmp_path / "video"
    found = written(torch, folder, lambda p, w: w.add_video("v", picture(p, 2, 3, 3, 4, 5), fps=2))
    ((_, value),) = found["."]
    width, height, picture_bytes = value.tensor.string_val
    assert (int(width), int(height)) == (10, 4) and picture_bytes.startswith(b"GIF89a")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_tensors(dtype, tmp_path):
    """TensorBoard reads what was written; what PyTorch writes are the bits of a wider number."""
    values = torch.tensor([0.5, -3.0], dtype=getattr(torch, dtype))
    ((_, value),) = written(torch, tmp_path, lambda p, w: w.add_tensor("t", values))["."]
    bits = np.array(value.tensor.half_val, np.uint16).view(np.int16).tolist()
    assert bits == values.view(torch.int16).tolist()


def _sequential(p):
    nn = p.nn
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 2)))


class _Parts:
    """A model with a chunk of its own between two modules, in either library."""

    def __new__(cls, p):
        class Parts(p.nn.Module):
            def __init__(self):
                super().__init__()
                self.body = p.nn.Sequential(p.nn.Conv2d(3, 4, 3), p.nn.Tanh())
                self.head = p.nn.Linear(4, 2)

            def forward(self, x, scale):
                a, b = self.body(x).chunk(2, 0)
                return self.head((a + b * scale).mean((2, 3)))

        return Parts()


GRAPHS = {
    "sequential": (_sequential, lambda p: p.randn(2, 3)),
    "parts": (_Parts, lambda p: (p.randn(2, 3, 5, 5), p.ones(1))),
}


def _graph(package, folder, write):
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    writer = importlib.import_module(f"{package.__name__}.utils.tensorboard").SummaryWriter
    with writer(str(folder)) as w:
        write(w)
    (path,) = glob.glob(os.path.join(folder, "events*"))
    loaded = [e.graph_def for e in EventFileLoader(path).Load() if e.graph_def]
    return GraphDef.FromString(loaded[0])


def _tensor_ops(graph):
    """[(scope, operator, shape)] of what computes tensors, inputs and outputs."""
    return sorted(
        (node.name.rpartition("/")[0], node.op,
         [d.size for shape in node.attr["_output_shapes"].list.shape for d in shape.dim])
        for node in graph.node
        if node.op == "IO Node" or node.op.startswith("aten::") and node.op != "aten::chunk"
    )


@pytest.mark.parametrize("name", GRAPHS)
def test_add_graph(name, tmp_path):
    """The operators, in the scopes of their modules, with their shapes; all inputs are nodes."""
    make, inputs = GRAPHS[name]
    found = [
        _graph(p, tmp_path / p.__name__, lambda w, p=p: w.add_graph(make(p), inputs(p)))
        for p in PACKAGES
    ]
    mine, theirs = (_tensor_ops(g) for g in found)
    assert mine == sorted(theirs)
    names = [node.name for node in found[0].node]
    assert len(set(names)) == len(names)
    assert {i for node in found[0].node for i in node.input} <= set(names)


def test_add_onnx_graph(tmp_path):
    path = str(tmp_path / "model.onnx")
    torch.onnx.export(_sequential(torch), (torch.randn(2, 3),), path)
    found = [
        _graph(p, tmp_path / p.__name__, lambda w: w.add_onnx_graph(path)) for p in PACKAGES
    ]
    assert list(found[0].node) == list(found[1].node)
