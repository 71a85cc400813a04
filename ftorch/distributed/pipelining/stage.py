"""One stage of a pipeline: its module, what it receives and what it sends (``torch.distributed.pipelining.stage``).

Every message says what it carries, so shapes and dtypes may differ from microbatch to microbatch. Messages are
kept by the receiver until it asks, so a sender never waits, and no order of sends and receives can lock.
"""

from __future__ import annotations

import ftorch as torch

from .. import distributed_c10d as dist
from ..fsdp import FSDPModule
from ..tensor import DTensor
from ._utils import as_tuple
from ._utils import as_tuple as _normalize_model_output_as_tuple  # noqa: F401

__all__ = ["PipelineStage", "build_stage"]

_DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
    torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128,
]
_HEADER = 128
_MOST = 16  # tensors of a message
_FORWARD, _BACKWARD = 0, 1


class _PipelineStageBase:
    """What all stages share: forward and backward of one microbatch, and the messages between stages.

    Raises:
        ValueError: for a stage number out of range. RuntimeError: for more processes than stages.
    """

    def __init__(self, submodule, stage_index: int, num_stages: int, device, group=None, dw_builder=None):
        if stage_index >= num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.dw_builder = dw_builder
        self.places = getattr(group, "_places", None)
        if self.places is None:
            self.device, self.group = torch.device(device), dist.group_of(group)
            self.group_rank, self.group_size = self.group.rank(), self.group.size()
        else:
            self.group, self.group_rank, self.group_size = None, 0, group.size()
        if self.group_size > num_stages:
            raise RuntimeError(
                f"Pipeline group size {self.group_size} cannot be larger than number of stages {num_stages}"
            )
        self.stage_index_to_group_rank = {i: i % self.group_size for i in range(num_stages)}
        if self.places is not None:
            self.put(stage_index % self.group_size)
        self.has_backward = False
        self.output_chunks: list = []
        self.clear_runtime_states()

    def put(self, place: int) -> None:
        """Puts the module on one of the devices of this process."""
        self.device = self.places.alone(place)
        self.submod.to(self.device)

    def _here(self, value):
        """An argument on the stage's device, where stages have devices of their own."""
        return value.to(self.device) if self.places is not None and isinstance(value, torch.Tensor) else value

    def is_ready(self, direction: int, microbatch: int) -> bool:
        """Whether what a forward (0) or backward (1) needs from a neighbour in this process is there."""
        end = self.is_last if direction else self.is_first
        return end or (direction, microbatch) in self.received

    @property
    def is_first(self) -> bool:
        """Whether no stage is before this one."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether no stage follows."""
        return self.stage_index == self.num_stages - 1

    def clear_runtime_states(self) -> None:
        """Forgets what is left of the last step."""
        self.fwd_cache: dict = {}  # {microbatch: (outputs, inputs)}
        self.bwd_cache: dict = {}  # {microbatch: gradients of inputs}
        self.received: dict = {}  # {(direction, microbatch): tensors}, of neighbours in this process
        self.weight_work: dict = {}  # {microbatch: what BACKWARD_WEIGHT does}
        self.output_chunks.clear()
        self.sent: list = []

    # --- messages ---

    def _tag(self, direction, microbatch, stage, part):
        return ((microbatch * self.num_stages + stage) * 2 + direction) * (_MOST + 1) + part

    def _send(self, direction, microbatch, to_stage, tensors):
        peer = self.stage_index_to_group_rank[to_stage]
        header, parts = [len(tensors)], []
        for t in tensors:
            if t is None:
                header += [-1, 0, 0]
                continue
            t = t.detach()
            t = (t.to_local() if isinstance(t, DTensor) else t).contiguous()
            header += [_DTYPES.index(t.dtype), int(tensors[len(parts)].requires_grad), t.dim(), *t.shape]
            parts.append(t)
        if len(header) > _HEADER or len(tensors) > _MOST:
            raise RuntimeError(f"stage {self.stage_index} passes on {len(tensors)} tensors: too many")
        header += [0] * (_HEADER - len(header))
        for i, t in enumerate([torch.tensor(header), *parts]):
            tag = self._tag(direction, microbatch, to_stage, i)
            self.sent.append(dist.isend(t, group=self.group, tag=tag, group_dst=peer))

    def _receive(self, direction, microbatch, from_stage):
        peer = self.stage_index_to_group_rank[from_stage]

        def take(t, i):
            tag = self._tag(direction, microbatch, self.stage_index, i)
            dist.irecv(t, group=self.group, tag=tag, group_src=peer).wait()
            return t

        header = take(torch.empty(_HEADER, dtype=torch.int64), 0).tolist()
        made, at, number = [], 1, 0
        for _ in range(header[0]):
            dtype, requires_grad, rank = header[at : at + 3]
            shape = header[at + 3 : at + 3 + rank]
            at += 3 + rank
            if dtype < 0:
                made.append((None, False))
                continue
            number += 1
            t = take(torch.empty(shape, dtype=_DTYPES[dtype], device=self.device), number)
            made.append((t, bool(requires_grad)))
        return made

    def _exchange_out(self, direction, microbatch, to_stage, tensors, neighbours):
        near = neighbours.get(to_stage)
        if near is None:
            self._send(direction, microbatch, to_stage, tensors)
        else:
            near.received[direction, microbatch] = [
                (None if t is None else near._here(t.detach()), t is not None and t.requires_grad) for t in tensors
            ]

    def _exchange_in(self, direction, microbatch, from_stage, neighbours):
        if from_stage in neighbours:
            return self.received.pop((direction, microbatch))
        return self._receive(direction, microbatch, from_stage)

    # --- forward ---

    def forward_one_chunk(self, fwd_chunk_id: int, args: tuple, kwargs: dict | None = None,
                          save_forward_output: bool = True, neighbours=None):
        """The output of a microbatch; the first stage takes ``args``, the others what they receive."""
        neighbours = neighbours or {}
        if self.is_first:
            inputs = tuple(self._here(x) for x in args)
        else:
            trains = self.has_backward and torch.is_grad_enabled()
            inputs = tuple(
                t.requires_grad_(wants and trains) if t.is_floating_point() or t.is_complex() else t
                for t, wants in self._exchange_in(_FORWARD, fwd_chunk_id, self.stage_index - 1, neighbours)
            )
        kwargs = {name: self._here(x) for name, x in (kwargs or {}).items()}
        self._check("input", inputs)
        output = self._run_module(inputs, kwargs)
        outputs = as_tuple(output)
        self._check("output", outputs)
        if self.is_last:
            if save_forward_output:
                self.output_chunks.append(output)
        else:
            bad = [type(o).__name__ for o in outputs if not isinstance(o, torch.Tensor)]
            if bad:
                raise RuntimeError(f"stage {self.stage_index} gives {bad[0]}: only tensors can be passed on")
            self._exchange_out(_FORWARD, fwd_chunk_id, self.stage_index + 1, outputs, neighbours)
        if self.has_backward:
            self.fwd_cache[fwd_chunk_id] = outputs, (*inputs, *kwargs.values())
        return output

    def _check(self, kind, tensors):
        pass

    def _run_module(self, inputs, kwargs):
        if isinstance(self.submod, torch.nn.parallel.DistributedDataParallel):
            with self.submod.no_sync():  # gradients are averaged at the end of the step
                return self.submod(*inputs, **kwargs)
        return self.submod(*inputs, **kwargs)

    # --- backward ---

    def backward_one_chunk(self, bwd_chunk_id: int, loss=None, full_backward: bool = True,
                           last_backward: bool = False, neighbours=None) -> None:
        """Backward of a microbatch; the last stage begins with ``loss``, the others with what they receive.

        Args:
            full_backward: False: the parameters' gradients are added by `backward_weight_one_chunk`.
        """
        neighbours = neighbours or {}
        outputs, inputs = self.fwd_cache.pop(bwd_chunk_id)
        if self.is_last:
            roots, given = [loss], [None]
        else:
            arrived = self._exchange_in(_BACKWARD, bwd_chunk_id, self.stage_index + 1, neighbours)
            pairs = [(o, g) for o, (g, _) in zip(outputs, arrived) if g is not None and o.requires_grad]
            roots, given = [o for o, _ in pairs], [g for _, g in pairs]
        own = [x for x in inputs if isinstance(x, torch.Tensor)] if not self.is_first else []
        wanted = [x for x in own if x.requires_grad]
        parameters = [p for p in self.submod.parameters() if p.requires_grad]
        if isinstance(self.submod, FSDPModule):
            self.submod.set_requires_gradient_sync(last_backward)
        splits = not full_backward and self.dw_builder is None and all(
            not isinstance(p, DTensor) for p in parameters
        )
        if splits and roots:
            grads = torch.autograd.grad(roots, wanted + parameters, given, allow_unused=True)
            found = dict(zip(map(id, wanted), grads))
            weights = grads[len(wanted) :]
            self.weight_work[bwd_chunk_id] = lambda: _accumulate(parameters, weights)
        else:
            if roots:
                torch.autograd.backward(roots, given)
            found = {id(x): x.grad for x in wanted}
            self.weight_work[bwd_chunk_id] = self.dw_builder() if self.dw_builder else lambda: None
            if full_backward:
                self.weight_work.pop(bwd_chunk_id)()
        if not self.is_first:
            grads = tuple(found.get(id(x)) for x in own)
            self._exchange_out(_BACKWARD, bwd_chunk_id, self.stage_index - 1, grads, neighbours)

    def backward_weight_one_chunk(self, bwd_chunk_id: int, last_backward: bool = False) -> None:
        """Adds the gradients of parameters that ``backward_one_chunk(full_backward=False)`` left."""
        work = self.weight_work.pop(bwd_chunk_id, None)
        if work is None:
            raise AssertionError(f"the backward of microbatch {bwd_chunk_id} has not run yet")
        work()

    def scale_grads(self, grad_scale_factor: int) -> None:
        """Divides the parameters' gradients."""
        if grad_scale_factor != 1:
            with torch.no_grad():
                for p in self.submod.parameters():
                    if p.grad is not None:
                        p.grad.div_(grad_scale_factor)

    def perform_reduce_grad(self, grad_scale_factor: int) -> None:
        """The end of a step: gradients are averaged over data-parallel processes and divided."""
        if isinstance(self.submod, torch.nn.parallel.DistributedDataParallel):
            group = self.submod.process_group
            with torch.no_grad():
                grads = [p.grad for p in self.submod.parameters() if p.grad is not None]
                if grads:
                    flat = torch.cat([g.reshape(-1) for g in grads]).div_(group.size())
                    dist.all_reduce(flat, group=group)
                    for g, part in zip(grads, flat.split([g.numel() for g in grads])):
                        g.copy_(part.view(g.shape))
        self.scale_grads(grad_scale_factor)

    def finish(self) -> None:
        """Waits until everything is sent."""
        for work in self.sent:
            work.wait()
        self.sent.clear()


