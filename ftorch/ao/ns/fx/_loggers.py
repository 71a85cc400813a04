"""Modules that keep what goes through them (``torch.ao.ns._numeric_suite_fx`` has them)."""

from __future__ import annotations

import ftorch as torch
from ftorch import nn
from ftorch.ao.ns.fx.utils import compute_sqnr

RNNReturnType = tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]


class OutputLogger(nn.Module):
    """Keeps what goes through it, as ``stats``, and an LSTM's results as ``stats_rnn``.

    Args:
        ref_node_name: the node that the part begins with.
        prev_node_name: the node before the logger.
        model_name: the model's name.
        ref_name: the part's name.
        prev_node_target_type, ref_node_target_type: what the two nodes call.
        results_type: "node_output" or "node_input".
        index_within_arg, index_of_arg: which argument, and which part of it, an input is.
        fqn: the path of the module that the node is in.
        qconfig_str: the QConfig of a shadow.
    """

    stats: list[torch.Tensor]
    stats_rnn: list[RNNReturnType]
    # Graphs keep calls whose results nobody reads.
    _is_impure = True
    __module__ = "ftorch.ao.ns._numeric_suite_fx"

    def __init__(self, ref_node_name: str, prev_node_name: str, model_name: str, ref_name: str,
                 prev_node_target_type: str, ref_node_target_type: str, results_type: str, index_within_arg: int,
                 index_of_arg: int, fqn: str | None, qconfig_str: str | None = ""):
        super().__init__()
        self.stats = []
        self.stats_rnn = []
        self.ref_node_name, self.prev_node_name = ref_node_name, prev_node_name
        self.model_name, self.ref_name = model_name, ref_name
        self.prev_node_target_type, self.ref_node_target_type = prev_node_target_type, ref_node_target_type
        self.results_type = results_type
        self.index_within_arg, self.index_of_arg = index_within_arg, index_of_arg
        self.fqn = fqn
        self.enabled = True
        self.qconfig_str = qconfig_str
        self.save_activations = True

    def forward(self, x):
        """Keeps ``x`` if the logger is enabled, and gives it on."""
        if self.enabled and self.save_activations:
            if isinstance(x, torch.Tensor):
                self.stats.append(x.detach())
            elif isinstance(x, tuple) and len(x) == 2 and len(x[1]) == 2:
                self.stats_rnn.append((x[0].detach(), (x[1][0].detach(), x[1][1].detach())))
        return x

    def __repr__(self):
        shown = {k: v for k, v in self.__dict__.items() if k != "training" and not k.startswith("_")}
        return f"{self._name}({shown})"

    _name = "OutputLogger"


class OutputComparisonLogger(OutputLogger):
    """Compares what goes through it with another tensor, as ``comparisons``."""

    _name = "OutputComparisonLogger"
    __module__ = "ftorch.ao.ns._numeric_suite_fx"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.comparison_fn = compute_sqnr
        self.comparison_fn_name = "sqnr"
        self.comparisons = []

    def forward(self, x, x_ref):  # type: ignore[override]
        """Compares if the logger is enabled, and gives ``x`` on; AssertionError for what is no tensor."""
        if self.enabled:
            if not isinstance(x, torch.Tensor):
                raise AssertionError("non-tensor inputs not yet supported")
            if self.save_activations:
                self.stats.append(x.detach())
            self.comparisons.append(self.comparison_fn(x, x_ref))
        return x
