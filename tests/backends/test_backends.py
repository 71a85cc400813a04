"""Switches of libraries are read back as in PyTorch; precisions of products follow the levels above them."""

from __future__ import annotations

import pytest
import torch as pt

import ftorch as ft


def _precisions(lib):
    b = lib.backends
    places = (b, b.cuda.matmul, b.cudnn, b.mkldnn, b.mkldnn.matmul, b.mkldnn.conv, b.mkldnn.rnn)
    return [place.fp32_precision for place in places]


SEQUENCES = [
    "b.fp32_precision='tf32'; b.fp32_precision='ieee'; b.fp32_precision='bf16'",
    "b.cuda.matmul.fp32_precision='tf32'; b.fp32_precision='ieee'; b.cuda.matmul.fp32_precision='none'",
    "b.mkldnn.fp32_precision='bf16'; b.mkldnn.fp32_precision='none'; b.mkldnn.conv.fp32_precision='tf32'",
    "b.cuda.matmul.fp32_precision='bf16'",
    "b.fp32_precision='x'",
    "lib.set_float32_matmul_precision('highest'); b.fp32_precision='tf32'",
    "lib.set_float32_matmul_precision('high'); lib.set_float32_matmul_precision('medium')",
]


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_precisions(sequence):
    def reset(b):
        for place in (b.cuda.matmul, b.mkldnn.matmul, b.mkldnn.conv, b):
            place.fp32_precision = "none"

    def seen(lib):
        found = []
        reset(lib.backends)  # what ran before may have set the older setting
        try:
            for statement in sequence.split("; "):
                try:
                    exec(statement, {"lib": lib, "b": lib.backends})
                except RuntimeError as error:
                    found.append(str(error))
                found.append(_precisions(lib))
        finally:
            lib.set_float32_matmul_precision("highest")
            reset(lib.backends)
        return found

    assert seen(ft) == seen(pt)


def test_older_and_newer_settings_of_cudnn():
    """`allow_tf32` sets those of convolutions and recurrences, and refuses to be read where they say something else."""
    steps = (
        "c.allow_tf32 = False", "c.allow_tf32 = True", "c.conv.fp32_precision = 'ieee'", "c.conv.fp32_precision = 'none'",
        "c.rnn.fp32_precision = 'none'", "c.allow_tf32 = False", "b.fp32_precision = 'ieee'", "c.allow_tf32 = True",
        "b.fp32_precision = 'none'", "c.allow_tf32 = 1",
    )

    def seen(lib):
        b, c = lib.backends, lib.backends.cudnn
        found = []
        try:
            for step in steps:
                try:
                    exec(step, {"b": b, "c": c})
                except RuntimeError as error:
                    found.append(str(error))
                found.append((c.conv.fp32_precision, c.rnn.fp32_precision, c.fp32_precision))
                try:
                    found.append(c.allow_tf32)
                except RuntimeError as error:
                    found.append(str(error))
            with c.flags(enabled=True, allow_tf32=False):
                found.append((c.allow_tf32, c.conv.fp32_precision))
            found.append((c.allow_tf32, c.conv.fp32_precision))
        finally:
            b.fp32_precision, c.allow_tf32 = "none", True
        return found

    assert seen(ft) == seen(pt)


def test_flags_set_and_restore():
    def seen(lib):
        b, found = lib.backends, []
        with b.cudnn.flags(enabled=False, benchmark=True):
            found += [b.cudnn.enabled, b.cudnn.benchmark, b.cudnn.deterministic]
        found += [b.cudnn.enabled, b.cudnn.benchmark]
        with b.nnpack.flags(enabled=False):
            pass
        fast = b.mha.get_fastpath_enabled()
        b.mha.set_fastpath_enabled(False)
        found += [fast, b.mha.get_fastpath_enabled()]
        b.mha.set_fastpath_enabled(True)
        with b.mkl.verbose(b.mkl.VERBOSE_OFF), b.mkldnn.verbose(b.mkldnn.VERBOSE_OFF):
            pass
        return found

    assert seen(ft) == seen(pt)


