"""Datapipes against PyTorch's: each program runs with both packages."""

import io
import pickle
import warnings

import numpy as np
import pytest
import torch as reference

import ftorch as torch
from tests.oracle import plain


def run(function, package):
    """What a program yields, or its error, with its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # Python's own, of worker processes: ftorch's are started in another way.
        warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
        pipes = package.utils.data.datapipes
        try:
            result = plain(function(package, pipes.iter, pipes.map))
        except Exception as e:  # noqa: BLE001
            result = type(e).__name__, [str(a).replace("ftorch", "torch") for a in e.args]
    return result, [
        (w.category.__name__, str(w.message))
        for w in caught
        if "os.fork() was called" not in str(w.message)  # PyTorch's workers
    ]


def runs_same(function):
    """What a program yields with PyTorch; the package must do the same."""
    expected = run(function, reference)
    assert run(function, torch) == expected
    return expected[0]


def double(x):
    return 2 * x


def add(a, b=1):
    return a + b


def is_even(x):
    return x % 2 == 0


def parity(x):
    return x % 2


def only(*, key):
    return key


def fail(x):
    raise KeyError("no", x)


def numbers(n=7):
    return lambda it: it.IterableWrapper(range(n))


PROGRAMS = {
    "map": lambda t, it, mp: list(numbers()(it).map(double)),
    "map columns": lambda t, it, mp: list(it.IterableWrapper([(1, 2, 3)]).map(add, [0, 2])),
    "map to": lambda t, it, mp: list(it.IterableWrapper([[1, 2]]).map(add, [0, 1], -1)),
    "map key": lambda t, it, mp: list(it.IterableWrapper([{"a": 1}]).map(double, "a", ["b"])),
    "map two outputs": lambda t, it, mp: numbers()(it).map(double, 0, [1, 2]),
    "map output only": lambda t, it, mp: numbers()(it).map(double, output_col=1),
    "map too many": lambda t, it, mp: numbers()(it).map(double, [0, 1]),
    "map too few": lambda t, it, mp: numbers()(it).map(divmod),
    "map builtin": lambda t, it, mp: numbers()(it).map(only),
    "map no function": lambda t, it, mp: numbers()(it).map(3),
    "map lambda": lambda t, it, mp: list(numbers()(it).map(lambda x: x)),
    "map failing": lambda t, it, mp: list(numbers()(it).map(fail).batch(2)),
    "filter": lambda t, it, mp: list(numbers()(it).filter(is_even)),
    "filter columns": lambda t, it, mp: list(it.IterableWrapper([(1, 2), (3, 3)]).filter(is_even, 1)),
    "filter int": lambda t, it, mp: list(numbers()(it).filter(parity)),
    "collate": lambda t, it, mp: list(numbers()(it).batch(3).collate()),
    "collate fn": lambda t, it, mp: list(numbers()(it).batch(3).collate(collate_fn=sum)),
    "batch": lambda t, it, mp: list(numbers()(it).batch(3)),
    "batch drop": lambda t, it, mp: [*numbers()(it).batch(3, True), len(numbers()(it).batch(3, True))],
    "batch 0": lambda t, it, mp: numbers()(it).batch(0),
    "unbatch": lambda t, it, mp: list(it.IterableWrapper([[[1], [2]], [[3]]]).unbatch()),
    "unbatch all": lambda t, it, mp: list(it.IterableWrapper([[[1], [2]], 3]).unbatch(-1)),
    "unbatch deep": lambda t, it, mp: list(it.IterableWrapper([[1]]).unbatch(2)),
    "unbatch -2": lambda t, it, mp: list(it.IterableWrapper([[1]]).unbatch(-2)),
    "unbatch length": lambda t, it, mp: len(it.IterableWrapper([[1]]).unbatch()),
    "groupby": lambda t, it, mp: list(numbers()(it).groupby(parity, keep_key=True)),
    "groupby size": lambda t, it, mp: list(numbers()(it).groupby(parity, group_size=2)),
    "groupby full": lambda t, it, mp: list(
        numbers(9)(it).groupby(parity, buffer_size=3, group_size=3, guaranteed_group_size=1, keep_key=True)),
    "groupby fail": lambda t, it, mp: list(numbers(9)(it).groupby(double, buffer_size=3, group_size=2)),
    "groupby drop": lambda t, it, mp: list(
        numbers(9)(it).groupby(double, buffer_size=3, group_size=2, drop_remaining=True)),
    "groupby sizes": lambda t, it, mp: numbers()(it).groupby(parity, buffer_size=3, group_size=4),
    "groupby guaranteed": lambda t, it, mp: numbers()(it).groupby(parity, guaranteed_group_size=4),
    "concat": lambda t, it, mp: [*numbers()(it).concat(numbers(2)(it)), len(numbers()(it).concat(numbers(2)(it)))],
    "concat none": lambda t, it, mp: it.Concater(),
    "concat list": lambda t, it, mp: numbers()(it).concat([1]),
    "zip": lambda t, it, mp: [*numbers()(it).zip(numbers(2)(it)), len(numbers()(it).zip(numbers(2)(it)))],
    "zip list": lambda t, it, mp: numbers()(it).zip([1]),
    "mux": lambda t, it, mp: [*numbers()(it).mux(numbers(2)(it)), len(numbers()(it).mux(numbers(2)(it)))],
    "shuffle": lambda t, it, mp: list(numbers(30)(it).shuffle().set_seed(3)),
    "shuffle twice": lambda t, it, mp: [
        t.manual_seed(5) and 0, *(list(p) for p in [numbers(30)(it).shuffle(buffer_size=4)] for _ in "ab")],
    "shuffle off": lambda t, it, mp: list(numbers()(it).shuffle().set_shuffle(False)),
    "shuffle unbatch": lambda t, it, mp: list(numbers(9)(it).batch(3).shuffle(unbatch_level=1).set_seed(1)),
    "shuffle 0": lambda t, it, mp: numbers()(it).shuffle(buffer_size=0),
    "sampler": lambda t, it, mp: list(it.Sampler(numbers()(it))),
    "sampler random": lambda t, it, mp: [
        t.manual_seed(1) and 0, *it.Sampler(numbers()(it), t.utils.data.RandomSampler)],
    "sampler no length": lambda t, it, mp: it.Sampler(numbers()(it).unbatch()),
    "fork": lambda t, it, mp: [list(p) for p in numbers()(it).fork(3)],
    "fork one": lambda t, it, mp: list(numbers()(it).fork(1)),
    "fork zero": lambda t, it, mp: numbers()(it).fork(0),
    "fork length": lambda t, it, mp: [len(p) for p in numbers()(it).fork(2)],
    "fork overflow": lambda t, it, mp: [list(p) for p in numbers()(it).fork(2, buffer_size=3)],
    "fork unlimited": lambda t, it, mp: [list(p) for p in numbers()(it).fork(2, buffer_size=-1)],
    "fork copy": lambda t, it, mp: [
        a[0] is b[0] for a, b in zip(*it.IterableWrapper([[[1]]]).fork(2, copy="shallow"), strict=True)],
    "fork copy what": lambda t, it, mp: numbers()(it).fork(2, copy="some"),
    "demux": lambda t, it, mp: [list(p) for p in numbers()(it).demux(2, parity)],
    "demux range": lambda t, it, mp: [list(p) for p in numbers()(it).demux(2, double)],
    "demux overflow": lambda t, it, mp: [list(p) for p in numbers(9)(it).demux(2, parity, buffer_size=1)],
    "demux none": lambda t, it, mp: [
        list(p) for p in it.IterableWrapper([0, None, 1]).demux(2, abs_or_none, drop_none=True)],
    "demux length": lambda t, it, mp: len(numbers()(it).demux(2, parity)[0]),
    "sharding": lambda t, it, mp: sharded(numbers()(it).sharding_filter(), it),
    "read": lambda t, it, mp: list(it.IterableWrapper([("a", io.StringIO("abc"))], False).read_from_stream(2)),
    "files": lambda t, it, mp: opened(it),
    "files mode": lambda t, it, mp: numbers()(it).open_files("w"),
    "files encoding": lambda t, it, mp: numbers()(it).open_files("b", encoding="utf-8"),
    "files length": lambda t, it, mp: [len(it.FileLister(".", length=3)), len(it.FileLister("."))],
    "files number": lambda t, it, mp: list(numbers()(it).open_files()),
    "files missing": lambda t, it, mp: list(it.FileLister("/no/such/folder")),
    "decode": lambda t, it, mp: list(
        it.IterableWrapper([("a.txt", b"x"), ("b.cls", b"3"), ("c.json", b"[1]"), ("d.png", picture())],
                           ).routed_decode()),
    "generator": lambda t, it, mp: list(it.IterableWrapper(i for i in range(2))),
    "no such method": lambda t, it, mp: numbers()(it).nothing,
    "printing": lambda t, it, mp: [repr(numbers()(it).batch(2)), str(numbers()(it)), str(it.IterableWrapper)[-13:]],
    "deepcopy": lambda t, it, mp: changed(it.IterableWrapper([[0]]), it.IterableWrapper([[0]], deepcopy=False)),
    "counts": lambda t, it, mp: counted(numbers()(it).map(double)),
    "map-style": lambda t, it, mp: list(mp.SequenceWrapper(range(5)).map(double).batch(2)),
    "map-style drop": lambda t, it, mp: list(mp.SequenceWrapper(range(5)).batch(2, drop_last=True)),
    "map-style concat": lambda t, it, mp: list(mp.SequenceWrapper([1]).concat(mp.SequenceWrapper([2]))),
    "map-style concat what": lambda t, it, mp: mp.Concater(mp.SequenceWrapper([1]), [2]),
    "map-style concat none": lambda t, it, mp: mp.Concater(),
    "map-style zip": lambda t, it, mp: [*(z := mp.Zipper(mp.SequenceWrapper([1]), mp.SequenceWrapper([2, 3]))), z[1]],
    "map-style shuffle": lambda t, it, mp: list(mp.SequenceWrapper(range(9)).shuffle().set_seed(2)),
    "map-style shuffle keys": lambda t, it, mp: [
        t.manual_seed(1) and 0, *mp.SequenceWrapper({"a": 1, "b": 2}).shuffle(indices=["b", "a"])],
    "map-style lacks": lambda t, it, mp: mp.SequenceWrapper([1]).filter,
    "map-style keys": lambda t, it, mp: mp.SequenceWrapper({"a": 1})["b"],
}


def abs_or_none(x):
    return x if x is None else abs(x)


def sharded(pipe, it):
    shares = []
    group = it.sharding.SHARDING_PRIORITIES
    for settings in (
        [(1, 0)],
        [(2, 1)],
        [(3, 2)],
        [(2, 1, group.DISTRIBUTED), (2, 0, group.MULTIPROCESSING)],
    ):
        pipe.groups.clear()
        for setting in settings:
            pipe.apply_sharding(*setting)
        shares.append([*pipe, len(pipe)])
    for bad in (2, 2), (2, 0):
        try:
            pipe.apply_sharding(*bad)
        except (ValueError, RuntimeError) as e:
            shares.append(str(e))
    return shares


def opened(it):
    import tests

    (folder,) = tests.__path__
    pipe = it.FileLister(folder, masks=["__init__.py", "conf*"]).filter(is_str)
    return [
        (name, len(text))
        for name, text in pipe.open_files("rt", encoding="utf-8").read_from_stream()
    ]


def is_str(x):
    return isinstance(x, str)


def picture():
    import PIL.Image

    file = io.BytesIO()
    PIL.Image.fromarray(np.arange(12, dtype=np.uint8).reshape(2, 2, 3)).save(file, "png")
    return file.getvalue()


def changed(*pipes):
    for pipe in pipes:
        for sample in pipe:
            sample.append(1)
    return [list(pipe) for pipe in pipes]


def counted(pipe):
    iterator = iter(pipe)
    counts = [pipe._number_of_samples_yielded]
    for _ in range(3):
        next(iterator)
        counts.append(pipe._number_of_samples_yielded)
    iter(pipe)
    return [*counts, pipe.datapipe._number_of_samples_yielded]


@pytest.mark.parametrize("name", PROGRAMS)
def test_datapipes(name):
    runs_same(PROGRAMS[name])


def test_programs_are_no_errors_by_mistake():
    expected = {name: run(program, reference)[0] for name, program in PROGRAMS.items()}
    assert all(r[0] != "NameError" for r in expected.values() if isinstance(r, tuple))
    assert expected["decode"][1][3][1][1][1] == "float32"


# --- iterators ------------------------------------------------------------------------------


def invalidated(make):
    def program(t, it, mp):
        pipes = make(t, it)
        pipes = pipes if isinstance(pipes, list) else [pipes]
        first = [iter(pipe) for pipe in pipes]
        seen = [next(iterator) for iterator in first]
        second = iter(pipes[0])
        seen.append(next(second))
        for iterator in first:
            try:
                seen.append(next(iterator))
            except RuntimeError as e:
                seen.append(str(e).replace("ftorch", "torch"))
        return seen

    return program


def own(t, it):
    class Own(t.utils.data.IterDataPipe):
        def __init__(self, n):
            self.n = n
            self.resets = 0

        def reset(self):
            self.resets += 1

        def __iter__(self):
            return iter(range(self.n))

    return Own(4)


def own_next(t, it):
    class OwnNext(t.utils.data.IterDataPipe):
        def __init__(self, n):
            self.n = n
            self.at = 0

        def reset(self):
            self.at = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.at += 1
            if self.at > self.n:
                raise StopIteration
            return self.at

    return OwnNext(4)


@pytest.mark.parametrize("make", [
    lambda t, it: numbers()(it),
    lambda t, it: numbers()(it).map(double).batch(2),
    lambda t, it: numbers()(it).fork(2),
    lambda t, it: numbers()(it).demux(2, parity),
    own,
    own_next,
], ids=["wrapper", "map", "fork", "demux", "own", "own next"])
def test_a_new_iterator_invalidates_the_last(make):
    runs_same(invalidated(make))


@pytest.mark.parametrize("make", [own, own_next])
def test_own_pipes_count_and_reset(make):
    def program(t, it, mp):
        pipe = make(t, it)
        iterator = iter(pipe)
        seen = [next(iterator), next(iterator), pipe._number_of_samples_yielded]
        seen += [list(pipe), list(pipe), pipe._number_of_samples_yielded, pipe._valid_iterator_id]
        return [*seen, vars(pipe).get("resets"), pipe._snapshot_state.name]

    runs_same(program)


# --- pickling and graphs --------------------------------------------------------------------


def test_pickling_keeps_settings_and_restores_snapshots():
    def program(t, it, mp):
        pipe = numbers(20)(it).shuffle(buffer_size=5).set_seed(4)
        again = pickle.loads(pickle.dumps(pipe))
        seen = [list(again), list(pipe)]
        pipe.set_seed(6)
        iterator = iter(pipe)
        seen.append([next(iterator) for _ in range(4)])
        other = pickle.loads(pickle.dumps(pipe))
        seen.append(other._number_of_samples_yielded)
        restore = __import__(f"{t.__name__}.utils.data.datapipes.utils.snapshot", fromlist="x")
        rng = t.Generator().manual_seed(2)
        restore._simple_graph_snapshot_restoration(other, 4, rng)
        seen.append(list(other))
        for n in 1, 1, 100:
            try:
                restore._simple_graph_snapshot_restoration(other, n)
            except RuntimeError as e:
                seen.append(str(e))
                list(other)
        for made in (
            numbers()(it).groupby(parity), numbers()(it).mux(numbers(2)(it)),
            *numbers()(it).fork(2), *numbers()(it).demux(2, parity),
            mp.SequenceWrapper(range(5)).shuffle().set_seed(1),
        ):
            seen.append(list(pickle.loads(pickle.dumps(made))))
        return seen

    runs_same(program)


def test_hooks_of_pickling():
    def program(t, it, mp):
        seen = []
        for base, pipe in (
            (t.utils.data.IterDataPipe, numbers()(it)),
            (t.utils.data.MapDataPipe, mp.SequenceWrapper([1])),
        ):
            base.set_getstate_hook(lambda state: {"kept": sorted(state)})
            try:
                base.set_getstate_hook(len)
            except RuntimeError as e:
                seen.append(str(e))
            seen.append(vars(pickle.loads(pickle.dumps(pipe))))
            base.set_getstate_hook(None)

            def decline(pipe):
                raise NotImplementedError

            for hook in (lambda pipe: (str, ("instead",))), decline:
                base.set_reduce_ex_hook(hook)
                seen.append(str(pickle.loads(pickle.dumps(pipe))))
                base.set_reduce_ex_hook(None)
        return seen

    runs_same(program)


def shape(graph):
    return [(type(pipe).__name__, shape(sources)) for pipe, sources in graph.values()]


def test_graphs():
    def program(t, it, mp):
        import importlib

        graphs = importlib.import_module(f"{t.__name__}.utils.data.graph")
        settings = importlib.import_module(f"{t.__name__}.utils.data.graph_settings")
        source = numbers(12)(it)
        left, right = source.sharding_filter().shuffle().fork(2)
        pipe = left.map(double).zip(right).concat(mp.SequenceWrapper(range(3)).shuffle())
        seen = [shape(graphs.traverse_dps(pipe))]
        seen += [shape(graphs.traverse(pipe, only)) for only in (None, True)]
        every = settings.get_all_graph_pipes(graphs.traverse_dps(pipe))
        seen.append([type(p).__name__ for p in every])
        settings.apply_random_seed(pipe, t.Generator().manual_seed(3))
        seen.append([p._seed for p in every if hasattr(p, "_seed")])
        settings.apply_shuffle_seed(pipe, t.Generator().manual_seed(3))
        settings.apply_sharding(pipe, 3, 1)
        seen.append(list(pipe))
        settings.apply_shuffle_settings(pipe, False)
        seen.append(list(pipe))
        seen.append(type(settings.apply_shuffle_settings(source, True)).__name__)
        twice = source.sharding_filter().map(double).sharding_filter()
        for bad in (lambda: settings.apply_sharding(twice, 2, 0), lambda: graphs.traverse_dps(3)):
            try:
                bad()
            except RuntimeError as e:
                seen.append(str(e).replace("ftorch", "torch"))
        return seen

    runs_same(program)


def test_graphs_of_local_classes():
    assert shape(torch.utils.data.graph.traverse_dps(own(torch, None).batch(2))) == [
        ("BatcherIterDataPipe", [("Own", [])])
    ]


# --- decorators ------------------------------------------------------------------------------


def test_decorators():
    def program(t, it, mp):
        data = t.utils.data
        seen = []

        def attempt(function):
            try:
                seen.append(str(function()))
            except Exception as e:  # noqa: BLE001
                seen.append((type(e).__name__, str(e)))

        class Own(data.IterDataPipe):
            def __iter__(self):
                yield from [1, "a"]

        attempt(lambda: data.functional_datapipe("map")(Own))
        attempt(lambda: data.functional_datapipe("new")(3))
        noisy = data.non_deterministic(Own)
        sometimes = data.non_deterministic(bool)(Own)
        odd = data.non_deterministic(lambda *a: 3)(Own)
        attempt(lambda: data.non_deterministic(int))
        attempt(lambda: data.non_deterministic(3))
        attempt(lambda: data.non_deterministic(lambda: True)(int))
        for _ in range(2):
            for make in noisy, sometimes, odd:
                attempt(lambda make=make: list(make()))
            with data.guaranteed_datapipes_determinism():
                for make in noisy, sometimes, odd:
                    attempt(lambda make=make: list(make()))

        def takes(a: data.IterDataPipe, b: int = 0):
            return b

        checked = data.argument_validation(takes)
        attempt(lambda: checked(3))
        attempt(lambda: checked(Own()))
        attempt(lambda: data.runtime_validation(takes))

        class Ints:
            @staticmethod
            def issubtype_of_instance(value):
                return isinstance(value, int)

            def __repr__(self):
                return "int"

        class Typed(data.IterDataPipe):
            type = Ints()

            @data.runtime_validation
            def __iter__(self):
                yield from [1, "a"]

        attempt(lambda: list(Typed()))
        with data.runtime_validation_disabled():
            attempt(lambda: list(Typed()))
        chunk = data.DataChunk(range(3))
        seen.append([chunk.as_str("-"), list(chunk.raw_iterator()), chunk == [0, 1, 2]])
        return [str(entry).replace("ftorch", "torch") for entry in seen]

    runs_same(program)


# --- the loader ------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
def test_loader(workers):
    def program(t, it, mp):
        source = numbers(11)(it)
        t.manual_seed(3)
        seen = []
        for shuffle in None, True:
            pipe = source.shuffle().map((2).__mul__).sharding_filter()  # workers import nothing
            loader = t.utils.data.DataLoader(
                pipe, batch_size=2, shuffle=shuffle, num_workers=workers,
                persistent_workers=workers > 0,
            )
            seen += [[batch.tolist() for batch in loader] for _ in range(2)]
            seen.append(len(loader))
            del loader
        return seen

    runs_same(program)


def test_loader_of_maps_and_its_shuffler():
    def program(t, it, mp):
        t.manual_seed(3)
        maps = mp.SequenceWrapper(range(5)).map(double)
        loader = t.utils.data.DataLoader(maps, batch_size=2, shuffle=True)
        seen = [list(loader), type(loader.dataset).__name__]
        loader = t.utils.data.DataLoader(numbers()(it), batch_size=None, shuffle=True)
        iterator = iter(loader)
        seen += [list(loader), type(loader.dataset).__name__]
        return [*seen, next(iterator)]

    runs_same(program)


def test_profiles_show_datapipes():
    for package in reference, torch:
        pipe = numbers()(package.utils.data.datapipes.iter).map(double).batch(2)
        with package.profiler.profile() as profiled:
            assert len(list(pipe)) == 4
        names = {event.key for event in profiled.key_averages()}
        assert {n.partition("(")[0] for n in names} >= {"Batcher", "Mapper", "IterableWrapper"}
