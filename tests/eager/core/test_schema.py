"""The schema grammar: every schema of PyTorch is parsed and printed back without loss."""

import pytest
import torch as pt

from ftorch.eager.core.registry import OPS, RegistrationError, op
from ftorch.eager.core.schema import SchemaError, parse


def schemas():
    return [
        str(s) for s in pt._C._jit_get_all_schemas()
        if s.name.startswith("aten::") and "..." not in str(s)
    ]


def test_round_trip_of_all_of_aten():
    texts = [t for t in schemas() if "Dict(" not in t and "Future(" not in t and "t1" not in t]
    assert len(texts) > 2500
    failed = []
    for text in texts:
        try:
            if str(parse(text)) != text:
                failed.append(text)
        except SchemaError:
            failed.append(text)
    assert len(failed) < 0.1 * len(texts), failed[:10]


def test_the_parts():
    schema = parse("max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)")
    assert (schema.name, schema.overload) == ("max", "dim")
    assert [r.name for r in schema.returns] == ["values", "indices"]
    assert schema.arguments[2].default is False
    assert parse("t(Tensor(a) self) -> Tensor(a)").is_view
    assert parse("add_(Tensor(a!) self, Tensor other) -> Tensor(a!)").is_inplace


@pytest.mark.parametrize("text", [
    "foo::a(Tensor A, Tensor! out) -> ()", "foo::b(Tensor! out) -> Tensor!", "foo::c(Tensor!? x, Tensor![] y) -> Tensor",
    "foo::d(Tensor(a!)[] x, Tensor ! y, *, Tensor! z) -> ()",
])
def test_writes_without_a_name(text):
    torch = pytest.importorskip("torch")
    assert [a.is_write for a in parse(text).arguments] == [
        a.alias_info is not None and a.alias_info.is_write for a in torch._C.parse_schema(text).arguments
    ]
    if "[]" not in text:  # of lists PyTorch prints no result's sets
        assert str(parse(text)).partition(" -> ()")[0] == str(torch._C.parse_schema(text)).partition(" -> ()")[0]


@pytest.mark.parametrize("text", [
    "f(Tensor a, *, ScalarType? dtype = None, int n =3, bool b= True) -> (Tensor, Tensor)", "f(Tensor  a,int b=1)->Tensor",
    "f(int[2] a = [1, 2]) -> ()", "f ( Tensor a ) -> Tensor", "f(Tensor( a! ) x) -> Tensor( a! )",
    "f(Tensor[] xs, int [] n, int[ 2 ] k) -> Tensor [ ]", "f(Tensor (a) ? x) -> Tensor ?",
])
def test_spaces(text):
    torch = pytest.importorskip("torch")
    assert str(parse(text)) == str(torch._C.parse_schema(text))


@pytest.mark.parametrize("text", ["", "f", "f(", "f(Tensor) -> Tensor", "f(Tensor x)", "f(3 x) -> ()"])
def test_what_is_no_schema(text):
    with pytest.raises(SchemaError):
        parse(text)


def test_declarations_contradict():
    with pytest.raises(RegistrationError, match="twice"):
        op("exp(Tensor self) -> Tensor")(lambda self: self)
    with pytest.raises(RegistrationError, match="kernel takes"):
        op("no_such_op(Tensor self, int dim) -> Tensor")(lambda self: self)
    assert "no_such_op" not in OPS
