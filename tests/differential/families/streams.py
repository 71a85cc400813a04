"""Random numbers: which generator draws what, how its state is kept, and what is refused."""

from __future__ import annotations

_START = '''import copy, io, pickle, random
from torch.utils.data import DataLoader, RandomSampler, WeightedRandomSampler, SubsetRandomSampler, TensorDataset, random_split
from torch.distributions import *
g = torch.Generator()
g.manual_seed(5)
k = torch.Generator()
W = torch.tensor([0.1, 0.0, 3.0, 2.0, 0.5])
'''
_STATES = (
    "torch.manual_seed({s})", "g.manual_seed({s})", "k.manual_seed({s})", "torch.manual_seed({s}).initial_seed()", "torch.random.seed() > 0; torch.manual_seed({s})", "g.seed() > 0; g.manual_seed({s})", "g.initial_seed()", "torch.initial_seed()", "st = g.get_state()",
    "st = torch.get_rng_state()", "st = torch.random.get_rng_state()", "'st' in globals() and g.set_state(st)", "'st' in globals() and torch.set_rng_state(st)", "'st' in globals() and k.set_state(st)", "st = g.get_state().clone(); st[0] += 0", "k = g.clone_state()", "k = torch.Generator().set_state(g.get_state())",
    "g.graphsafe_get_state()", "g.graphsafe_set_state(k)", "k = copy.copy(g)", "k = copy.deepcopy(g)", "k = pickle.loads(pickle.dumps(g))", "g.device", "g", "torch.default_generator.initial_seed()", "torch.default_generator.get_state()[:20]", "torch.default_generator.manual_seed({s})",
    "k = torch.default_generator", "g = torch.default_generator", "g = torch.Generator('cpu').manual_seed({s})", "k = torch.Generator(device='cpu')", "torch.Generator('meta')", "torch.Generator('nope')", "torch.Generator(3)", "g.manual_seed('a')", "torch.manual_seed(1.5)", "torch.manual_seed(-3)", "torch.manual_seed(2 ** 64)", "torch.manual_seed(2 ** 63 + 1)", "torch.manual_seed(-2 ** 63)",
    "torch.manual_seed(torch.tensor(4))", "torch.manual_seed(True)", "g.set_state(torch.zeros(3))", "g.set_state(torch.zeros(3, dtype=torch.uint8))", "torch.set_rng_state(torch.zeros(5056))", "torch.set_rng_state(3)", "g.set_state(torch.zeros(5056, dtype=torch.uint8))", "g.get_state().shape, g.get_state().dtype", "torch.get_rng_state()[:8]", "torch.manual_seed(None)", "g.get_state().sum()",
    "f = io.BytesIO(); torch.save(torch.get_rng_state(), f); f.seek(0); torch.set_rng_state(torch.load(f))", "f = io.BytesIO(); torch.save(g.get_state(), f); f.seek(0); k.set_state(torch.load(f))", "with torch.random.fork_rng(): torch.manual_seed(1); z = torch.randn(2)", "with torch.random.fork_rng(devices=[]): z = torch.rand(3)", "with torch.random.fork_rng(enabled=False): z = torch.rand(3)", "with torch.random.fork_rng(): z = torch.rand(2, generator=g)",
    "np.random.seed(3); torch.from_numpy(np.random.rand(2))", "random.seed(2); random.random()", "torch.cuda.manual_seed_all(3)", "g.clone_state() is g", "g == k", "g.get_state().equal(k.get_state())", "hash(g) == hash(g)", 
)
_DRAWS = (
    "torch.rand({n}{g})", "torch.randn({n}{g})", "torch.rand({n}, dtype=torch.float64{g})", "torch.randn({n}, dtype=torch.float64{g})", "torch.randn({n}, dtype=torch.float16{g})", "torch.randn({n}, dtype=torch.bfloat16{g})", "torch.rand({n}, dtype=torch.bfloat16{g})", "torch.randn({n}, dtype=torch.complex64{g})", "torch.rand({n}, dtype=torch.complex64{g})",
    "torch.randint(10, ({n},){g})", "torch.randint(-5, 5, ({n},){g})", "torch.randint(0, 2 ** 40, ({n},){g})", "torch.randint(0, 256, ({n},), dtype=torch.uint8{g})", "torch.randint(3, 3, ({n},){g})", "torch.randint(0, 300, (2,), dtype=torch.uint8{g})", "torch.randint(0, 5, ({n},), dtype=torch.float32{g})", "torch.randperm({n}{g})", "torch.randperm({n}, dtype=torch.int32{g})", "torch.randperm(-1{g})", "torch.randperm(0{g})",
    "torch.normal(0.0, 1.0, ({n},){g})", "torch.normal(torch.arange({n}.0), 2.0{g})", "torch.normal(torch.zeros({n}), torch.ones({n}){g})", "torch.normal(0.0, torch.tensor([1.0, 2.0]){g})", "torch.normal(0.0, -1.0, (2,){g})", "torch.normal(torch.zeros(2), torch.tensor([-1.0, 1.0]){g})", "torch.multinomial(W, 3{g})", "torch.multinomial(W, {n}, replacement=True{g})", "torch.multinomial(W.expand(3, 5), 2{g})", "torch.multinomial(W, 5{g})", "torch.multinomial(W, 7{g})", "torch.multinomial(-W, 2{g})",
    "torch.multinomial(W.double(), 3, True{g})", "torch.multinomial(torch.zeros(3), 1{g})", "torch.multinomial(torch.ones(2, 2, 2), 1{g})", "torch.multinomial(torch.tensor([1, 2]), 1{g})", "torch.multinomial(torch.tensor([float('nan'), 1]), 1{g})", "torch.multinomial(W, 0{g})", "torch.multinomial(W.half(), 2{g})", "torch.bernoulli(torch.full(({n},), 0.3){g})", "torch.bernoulli(W / 3{g})", "torch.bernoulli(torch.zeros({n}), 0.4{g})", "torch.zeros({n}).bernoulli_(0.3{g})", "torch.zeros({n}).bernoulli_(torch.full(({n},), 0.3){g})", "torch.zeros({n}, dtype=torch.int64).bernoulli_(0.5{g})",
    "torch.zeros({n}, dtype=torch.bool).bernoulli_(0.5{g})", "torch.zeros(2).bernoulli_(1.5{g})", "torch.empty({n}).uniform_({g0})", "torch.empty({n}).uniform_(2, 5{g})", "torch.empty({n}).uniform_(5, 2{g})", "torch.empty({n}).normal_({g0})", "torch.empty({n}, dtype=torch.float64).normal_(1, 2{g})", "torch.empty({n}).exponential_({g0})", "torch.empty({n}).exponential_(-1{g})", "torch.empty({n}).log_normal_({g0})", "torch.empty({n}).cauchy_({g0})", "torch.empty({n}).geometric_(0.3{g})", "torch.empty({n}).geometric_(0{g})", "torch.empty({n}).random_({g0})",
    "torch.empty({n}, dtype=torch.int64).random_({g0})", "torch.empty({n}, dtype=torch.int64).random_(10{g})", "torch.empty({n}, dtype=torch.uint8).random_({g0})", "torch.empty({n}).random_(-3, 9{g})", "torch.empty({n}, dtype=torch.bool).random_({g0})", "torch.empty({n}, dtype=torch.float16).random_({g0})", "torch.empty(2).random_(3, 3{g})", "torch.empty(4, 4).t().normal_({g0})", "torch.zeros(6, 6)[::2, 1:].normal_({g0})", "torch.zeros(2, 20)[:, ::2].uniform_({g0})", "torch.zeros(3, 1).expand(3, 4).clone().normal_({g0})",
    "torch.zeros(3, 1).expand(3, 2).uniform_({g0})", "torch.poisson(W{g})", "torch.poisson(torch.full(({n},), 20.0){g})", "torch.poisson(-W{g})", "torch.binomial(torch.full(({n},), 10.0), torch.full(({n},), 0.3){g})", "torch._standard_gamma(W + 0.1{g})", "torch._sample_dirichlet(W + 0.1{g})", "torch.rand_like(W{g})", "torch.randn_like(W{g})", "torch.randint_like(W, 9{g})", "torch.rand(2, 3, out=torch.empty(6){g})", "torch.randn((2, 2){g})",
    "torch.nn.init.xavier_uniform_(torch.empty(3, 4){g})", "torch.nn.init.kaiming_normal_(torch.empty(3, 4){g})", "torch.nn.init.orthogonal_(torch.empty(3, 3){g})", "torch.nn.init.trunc_normal_(torch.empty({n}){g})", "torch.nn.init.sparse_(torch.empty(5, 4), 0.4{g})", "torch.nn.init.uniform_(torch.empty({n}), 1, 2{g})", "F.rrelu(-W, training=True)", "torch.rrelu(-W, 0.1, 0.3, True{g})", "torch.randperm(3, generator=3)", "torch.rand(3, generator=None)",
)
_PLAIN = (
    "F.dropout(torch.ones({n}))", "F.dropout(torch.ones(5), 0.2, training=False)", "F.dropout(torch.ones(2), 1.5)", "F.dropout(torch.ones({n}), 0.0)", "F.dropout(torch.ones({n}), 1.0)", "F.dropout1d(torch.ones(2, 5, 3))", "F.dropout2d(torch.ones(2, 3, 2, 2))", "F.alpha_dropout(torch.ones({n}), 0.5, True)", "F.feature_alpha_dropout(torch.ones(2, 3, 2), 0.5, True)", "nn.Dropout(0.3)(torch.ones({n}, dtype=torch.float64))", "nn.Dropout(0.3)(torch.ones(3, 4).t())",
    "F.dropout(torch.ones(4, 6)[:, ::2], 0.4)", "F.dropout(torch.ones(6), 0.5, inplace=True)", "F.dropout(torch.ones(3, dtype=torch.int64), 0.5)", "F.gumbel_softmax(W)", "F.gumbel_softmax(W, hard=True, tau=2)", "nn.Linear(3, 2).weight", "nn.Conv2d(2, 2, 3).bias", "nn.Embedding(3, 2).weight", "nn.LSTM(2, 2).weight_hh_l0", "nn.MultiheadAttention(2, 1).in_proj_weight", "nn.Bilinear(2, 2, 2).weight", "F.scaled_dot_product_attention(torch.ones(1, 3, 2), torch.ones(1, 3, 2), torch.ones(1, 3, 2), dropout_p=0.5)",
    "Normal(0., 1.).sample((3,))", "Normal(torch.zeros(2), W[2:4]).rsample((2,))", "Uniform(0., 3.).sample((2,))", "Categorical(W).sample((4,))", "Bernoulli(torch.tensor([0.2, 0.7])).sample((2,))", "Gamma(torch.tensor([0.5, 2.0]), 1.0).sample((2,))", "Beta(torch.tensor(0.5), torch.tensor(2.0)).sample((2,))", "Dirichlet(torch.ones(3)).sample()", "Exponential(2.0).sample((2,))", "Poisson(3.0).sample((4,))", "Binomial(5, 0.4).sample((3,))", "Multinomial(4, W).sample()",
    "Laplace(0., 1.).sample((3,))", "Cauchy(0., 1.).sample((2,))", "StudentT(3.0).sample((2,))", "VonMises(0., 2.).sample((3,))", "Geometric(0.3).sample((3,))", "LogNormal(0., 1.).sample((2,))", "Chi2(3.0).sample((2,))", "MultivariateNormal(torch.zeros(2), torch.eye(2)).sample()", "LowRankMultivariateNormal(torch.zeros(2), torch.ones(2, 1), torch.ones(2)).sample()", "Wishart(3.0, torch.eye(2)).sample()", "Gumbel(0., 1.).sample((2,))", "Weibull(1., 2.).sample((2,))", "Pareto(1., 2.).sample((2,))",
    "HalfCauchy(1.).sample((2,))", "Kumaraswamy(1., 2.).sample((2,))", "RelaxedBernoulli(0.5, torch.tensor(0.3)).sample((2,))", "RelaxedOneHotCategorical(0.5, W + 0.1).sample()", "OneHotCategorical(W).sample((2,))", "NegativeBinomial(3, 0.4).sample((3,))", "ContinuousBernoulli(0.4).sample((2,))", "MixtureSameFamily(Categorical(W[2:]), Normal(torch.zeros(3), torch.ones(3))).sample((3,))", "LKJCholesky(3, 1.0).sample()", "FisherSnedecor(2., 3.).sample((2,))", "InverseGamma(2., 3.).sample((2,))", "LogisticNormal(torch.zeros(2), torch.ones(2)).sample()",
)
_DATA = (
    "[b.tolist() for b in DataLoader(range(7), 3, shuffle=True{g})]", "[b[0].tolist() for b in DataLoader(TensorDataset(torch.arange(5)), 2, shuffle=True, drop_last=True{g})]", "list(RandomSampler(range(6){g}))", "list(RandomSampler(range(6), True, 8{g}))", "list(RandomSampler(range(4), num_samples=10{g}))", "list(RandomSampler(range(50), True, 40{g}))", "list(WeightedRandomSampler(W, 6{g}))", "list(WeightedRandomSampler(W, 3, False{g}))", "list(SubsetRandomSampler([4, 2, 9]{g}))", "[s.indices for s in random_split(range(7), [3, 4]{g})]", "[s.indices for s in random_split(range(7), [0.5, 0.5]{g})]",
    "random_split(range(7), [3, 3]{g})", "[b.tolist() for b in DataLoader(range(4), sampler=RandomSampler(range(4){g}){g})]", "it = iter(DataLoader(range(6), 2, shuffle=True{g})); next(it).tolist()", "'it' in globals() and [x.tolist() for x in it]", "[b.tolist() for b in DataLoader(range(4), 2{g})]", "it = iter(DataLoader(range(6), 2{g}))",
)


def streams(r):
    """States of generators are kept, put back and copied between draws of every kind."""
    lines = [_START, f"torch.manual_seed({r.randint(0, 9)})"]
    for _ in range(r.randint(6, 13)):
        kind = r.choices((_STATES, _DRAWS, _PLAIN, _DATA), (4, 5, 2, 1))[0]
        which = r.choice(("", "generator=g", "generator=k"))
        n = r.choice((1, 3, 7, 15, 16, 17, 33, 40))
        line = r.choice(kind)
        lines.append(line.replace("{g0}", which).replace("{g}", which and ", " + which).replace("{n}", str(n)).replace(
            "{s}", str(r.choice((0, 1, 7, 2 ** 32, 2 ** 40 + 3, -1)))))
    lines += ["torch.rand(2)", "torch.rand(2, generator=g)", "torch.get_rng_state().sum()", "g.get_state().sum()", "torch.randn(1), torch.randn(1)"]
    return "\n".join(lines)
