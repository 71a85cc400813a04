"""``torch.utils.data`` in one process: datasets, samplers, collation, the `DataLoader`."""

import collections
import itertools
import re

import numpy as np
import pytest
import torch as reference

import ftorch as torch
from ftorch.utils import data

from ..oracle import assert_shows_same_values

Point = collections.namedtuple("Point", "x y")
PACKAGES = (torch, reference)


# --- collation -------------------------------------------------------------------------

BATCHES = [
    [1, 2], [True, False], [True, 2], [1, 2.5], [1.5, 2], [1.5, float("inf")], ["a", "b"],
    [b"a", b"b"], [np.float32(1), np.float32(2)], [np.float64(1), np.float64(2)],
    [np.int8(1), np.int8(2)], [np.bool_(True)], [np.int64(1), np.float32(2)], [np.uint16(3)],
    [np.array(1), np.array(2)], [np.ones((2, 0)), np.ones((2, 0))],
    [np.float32([1, 2]), np.float64([1, 2])], [np.array([True]), np.array([False])],
    [np.ones((3, 2), np.float32).T, np.zeros((2, 3), np.float32)],
    [np.array([1, 2])[::-1]], [np.array(["a"])], [np.array([1, 2]), np.array([1])],
    [np.array([1], ">i4")], [2**70], [None], [1j], [1, None], [(1, 2), (3, 4)], [[1, "a"], [2, "b"]],
    [(1, 2), (1,)], [Point(1, 2.0), Point(3, 4.0)], [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}],
    [collections.OrderedDict(a=1), collections.OrderedDict(a=2)],
    [collections.defaultdict(list, a=1), collections.defaultdict(list, a=2)],
    [{"n": [Point(1, (2, 3))]}, {"n": [Point(4, (5, 6))]}], [range(2), range(2)],
]


