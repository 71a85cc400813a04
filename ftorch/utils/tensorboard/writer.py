"""`SummaryWriter`: writes what TensorBoard shows."""

from __future__ import annotations

import datetime
import os
import socket
import time

from tensorboard.compat.proto import event_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from . import _pictures, summary
from .summary import make_np

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """One file of events in a folder."""

    def __init__(self, log_dir, max_queue=10, flush_secs=120, filename_suffix=""):
        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)
        self.flush, self.close = self.event_writer.flush, self.event_writer.close
        self.get_logdir = self.event_writer.get_logdir

    def add_event(self, event, step=None, walltime=None):
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary, global_step=None, walltime=None):
        self.add_event(event_pb2.Event(summary=summary), global_step, walltime)


def _default_bins():
    """Bounds that grow by a tenth from 1e-12 to 1e20, in both directions."""
    bounds, v = [], 1e-12
    while v < 1e20:
        bounds.append(v)
        v *= 1.1
    return [-b for b in reversed(bounds)] + [0] + bounds


class SummaryWriter:
    """Writes scalars, histograms, pictures and more for TensorBoard, in the background.

    Args:
        log_dir: the run's folder; ``runs/<date>_<host><comment>`` by default.
        comment: the end of the default folder's name.
        purge_step: events of this step and later that are there already are hidden.
        max_queue: events that may wait until one that is added has to.
        flush_secs: how often, in seconds, waiting events are written.
        filename_suffix: the end of the files' names.

    In each method ``global_step`` is the step shown and ``walltime`` replaces the time.

    >>> import tempfile, os
    >>> from ftorch.utils.tensorboard import SummaryWriter
    >>> with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
    ...     writer.add_scalar("loss", 0.5, global_step=1)
    ...     len(os.listdir(folder))
    1
    """

    def __init__(self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120,
                 filename_suffix=""):
        if not log_dir:
            now = datetime.datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir, self.purge_step = log_dir, purge_step
        self.max_queue, self.flush_secs, self.filename_suffix = max_queue, flush_secs, filename_suffix
        self.default_bins = _default_bins()
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._get_file_writer()

    def _open(self, folder):
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def _get_file_writer(self) -> FileWriter:
        if self.all_writers is None or self.file_writer is None:
            writer = self.file_writer = self._open(self.log_dir)
            self.all_writers = {writer.get_logdir(): writer}
            if self.purge_step is not None:
                step, self.purge_step = self.purge_step, None
                writer.add_event(event_pb2.Event(step=step, file_version="brain.Event:2"))
                status = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
                writer.add_event(event_pb2.Event(step=step, session_log=status))
        return self.file_writer

    def _write(self, message, global_step, walltime):
        self._get_file_writer().add_summary(message, global_step, walltime)

    def get_logdir(self):
        """The run's folder."""
        return self.log_dir

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False,
                   double_precision=False):
        """A number, or a tensor of one element."""
        message = summary.scalar(tag, scalar_value, new_style=new_style, double_precision=double_precision)
        self._write(message, global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Several numbers in one chart: {name: number}."""
        walltime = time.time() if walltime is None else walltime
        start = f"{self._get_file_writer().get_logdir()}/{main_tag.replace('/', '_')}_"
        assert self.all_writers is not None
        for tag, value in tag_scalar_dict.items():
            if start + tag not in self.all_writers:
                self.all_writers[start + tag] = self._open(start + tag)
            message = summary.scalar(main_tag, value)
            self.all_writers[start + tag].add_summary(message, global_step, walltime)

    def add_tensor(self, tag, tensor, global_step=None, walltime=None):
        """A tensor's values."""
        self._write(summary.tensor(tag, tensor), global_step, walltime)

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None,
                      max_bins=None):
        """How values are distributed. ``bins`` as in `numpy.histogram`, or ``"tensorflow"``."""
        if isinstance(bins, str) and bins == "tensorflow":
            bins = self.default_bins
        self._write(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(self, tag, min, max, num, sum, sum_squares, bucket_limits,
                          bucket_counts, global_step=None, walltime=None):
        """A histogram that is computed already; ``bucket_limits`` are the buckets' upper bounds."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError(
                "len(bucket_limits) != len(bucket_counts), see the document."
            )
        message = summary.histogram_raw(
            tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts
        )
        self._write(message, global_step, walltime)

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
        """A picture: bytes, or numbers from 0 to 1. ``dataformats`` names its dimensions."""
        message = summary.image(tag, img_tensor, dataformats=dataformats)
        self._write(message, global_step, walltime)

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW"):
        """Several pictures as one, in rows of eight."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(self, tag, img_tensor, box_tensor, global_step=None, walltime=None,
                             rescale=1, dataformats="CHW", labels=None):
        """A picture with boxes (N, 4): left, top, right, bottom."""
        if labels is not None:
            labels = [labels] if isinstance(labels, str) else labels
            if len(labels) != len(box_tensor):
                labels = None
        message = summary.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels)
        self._write(message, global_step, walltime)

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None):
        """A figure of Matplotlib, or several; closed afterwards unless ``close`` is False."""
        array = _pictures.of_figures(figure, close)
        layout = "NCHW" if isinstance(figure, list) else "CHW"
        self.add_image(tag, array, global_step, walltime, layout)

    def add_video(self, tag, vid_tensor, global_step=None, fps=4, walltime=None):
        """Videos (N, T, C, H, W) side by side, as an animated GIF."""
        self._write(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(self, tag, snd_tensor, global_step=None, sample_rate=44100, walltime=None):
        """A sound of one channel: numbers from -1 to 1."""
        self._write(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        """A text, in Markdown."""
        self._write(summary.text(tag, text_string), global_step, walltime)

    def add_pr_curve(self, tag, labels, predictions, global_step=None, num_thresholds=127,
                     weights=None, walltime=None):
        """Precision against recall, of binary labels and predicted probabilities."""
        labels, predictions = make_np(labels), make_np(predictions)
        message = summary.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._write(message, global_step, walltime)

    def add_pr_curve_raw(self, tag, true_positive_counts, false_positive_counts,
                         true_negative_counts, false_negative_counts, precision, recall,
                         global_step=None, num_thresholds=127, weights=None,
                         walltime=None):
        """Precision against recall, counted already for each threshold."""
        message = summary.pr_curve_raw(
            tag, true_positive_counts, false_positive_counts, true_negative_counts,
            false_negative_counts, precision, recall, num_thresholds, weights,
        )
        self._write(message, global_step, walltime)

    def add_custom_scalars(self, layout):
        """Charts of scalars: {category: {title: ["Multiline" or "Margin", tags]}}."""
        self._write(summary.custom_scalars(layout), None, None)

    def add_custom_scalars_multilinechart(self, tags, category="default", title="untitled"):
        """One chart of several scalars."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(self, tags, category="default", title="untitled"):
        """One chart of a scalar with its bounds: three tags."""
        if len(tags) != 3:
            raise AssertionError(f"Expected 3 tags, got {len(tags)}.")
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_mesh(self, tag, vertices, colors=None, faces=None, config_dict=None,
                 global_step=None, walltime=None):
        """A mesh or points in space: (B, N, 3) each."""
        message = summary.mesh(tag, vertices, colors, faces, config_dict)
        self._write(message, global_step, walltime)

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None,
                    global_step=None):
        """Hyperparameters and what they led to, as a run of its own below this one."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        messages = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        with SummaryWriter(folder) as writer:
            for message in messages:
                writer._write(message, global_step, None)
            for name, value in metric_dict.items():
                writer.add_scalar(name, value, global_step)

    def add_graph(self, model, input_to_model=None, verbose=False, use_strict_trace=True):
        """The operators of a module, found by tracing it with example inputs.

        Args:
            input_to_model: a tensor, or a tuple of the inputs.
            verbose: print the graph.
            use_strict_trace: refuse outputs that are dicts or lists (see `torch.jit.trace`).

        Raises:
            RuntimeError: where the module can't be traced.
        """
        from . import _graph

        graph, stats = _graph.graph_of(model, input_to_model, use_strict_trace)
        if verbose:
            print(graph)
        writer = self._get_file_writer()
        writer.add_event(event_pb2.Event(graph_def=graph.SerializeToString()))
        tagged = event_pb2.TaggedRunMetadata(tag="step1", run_metadata=stats.SerializeToString())
        writer.add_event(event_pb2.Event(tagged_run_metadata=tagged))

    def add_onnx_graph(self, prototxt):
        """The operators of an ONNX file."""
        from . import _graph

        graph = _graph.graph_of_onnx(prototxt)
        self._get_file_writer().add_event(event_pb2.Event(graph_def=graph.SerializeToString()))

    def add_embedding(self, mat, metadata=None, label_img=None, global_step=None, tag="default",
                      metadata_header=None):
        """Points (N, D) for the projector, with a label and a picture (N, C, H, W) each."""
        from . import _embedding

        _embedding.write(
            self._get_file_writer().get_logdir(), make_np(mat), metadata,
            None if label_img is None else make_np(label_img), global_step or 0, tag, metadata_header,
        )

    def flush(self):
        """Writes what is waiting."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self):
        """Writes what is waiting and closes the files; the next call opens new ones."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
