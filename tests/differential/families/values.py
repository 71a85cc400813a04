"""Which values: conversions, operators with NumPy operands, special functions, printing."""

from __future__ import annotations

_DTYPES = "uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 bool complex64".split()
_NUMBERS = ["0.", "-0.", "1.5", "-2.7", "127.9", "128.", "255.", "256.", "-129.", "3e4", "7e4", "-7e4", "3e9", "1e10",
            "-1e20", "math.inf", "-math.inf", "math.nan", "2.**31", "2.**63"]


def conversions(r):
    """Numbers of one dtype as another, by each of the ways."""
    source = r.choice(["float32", "float64", "float16", "bfloat16", "int64"])
    target = r.choice(_DTYPES)
    numbers = (
        r.sample(_NUMBERS, 6)
        if source != "int64"
        else [str(r.randint(-300, 300)) for _ in range(6)]
    )
    if source == "float16":
        numbers = [n for n in numbers if "e" not in n and "**" not in n]
    way = r.choice(["x.to(torch.T)", "torch.zeros(x.shape, dtype=torch.T).copy_(x)", "x.type(torch.T)",
                    "x.to(dtype=torch.T)",
                    "torch.zeros(2, *x.shape, dtype=torch.T)[1].copy_(x)"])
    return f"x = torch.tensor([{', '.join(numbers)}], dtype=torch.{source})\n{way.replace('T', target)}"


def numpy_operators(r):
    """Operators between tensors and NumPy's arrays and scalars."""
    op = r.choice("+ - * / // % ** @ & | ^ << >> == < >= += *= -=".split())
    tensor = r.choice(["torch.arange(1., 4)", "torch.arange(1, 4)", "torch.tensor([True, False, True])",
                       "torch.tensor(2.)", "torch.arange(1., 4).double()", "torch.ones(2, 3)"])
    other = r.choice(["np.arange(1., 4)", "np.arange(1, 4)", "np.float32(2)", "np.float64(2)", "np.int64(2)",
                      "np.array([True, True, False])", "np.ones((2, 3))", "np.bool_(True)", "np.array(2.)",
                      "np.arange(1, 4, dtype=np.float32)", "2", "2.5", "True"])
    pair = (
        (tensor, other)
        if r.random() < 0.5 or op[-1] == "=" and op not in ("==", ">=")
        else (other, tensor)
    )
    if op in ("+=", "*=", "-="):
        return f"x = {pair[0]}\nx {op} {pair[1]}"
    return f"{pair[0]} {op} {pair[1]}"


_SPECIAL = """erf erfc erfinv lgamma digamma i0 exp2 expm1 log1p logit sinc sigmoid rsqrt tanh special.i0e special.i1
special.i1e special.entr special.ndtri special.log_ndtr special.erfcx nan_to_num square frac""".split()
_TWO = "special.gammainc special.gammaincc special.xlogy special.xlog1py atan2 fmod remainder hypot logaddexp".split()


def special(r):
    """Special functions at extreme arguments."""
    numbers = ["0.", "1.", "-1.", ".5", "2.", "3.", "-2.5", "1e-3", "1e-10", "10.", "30.", "100.", "500.", "1e4",
               "math.inf", "math.nan", "-100.", ".999"]
    dtype = r.choice(["float32", "float64", "int64"])
    some = [r.choice(numbers) for _ in range(5)]
    other = [r.choice(numbers[:14]) for _ in range(5)]
    if dtype == "int64":
        some, other = ([str(r.randint(0, 60)) for _ in range(5)] for _ in range(2))
    lines = [f"x = torch.tensor([{', '.join(some)}], dtype=torch.{dtype})",
             f"y = torch.tensor([{', '.join(other)}], dtype=torch.{dtype})"]
    lines += [f"torch.{r.choice(_SPECIAL)}(x)", f"torch.{r.choice(_TWO)}(x, y)"]
    return "\n".join(lines)


def printing(r):
    """What tensors look like."""
    numbers = [r.choice(["0.", "1.", "-1.", "1e-5", "1e5", "123456789.", "math.nan", "math.inf", ".1", "-2.5", "1e-30"])
               for _ in range(r.choice([0, 1, 4, 6, 12]))]
    dtype = r.choice(["float32", "float64", "float16", "bfloat16", "complex64", "int64", "bool"])
    if dtype in ("int64", "bool"):
        numbers = [str(r.randint(-1000, 1000)) for _ in numbers]
    option = r.choice(["precision=2", "threshold=5", "edgeitems=1", "linewidth=30", "sci_mode=True", "sci_mode=False",
                       "profile='full'", "profile='short'", "profile='default'"])
    shape = r.choice(["-1", "2, -1", "-1, 2", "1, -1, 1"]) if numbers else "0, 2"
    tail = r.choice(["", "", ".requires_grad_()", ".t()" if "2" in shape else "", "[None]", " * 2"])
    if dtype in ("int64", "bool") and "grad" in tail:
        tail = ""
    return f"""torch.set_printoptions({option})
x = torch.tensor([{", ".join(numbers)}], dtype=torch.{dtype}).view({shape}){tail}
print(x)
repr(x)
str(x.shape)"""
