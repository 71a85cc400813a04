"""Private APIs of JAX: all that the package uses and JAX does not promise.

Nothing else imports ``jax._src``; a contract checks it. Each function says why it is needed and what takes its
place where a version of JAX lacks it. That the names of primitives are still those that the passes over traced
programs look for is tested in ``tests/eager/native/test_rewriting.py``: a renamed one would show as slowness only.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np
from jax._src.lax.lax import _convert_element_type  # the public function cannot make weak types
from jax.extend.core import ClosedJaxpr, get_opaque_trace_state

from . import forking

F = TypeVar("F", bound=Callable)


def _top_level_state():
    # In a thread of its own: the package may be imported while JAX traces.
    states = []
    thread = threading.Thread(target=lambda: states.append(get_opaque_trace_state()))
    thread.start()
    thread.join()
    return states[0]


_TOP_LEVEL = _top_level_state()


def _without_tracebacks():
    """Makes JAX note no line of Python with what it traces. Under Python 3.11 it writes over memory where a garbage
    collection begins as it does, whose finalizers use JAX, too. Only its own messages about traced functions name lines by
    them; exceptions have Python's."""
    try:
        from jaxlib._jax import set_tracebacks_enabled
    except ImportError:
        return
    set_tracebacks_enabled(False)


if sys.version_info < (3, 12):
    _without_tracebacks()


def is_top_level() -> bool:
    """Whether what runs now is computed at once: no function is being traced by JAX in this thread."""
    return get_opaque_trace_state() == _TOP_LEVEL


def leave_traces() -> None:
    """Makes what runs next in this thread computed at once: an interrupt in the middle of JAX's own code may have left
    the thread in the trace that it was making. Where a version of JAX keeps that otherwise, nothing is done."""
    try:
        from jax._src.core import eval_trace, trace_ctx
    except ImportError:
        return
    trace_ctx.set_trace(eval_trace)


def contexts():
    """JAX's classes of contexts that set state of a thread while it traces, each with a function that writes down, before a
    context of it is entered, what it will restore; those that a version of JAX has."""
    try:
        from jax._src import config, core
    except ImportError:
        return []

    def note_trace(context):
        context.prev = core.trace_ctx.trace

    def note_axes(context):
        context.prev = core.trace_ctx.axis_env

    def note_state(context):
        context.prev = context.state.get_local()

    def note_user(context):
        context._prev_value = context._config.get_local()

    names = (
        (core, "SetCurrentTraceContextManager", note_trace), (core, "TakeCurrentTraceContextManager", note_trace),
        (core, "ExtendAxisEnvNdContextManager", note_axes), (core, "AddSpmdAxisNamesContextManager", note_axes),
        (core, "AddExplicitMeshAxisNamesContextManager", note_axes),
        (config, "StateContextManager", note_state), (config, "UserContext", note_user),
    )
    return [(getattr(module, name), note) for module, name, note in names if hasattr(module, name)]


def collector_call():
    """What JAX has Python's collector call, and what this calls in turn; None where a version of JAX has it not."""
    try:
        from jax._src import lib

        return lib._xla_gc_callback, lib._xla_gc_callback.__globals__["_jax"].collect_garbage
    except (ImportError, AttributeError, KeyError):
        return None


def swallowed_interrupt(error: BaseException) -> bool:
    """Whether JAX failed since it took an interrupt for an answer.

    It asks whether a length is a number with an ``except`` of everything (`jax.core.is_constant_dim`), and takes one that
    was interrupted for a symbol.
    """
    return isinstance(error, AttributeError) and error.name == "_get_vars" and isinstance(error.obj, int)


def _key_setting():
    """A setting of JAX's that takes part in the keys of all its caches and means nothing below 0; None where a version of JAX
    has none."""
    try:
        from jax._src import config

        setting = config.jax_xla_profile_version
        setting.set_local(setting.get_local())
    except (ImportError, AttributeError):
        return None
    return setting


