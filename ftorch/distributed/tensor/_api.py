"""`DTensor`: a tensor of which each process has a part."""

from __future__ import annotations

import inspect
import warnings

import ftorch as torch

from ...eager.tensor import DISPATCHING
from ..device_mesh import DeviceMesh, _mesh_resources
from ._dtensor_spec import DTensorSpec, TensorMeta
from ._redistribute import (
    Redistribute,
    SumsTaken,
    contiguous_strides,
    from_torch_tensor,
    global_strides,
    gradient_placements,
    local_shape,
    move,
    redistributed,
    to_torch_tensor,
)
from .placement_types import Placement, Replicate, along, divides

__all__ = ["DTensor", "distribute_module", "distribute_tensor"]

_WHOLE_CALLS = frozenset(
    "uniform normal bernoulli random exponential trunc_normal kaiming_uniform xavier_uniform".split()
)


class DTensor(torch.Tensor):
    """A tensor over a mesh: on each mesh dimension divided (`Shard`), whole (`Replicate`) or a sum of
    terms (`Partial`) (``torch.distributed.tensor.DTensor``).

    Calls on it are calls on the parts, between the redistributions that they need; gradients
    lie as the tensors do. Each process of the mesh has to make the same calls.

    >>> import ftorch as torch
    >>> from ftorch.distributed.tensor import distribute_tensor, Shard
    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = dist.init_device_mesh("cpu", (1,))
    >>> x = distribute_tensor(torch.arange(4.0), mesh, [Shard(0)])
    >>> (x * 2).full_tensor()
    tensor([0., 2., 4., 6.])
    >>> dist.destroy_process_group()
    """

    # Dimensions of the mesh on which it is whole and takes gradients that are terms of a sum as they are.
    _terms: tuple[int, ...] = ()
    _sums_taken: SumsTaken | None = None

    @classmethod
    def _made(cls, local, mesh, placements, shape, strides=None):
        strides = contiguous_strides(shape) if strides is None else strides
        made = torch.Tensor._make_wrapper_subclass(
            cls, shape, strides=strides, dtype=local.dtype, device=local.device
        )
        made._local_tensor = local
        made._spec = DTensorSpec(mesh, placements, TensorMeta(torch.Size(shape), tuple(strides), local.dtype))
        made._gradient = None
        return made

    def __new__(cls, local_tensor, spec, *, requires_grad=False):
        if local_tensor.requires_grad and not requires_grad:
            warnings.warn(
                "To construct DTensor from torch.Tensor, it's recommended to use local_tensor.detach() and make "
                "requires_grad consistent.", stacklevel=2,
            )
        made = cls._made(local_tensor, spec.mesh, spec.placements, spec.shape)
        if requires_grad:
            made.requires_grad_()
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        from ._dispatch import call

        return call(func, args, kwargs or {})

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        from ._dispatch import call

        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in ("__get__", "__set__", "__delete__"):
            view = _PROPERTIES.get(getattr(func, "__self__", None)) if name == "__get__" else None
            if view is not None and args[0].dim() in _DIMENSIONS.get(func.__self__, _ANY):
                return view(args[0])
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        own = _OWN.get(name)
        if own is not None and args and isinstance(args[0], DTensor):
            return own(*args, **kwargs)
        base = name.rstrip("_")
        if base in _WHOLE_CALLS and name.endswith("_"):
            return _whole_in_place(func, *args, **kwargs)
        return call(func, args, kwargs)

    # --- what it is ---

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh."""
        return self._spec.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """How it lies on each dimension of the mesh."""
        return self._spec.placements

    @property
    def requires_grad(self):
        return self._local_tensor.requires_grad

    @requires_grad.setter
    def requires_grad(self, value):
        self._local_tensor.requires_grad_(value)

    @property
    def grad_fn(self):
        return self._local_tensor.grad_fn

    @property
    def is_leaf(self):
        return self._local_tensor.is_leaf

    # What the engine asks: the graph is that of the parts.

    @property
    def _ftorch_part(self):
        return self._local_tensor

    def _ftorch_root(self, gradient):
        """The part as the root of a backward, and its gradient."""
        if isinstance(gradient, DTensor):
            gradient = gradient.redistribute(placements=gradient_placements(self.placements))._local_tensor
        return self._local_tensor, gradient

    def _ftorch_gradient(self, g):
        """What came for the part as a tensor's gradient."""
        return None if g is None else DTensor._made(
            g, self.device_mesh, gradient_placements(self.placements), tuple(self.shape)
        )

    @property
    def grad(self):
        g = self._local_tensor.grad
        if g is not None and (self._gradient is None or self._gradient._local_tensor is not g):
            self._gradient = self._ftorch_gradient(g)
        return None if g is None else self._gradient

    @grad.setter
    def grad(self, value):
        if value is None:
            self._local_tensor.grad = self._gradient = None
            return
        placed = gradient_placements(self.placements)
        if list(value.placements) != placed:
            value = value.redistribute(self.device_mesh, placed)
        self._local_tensor.grad, self._gradient = value._local_tensor, value

    @property
    def data(self):
        return self.detach()

    @data.setter
    def data(self, value):
        if value._local_tensor.__class__ in DISPATCHING:  # the class keeps its numbers where it likes
            self._local_tensor = value._local_tensor.detach().requires_grad_(self.requires_grad)
        else:
            self._local_tensor.data = value._local_tensor
        self._spec = value._spec
        with torch._C.DisableTorchFunctionSubclass():
            torch.Tensor.data.__set__(self, value)  # its own dtype, device and shape

    def __repr__(self, *, tensor_contents=None):
        placed = "".join(f"{p!r}, " for p in self.placements)
        return (
            f"DTensor(local_tensor={self._local_tensor.detach()}, device_mesh={self.device_mesh}, "
            f"placements=({placed[:-1] if len(self.placements) == 1 else placed[:-2]}))"
        )

    def __str__(self):
        return repr(self)

    def __format__(self, spec):
        return format(repr(self), spec)

    def __hash__(self):
        return id(self)

    def __deepcopy__(self, memo):
        with torch.no_grad():
            local = self._local_tensor.detach().clone()
        made = DTensor._made(local, self.device_mesh, self.placements, tuple(self.shape))
        if getattr(self, "_is_param", False):
            made._is_param = True
        made.requires_grad = self.requires_grad
        memo[id(self)] = made
        return made

    def __reduce_ex__(self, protocol):
        return _rebuilt, (
            self._local_tensor.detach(), self.placements, tuple(self.shape), self.requires_grad,
            self.device_mesh, getattr(self, "_is_param", False),
        )

    def __jax_array__(self):
        is_global = self.device_mesh._places is not None
        return (self._local_tensor if is_global else self.full_tensor()).__jax_array__()

    # --- from and to local tensors ---

    @staticmethod
    def from_local(local_tensor, device_mesh=None, placements=None, *, run_check: bool = False,
                   shape=None, stride=None, grad_placements=None):
        """A tensor of the processes' parts.

        Args:
            placements: how the parts lie together (whole by default).
            run_check: whether whole parts are made those of rank 0.
            shape: of all of it; by default parts are taken to be of one size.
        """
        if isinstance(local_tensor, DTensor):
            raise RuntimeError(f"the local_tensor argument only accepts torch.Tensor but got {type(local_tensor)} value.")
        mesh = device_mesh or _mesh_resources.get_current_mesh()
        placed = _normalized(placements or [Replicate()] * mesh.ndim, local_tensor.dim(), mesh)
        if mesh._places is not None:  # this process' part is the whole
            moved = local_tensor.to(mesh._places.device)
            local = Redistribute.apply(moved, mesh, tuple(moved.shape), (Replicate(),) * mesh.ndim, tuple(placed))
            return DTensor._made(local, mesh, placed, tuple(moved.shape))
        if (shape is None) != (stride is None):
            raise RuntimeError(
                f"Found shape:{shape}, stride:{stride}.", "Please pass both shape and stride at the same time.")
        if shape is None:
            shape = list(local_tensor.shape)
            for m, p in enumerate(placed):
                if divides(p):
                    shape[p.dim] *= mesh.size(m)
        if run_check:
            for m, p in enumerate(placed):
                if p.is_replicate():
                    local_tensor = local_tensor.contiguous()
                    torch.distributed.broadcast(local_tensor, group=mesh.get_group(m), group_src=0)
        if mesh.get_coordinate() is None:  # no process of the mesh: it has nothing
            local_tensor = local_tensor.new_empty(0, requires_grad=local_tensor.requires_grad)
        local = from_torch_tensor(local_tensor, mesh, tuple(shape), placed, grad_placements)
        strides = global_strides(local, shape) if stride is None else tuple(stride)
        return DTensor._made(local, mesh, placed, tuple(shape), strides)

    def to_local(self, *, grad_placements=None):
        """The calling process' part: on a mesh over the devices of one process all of it, laid out as it is.

        Args:
            grad_placements: how the parts of its gradient will lie together.
        """
        local = self._local_tensor
        if not (local.requires_grad and torch.is_grad_enabled()):
            return local.view_as(local) if not local.requires_grad else local
        wanted = gradient_placements(self.placements)
        return to_torch_tensor(local, self.device_mesh, tuple(self.shape), grad_placements or wanted, wanted)

    def redistribute(self, device_mesh=None, placements=None, *, async_op=False, forward_dtype=None,
                     backward_dtype=None):
        """The same tensor with other placements."""
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        mesh = device_mesh or self.device_mesh
        if mesh != self.device_mesh:
            raise NotImplementedError("Cross device mesh comm not supported yet!")
        placed = _normalized(placements, self.dim(), mesh)
        for p, now in zip(placed, self.placements):
            if p.is_partial() and now != p:
                raise RuntimeError(
                    f"Can not redistribute from {now} to {p}, redistributing to Partial is for internal "
                    "use only!"
                )
        local = redistributed(self._local_tensor, mesh, tuple(self.shape), self.placements, placed)
        if local is self._local_tensor:
            return self
        return DTensor._made(local, mesh, placed, tuple(self.shape))

    def full_tensor(self, *, grad_placements=None):
        """All of it, in every process."""
        whole = self.redistribute(placements=[Replicate()] * self.device_mesh.ndim)
        if grad_placements is not None and whole is not self and self.device_mesh._places is None:
            # Nobody sees the gathered one, so its gradient goes back at once: terms of a sum by one reduce-scatter.
            placed, shape = list(whole.placements), tuple(self.shape)
            local = redistributed(
                self._local_tensor, self.device_mesh, shape, self.placements, placed, comes=tuple(grad_placements))
            return to_torch_tensor(local, self.device_mesh, shape, placed, placed) if local.requires_grad else local
        if self.device_mesh._places is not None:
            return whole.to_local(grad_placements=grad_placements).to(self.device_mesh.device_type)
        return whole.to_local(grad_placements=grad_placements)

    def __create_chunk_list__(self):
        """Where the calling process' part lies, for checkpoints."""
        from ..checkpoint.metadata import ChunkStorageMetadata
        from ._redistribute import offsets

        placed = tuple(self.shape), self.device_mesh, self.placements
        return [ChunkStorageMetadata(torch.Size(offsets(*placed)), torch.Size(local_shape(*placed)))]


