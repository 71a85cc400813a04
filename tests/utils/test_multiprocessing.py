"""``torch.multiprocessing``: spawned processes and their failures."""

import pytest

import ftorch
from ftorch import multiprocessing


def put_sum(index, tensor, queue):
    queue.put((index, tensor.sum() + index))


def fail_in_the_second(index):
    if index == 1:
        raise ValueError("the second")


def test_spawn_sends_tensors_both_ways():
    queue = multiprocessing.get_context("spawn").SimpleQueue()
    context = multiprocessing.spawn(put_sum, (ftorch.ones(3), queue), nprocs=2, join=False)
    assert type(context) is multiprocessing.ProcessContext
    found = dict(queue.get() for _ in range(2))
    while not context.join():
        pass
    assert {k: v.item() for k, v in found.items()} == {0: 3, 1: 4}


def test_failures_are_raised_with_their_text():
    with pytest.raises(multiprocessing.ProcessRaisedException, match="the second") as caught:
        multiprocessing.spawn(fail_in_the_second, nprocs=2)
    assert caught.value.error_index == 1