_KEY = _key_setting()


def _own_keys():
    return () if _KEY is None else ((_KEY.get_local, _KEY.set_local, min(_KEY.value, 0) - 1),)


def apart():
    """Within, JAX's caches are asked by keys of their own: see `is_busy`."""
    return held(*_own_keys())


def is_busy(error: BaseException) -> bool:
    """Whether JAX failed since this thread traces or compiles just that: a function can't be called with the same arguments
    until it is over, and the handler of a signal may have interrupted it. `apart` it can."""
    return isinstance(error, RecursionError) and _KEY is not None and str(error).startswith("Recursively calling")


def call_again(function, *args, **kwargs):
    """Calls a function that changes nothing before it calls a jitted one; `apart` once more where JAX is busy with that."""
    try:
        return function(*args, **kwargs)
    except RecursionError as error:
        if not is_busy(error):
            raise
    with apart():
        return function(*args, **kwargs)


def called_again(function: F) -> F:
    """``function``, called by `call_again`."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        return call_again(function, *args, **kwargs)

    return call  # type: ignore[return-value]


def outside_traces():
    """Within, what JAX is asked to compute is computed at once, `apart`: a signal's handler may have interrupted it while it
    traces. Where a version of JAX keeps that otherwise, constants are folded, which is public."""
    try:
        from jax._src.core import eval_trace, trace_ctx
    except ImportError:
        return jax.ensure_compile_time_eval()
    trace = (lambda: trace_ctx.trace), trace_ctx.set_trace, eval_trace
    return held(trace, *_own_keys())


class _Refusing:
    """Within, whatever JAX is asked to compute raises ``error``, a class: an instance would keep the frames alive that it
    went through."""

    def __init__(self, error):
        from jax._src.core import Trace, set_current_trace, trace_ctx

        class Refusing(Trace):
            def process_primitive(self, *_, **__):
                raise error

            process_call = process_map = process_custom_jvp_call = process_custom_vjp_call = process_primitive

        self.enter, self.trace, self.context = set_current_trace, Refusing(), trace_ctx

    def __call__(self):
        return self.enter(self.trace)


def refusing(error):
    """A function that gives contexts in which whatever JAX is asked to compute raises ``error``, a class; None where a version
    of JAX keeps its traces otherwise."""
    try:
        return _Refusing(error)
    except (ImportError, AttributeError, TypeError):
        return None


@functools.cache
def _tracer():
    """What `traced` does without JAX's caches; None where a version of JAX traces otherwise."""
    try:
        from jax._src.core import DebugInfo, ShapedArray
        from jax._src.interpreters.partial_eval import trace_to_jaxpr_dynamic
        from jax._src.linear_util import wrap_init

        def trace(function, structs):
            is_single = []

            def flat(*operands):
                results, tree = jax.tree_util.tree_flatten(function(*operands))
                is_single.append(jax.tree_util.treedef_is_leaf(tree))
                return results

            names = tuple([f"operand{i}" for i in range(len(structs))])
            wrapped = wrap_init(flat, debug_info=DebugInfo("jit", "kernel", names, None))
            avals = [ShapedArray(s.shape, jax.dtypes.canonicalize_dtype(s.dtype)) for s in structs]
            jaxpr, _, constants = trace_to_jaxpr_dynamic(wrapped, avals)
            return ClosedJaxpr(jaxpr, constants), is_single[0]

        closed, is_single = trace(lambda x: (x + 1, x), [jax.ShapeDtypeStruct((2,), "float32")])
        return trace if not is_single and [v.aval.shape for v in closed.jaxpr.outvars] == [(2,), (2,)] else None
    except Exception:  # noqa: BLE001  (whatever has another name or other arguments there)
        return None


def traced(function, structs):
    """(closed jaxpr of a function, whether it gives one array and no tuple), as of `jax.make_jaxpr`. That is for functions
    that come again: it looks for each in several caches, and keeps what it was asked. Kernels' sizes come once."""
    trace = _tracer()
    if trace is None:
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*structs)
        return closed, not isinstance(shape, (tuple, list))
    return trace(function, structs)


