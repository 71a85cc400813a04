"""Contexts that an exception leaves between any two instructions of theirs: what they had set is put back at once."""

from __future__ import annotations

import warnings

import pytest

import ftorch as torch
from ftorch._dynamo import compiled_autograd, config
from ftorch._dynamo import utils as dynamo_utils
from ftorch._inductor import freezing_utils
from ftorch.distributed.fsdp import wrap
from ftorch.distributed.tensor.parallel import loss
from ftorch.eager.autograd import backward as engine
from ftorch.eager.core import jax_internals, suppressed_warnings
from ftorch.eager.tensor import modes
from ftorch.eager.tensor_api import printing
from ftorch.fx import _patching, traceback
from ftorch.fx.experimental.unification import variable
from ftorch.jit import compiling
from ftorch.nn.attention import SDPBackend, sdpa_kernel
from ftorch.nn.utils import parametrize
from ftorch.optim._stateless import swap_in_optimizer_params_and_state
from tests.interrupting import count, interrupt

_node = torch.fx.symbolic_trace(torch.nn.ReLU()).graph.find_nodes(op="output")[0]
_node.meta["custom"] = {"a": 1}


def _preserving():
    return list(traceback._preserving), dict(traceback._current)



#: {name: (makes the context, gives what it sets)}
CONTEXTS = {
    "fork_rng": (torch.random.fork_rng, lambda: torch.get_rng_state().tolist()),
    "printoptions": (lambda: printing.printoptions(precision=2), printing.get_printoptions),
    "sdpa_kernel": (lambda: sdpa_kernel(SDPBackend.MATH), torch.backends.cuda.flash_sdp_enabled),
    "sdp_kernel": (lambda: torch.backends.cuda.sdp_kernel(enable_flash=False), torch.backends.cuda.flash_sdp_enabled),
    "flags": (lambda: torch.backends.cudnn.flags(enabled=False), lambda: torch.backends.cudnn.enabled),
    "cached": (parametrize.cached, lambda: (parametrize._cache_enabled, dict(parametrize._cache))),
    "compiling": (compiling.compiling, lambda: compiling.local.depth),
    "not_compiling": (compiling.not_compiling, lambda: compiling.local.depth),
    "compiled_autograd": (
        lambda: compiled_autograd._switched(print),
        lambda: (engine.final.compiler, compiled_autograd.compiled_autograd_enabled),
    ),
    "recompile_limit": (dynamo_utils.disable_cache_limit, lambda: config.recompile_limit),
    "freezing": (freezing_utils.enter_freezing, freezing_utils._freezing_active),
    "preserve_node_meta": (traceback.preserve_node_meta, _preserving),
    "annotate": (lambda: traceback.annotate({"b": 1}), _preserving),
    "patcher": (_patching._new_patcher, lambda: _patching.CURRENT_PATCHER),
    "variables": (lambda: variable.variables(1), lambda: set(variable._variables)),
    "unrecorded": (torch.compiler._unrecorded, lambda: (modes.levels, modes.function_modes)),
    "quiet": (suppressed_warnings.quiet, lambda: (len(warnings.filters), suppressed_warnings._own.depth)),
    "without_cache": (jax_internals.without_cache, lambda: jax_internals._own.without_cache),
}


_linear = torch.nn.Linear(2, 2)
_optimizer = torch.optim.SGD(_linear.parameters(), lr=0.1, momentum=0.9)
_linear(torch.ones(1, 2)).sum().backward()
_optimizer.step()
_state = _optimizer.state_dict()
CONTEXTS |= {
    "optimizer": (
        lambda: swap_in_optimizer_params_and_state(_optimizer, dict(_linear.named_parameters()), _state),
        lambda: (_optimizer.state, _optimizer.param_groups[0]["params"]),
    ),
    "enable_wrap": (lambda: wrap.enable_wrap(wrapper_cls=torch.nn.Sequential), lambda: list(wrap._enabled)),
    "loss_parallel": (loss.loss_parallel, lambda: list(loss.divided_losses)),
    "nnpack": (lambda: torch.backends.nnpack.flags(enabled=False), lambda: list(torch.backends.nnpack._enabled)),
}


@pytest.mark.parametrize("name", CONTEXTS)
def test_interrupted_contexts(name):
    make, state = CONTEXTS[name]

    def enter():
        with make():
            pass

    enter()
    before = state()
    for place in range(1, 1 + count(enter)):
        where = interrupt(enter, place)
        assert state() == before, where


def test_the_meta_of_a_node_that_is_current():
    with traceback.preserve_node_meta():
        before = _preserving()

        def enter():
            with traceback.set_current_meta(_node):
                assert _preserving() != before

        for place in range(1, 1 + count(enter)):
            where = interrupt(enter, place)
            assert _preserving() == before, where