def _normalized(placements, rank, mesh):
    placed = list(placements)
    if len(placed) != mesh.ndim:
        raise ValueError(
            f"`placements` must have the same length as `device_mesh.ndim`! Found placements length: "
            f"{len(placed)}, and device_mesh.ndim: {mesh.ndim}."
        )
    for m, p in enumerate(placed):
        if not isinstance(p, Placement):
            raise RuntimeError(
                f"Trying to distribute tensor with unsupported placements {p} on device mesh dimension {m}!"
            )
        if divides(p) and not -rank <= p.dim < rank:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {p.dim})"
            )
    return [along(p, p.dim + rank) if divides(p) and p.dim < 0 else p for p in placed]


def _rebuilt(local, placements, shape, requires_grad, mesh, is_parameter=False):
    if mesh._places is not None:
        local = move(local, mesh, shape, [Replicate()] * mesh.ndim, placements)
    made = DTensor._made(local, mesh, placements, shape)
    if is_parameter:
        made._is_param = True
    made.requires_grad = requires_grad
    return made


# --- methods that are not calls on parts ---


def _like(x, local):
    return DTensor._made(local, x.device_mesh, x.placements, tuple(x.shape), tuple(x.stride()))


def _detach(x):
    return _like(x, x._local_tensor.detach())