def weak_scalar(scalar, dtype):
    """A scalar of a dtype that does not take part in JAX's promotion, like a Python number, traced or not."""
    return _convert_element_type(scalar, dtype, weak_type=True)


def bind(eqn, operands, params=None):
    """Executes or traces an equation of a jaxpr for other operands; gives the list of its results.

    The equation's context (the precision of products, the thread of compute) is entered, as `jax.core.eval_jaxpr`
    does; parameters that are functions are unpacked.
    """
    context = getattr(getattr(eqn, "ctx", None), "manager", None)
    with contextlib.nullcontext() if context is None else context:
        results = eqn.primitive.bind(
            *operands, **eqn.primitive.get_bind_params(eqn.params if params is None else params)
        )
    return results if eqn.primitive.multiple_results else [results]


def cudnn_version() -> int | None:
    """The version of cuDNN that jaxlib found; None without a GPU, or where jaxlib does not say."""
    try:
        from jax._src.lib import cuda_versions
    except ImportError:
        return None
    return None if cuda_versions is None else cuda_versions.cudnn_get_version()


def thread_setting(name: str, attribute: str):
    """Two functions that get and set the calling thread's own value of a setting of ``jax.config``, some 30 ns each.

    Where a version of JAX keeps them otherwise, the setting is changed for the whole process, once: then these do nothing.

    Args:
        attribute: the setting's name in the module that has it.
    """
    try:
        from jax._src import config

        setting = getattr(config, attribute)
        setting.set_local(setting.get_local())
    except (ImportError, AttributeError):
        jax.config.update(name, {"jax_enable_x64": True, "jax_default_matmul_precision": "highest"}[name])
        return (lambda: None), (lambda value: None)
    return setting.get_local, setting.set_local


class held:  # noqa: N801
    """Within, settings of the calling thread have other values: ``with held((get, set, value), ...):``, with the functions
    of `thread_setting`. An interrupt that comes between two of them puts all back."""

    __slots__ = ("_settings", "_before")

    def __init__(self, *settings):
        self._settings = settings

    def __enter__(self):
        self._before = [get() for get, _, _ in self._settings]
        try:
            for _, put, value in self._settings:
                put(value)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        self._put_back(len(self._settings) - 1)

    def _put_back(self, last):
        if last < 0:
            return
        try:
            self._settings[last][1](self._before[last])
        finally:
            self._put_back(last - 1)


def keep_programs(store, is_ours) -> bool:
    """Keeps compiled programs, however small, where ``is_ours()`` says so of the program that the calling thread compiles;
    others are JAX's affair.

    Args:
        store: gives what has ``get`` and ``put``; or None: they are kept where JAX keeps programs. JAX's own cache never
            replaces a damaged entry (it warns of it in each process), and writes in place.

    Returns:
        Whether it is so; where a version of JAX compiles otherwise, nothing is kept.
    """
    try:
        from jax._src import compilation_cache as cache
        from jax._src import compiler, config

        compiled, is_used, found = compiler.compile_or_get_cached, cache.is_cache_used, cache._get_cache
        # XLA compiles a small program in 10 ms and more, which is longer than reading it.
        time, size = config.persistent_cache_min_compile_time_secs, config.persistent_cache_min_entry_size_bytes
        small_too = (time.get_local, time.set_local, 0.0), (size.get_local, size.set_local, -1)
    except (ImportError, AttributeError):
        return False

    @functools.wraps(compiled)
    def compile_or_get_cached(*args, **kwargs):
        if not is_ours():
            return compiled(*args, **kwargs)
        with held(*small_too):
            return compiled(*args, **kwargs)

    @functools.wraps(is_used)
    def is_cache_used(backend):
        if not is_ours() or store() is None:
            return is_used(backend)
        return (
            not _own.without_cache and jax.config.jax_enable_compilation_cache
            and getattr(backend, "supports_executable_serialization", True)
        )

    @functools.wraps(found)
    def get_cache(backend):
        return (store() if is_ours() else None) or found(backend)

    compiler.compile_or_get_cached = compile_or_get_cached
    cache.is_cache_used, cache._get_cache = is_cache_used, get_cache
    return True


