"""Hooks: what layers above the call put into its path: one object with a slot for each.

The call path (`ftorch.eager.call.op`) stands below the tape, the transform levels, subclasses and the profiler. Each
of them fills its slots of `hooks` when it is imported or becomes active; a slot that may be empty is None until then.
Slots are attributes of a class with ``__slots__``: a name that is no slot fails where it is written or read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# What a hook that may decline returns: (whether it took the call over, the result).
Handled = tuple[bool, Any]


class Hooks:
    """The slots, by the layer that fills them.

    Attributes:
        record: ``(plan, tensors, scalars) -> result``: runs a plan and makes the node of its results (tape).
        record_host: the same for an op whose forward ran on the host.
        record_inplace: the same for an op that writes to its first tensor.
        check_inplace: raises for a tensor that must not be written to while graphs are recorded.
        part: ``(tensor, geometry, offset) -> tensor``: a differentiable view by a geometry (views).
        write_out: ``(op, result, out, operands)``: writes a result to ``out=`` (outputs).
        write_made: ``(name, made, out)``: the same for what a creation function or a random one made.
        static_for_out: ``(op, static, out) -> static``: static values that follow from ``out``, its dtype above all.
        resized: ``(op, operands, static) -> result``: an in-place op whose target grows.
        overlapping: the same for one whose target has several elements in one place.
        dispatch, dispatch_inplace, dispatch_view: take over calls while levels, modes or hooks are active (levels).
        autocast: ``(op, operands, static) -> Handled``: casts the operands.
        gradient: ``(op, operands) -> gradients or None``: what a derived op gives, by calls that are seen.
        sees: ``(operands) -> bool``: whether somebody sees ATen's calls on some operands.
        lifted: ``(tensor)``: `torch.tensor` made a tensor of numbers, for whoever sees calls.
        override, override_view: take over calls whose operands are of foreign classes (``__torch_function__``).
        override_out: ``(operands, outs) -> Handled``: the same for calls with ``out=``, whose class has a say, too.
        first_gradient: ``(tensor) -> tensor``: ones to start a backward pass with, for whoever sees calls.
        function_override: the same for functions with several overloads.
        function_mode: takes over calls while a ``TorchFunctionMode`` is active.
        python_classes: ``(cls)``: a class with a ``__torch_dispatch__`` was made.
        python_method: ``(name, tensor, **arguments) -> Handled``: methods that are no ops, for ``__torch_dispatch__``.
        python_disabled: ``(function, args, kwargs) -> result``: a call without ``__torch_dispatch__``.
        python, python_view: take over calls while a ``TorchDispatchMode`` is active; empty otherwise.
        python_overload, python_composite: the same for overloads and for compositions; empty until one was active.
        python_out: ``(op, operands, static, outs) -> Handled``: the same for calls with ``out=``.
        subclass, subclass_view: take over calls on tensors whose class has a ``__torch_dispatch__``.
        custom_function: takes over ``autograd.Function.apply`` under transforms and where calls are recorded.
        alias: ``(tangent, tensor) -> tensor``: a tangent that shares memory as its primal does (forward mode).
        unsafe_view: ``(tensor, sizes) -> tensor``: a view of a copy that nobody else can reach, for whoever sees calls.
        view_gradient: ``(definition, static, base, grad) -> tensor or None``: a view's gradient by calls that are seen.
        vmap: ``ftorch.vmap``, for the engine's batched gradients.
        is_compiling: ``() -> bool``: whether the calling thread captures a function (jit).
        data_loaders: ``() -> module``: ``ftorch.utils.data``, for generators of its threads.
        profiler: ``() -> module``: ``ftorch.profiler``, for the older names of its parts.
        recorded_region: ``() -> module``: ``ftorch.jit.capture.recorded_region``, for graphs of CUDA.
        quantized: ``() -> module``: ``ftorch._quantized``.
        sparse: ``() -> module``: ``ftorch.sparse``.
        symbolic_graphs: ``() -> module``: ``ftorch.export._symbolic_graphs``, for graphs that hold for all sizes.
        wrong_call: ``() -> text``: what is wrong with the arguments of the running public call (mismatch).
        created: ``(tensor, what, **options) -> tensor``: a tensor was made of nothing (traces of the dispatcher).
    """

    __slots__ = (
        "alias",
        "autocast",
        "check_inplace",
        "created",
        "custom_function",
        "data_loaders",
        "dispatch",
        "dispatch_inplace",
        "dispatch_view",
        "first_gradient",
        "function_mode",
        "gradient",
        "is_compiling",
        "lifted",
        "function_override",
        "override",
        "override_view",
        "override_out",
        "part",
        "python",
        "python_classes",
        "python_composite",
        "python_disabled",
        "python_method",
        "python_out",
        "python_overload",
        "python_view",
        "profiler",
        "quantized",
        "record",
        "recorded_region",
        "record_host",
        "record_inplace",
        "resized",
        "overlapping",
        "sees",
        "sparse",
        "static_for_out",
        "subclass",
        "subclass_view",
        "symbolic_graphs",
        "unsafe_view",
        "view_gradient",
        "vmap",
        "write_made",
        "write_out",
        "wrong_call",
    )

    alias: Callable[..., Any] | None
    autocast: Callable[..., Handled] | None
    check_inplace: Callable[[Any], None] | None
    created: Callable[..., Any] | None
    custom_function: Callable[..., Any] | None
    data_loaders: Callable[[], Any] | None
    dispatch: Callable[..., Handled] | None
    dispatch_inplace: Callable[..., Handled] | None
    dispatch_view: Callable[..., Handled] | None
    first_gradient: Callable[..., Any] | None
    function_mode: Callable[..., Handled] | None
    function_override: Callable[..., Any] | None
    gradient: Callable[..., Any] | None
    is_compiling: Callable[[], bool] | None
    lifted: Callable[[Any], None] | None
    override: Callable[..., Handled] | None
    override_view: Callable[..., Handled] | None
    override_out: Callable[..., Handled]
    part: Callable[..., Any] | None
    python: Callable[..., Handled] | None
    python_classes: Callable[[type], None] | None
    python_composite: Callable[..., Any] | None
    python_disabled: Callable[..., Any] | None
    python_method: Callable[..., Handled] | None
    python_out: Callable[..., Handled] | None
    python_overload: Callable[..., Any] | None
    python_view: Callable[..., Handled] | None
    record: Callable[..., Any] | None
    recorded_region: Callable[[], Any] | None
    record_host: Callable[..., Any] | None
    record_inplace: Callable[..., Any] | None
    resized: Callable[..., Any] | None
    overlapping: Callable[..., Any] | None
    sees: Callable[[Any], Any] | None
    profiler: Callable[[], Any] | None
    quantized: Callable[[], Any] | None
    sparse: Callable[[], Any] | None
    static_for_out: Callable[..., Any] | None
    subclass: Callable[..., Handled] | None
    subclass_view: Callable[..., Handled] | None
    symbolic_graphs: Callable[[], Any] | None
    unsafe_view: Callable[..., Any] | None
    view_gradient: Callable[..., Any] | None
    vmap: Callable[..., Any] | None
    write_made: Callable[..., Any] | None
    write_out: Callable[..., Any] | None
    wrong_call: Callable[[], str | None] | None

    def __init__(self):
        for name in self.__slots__:
            setattr(self, name, None)


hooks = Hooks()
