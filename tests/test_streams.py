"""``torch.Stream`` and ``torch.Event`` of the CPU, which has neither."""

import pytest
import torch

import ftorch

CALLS = {
    "stream": lambda t: t.Stream(device="cpu"), "no device": lambda t: t.Stream(), "event": lambda t: t.Event(device="cpu"),
    "timed": lambda t: t.Event("cpu", enable_timing=True), "meta": lambda t: t.Stream("meta"),
    "number": lambda t: t.Stream(0), "unknown": lambda t: t.Stream("foo"),
    "parts": lambda t: [getattr(t.Stream("cpu"), n) for n in ("device_index", "device_type", "stream_id")],
    "device": lambda t: str(t.Stream("cpu").device), "query": lambda t: t.Stream("cpu").query(),
    "synchronize": lambda t: t.Stream("cpu").synchronize(), "record": lambda t: t.Stream("cpu").record_event(),
    "capturing": lambda t: t.Stream("cpu").is_capturing(), "handle": lambda t: t.Stream("cpu").native_handle,
    "wait": lambda t: t.Stream("cpu").wait_event(t.Event("cpu")), "wait stream": lambda t: t.Stream().wait_stream(t.Stream()),
    "equal": lambda t: (t.Stream("cpu") == t.Stream(), hash(t.Stream()) == hash(t.Stream("cpu")), t.Stream() == 1),
    "with": lambda t: t.Stream("cpu").__enter__(), "event parts": lambda t: (str(t.Event().device), t.Event().event_id),
    "event record": lambda t: t.Event("cpu").record(), "event record on": lambda t: t.Event("cpu").record(t.Stream("cpu")),
    "event query": lambda t: (t.Event().query(), t.Event().wait(), t.Event().synchronize()),
    "elapsed": lambda t: t.Event().elapsed_time(t.Event()), "ipc": lambda t: t.Event().ipc_handle(),
    "by number": lambda t: t.Stream(stream_id=3, device_index=0, device_type=0),
}


@pytest.mark.parametrize("name", CALLS)
def test_streams_and_events_are_pytorchs(name):
    def results(t):
        try:
            return repr(CALLS[name](t)).replace("ftorch", "torch")
        except Exception as error:  # noqa: BLE001
            return type(error).__name__, str(error).replace("ftorch", "torch")

    assert results(ftorch) == results(torch)


def test_classes_have_pytorchs_names():
    for kind in ("Stream", "Event"):
        own, theirs = (set(n for n in dir(getattr(t, kind)) if not n.startswith("_")) for t in (ftorch, torch))
        assert own == theirs


_DEVICES = {
    "number": lambda t: (3,), "text": lambda t: ("cuda:1",), "device": lambda t: (t.device("cuda:2"),),
    "cpu": lambda t: ("cpu",),
    "allowed": lambda t: (t.device("cpu"), False, True), "none": lambda t: (None,), "no number": lambda t: ("cuda",),
    "meta": lambda t: ("meta", False, True), "float": lambda t: (1.5,),
}


@pytest.mark.parametrize("name", _DEVICES)
def test_indices_of_gpus_are_pytorchs(name):
    from torch.cuda._utils import _get_device_index

    from ftorch.cuda._utils import _get_device_index as own

    def results(t, function):
        try:
            return function(*_DEVICES[name](t))
        except ValueError as error:
            return str(error)

    assert results(ftorch, own) == results(torch, _get_device_index)


_ASKED = ("set_device", "device", "default_stream", "current_stream", "synchronize", "get_device_properties",
          "get_device_name", "get_device_capability", "get_rng_state", "mem_get_info", "reset_peak_memory_stats",
          "memory_allocated")


@pytest.mark.skipif(ftorch.cuda.is_available(), reason="what is said without a GPU")
@pytest.mark.parametrize("name", _ASKED)
def test_other_devices_are_refused_as_pytorch_does_without_a_gpu(name):
    """transformers' offloaded cache asks for the stream of a CPU; ``set_device("cpu")`` did nothing."""
    def outcomes(t):
        found = []
        for asked in ("cpu", t.device("meta")):
            try:
                getattr(t.cuda, name)(asked)
            except Exception as error:  # noqa: BLE001
                found.append((type(error), str(error)))
        return found

    assert outcomes(ftorch) == outcomes(torch)


@pytest.mark.parametrize("given", [None, "cuda", 1.5])
def test_set_device_asks_for_an_index(given):
    def said(t):
        with pytest.raises(ValueError) as error:
            t.cuda.set_device(given)
        return str(error.value)

    assert said(ftorch) == said(torch)


@pytest.mark.parametrize("given", ["cpu", "meta"])
def test_cuda_asks_for_a_gpu(given):
    for t in (ftorch, torch):
        for moved in (t.ones(2), t.nn.Linear(1, 1), t.ones(2, requires_grad=True)):
            with pytest.raises(RuntimeError, match="Invalid device, must be cuda device"):
                moved.cuda(given)