def compile_by(call, is_ours) -> None:
    """Makes XLA compile by ``call(function, key=...)``, where ``is_ours()`` says so of the calling thread's program. XLA
    does not look for signals while it compiles. Where a version of JAX compiles otherwise, nothing is done.

    The key is the one under which the program is kept on the disk, or None.
    """
    try:
        from jax._src import compiler
    except ImportError:
        return
    name = next((n for n in ("backend_compile_and_load", "backend_compile") if hasattr(compiler, n)), None)
    if name is None:
        return
    compiled = getattr(compiler, name)

    @functools.wraps(compiled)
    def compile_module(*args, **kwargs):
        if not is_ours():
            return compiled(*args, **kwargs)
        return call(functools.partial(compiled, *args, **kwargs), key=_own.key)

    setattr(compiler, name, compile_module)
    kept = getattr(compiler, "_compile_and_write_cache", None)
    if kept is None:
        return

    @functools.wraps(kept)
    def compile_and_keep(backend, module, devices, options, callbacks, module_name, key):
        try:
            _own.key = None if callbacks else key  # pointers to callbacks are of one program
            return kept(backend, module, devices, options, callbacks, module_name, key)
        finally:
            _own.key = None

    compiler._compile_and_write_cache = compile_and_keep


class _Own(threading.local):
    without_cache = False
    key: str | None = None
    awaited: Any = None  # by the thread: an array that a program is computing


_own = _Own()


def is_tracer(value) -> bool:
    """Whether a value stands for one that is known only when a traced function runs."""
    return isinstance(value, jax.core.Tracer)


def owned_copy(array, device):
    """A copy of a NumPy array in memory of XLA's own, which results can be written over. Where a version of JAX moves
    arrays otherwise, whatever memory it chooses."""
    try:
        from jaxlib import xla_client

        semantics = xla_client.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
        sharding = jax.sharding.SingleDeviceSharding(device)
        aval = jax.core.ShapedArray(array.shape, array.dtype)
        return xla_client.batched_device_put(aval, sharding, [array], [device], True, host_buffer_semantics=semantics)
    except (ImportError, AttributeError, TypeError):
        return jax.device_put(array, device)


def trace_context():
    """The settings of the calling thread that decide what JAX traces and compiles, to be compared; None where a version of
    JAX keeps them otherwise."""
    return None if _trace_context is None else _trace_context()


try:
    from jax._src.config import trace_context as _trace_context
except ImportError:
    _trace_context = None


def collect_garbage() -> None:
    """Makes JAX drop its references to arrays whose memory its programs borrowed and have finished with."""
    if _collect_garbage is not None:
        _collect_garbage()


try:
    import jaxlib._jax as _private
except ImportError:
    _private = None
_collect_garbage = getattr(_private, "collect_garbage", None)  # without it they go with the next call of a program
batched_put = getattr(_private, "batched_device_put", None)  # `jax.device_put` at a seventh of its cost


def remake_caches_after_fork() -> None:
    """Makes new caches for the functions that `jax.jit` makes from here on, in a forked child: another thread of the
    parent's may have held the lock of the old ones, and the child would wait for it for ever. So it would for what
    another thread was computing for a cache of traced calls, which are emptied. Where a version of JAX keeps them
    otherwise, nothing is done."""
    try:
        from jax._src import pjit, util

        for cache in list(util._caches) if forking.beside_others() else ():
            if not isinstance(cache, types.FunctionType | functools._lru_cache_wrapper):  # those of C++, which wait
                cache.cache_clear()
        pjit._cpp_pjit_cache_fun_only = pjit.make_jit_cpp_cache(8192)
        pjit._cpp_pjit_cache_explicit_attributes = pjit.make_jit_cpp_cache(8192)
    except (ImportError, AttributeError):
        return