def _requires_grad_(x, requires_grad=True):
    x._local_tensor.requires_grad_(requires_grad)
    return x


def _backward(x, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    torch.autograd.backward(x, gradient, retain_graph, create_graph, inputs=inputs)


def _item(x):
    if x.device_mesh._places is None and x.device_mesh.get_coordinate() is None:
        raise RuntimeError("Cannot cast None to number")  # the process is not in the mesh
    return x.full_tensor().item()


def _hooked(method):
    def register(x, hook):
        def local_hook(g):
            if method == "register_post_accumulate_grad_hook":
                return hook(x)
            result = hook(x._ftorch_gradient(g))
            return result._local_tensor if isinstance(result, DTensor) else result

        return getattr(x._local_tensor, method)(local_hook)

    return register


def _whole_in_place(func, x, *args, **kwargs):
    """Random numbers: those that one process would draw, of which each takes its part."""
    with torch.no_grad():
        full = torch.empty(tuple(x.shape), dtype=x.dtype)
        func(full, *args, **kwargs)
        whole = [Replicate()] * x.device_mesh.ndim
        x._local_tensor.copy_(move(full, x.device_mesh, tuple(x.shape), whole, x.placements))
    return x


def _retain_grad(x):
    x._local_tensor.retain_grad()



def _to_dense_numpy(x):
    raise RuntimeError(".numpy() is not supported for tensor subclasses.")


def _tolist(x):
    raise RuntimeError(".tolist() is not supported for tensor subclasses, got DTensor")


def _len(x):
    return x.shape[0]


# Properties that give tensors.
_PROPERTIES = {
    torch.Tensor.T: lambda x: x.permute(tuple(range(x.dim() - 1, -1, -1))),
    torch.Tensor.H: lambda x: x.t().conj() if x.is_complex() else x.t(),
    torch.Tensor.mT: lambda x: x.transpose(-2, -1),
    torch.Tensor.mH: lambda x: x.transpose(-2, -1).conj() if x.is_complex() else x.transpose(-2, -1),
    torch.Tensor.real: lambda x: torch.real(x) if x.is_complex() else x, torch.Tensor.imag: torch.imag,
}
_ANY = range(65)
_DIMENSIONS = {  # of others these properties say what they are for
    torch.Tensor.H: range(2, 3), torch.Tensor.mT: range(2, 65), torch.Tensor.mH: range(2, 65),
}
_OWN = {
    "detach": _detach, "requires_grad_": _requires_grad_, "backward": _backward, "item": _item,
    "__bool__": lambda x: bool(_item(x)), "__float__": lambda x: float(_item(x)),
    "__int__": lambda x: int(_item(x)), "register_hook": _hooked("register_hook"),
    "register_post_accumulate_grad_hook": _hooked("register_post_accumulate_grad_hook"),
    "retain_grad": _retain_grad, "numpy": _to_dense_numpy, "tolist": _tolist, "__len__": _len,
    "is_floating_point": lambda x: x._local_tensor.is_floating_point(),
    "is_complex": lambda x: x._local_tensor.is_complex(), "dim": lambda x: len(x._spec.shape),
    "numel": lambda x: __import__("math").prod(x._spec.shape),
    "__repr__": lambda x, **_: DTensor.__repr__(x), "__str__": lambda x: DTensor.__repr__(x),
    "__format__": lambda x, spec="": format(DTensor.__repr__(x), spec), "__hash__": lambda x: id(x),
    "data_ptr": lambda x: x._local_tensor.data_ptr(),
    "new_tensor": lambda x, data, **given: torch.tensor(data, **{"dtype": x.dtype, "device": x.device, **given}),
    "__reduce_ex__": lambda x, p: DTensor.__reduce_ex__(x, p),
    "__deepcopy__": lambda x, m: DTensor.__deepcopy__(x, m),
    "detach_": lambda x: (x._local_tensor.detach_(), x)[1],
    "is_contiguous": lambda x, **_: tuple(x.stride()) == contiguous_strides(x._spec.shape) or not x.numel(),
}
for _name in ("size", "stride", "element_size", "storage_offset", "ndimension", "is_set_to"):
    def _through(x, *args, _name=_name, **kwargs):
        with torch._C.DisableTorchFunctionSubclass():
            return getattr(torch.Tensor, _name)(x, *args, **kwargs)

    _OWN[_name] = _through


def distribute_tensor(tensor, device_mesh=None, placements=None, *, src_data_rank: int | None = 0):
    """A tensor spread over a mesh (``torch.distributed.tensor.distribute_tensor``).

    Args:
        placements: one for each dimension of the mesh (whole by default).
        src_data_rank: the rank in each row whose values are taken; None: everybody's own.
    """
    mesh = device_mesh or _mesh_resources.get_current_mesh()
    if not tensor.is_leaf:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!")
    for p in placements or ():
        if divides(p) and p.dim > tensor.dim():
            raise AssertionError(f"Sharding dim {p.dim} greater than tensor ndim {tensor.dim()}")
    placed = _normalized(placements or [Replicate()] * mesh.ndim, tensor.dim(), mesh)
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh:
            raise ValueError(
                f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} to a different device "
                f"mesh {mesh}."
            )
        if tuple(tensor.placements) != tuple(placed):
            raise ValueError(
                f"Cannot distribute a DTensor with placements {tensor.placements} to a different "
                f"placements {placements}. do you want to call `redistribute` instead?"
            )
        return tensor
    local = tensor.detach()
    if mesh.get_coordinate() is None:
        made = DTensor._made(local.new_empty(0), mesh, placed, tuple(tensor.shape), tuple(tensor.stride()))
        return made.requires_grad_(tensor.requires_grad)
    if src_data_rank is not None and mesh._places is None and not local.is_meta:
        local = local.clone(memory_format=torch.contiguous_format)
        for m in range(mesh.ndim):
            torch.distributed.broadcast(local, group=mesh.get_group(m), group_src=src_data_rank)
    whole = [Replicate()] * mesh.ndim
    with torch.no_grad():
        local = move(local, mesh, tuple(tensor.shape), whole, placed)
    made = DTensor._made(local.contiguous(), mesh, placed, tuple(tensor.shape))
    if tensor.requires_grad:
        made.requires_grad_()
    return made