def _accumulate(parameters, grads):
    with torch.no_grad():
        for p, g in zip(parameters, grads):
            if g is not None:
                p.grad = g if p.grad is None else p.grad.add_(g)


class PipelineStage(_PipelineStageBase):
    """A stage whose module the user made (``torch.distributed.pipelining.PipelineStage``).

    Args:
        submodule: the stage's part of the model. Its outputs are the next stage's inputs.
        stage_index, num_stages: its place. ``device``: where it computes.
        input_args, output_args: examples: others are refused then.
        group: the processes of the pipeline; or, where one process has all stages, a `DeviceMesh` over its devices: the
            stage's module is put on one of them then, whatever ``device`` says.
        dw_builder: called after a backward of inputs: gives the function that computes the weights' gradients.
    """

    def __init__(self, submodule, stage_index: int, num_stages: int, device, input_args=None, output_args=None,
                 output_grads=None, input_grads=None, group=None, dw_builder=None, get_mesh=None):
        super().__init__(submodule, stage_index, num_stages, device, group, dw_builder)
        self._examples = {
            "input": None if input_args is None else as_tuple(input_args),
            "output": None if output_args is None else as_tuple(output_args),
        }

    def _check(self, kind, tensors):
        examples = self._examples[kind]
        if examples is None:
            return
        if len(examples) != len(tensors):
            raise RuntimeError(
                f"stage {self.stage_index}: {len(tensors)} {kind}s, but {len(examples)} examples were given"
            )
        for i, (a, b) in enumerate(zip(examples, tensors)):
            if isinstance(a, torch.Tensor) and (a.shape != b.shape or a.dtype != b.dtype):
                raise RuntimeError(
                    f"stage {self.stage_index}: {kind} {i} has shape {tuple(b.shape)} and dtype {b.dtype}, "
                    f"its example {tuple(a.shape)} and {a.dtype}"
                )


class _PipelineStage(_PipelineStageBase):
    """A stage of a `Pipe`."""


def build_stage(stage_module, stage_index: int, pipe_info, device, group=None):
    """The stage of a module that `Pipe.get_stage_module` gave."""
    return _PipelineStage(stage_module, stage_index, pipe_info.num_stages, device, group)