forking.after.append(remake_caches_after_fork)


def _wait_for_backends(deadline):
    """Lets another thread that starts XLA do so before a fork."""
    try:
        from jax._src import compilation_cache, xla_bridge

        locks = [xla_bridge._backend_lock, xla_bridge._plugin_lock, compilation_cache._cache_initialized_mutex]
    except (ImportError, AttributeError):
        return []
    return forking.acquire(locks, deadline)


def _wait_for_results(deadline):
    """Lets programs that are running beside Python end before a fork: their results would never be there in the child. Where
    a signal's handler forks, its thread may be waiting for one, and would wait for ever in the child."""
    while _own.awaited is not None and not is_ready(_own.awaited):
        time.sleep(1e-3)
    if is_started():
        for array in jax.live_arrays():
            while not is_ready(array) and time.monotonic() < deadline:
                time.sleep(1e-3)
    return ()


def wait_for_results() -> None:
    """Waits for the programs of the CPU that run beside Python."""
    if is_started():
        for array in jax.live_arrays("cpu"):
            if not is_ready(array):
                array.block_until_ready()


def is_started() -> bool:
    """Whether XLA has been started."""
    try:
        from jax._src import xla_bridge

        return bool(xla_bridge._backends)
    except (ImportError, AttributeError):
        return False


def is_ready(array) -> bool:
    """Whether an array's values are there, or can never be (it was deleted, or is a tracer)."""
    try:
        return array.is_ready()
    except (AttributeError, RuntimeError):
        return True


def on_host(array) -> np.ndarray:
    """An array of either kind, or a number, as NumPy's; waiting for JAX's can be interrupted, which `numpy.asarray` cannot."""
    if array.__class__ is np.ndarray:
        return array
    if hasattr(array, "block_until_ready"):
        wait_for(array)
    return np.asarray(array)


def wait_for(array) -> None:
    """Waits until a program has computed an array of JAX's; handlers of signals run meanwhile.

    Raises:
        Exception: what the program failed with.
    """
    outer, _own.awaited = _own.awaited, array
    try:
        array.block_until_ready()
    finally:
        _own.awaited = outer


forking.waits += [_wait_for_results, _wait_for_backends]


class without_cache:  # noqa: N801
    """Within, nothing is taken from the folder of compiled programs: an executable for the CPU that comes from there lacks
    the object code that serializing it again needs. JAX remembers whether there is a folder, so a setting would not do for
    one of JAX's; where a version of JAX keeps that otherwise, it is used, and such an executable fails when it is called."""

    def __init__(self):
        self._cache: Any = None

    def __enter__(self):
        try:
            from jax._src import compilation_cache as cache

            self._before = cache._cache_checked, cache._cache_used
            self._cache = cache
        except (ImportError, AttributeError):
            cache = None
        try:
            if cache is not None:
                cache._cache_checked, cache._cache_used = True, False
            _own.without_cache = True
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):  # may be called once more, see `ftorch.eager.native.contexts`
        _own.without_cache = False
        if self._cache is not None:
            self._cache._cache_checked, self._cache._cache_used = self._before


def scan_counts(params) -> tuple[int, int]:
    """(how many operands of a `scan` are constants, how many are what it carries), by an equation's parameters."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    constants, carried, _ = params["ft_in"].unpack()  # since JAX 0.11
    return len(constants), len(carried)


def leave_unsaid(kind) -> None:
    """Keeps JAX from logging exceptions of a class that go through it from functions that programs call: users get them."""
    logging.getLogger("jax._src.callback").addFilter(
        lambda record: not (record.exc_info and isinstance(record.exc_info[1], kind))
    )