def _named(arguments):
    """Arguments as a test's name: the same in every worker process, so without addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(arguments))


@pytest.mark.parametrize("batch", BATCHES, ids=repr)
def test_default_collate(batch):
    assert_shows_same_values(lambda package: package.utils.data.default_collate(batch))


@pytest.mark.parametrize("batch", BATCHES, ids=repr)
def test_collation_in_workers(batch):
    """The function that workers use instead makes the same, with marked arrays for tensors."""
    from ftorch.utils.data._utils import collate

    def finish(value):
        if isinstance(value, collate.TensorLeaf):
            function, arguments = value.__reduce__()
            return function(*arguments)
        if isinstance(value, dict):
            return type(value)({k: finish(v) for k, v in value.items()}) if type(
                value) is not collections.defaultdict else collections.defaultdict(
                    list, {k: finish(v) for k, v in value.items()})
        if isinstance(value, Point):
            return Point(*map(finish, value))
        return [finish(v) for v in value] if type(value) is list else value

    assert_shows_same_values(lambda package: finish(collate.collate(
            batch, collate_fn_map=collate.array_fn_map)) if package is torch
         else reference.utils.data.default_collate(batch))


def test_default_collate_of_tensors():
    def run(package, *make):
        return package.utils.data.default_collate([m(package) for m in make])

    assert_shows_same_values(lambda p: run(p, lambda t: t.ones(2, 3), lambda t: t.zeros(2, 3)))
    assert_shows_same_values(lambda p: run(p, lambda t: t.ones(2, 3).t(), lambda t: t.ones(3, 2)))
    assert_shows_same_values(lambda p: run(p, lambda t: t.tensor(1), lambda t: t.tensor(2)))
    assert_shows_same_values(lambda p: run(p, lambda t: t.tensor(1), lambda t: t.tensor(2.5)))
    assert_shows_same_values(lambda p: run(p, lambda t: t.ones(2), lambda t: t.ones(3)))
    assert_shows_same_values(lambda p: run(p, lambda t: t.arange(6).view(2, 3)[1], lambda t: t.arange(9)[::3]))
    assert_shows_same_values(lambda p: run(p, lambda t: t.ones(2).to(t.bfloat16), lambda t: t.ones(2).to(t.bfloat16)))
    out = run(torch, lambda t: t.ones(2, requires_grad=True), lambda t: t.ones(2))
    assert out.requires_grad
    out.sum().backward()


def test_collation_of_own_types():
    class Own:
        def __init__(self, x):
            self.x = x

    def collate_own(batch, *, collate_fn_map=None):
        return [b.x for b in batch]

    collate_map = data._utils.collate.default_collate_fn_map
    assert next(iter(collate_map)) is torch.Tensor
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors"):
        data.default_collate([Own(1)])
    collate_map[Own] = collate_own
    try:
        assert data.default_collate([(Own(1), 2), (Own(3), 4)])[0] == [1, 3]
        assert not data._utils.collate.registry_is_untouched()
    finally:
        del collate_map[Own]
    assert data._utils.collate.registry_is_untouched()


@pytest.mark.parametrize(
    "sample",
    [np.array([1.5, 2]), np.float32(3), "text", 5, (np.array([1]), "x"), Point(np.array(1), 2),
     {"a": np.array([1]), "b": [np.array([2])]}, np.array(["a"]), None, range(2)],
    ids=_named,
)
def test_default_convert(sample):
    assert_shows_same_values(lambda package: package.utils.data.default_convert(sample))


# --- samplers --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 12345])
@pytest.mark.parametrize(
    "make",
    [
        lambda d, g: d.RandomSampler(range(10)), lambda d, g: d.RandomSampler(range(10), generator=g),
        lambda d, g: d.RandomSampler(range(7), num_samples=20, generator=g),
        lambda d, g: d.RandomSampler(range(7), replacement=True, num_samples=70),
        lambda d, g: d.SubsetRandomSampler([5, 6, 9]),
        lambda d, g: d.WeightedRandomSampler([0.1, 0.9, 0.4, 0.7], 3, replacement=False),
        lambda d, g: d.WeightedRandomSampler([0.1, 0.9, 0.4, 0.7], 9, generator=g),
        lambda d, g: d.BatchSampler(d.RandomSampler(range(10)), 3, False),
        lambda d, g: d.BatchSampler(range(10), 3, True), lambda d, g: d.SequentialSampler(range(4)),
        lambda d, g: d.DistributedSampler(range(10), 3, 1, seed=4),
        lambda d, g: d.DistributedSampler(range(10), 3, 2, shuffle=False, drop_last=True),
        lambda d, g: d.DistributedSampler(range(2), 5, 4, shuffle=False),
        lambda d, g: d.DistributedSampler(range(2), 5, 4, drop_last=True),
    ],
)
def test_samplers(make, seed):
    def run(package):
        package.manual_seed(seed)
        generator = package.Generator().manual_seed(seed + 1)
        sampler = make(package.utils.data, generator)
        return [len(sampler), list(sampler), list(sampler), package.rand(2), package.rand(
            2, generator=generator)]

    assert_shows_same_values(run)


@pytest.mark.parametrize(
    "make",
    [
        lambda d: d.RandomSampler(range(3), replacement=1), lambda d: d.RandomSampler([]),
        lambda d: d.RandomSampler(range(3), num_samples=0),
        lambda d: d.WeightedRandomSampler([1.0], 0), lambda d: d.WeightedRandomSampler([1.0], True),
        lambda d: d.WeightedRandomSampler([1.0], 1, replacement=3),
        lambda d: d.WeightedRandomSampler([[1.0]], 1), lambda d: d.BatchSampler(range(3), 0, False),
        lambda d: d.BatchSampler(range(3), 1, 1), lambda d: d.BatchSampler(range(3), True, False),
        lambda d: d.DistributedSampler(range(3), 2, 2), lambda d: next(iter(d.Sampler())),
    ],
)
def test_samplers_errors(make):
    assert_shows_same_values(lambda package: make(package.utils.data))


def test_distributed_sampler_epochs():
    def run(package):
        sampler = package.utils.data.DistributedSampler(range(20), 2, 0)
        orders = []
        for epoch in range(3):
            sampler.set_epoch(epoch)
            orders.append(list(sampler))
        return orders

    assert_shows_same_values(run)


# --- datasets --------------------------------------------------------------------------


def make_datasets(package):
    d = package.utils.data
    rows = d.TensorDataset(package.arange(8).view(4, 2), package.arange(4) * 10.0)
    return {
        "tensor": rows, "concat": d.ConcatDataset([rows, rows]), "add": rows + rows,
        "subset": d.Subset(rows, [3, 1, 0]), "nested": d.Subset(d.Subset(rows, [3, 1, 0]), [2, 0]),
        "stack": d.StackDataset(rows, range(4)), "named": d.StackDataset(a=rows, b=rows),
        "stack of subsets": d.StackDataset(d.Subset(rows, [0, 1]), d.Subset(rows, [3, 2])),
        "subset of stack": d.Subset(d.StackDataset(a=rows), [1, 2]),
    }


@pytest.mark.parametrize("name", list(make_datasets(reference)))
def test_datasets(name):
    def run(package):
        dataset = make_datasets(package)[name]
        loader = package.utils.data.DataLoader(dataset, batch_size=2)
        return [len(dataset), [dataset[i] for i in range(len(dataset))], list(loader)]

    assert_shows_same_values(run)


def test_whole_batches_are_gathered_only_where_nobody_can_tell():
    from ftorch.utils.data.dataset import batch_getter

    found = {name: batch_getter(dataset) for name, dataset in make_datasets(torch).items()}
    assert {name for name, get in found.items() if get} == {
        "tensor", "subset", "nested", "named", "stack of subsets", "subset of stack",
    }

    class Own(data.TensorDataset):
        def __getitem__(self, index):
            return super().__getitem__(index)[0] + 1

    own = Own(torch.arange(4))
    assert batch_getter(own) is None
    assert [b.tolist() for b in data.DataLoader(own, 2)] == [[1, 2], [3, 4]]
    samples = next(iter(data.DataLoader(make_datasets(torch)["tensor"], 2, collate_fn=list)))
    assert [type(s) for s in samples] == [tuple, tuple]


def test_gathered_rows():
    x = torch.arange(12.0).view(4, 3)
    for tensor in (
        x,
        x.t(),
        x[1:],
        x[:, 1],
        x.to(torch.bfloat16),
        torch.from_numpy(np.ones((4, 2))),
    ):
        dataset = data.TensorDataset(tensor)
        for indices in ([0, 2], [-1, 0], [1]):
            ((batch,),) = data.DataLoader(dataset, batch_sampler=[indices])
            assert batch.tolist() == [tensor[i].tolist() for i in indices]
            assert batch.dtype is tensor.dtype
            batch.add_(1)  # it shares nothing
    assert x.tolist() == np.arange(12.0).reshape(4, 3).tolist()
    grad = torch.ones(3, 2, requires_grad=True)
    ((batch,),) = data.DataLoader(data.TensorDataset(grad), 3)
    batch.sum().backward()
    assert grad.grad.tolist() == [[1, 1]] * 3
    dataset = data.TensorDataset(x)
    x[0, 0] = 100  # seen by the next batch
    assert next(iter(data.DataLoader(dataset)))[0][0, 0].item() == 100
    assert_shows_same_values(lambda p: list(p.utils.data.DataLoader(
        p.utils.data.TensorDataset(p.ones(3)), batch_sampler=[[0, 3]])))


@pytest.mark.parametrize(
    "make",
    [
        lambda p: p.utils.data.TensorDataset(p.ones(2), p.ones(3)),
        lambda p: p.utils.data.StackDataset(), lambda p: p.utils.data.ConcatDataset([]),
        lambda p: p.utils.data.StackDataset([1], [1, 2]), lambda p: p.utils.data.Dataset()[0],
        lambda p: p.utils.data.StackDataset([1], a=[1]),
        lambda p: p.utils.data.ConcatDataset([[1, 2]])[-3],
        lambda p: p.utils.data.ConcatDataset([p.utils.data.IterableDataset()]),
        lambda p: list(p.utils.data.ChainDataset([[1]])),
        lambda p: type("Sub", (p.utils.data.Subset,), {"__getitem__": lambda s, i: 0})([1], [0]),
        lambda p: p.utils.data.random_split(range(3), [1, 1]),
        lambda p: p.utils.data.random_split(range(3), [1.5, -0.5]),
    ],
)
def test_datasets_errors(make):
    assert_shows_same_values(make)


def test_chains():
    class Stream(data.IterableDataset):
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return iter(range(self.n))

        def __len__(self):
            return self.n

    chain = Stream(2) + Stream(3)
    assert isinstance(chain, data.ChainDataset)
    assert list(chain) == [0, 1, 0, 1, 2]
    assert len(chain) == 5


@pytest.mark.filterwarnings("ignore:Length of split")
@pytest.mark.parametrize("lengths", [[3, 7], [0.3, 0.7], [0.33, 0.33, 0.34], [0.05, 0.95], [10]])
def test_random_split(lengths):
    def run(package):
        package.manual_seed(3)
        generator = package.Generator().manual_seed(1)
        split = package.utils.data.random_split
        return [
            [list(part) for part in split(range(10), lengths)],
            [list(part) for part in split(range(10), lengths, generator=generator)],
        ]

    assert_shows_same_values(run)


# --- the loader ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {}, {"batch_size": 4}, {"batch_size": 4, "drop_last": True}, {"batch_size": None},
        {"batch_size": 3, "shuffle": True}, {"sampler": [3, 1, 2], "batch_size": 2},
        {"batch_sampler": [[0, 5], [7]]}, {"batch_size": None, "sampler": [[1, 2], [3]]},
        {"batch_size": 4, "collate_fn": lambda samples: [s[1] for s in samples]},
    ],
    ids=_named,
)
def test_loader(arguments):
    def run(package):
        package.manual_seed(7)
        dataset = package.utils.data.TensorDataset(package.arange(20).view(10, 2), package.ones(10))
        loader = package.utils.data.DataLoader(dataset, **arguments)
        epochs = [list(loader) for _ in range(2)]
        return [len(loader), epochs, package.rand(1)]

    assert_shows_same_values(run)


def test_shuffles_with_a_generator():
    def run(package):
        generator = package.Generator().manual_seed(3)
        loader = package.utils.data.DataLoader(range(10), 4, shuffle=True, generator=generator)
        return [list(loader), list(loader), package.rand(2, generator=generator)]

    assert_shows_same_values(run)


def stream(package):
    """Seven numbers."""
    methods = {"__iter__": lambda self: iter(range(7)), "__len__": lambda self: 7}
    return type("Stream", (package.utils.data.IterableDataset,), methods)()


@pytest.mark.parametrize(
    "arguments",
    [{}, {"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": None}],
)
def test_streams(arguments):
    def run(package):
        loader = package.utils.data.DataLoader(stream(package), **arguments)
        return [len(loader), list(loader), list(loader)]

    assert_shows_same_values(run)


def test_streams_longer_than_they_say():
    class Wrong(data.IterableDataset):
        def __iter__(self):
            return iter(range(3))

        def __len__(self):
            return 1

    loader = data.DataLoader(Wrong())
    len(loader)
    with pytest.warns(UserWarning, match="Length of IterableDataset .* was reported to be 1"):
        list(loader)


@pytest.mark.parametrize(
    ("dataset", "arguments"),
    [
        (range(3), {"num_workers": -1}), (range(3), {"timeout": -1}),
        (range(3), {"prefetch_factor": 2}), (range(3), {"prefetch_factor": -1, "num_workers": 1}),
        (range(3), {"persistent_workers": True}), (range(3), {"sampler": [1], "shuffle": True}),
        (range(3), {"batch_sampler": [[1]], "batch_size": 2}),
        (range(3), {"batch_sampler": [[1]], "drop_last": True}),
        (range(3), {"batch_size": None, "drop_last": True}), (range(3), {"batch_size": 0}),
        (range(3), {"multiprocessing_context": "fork"}), (stream, {"shuffle": True}),
        (stream, {"sampler": [1]}), (stream, {"batch_sampler": [[1]]}),
        ([], {"shuffle": True}), (range(3), {"timeout": 1}),
    ],
)
def test_loader_errors(dataset, arguments):
    def run(package):
        source = dataset(package) if dataset is stream else dataset
        iter(package.utils.data.DataLoader(source, **arguments))

    assert_shows_same_values(run)


def test_what_is_fixed_once_the_loader_is_made():
    loader = data.DataLoader(range(3))
    with pytest.raises(ValueError, match="batch_size attribute should not be set after DataLoader"):
        loader.batch_size = 3
    loader.collate_fn = list
    assert list(loader) == [[0], [1], [2]]
    with pytest.raises(NotImplementedError):
        import pickle

        pickle.dumps(iter(loader))


def test_names_that_libraries_import():
    from ftorch.utils.data import _utils, dataloader
    from ftorch.utils.data._utils.collate import default_collate_fn_map  # noqa: F401
    from ftorch.utils.data._utils.worker import WorkerInfo  # noqa: F401
    from ftorch.utils.data.distributed import DistributedSampler  # noqa: F401

    assert dataloader._MultiProcessingDataLoaderIter
    assert dataloader.default_collate is data.default_collate
    assert dataloader._DatasetKind.Map == data._DatasetKind.Map == 0
    assert _utils.MP_STATUS_CHECK_INTERVAL == 5.0
    assert list(itertools.islice(dataloader._InfiniteConstantSampler(), 2)) == [None, None]


def test_pinning():
    from ftorch.utils.data._utils.pin_memory import pin_memory

    class Batch:
        def pin_memory(self):
            return "pinned"

    value = {"a": [Batch(), 1], "b": (Batch(), "text"), "c": Point(1, Batch())}
    assert pin_memory(value) == {
        "a": ["pinned", 1], "b": ("pinned", "text"), "c": Point(1, "pinned"),
    }


class _Augmented(data.Dataset):
    """Samples that are computed in one of two ways."""

    def __len__(self):
        return 32

    def __getitem__(self, index):
        x = torch.arange(12.0).reshape(3, 4) + index
        return (x.flip(-1) if index % 3 else x) * 2 - 1


@pytest.mark.usefixtures("no_promotion")
@pytest.mark.parametrize("number", [0, 1])
def test_shuffled_batches_of_computed_samples_compile_nothing(number):
    """Batches never have the same order of flips; samples are one of two programs."""
    from ftorch.jit import stats

    whole = _Augmented() if number == 0 else data.Subset(_Augmented(), range(32))
    loader = data.DataLoader(whole, 8, shuffle=True)
    torch.manual_seed(0)
    for _ in range(3):
        total = sum(batch.sum().item() for batch in loader)
    stats.reset()
    for _ in range(3):
        again = sum(batch.sum().item() for batch in loader)
    assert stats.compilations == 0
    assert again == total == sum((12 * i + 66) * 2 - 12 for i in range(32))


def test_attributes_of_iterators():
    """Of subclasses of the iterator (torchdata's loaders, which keep their state)."""
    assert_shows_same_values(lambda t: [
        getattr(iter(t.utils.data.DataLoader([1, 2])), name)
        for name in ("_shared_seed", "_pg", "_world_size", "_rank", "_pin_memory_device", "_profile_name")
    ])