def test_attention_parameters():
    def seen(lib):
        q = lib.ones(1, 2, 3, 4)
        params = lib.backends.cuda.SDPAParams(q, q, q, None, 0.0, True, False)
        return params.is_causal, params.attn_mask, [
            getattr(lib.backends.cuda, f"can_use_{kind}_attention")(params) for kind in ("flash", "efficient", "cudnn")
        ]

    assert seen(ft) == seen(pt)
    for lib in (ft, pt):
        with pytest.raises(RuntimeError, match="expected 0 <= device index < 0"):
            lib.backends.cuda.cufft_plan_cache[0]


def _raised(lib, code):
    try:
        return eval(code, {"cuda": lib.cuda})
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize(
    "code",
    [
        "cuda.host_memory_stats()",
        "cuda.memory_stats_as_nested_dict()",
        "cuda.list_gpu_processes()",
        "cuda.get_sync_debug_mode()",
        "cuda.set_sync_debug_mode('warn')",
        "cuda.get_gencode_flags()",
        "cuda.utilization()",
        "cuda.MemPool()",
        "cuda.caching_allocator_enable()",
        "cuda.get_per_process_memory_fraction()",
        "cuda.Event()",
        "cuda.Stream()",
        "cuda.current_stream()",
        "cuda.get_stream_from_external(0)",
        "cuda.set_stream(None)",
        "cuda.CUDAPluggableAllocator('absent.so', 'a', 'b')",
        "cuda.memory.mem_get_info()",
        "cuda.memory_stats()",
    ],
)
@pytest.mark.skipif(pt.cuda.is_available() or ft.cuda.is_available(), reason="compares what is said without a GPU")
def test_cuda_without_a_gpu(code):
    assert _raised(ft, code) == _raised(pt, code)


REFUSED = [
    "b.cudnn.enabled=3", "b.cudnn.benchmark='a'", "b.cudnn.deterministic=None", "b.cudnn.allow_tf32=1", "b.mkldnn.enabled=2",
    "b.mkldnn.deterministic=2", "b.mkldnn.allow_tf32=2", "b.quantized.engine='foo'", "b.quantized.engine=3",
    "b.cuda.matmul.foo=1", "b.cuda.matmul.bar", "b.cuda.matmul.allow_tf32=3",
]


@pytest.mark.parametrize("statement", REFUSED)
def test_refused_values(statement):
    said = []
    for lib in (ft, pt):
        with pytest.raises((RuntimeError, AttributeError)) as caught:
            exec(statement, {"b": lib.backends})
        said.append((type(caught.value).__name__, str(caught.value)))
    assert said[0] == said[1]


def test_an_unknown_precision_changes_nothing_with_a_warning():
    for lib in (ft, pt):
        before = lib.get_float32_matmul_precision()
        with pytest.warns(UserWarning, match="not one of 'highest', 'high', or 'medium'"):
            lib.set_float32_matmul_precision("foo")
        assert lib.get_float32_matmul_precision() == before


@pytest.mark.parametrize("ask", [
    lambda t: t._C._mps_is_available(), lambda t: t._C._mps_is_in_bad_fork(), lambda t: t._C._is_any_autocast_enabled(),
    lambda t: t._C._is_autocast_available("cpu"), lambda t: t._C._is_multithreading_enabled(),
    lambda t: t._C._is_view_replay_enabled(), lambda t: t._C._is_torch_function_all_disabled(),
    lambda t: (t._C._has_storage(t.ones(1)), t._C._has_storage(t.ones(2).to_sparse())),
    lambda t: t._C._has_torch_function_variadic(t.ones(1), t.nn.Parameter(t.ones(1))), lambda t: t._C._has_distributed(),
    lambda t: t.backends.mps.is_macos_or_newer(13, 0),
])
def test_what_is_there(ask):
    def look(t):
        try:
            return ask(t)
        except RuntimeError as error:
            return str(error)

    ours, theirs = map(look, (ft, pt))
    assert ours == theirs


def test_a_test_may_say_that_there_is_an_apple_device(monkeypatch):
    for t in (ft, pt):
        monkeypatch.setattr(t._C, "_mps_is_available", lambda: True)
        forget = getattr(t.backends.mps.is_available, "cache_clear", lambda: None)  # PyTorch's asks once
        forget()
        try:
            assert t.backends.mps.is_available()
            with t.autocast("cpu"):
                assert t._C._is_any_autocast_enabled()
        finally:
            forget()
