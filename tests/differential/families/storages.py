"""Storages: who shares memory with whom, and what files, copies, NumPy and other dtypes make of it."""

from __future__ import annotations

_START = '''import copy, io, pickle
def again(x):
    f = io.BytesIO(); torch.save(x, f); f.seek(0); return torch.load(f, weights_only=False)
def safe(x):
    f = io.BytesIO(); torch.save(x, f); f.seek(0); return torch.load(f)
class Sub(torch.Tensor): pass
n = np.arange(6, dtype=np.float32)
t0 = torch.arange(12.0)
t1 = t0[2:8]
'''
_VIEWS = (
    "{t}[1:]", "{t}.view(-1)", "{t}.detach()", "{t}.data", "{t}.view(torch.int32)", "{t}.view(torch.uint8)", "{t}.view(torch.float64)", "{t}.view(torch.complex64)", "{t}.view(torch.int16)", "{t}.as_strided((2, 2), (1, 2))", "{t}.as_strided((3,), (2,), 1)", "{t}.as_strided((20,), (1,))", "{t}.as_strided((2,), (-1,))", "{t}.as_strided((2, 3), (0, 1))", "{t}.clone()", "{t}[::2]", "{t}[:4].view(2, 2).t()", "{t}.unfold(0, 2, 1)", "{t}.expand(2, *{t}.shape)", "{t}.reshape(-1)", "{t}.contiguous()", "{t} * 1", "{t}.to(torch.float32)", "{t}.to(torch.float32, copy=True)", "{t}.double()",
    "torch.from_numpy({t}.numpy())", "torch.from_numpy(n)", "torch.from_numpy(n[::2])", "torch.as_tensor({t})", "torch.tensor({t})", "torch.asarray({t}, copy=False)", "torch.asarray({t}, copy=True)", "torch.asarray(n)", "torch.frombuffer(n, dtype=torch.float32)", "torch.frombuffer(bytearray(16), dtype=torch.int32, offset=4)", "torch.from_dlpack({t})", "torch.from_dlpack({t}.numpy())", "torch.empty(0).set_({t})", "torch.empty(0).set_({t}.untyped_storage())", "torch.empty(0).set_({t}.untyped_storage(), 1, (2,), (1,))", "torch.empty(0, dtype=torch.int32).set_({t}.untyped_storage())",
    "torch.tensor([]).set_({t}.storage(), 2, (2, 2))", "copy.copy({t})", "copy.deepcopy({t})", "copy.deepcopy([{t}, {u}])[1]", "copy.deepcopy({{'a': {t}, 'b': {t}}})['b']", "again({t})", "safe([{t}, {u}])[1]", "again(({t}, {u}))[0]", "pickle.loads(pickle.dumps({t}))", "pickle.loads(pickle.dumps([{t}, {u}]))[1]", "nn.Parameter({t})", "nn.Parameter({t}.detach(), requires_grad=False)", "{t}.as_subclass(Sub)", "torch.Tensor({t})", "torch.FloatTensor({t}.untyped_storage())", "{t}.new_empty(2).copy_({t}[:2])", "torch.tensor(np.asarray({t}))", "{t}.squeeze()", "{t}.unsqueeze(0)", "torch.view_as_real({t}[:4].view(torch.complex64))", "{t}.flip(0)",
    "torch.broadcast_to({t}, (2, *{t}.shape))", "{t}.diagonal()", "{t}.split(2)[1]", "{t}.chunk(3)[0]", "torch.atleast_2d({t})", "{t}.ravel()", "{t}.flatten()", "{t}.movedim(0, -1)", "torch.cat([{t}])", "{t}.__array__()", "torch.as_tensor(np.asarray({t})[1:])", "{t}.type(torch.FloatTensor)", "{t}.float()", "{t}.T", "{t}.narrow(0, 1, 2)", "{t}.select(0, 1)", "{t}[...]", "{t}[None]", "{t}[torch.tensor([0, 1])]", "{t}.resolve_conj()", "{t}.cpu()", "{t}.requires_grad_(False)", "torch.zeros_like({t})",
)
_WRITES = (
    "{t}.add_(1)", "{t}.mul_(2)", "{t}.zero_()", "{t}.fill_(3)", "{t}[0] = 7", "{t}.copy_({u})", "{t}.data.add_(1)", "{t}.untyped_storage().fill_(0)", "{t}.untyped_storage()[0] = 1", "{t}.untyped_storage()[:4]", "{t}.storage()[1] = 9.0", "{t}.storage().fill_(2)", "n[0] = 5", "n += 1", "{t}.numpy()[...] = 4", "np.add({t}.numpy(), 1, out={t}.numpy())", "{t}.resize_(3)", "{t}.resize_(2, 2)", "{t}.resize_as_({u})", "{t}.set_({u})", "{t}.set_()", "{t}.set_({u}.untyped_storage(), 0, (2,))",
    "{t}.data = {u}", "{t}.data = {u}.clone()", "{t}.data = {u}.long()", "{t}.share_memory_()", "{t}.as_strided_((2,), (1,))", "{t}.t_()", "{t}.squeeze_()", "{t}.unsqueeze_(0)", "{t}.transpose_(0, -1)", "{t}.swapaxes_(0, -1)", "{t}.detach_()", "{t}.untyped_storage().copy_({u}.untyped_storage())", "{t}.swap_dims_(0, 0)", "with torch.no_grad(): {t}.copy_({u})", "{t}.index_fill_(0, torch.tensor([0]), 8)", "{t}.untyped_storage().byteswap(torch.float32)", "{t}.requires_grad_()", "torch.add({t}, 1, out={t})", "torch.add({t}, 1, out={u})", "torch.mul({t}, 2, out=torch.empty(0))", "{t}.mul_({t})", "{t}[1:] = {t}[:-1].clone()", "np.copyto(n, 1)",
)
# Not asked for: the size of an empty storage that `new` made, which ends PyTorch's process; pickles of untyped storages and
# NumPy's copy=False, which raise there; swaps, which count references.
_LOOKS = (
    "{t}.untyped_storage().nbytes()", "len({t}.untyped_storage())", "{t}.untyped_storage().size()", "{t}.storage_offset()", "{t}.stride()", "{t}.untyped_storage().data_ptr() == {u}.untyped_storage().data_ptr()", "{t}.data_ptr() == {u}.data_ptr()", "{t}.data_ptr() - {t}.untyped_storage().data_ptr()", "{t}.untyped_storage()._cdata == {u}.untyped_storage()._cdata", "{t}.is_set_to({u})", "{t}.is_shared()", "{t}.untyped_storage().is_shared()", "{t}.untyped_storage()", "{t}.storage()", "{t}.storage().dtype, len({t}.storage())", "{t}.storage().tolist()", "{t}.untyped_storage().tolist()[:8]", "{t}.untyped_storage().device", "type({t}.untyped_storage())", "type({t}.storage())", "{t}.storage().size(), {t}.storage().nbytes(), {t}.storage().element_size()", 
    "{t}.untyped_storage()[1]", "{t}.untyped_storage()[99999]", "{t}.untyped_storage()[1:3]", "{t}.storage()[0]", "{t}.storage()[-1]", "{t}.storage()[999]", "{t}.untyped_storage().clone().nbytes()", "{t}.storage().clone().tolist()", "{t}.storage().double().tolist()", "{t}.storage().int()", "type({t}.untyped_storage().new())", "{t}.untyped_storage().cpu() is None", "{t}.untyped_storage() == {t}.untyped_storage()", "{t}.untyped_storage() is {t}.untyped_storage()", "copy.deepcopy({t}.untyped_storage()).tolist()[:4]", "copy.copy({t}.untyped_storage()).data_ptr() == {t}.untyped_storage().data_ptr()", "again({t}.storage()).tolist()", "again({t}.untyped_storage()).nbytes()", "torch.UntypedStorage(8).nbytes()", "torch.UntypedStorage([1, 2, 3]).tolist()", "torch.UntypedStorage(-1)", "torch.UntypedStorage('a')", "torch.TypedStorage([1.0, 2.0], dtype=torch.float32)", "torch.FloatStorage([1, 2])", "torch.FloatStorage(2).size()",
    "torch.UntypedStorage.from_buffer(b'abcd', byte_order='big', dtype=torch.int32).tolist()", "torch.is_storage({t}.untyped_storage())", "torch.is_storage({t})", "{t}._base is None", "{t}.is_contiguous()", "{t}.nbytes, {t}.itemsize", "{t}.__array__().base is not None", "np.shares_memory({t}.numpy(), {u}.numpy())", "np.shares_memory({t}.numpy(), n)", "{t}.numpy().flags['WRITEABLE']", "{t}.numpy().strides", "{t}.numpy(force=True)", "np.asarray({t}, dtype=np.float64)", "np.array({t})", "np.asarray({t}).dtype", "np.from_dlpack({t})", "{t}.tolist()", "n", "memoryview({t})", "bytes({t}.untyped_storage())[:4]", "{t}.untyped_storage().filename", "{t}.untyped_storage().element_size()", "{t}.untyped_storage().hex()", "{t}.untyped_storage().type()", "{t}.untyped_storage().is_pinned()", "{t}.untyped_storage().resizable()", "{t}.untyped_storage().float()", "hash({t}.untyped_storage()) is None", "{t}.storage().pin_memory",
)


def storages(r):
    """A few tensors over few storages: made from each other, written to, resized, and looked at."""
    names = ["t0", "t1"]
    lines = [_START]
    for _ in range(r.randint(6, 12)):
        kind = r.choices((_VIEWS, _WRITES, _LOOKS), (4, 4, 3))[0]
        line = r.choice(kind).format(t=r.choice(names), u=r.choice(names))
        if kind is _VIEWS and len(names) < 6:
            new = f"t{len(names)}"
            lines += [f"{new} = {line}", f"{new} = {new} if isinstance(globals().get({new!r}), torch.Tensor) else t0"]
            names.append(new)
        else:
            lines.append(line)
        lines.append(f"[{', '.join(names)}]")
    return "\n".join([*lines, f"[x.untyped_storage().nbytes() for x in [{', '.join(names)}]]", "n"])
