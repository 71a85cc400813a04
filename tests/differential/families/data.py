"""Data sets, samplers and loaders: what comes in which order, what is put together how, and what is refused."""

from __future__ import annotations

_START = '''import collections, copy, pickle
from torch.utils.data import *
from torch.utils.data import default_collate, default_convert
Point = collections.namedtuple("Point", "x y")
class Squares(Dataset):
    def __init__(self, n): self.n = n
    def __len__(self): return self.n
    def __getitem__(self, i):
        if i >= self.n: raise IndexError(i)
        return {"x": torch.full((2,), float(i)), "i": i, "s": f"n{i}", "p": Point(i, torch.tensor(i * i))}
class Many(Squares):
    def __getitem__(self, i): return torch.tensor([i, i])
    def __getitems__(self, ids): seen.append(list(ids)); return [torch.tensor([i, -i]) for i in ids]
class Bare(Dataset):
    pass
class Unsized(Dataset):
    def __getitem__(self, i):
        if i > 9: raise IndexError(i)
        return i
class Stream(IterableDataset):
    def __init__(self, n): self.n = n
    def __iter__(self): return iter(range(self.n))
class Sized(Stream):
    def __len__(self): return 3
class Evens(Sampler):
    def __init__(self, n): self.n = n
    def __iter__(self): return iter(range(0, self.n, 2))
    def __len__(self): return self.n // 2
class Text:
    def __init__(self, t): self.t = t
    def __repr__(self): return f"Text({self.t})"
    def pin_memory(self): return self
def shown(x):
    return repr(x)
seen = []
a, b = torch.arange(6.0).view(6, 1), torch.arange(6)
'''
_SETS = (
    "TensorDataset(a, b)", "TensorDataset(a)", "TensorDataset(b)", "Squares(5)", "Many(5)", "Subset(TensorDataset(a, b), [3, 1, 1])", "Subset(Squares(4), range(2))", "ConcatDataset([TensorDataset(a), TensorDataset(a[:2] * 10)])", "TensorDataset(a) + TensorDataset(-a)",
    "StackDataset(a, b)", "StackDataset(x=a, y=b)", "StackDataset(Squares(3), b[:3])", "Stream(5)", "Sized(5)", "ChainDataset([Stream(2), Stream(3)])", "Stream(2) + Stream(1)", "[1, 2, 3, 4]", "range(7)", "[(1, 'a'), (2, 'b'), (3, 'c')]", "{0: 1.5, 1: 2.5}", "[torch.ones(2), torch.zeros(2), torch.ones(2) * 2]",
    "a", "np.arange(8).reshape(4, 2)", "[np.float32(1), np.float32(2)]", "[b'a', b'b']", "Subset(Many(6), [0, 2, 5])", "random_split(Squares(6), [2, 4])[1]", "ConcatDataset([Squares(2), Subset(Squares(5), [4, 3])])", "[[1, 2], [3, 4], [5, 6]]", "[{'a': 1, 'b': [1, 2]}, {'a': 2, 'b': [3, 4]}]", "[torch.ones(2), torch.ones(3)]", "[None, None]", "[Point(1, 2.0), Point(3, 4.0)]",
    "[(1, (2, [3])), (4, (5, [6]))]", "[True, False, True]", "[1, 2.5, 3]", "[2.5, 1]", "[torch.tensor(1), torch.tensor(2.5)]", "[np.array(['a']), np.array(['b'])]", "[1j, 2j]", "TensorDataset(a, b[:3])", "Subset(Squares(3), [7])", "ConcatDataset([])", "ConcatDataset([Stream(2)])", "StackDataset(a, b[:2])", "StackDataset()", "StackDataset(a, x=b)", "Bare()", "Unsized()", "ChainDataset([Squares(2)])",
    "[[1, 2], [3]]", "[{'a': 1}, {'b': 2}]", "[Text('a')]", "Subset(Subset(Many(6), [5, 4, 3]), [2, 0])", "Subset(a, [1, 2])", "[torch.ones(2, requires_grad=True) * 2, torch.ones(2)]", "[collections.OrderedDict(a=1), collections.OrderedDict(a=2)]", "[(torch.ones(1), np.ones(1)), (torch.zeros(1), np.zeros(1))]", "[collections.deque([1, 2]), collections.deque([3, 4])]", "[{1, 2}, {3}]", "['x', 'yy']",
)
_LOOKS = (
    "len(ds)", "ds[0]", "ds[-1]", "ds[2]", "ds[99]", "ds[-99]", "ds[1:3]", "ds[torch.tensor(1)]", "ds[[0, 1]]", "ds['x']", "[repr(x) for x in ds]", "next(iter(ds))", "ds.indices", "ds.cumulative_sizes", "ds.datasets[0] is None", "ds.tensors[0]", "ds.__getitems__([0, 2])", "(ds + ds)[-1]", "len(ds + ds)", "copy.deepcopy(ds)[0]", "pickle.loads(pickle.dumps(ds))[1]",
    "[s.indices for s in random_split(ds, [0.5, 0.5])]", "[s.indices for s in random_split(ds, [1, len(ds) - 1])]", "[list(s) for s in random_split(ds, [0.3, 0.3, 0.4], torch.Generator().manual_seed(3))]", "random_split(ds, [0.5, 0.6])", "random_split(ds, [0.5, -0.5])", "random_split(ds, [1, 1])", "random_split(ds, [0.9, 0.1])", "random_split(ds, [])", "type(ds)", "isinstance(ds, Dataset), isinstance(ds, IterableDataset)", "bool(ds)", "Subset(ds, [0, 0])[1]", "Subset(ds, [1])[[0]]", "Subset(ds, 3)", "Dataset[int]", "ds == ds",
)
_SAMPLERS = (
    "SequentialSampler(ds)", "RandomSampler(ds)", "RandomSampler(ds, replacement=True)", "RandomSampler(ds, num_samples=9)", "RandomSampler(ds, replacement=True, num_samples=3, generator=torch.Generator().manual_seed(2))", "SubsetRandomSampler([0, 2, 1])", "WeightedRandomSampler([0.1, 0.9, 0.5], 4)", "WeightedRandomSampler([1.0, 2.0, 3.0], 2, replacement=False)", "BatchSampler(SequentialSampler(range(5)), 2, False)", "BatchSampler(range(5), 2, True)",
    "BatchSampler(RandomSampler(range(4)), 3, False)", "Evens(5)", "[2, 0, 1]", "range(3)", "BatchSampler(Evens(8), 3, True)", "RandomSampler(ds, num_samples=0)", "RandomSampler(ds, num_samples=-1)", "RandomSampler(ds, replacement=3)", "RandomSampler(ds, num_samples=2.5)", "RandomSampler([])", "WeightedRandomSampler([1.0], 0)", "WeightedRandomSampler([1.0, 2.0], 3, replacement=False)", "WeightedRandomSampler([[1.0]], 2)", "WeightedRandomSampler([1.0], 2, replacement=1)", "WeightedRandomSampler([1.0], True)",
    "BatchSampler(range(3), 0, False)", "BatchSampler(range(3), 2.5, False)", "BatchSampler(range(3), True, False)", "BatchSampler(range(3), 2, 1)", "Sampler()", "SubsetRandomSampler([])", "BatchSampler([], 2, False)", "iter([1, 0])", "torch.utils.data.distributed.DistributedSampler(ds, 2, 1)", "torch.utils.data.distributed.DistributedSampler(ds, 3, 0, shuffle=False, drop_last=True)", "torch.utils.data.distributed.DistributedSampler(ds, 2, 5)", "Sampler(ds)", "WeightedRandomSampler(torch.tensor([1.0, 0.0]), 3)",
)
_ARGUMENTS = (
    "batch_size=2", "batch_size=2", "batch_size=3", "batch_size=None", "batch_size=1", "batch_size=2, drop_last=True", "shuffle=True", "shuffle=False", "sampler=sm", "batch_sampler=sm", "batch_size=2, sampler=sm", "collate_fn=list", "collate_fn=lambda x: x", "batch_size=2, collate_fn=lambda x: len(x)", "generator=torch.Generator().manual_seed(4)",
    "batch_size=2, shuffle=True, generator=torch.Generator().manual_seed(4)", "batch_size=0", "batch_size=-1", "num_workers=-1", "timeout=-1", "timeout=3", "prefetch_factor=2", "persistent_workers=True", "multiprocessing_context='fork'", "shuffle=True, sampler=sm", "batch_size=2, batch_sampler=sm", "batch_size=None, drop_last=True", "batch_sampler=sm, shuffle=True", "batch_size=None, shuffle=True", "batch_size=None, sampler=sm", "batch_size=2.5", "shuffle=None",
    "batch_size=None, collate_fn=list", "worker_init_fn=print", "pin_memory=False", "in_order=False", "batch_size=2, in_order=True, drop_last=False", "batch_size='2'", "3, True", "2, False, sm", "drop_last=True, batch_sampler=sm", "multiprocessing_context=3", "prefetch_factor=None",
)
_LOADERS = (
    "[shown(x) for x in dl]", "[shown(x) for x in dl]", "next(iter(dl))", "list(dl)[-1]", "len(dl)", "dl.batch_size, dl.drop_last, dl.num_workers", "dl.sampler", "dl.batch_sampler", "type(dl.sampler).__name__, type(dl.batch_sampler).__name__", "dl.dataset is ds", "it = iter(dl); shown(next(it))", "'it' in globals() and shown(next(it))", "'it' in globals() and len(it)", "'it' in globals() and iter(it) is it", "dl.batch_size = 5", "dl.sampler = sm", "dl.dataset = ds", "dl.collate_fn.__name__", "dl.drop_last = True", "dl.generator",
    "dl.multiprocessing_context", "dl.multiprocessing_context = 'fork'", "dl.num_workers = 1; dl.num_workers = 0", "dl.timeout, dl.prefetch_factor, dl.persistent_workers, dl.pin_memory", "dl.foo = 3", "seen", "dl.check_worker_number_rationality()", "list(iter(dl)) and None", "[shown(x) for x, _ in zip(dl, range(2))]", "dl[0]", "len(list(dl)), len(list(dl))", "get_worker_info()", "dl", "for x in dl: break", "dl._dataset_kind", "torch.rand(1)", "list(zip(dl, dl)) and None", "'it' in globals() and copy.copy(it)", "copy.copy(dl) is dl",
)
_COLLATE = (
    "[1, 2]", "[1.0, 2]", "[torch.ones(2), torch.zeros(2)]", "[torch.ones(2), torch.ones(1)]", "['a', 'b']", "[b'a']", "[{'a': torch.ones(1), 'b': 'x'}] * 2", "[Point(1, torch.ones(1)), Point(2, torch.zeros(1))]", "[(1, 'a'), (2, 'b')]", "[[1, 2], [3, 4]]", "[np.ones(2), np.zeros(2)]", "[np.float64(1), np.int8(2)]", "[np.int8(2), np.int8(3)]", "[]", "3", "[None]", "[Text('a')]", "torch.ones(2, 2)", "np.ones((2, 2))", "'ab'", "[[1], [2, 3]]", "[{'a': 1}, {}]",
    "[np.array(['a'])]", "[np.array([object()])]", "(torch.ones(1),)", "{'a': 1, 'b': torch.ones(1)}", "{'a': np.ones(1), 'b': ('x', 2)}", "Point(np.ones(1), 2)", "np.float32(2)", "np.array('a')", "[np.bool_(True)]", "[True, False]", "[torch.tensor(1), torch.tensor(2)]", "[torch.ones(2, dtype=torch.int8), torch.ones(2)]", "(1, 'a', None)", "[torch.ones(1, requires_grad=True)] * 2", "[range(2), range(2, 4)]", "[[], []]", "[(), ()]", "[{}, {}]", "np.ones(2)[::-1]", "[np.ones(2)[::-1]] * 2", "[1 + 2j]", "[torch.Size([1, 2]), torch.Size([3, 4])]",
    "[np.datetime64('2020')]", "[collections.defaultdict(int, a=1)] * 2", "collections.OrderedDict(a=np.ones(1))", "[collections.deque([1, 2])] * 2", "[torch.ones(2).to_sparse(), torch.ones(2).to_sparse()]", "[nn.Parameter(torch.ones(1))] * 2", "[torch.ones(2, 2).t(), torch.ones(2, 2)]",
)


def data(r):
    """A data set, a sampler and a loader of both, looked at and run."""
    lines = [_START, f"torch.manual_seed({r.randint(0, 3)})", f"ds = {r.choice(_SETS)}", "ds = globals().get('ds', Squares(4))"]
    for _ in range(r.randint(1, 4)):
        lines.append(r.choice(_LOOKS))
    lines += [f"sm = {r.choice(_SAMPLERS)}", "sm = globals().get('sm', [1, 0])", "list(sm) if not hasattr(sm, '__next__') else None", "len(sm)"]
    for _ in range(r.randint(1, 3)):
        lines += [f"dl = DataLoader(ds, {r.choice(_ARGUMENTS)})", "dl = globals().get('dl') or DataLoader(ds)", "[shown(x) for x in dl]"]
        for _ in range(r.randint(1, 4)):
            lines.append(r.choice(_LOADERS))
    for _ in range(r.randint(1, 3)):
        lines.append(f"{r.choice(('default_collate', 'default_convert'))}({r.choice(_COLLATE)})")
    lines += ["torch.rand(2)", "seen"]
    return "\n".join(lines)