def _of_module(name, values, function):
    """A function of (module, values, mesh), which may have been given without the module.

    Raises:
        ValueError: it takes another number of arguments.
    """
    count = len(inspect.signature(function).parameters)
    if count == 2:
        warnings.warn(
            f"Deprecating {name} that takes two arguments ({values}, device_mesh), "
            f"please use {name} that takes in (module, {values}, device_mesh) instead!", FutureWarning, stacklevel=3,
        )
        return lambda _, given, mesh: function(given, mesh)
    if count != 3:
        raise ValueError(f"{name} should take in 3 arguments, but got {count} arguments!")
    return function


def distribute_module(module, device_mesh=None, partition_fn=None, input_fn=None, output_fn=None):
    """A module whose parameters are `DTensor`s.

    Args:
        partition_fn: ``f(name, module, mesh)``, called for each submodule, replaces parameters; what stays
            is replicated.
        input_fn, output_fn: ``f(module, inputs or outputs, mesh)``.
    """
    mesh = device_mesh or _mesh_resources.get_current_mesh()
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError(
            "distribute_module should only be called once on a module, but it has already been called on this module!"
        )
    whole = [Replicate()] * mesh.ndim
    for name, sub in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, sub, mesh)
        for key, p in list(sub._parameters.items()):
            if p is not None and not isinstance(p, DTensor):
                made = torch.nn.Parameter(distribute_tensor(p.detach(), mesh, whole), p.requires_grad)
                sub.register_parameter(key, made)
        for key, b in list(sub._buffers.items()):
            if b is not None and not isinstance(b, DTensor):
                sub._buffers[key] = distribute_tensor(b, mesh, whole)
    if input_fn is not None:
        given = _of_module("input_fn", "inputs", input_fn)
        module.register_forward_pre_hook(lambda m, inputs: given(m, inputs, mesh))
    if output_fn is not None:
        wanted = _of_module("output_fn", "outputs", output_fn)
        module.register_forward_hook(lambda m, inputs, outputs: wanted(m, outputs, mesh))
    module._distribute_module_applied = True
    return module


def __getattr__(name):  # they are made of what is above
    if name in ("empty", "full", "ones", "rand", "randn", "zeros"):
        from . import _factories

        return getattr(_factories, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
