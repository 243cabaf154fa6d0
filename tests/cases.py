"""Kernels with data to try them on, and how exact each operation must be: shared by the tests of kernels, engines and Grams.

`kernel_cases` holds every registered kernel and a fixed sample of composites. Data are seeded and read-only.
"""

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import kernels as mk
from mercer.gram import gram
from mercer.kernels import Basis, Kernel
from mercer.registry import ENGINES

DTYPES = ("float64", "float32")
NEEDED = {"torch": [pytest.mark.skipif(not find_spec("torch"), reason="needs torch")]}
#: Engines that are held to `reference`; tests/test_gpu.py does the same for "cuda" where there is one.
ENGINE_NAMES = [pytest.param(name, marks=NEEDED.get(name, ())) for name in sorted(set(ENGINES) - {"cuda"})]

# ---------------------------------------------------------------------------------------------- how exact
#: Largest error by operation and precision, relative to the largest entry (at least 1).
TOLERANCE = {
    "block": {"float64": 1e-12, "float32": 2e-5},
    "angle": {"float64": 1e-7, "float32": 2e-3},  # acos near 1 turns a rounding error into its square root
    "reduce": {"float64": 1e-11, "float32": 1e-4},
    "gradient": {"float64": 1e-9, "float32": 2e-3},
    "finite differences": {"float64": 2e-6, "float32": 2e-2},
    "eigenvalue": {"float64": 1e-12, "float32": 2e-5},  # times n
    "float32 against float64": {"float64": 2e-4, "float32": 2e-4},
}


def close(actual, expected, tolerance, message=""):
    """Assert that two arrays agree, relative to the largest entry (at least 1)."""
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    assert actual.shape == expected.shape, f"{message} shape {actual.shape}, expected {expected.shape}"
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    error = np.abs(actual - expected).max(initial=0.0) / scale
    assert error <= tolerance, f"{message} error {error:.3g} > {tolerance:g}"


def check_sent_ahead(K, dense, monkeypatch):
    """What products with rows read is sent to the device beforehand, all of it."""
    from mercer.engines._tensor_tiles import Place

    (n, m), sent, real = K.shape, [], Place.send

    def noted(place, array, dtype=None):
        sent.append(len(array))
        return real(place, array, dtype)

    monkeypatch.setattr(Place, "send", noted)
    K.engine.send(K.x)
    assert n in sent
    sent.clear()
    found = K.engine.cross(K.x, K.y, np.ones((n, 1)), np.ones((1, m)))
    assert n not in sent
    close(found, (dense.T @ dense.sum(1))[None], 1e-9)


# ---------------------------------------------------------------------------------------------- data
def _with_duplicates(X, Y):
    X[3], X[9], Y[2] = X[5], X[0], X[1]
    return X, Y


def _real(rng):
    return _with_duplicates(0.8 * rng.standard_normal((14, 3)), 0.8 * rng.standard_normal((9, 3)))


def _positive(rng):
    return _with_duplicates(0.05 + rng.random((14, 3)), 0.05 + rng.random((9, 3)))


def _codes(rng):
    return rng.integers(0, 3, (14, 3)).astype(float), rng.integers(0, 3, (9, 3)).astype(float)


def _strings(rng):
    words = ["".join(rng.choice(list("acgt"), size)) for size in rng.integers(0, 12, 23)]
    return _with_duplicates(words[:14], words[14:])


def _series(rng):
    lengths = rng.integers(1, 7, 23)
    rows = [frozen_array(0.7 * rng.standard_normal((n, 2))) for n in lengths]
    return _with_duplicates(rows[:14], rows[14:])


def _equal_strings(rng):
    words = ["".join(rng.choice(list("acgt"), 9)) for _ in range(23)]
    return _with_duplicates(words[:14], words[14:])


def _rates(rng):
    return _with_duplicates(list(0.1 + 2 * rng.random((14, 2))), list(0.1 + 2 * rng.random((9, 2))))


def _records(rng):
    X, Y = _strings(rng)
    return [(word, float(rng.standard_normal())) for word in X], [(word, float(rng.standard_normal())) for word in Y]


def _sets(rng):
    found = [set(rng.choice(list("abcdefgh"), size, replace=False).tolist()) for size in rng.integers(0, 6, 23)]
    return _with_duplicates(found[:14], found[14:])


def _bags(rng):
    found = [rng.standard_normal((size, 2)).round(2).tolist() for size in rng.integers(0, 5, 23)]
    return _with_duplicates(found[:14], found[14:])


def _tree(rng, depth=3):
    if depth == 0 or rng.random() < 0.2:
        return str(rng.choice(list("xyz")))
    return (str(rng.choice(list("SNV"))), *(_tree(rng, depth - 1) for _ in range(rng.integers(1, 3))))


def _trees(rng):
    found = [("S", _tree(rng), _tree(rng)) for _ in range(22)] + ["(S x (N y))"]
    return _with_duplicates(found[:14], found[14:])


def _graph(rng):
    n = int(rng.integers(1, 7))
    pairs = [(i, j) for i in range(n) for j in range(i) if rng.random() < 0.5]
    return {
        "edges": pairs,
        "labels": rng.choice(list("CNO"), n).tolist(),
        "attributes": rng.standard_normal((n, 2)).tolist(),
    }


def _graphs(rng):
    found = [_graph(rng) for _ in range(23)]
    return _with_duplicates(found[:14], found[14:])


_MAKERS = {
    "real": _real,
    "positive": _positive,
    "codes": _codes,
    "strings": _strings,
    "rates": _rates,
    "equal strings": _equal_strings,
    "series": _series,
    "records": _records,
    "sets": _sets,
    "bags": _bags,
    "trees": _trees,
    "graphs": _graphs,
}


@cache
def data(name, dtype="float64"):
    """(X, Y) of a kind of rows: read-only arrays, or lists of strings or tuples."""
    X, Y = _MAKERS[name](np.random.default_rng(7))
    return (X, Y) if isinstance(X, list) else (frozen_array(X.astype(dtype)), frozen_array(Y.astype(dtype)))


def sparse_random(shape, n_entries, dtype="float64"):
    """CSR rows with about so many entries in (0, 1). (The keyword for the seed of scipy's own function has changed.)"""
    rng = np.random.default_rng(0)
    places = rng.integers(0, shape[0], n_entries), rng.integers(0, shape[1], n_entries)
    return sp.csr_array(sp.coo_array((rng.random(n_entries).astype(dtype), places), shape))


def error_of(kinds, function, *arguments):
    """The error that a call raises, or None."""
    try:
        function(*arguments)
    except kinds as error:
        return error
    return None


def frozen_array(A):
    A.flags.writeable = False
    return A


def take(X, index):
    """Rows by number, of an array or of a list."""
    return X[index] if isinstance(X, np.ndarray) else [X[i] for i in index]


# ---------------------------------------------------------------------------------------------- cases
@dataclass(frozen=True, eq=False)
class Case:
    """A kernel and the kind of rows it is tried on. `angle` kernels lose half of their digits between equal rows."""

    kernel: Kernel
    rows: str = "real"
    angle: bool = False

    def __str__(self):
        return f"{self.kernel!r}-{self.rows}"

    def X(self, dtype="float64"):  # noqa: N802
        return data(self.rows, dtype)[0]

    def Y(self, dtype="float64"):  # noqa: N802
        return data(self.rows, dtype)[1]

    @property
    def vectors(self):
        return self.rows in ("real", "positive", "codes")

    def gram(self, engine="reference", dtype="float64", cross=False):
        return gram(self.kernel, self.X(dtype), self.Y(dtype) if cross else None, engine=engine)

    def tolerance(self, operation, dtype="float64"):
        worst = TOLERANCE["angle"][dtype] if self.angle else 0.0
        return max(TOLERANCE[operation][dtype], worst)


# Functions of the user's own, at module level so that they can be pickled.
def dot(x, y):
    return float(x @ y)


def product(X, Y):
    return X @ Y.T


def squares(X):
    return X**2


def squares_vjp(X, G):
    return 2 * X * G


def one_plus_first(X):
    return 1 + X[:, 0]


def one_plus_first_vjp(X, v):
    return np.outer(v, [1.0] + [0.0] * (X.shape[1] - 1))


def length(rows):
    return np.array([[len(word) / 5.0] for word in rows])


def geometric(k):
    return 1.0 / (1.0 - k)


def near_latent(X, Z):
    """log p(x|z) of Gaussians around z, up to a constant."""
    with np.errstate(over="ignore"):
        return -0.5 * ((X[:, None] - Z) ** 2).sum(axis=2)


COVARIANCE = np.diag([1.0, 2.0, 3.0]) + 0.3
SAMPLE = frozen_array(0.05 + np.random.default_rng(3).random((6, 3)))

LEAVES = [
    Case(mk.RBF(0.7)),
    Case(mk.RBF("median")),
    Case(mk.RBF([0.5, 1.0, 2.0])),
    Case(mk.RBF([0.5, np.inf, 2.0])),
    Case(mk.RBF(covariance=COVARIANCE)),
    Case(mk.Laplacian(2.0)),
    Case(mk.Laplacian([1.0, 2.0, 3.0])),
    Case(mk.Laplacian(2.0, metric="l1")),
    Case(mk.Laplacian([1.0, 2.0, 3.0], metric="l1")),
    Case(mk.Laplacian("scale", metric="l1")),
    Case(mk.Matern(0.5)),
    Case(mk.Matern(1.5, 2.0)),
    Case(mk.Matern(2.5, [1.0, 0.5, 2.0])),
    Case(mk.Matern(0.7)),
    Case(mk.Matern(3.2, 1.5)),
    Case(mk.Matern(np.inf, 0.8)),
    Case(mk.RationalQuadratic(1.3, 0.8)),
    Case(mk.InverseMultiquadric(0.9)),
    Case(mk.Multiquadric(1.2)),
    Case(mk.ThinPlate(2.0)),
    Case(mk.Window(1.3)),
    Case(mk.Window([1.3, 1.1, 2.0], form="product")),
    Case(mk.Triangular(2.1)),
    Case(mk.Triangular(2.1, form="product")),
    Case(mk.Epanechnikov([1.3, 1.1, 2.0])),
    Case(mk.Epanechnikov(1.7, form="product")),
    Case(mk.Biweight(1.9)),
    Case(mk.Biweight([1.3, 1.1, 2.0], form="product")),
    Case(mk.Tricube(1.7)),
    Case(mk.Tricube(1.7, form="product")),
    Case(mk.CosineWindow(1.7)),
    Case(mk.CosineWindow([1.3, 1.1, 2.0], form="product")),
    Case(mk.Periodic(1.3, 0.9)),
    Case(mk.Linear()),
    Case(mk.Polynomial(3, 0.5, 1.0)),
    Case(mk.Polynomial(2, "scale", 0.0)),
    Case(mk.Polynomial(1.5, 1.0, 1.0), "positive"),
    Case(mk.Sigmoid(0.1, 0.2)),
    Case(mk.Cosine()),
    Case(mk.QuadraticForm(np.diag([1.0, 2.0, 0.0]))),
    Case(mk.Tanimoto(), "positive"),
    Case(mk.ArcCosine(0), angle=True),
    Case(mk.ArcCosine(1)),
    Case(mk.ArcCosine(2)),
    Case(mk.ArcSine(0.5, 0.7)),
    Case(mk.Constant(2.0)),
    Case(mk.White(0.3)),
    Case(mk.BSpline(1, 2.5)),
    Case(mk.BSpline(3, [1.5, 1.0, 2.0])),
    Case(mk.Intersection(), "positive"),
    Case(mk.AdditiveChi2(), "positive"),
    Case(mk.Chi2(0.4), "positive"),
    Case(mk.Brownian(), "positive"),
    Case(mk.LinearSpline(), "positive"),
    Case(mk.ANOVA(2, [1.0, 2.0, 3.0])),
    Case(mk.ANOVA(3, 0.8)),
    Case(mk.Categorical(), "codes"),
    Case(mk.Categorical("aitchison-aitken", 0.2), "codes"),
    Case(Basis.polynomials(2)),
    Case(Basis.gaussians([-1.0, 0.0, 1.0], 0.5)),
    Case(Basis.sigmoids([-1.0, 1.0], 0.5)),
    Case(mk.Pairwise(dot)),
    Case(mk.Blockwise(product)),
    Case(mk.Spectrum(2), "strings"),
    Case(mk.BlendedSpectrum(3, 0.7), "strings"),
    Case(mk.BagOfCharacters(), "strings"),
    Case(mk.GappedKmer(2, 1), "strings"),
    Case(mk.Mismatch(3, 1), "strings"),
    Case(mk.AllSubstrings(), "strings"),
    Case(mk.AllSubstrings(0.6, 2, 4), "strings"),
    Case(mk.GappySubsequence(2, 0.5), "strings"),
    Case(mk.WeightedDegree(3), "equal strings"),
    Case(mk.BagOfWords(analyzer="char", ngram_range=(1, 2)), "strings"),
    Case(mk.TfIdf(analyzer="char"), "strings"),
    Case(mk.TfIdf(smooth=False, cosine=False, analyzer="char"), "strings"),
    Case(mk.SetIntersection(), "sets"),
    Case(mk.PowerSet(), "sets"),
    Case(mk.PowerSet("normalised"), "sets"),
    Case(mk.Jaccard(), "sets"),
    Case(mk.PyramidMatch(0.5), "bags"),
    Case(mk.PyramidMatch(0.5, levels=3, origin=0.0), "bags"),
    Case(mk.PyramidMatch(0.5, form="cost"), "bags"),
    Case(mk.MeanMap(mk.RBF("median")), "bags"),
    Case(mk.OptimalAssignment(mk.RBF(0.8)), "bags"),
    Case(mk.SubsetTree(0.5), "trees"),
    Case(mk.Subtree(0.7), "trees"),
    Case(mk.VertexHistogram(), "graphs"),
    Case(mk.EdgeHistogram(), "graphs"),
    Case(mk.ShortestPath(), "graphs"),
    Case(mk.WeisfeilerLehman(2), "graphs"),
    Case(mk.WLOptimalAssignment(2), "graphs"),
    Case(mk.Graphlet(4), "graphs"),
    Case(mk.Graphlet(3, n_samples=5, seed=1), "graphs"),
    Case(mk.RandomWalk(0.03), "graphs"),
    Case(mk.RandomWalk(0.3, steps=3), "graphs"),
    Case(mk.Propagation(mk.RBF(0.8), steps=1), "graphs"),
    Case(mk.GlobalAlignment(), "series"),
    Case(mk.GlobalAlignment(0.8, 3, normalised=False), "series"),
    Case(mk.DynamicTimeWarping(1.5, band=2), "series"),
    Case(mk.Signature(), "series"),
    Case(mk.Signature(1.2, "linear", depth=3), "series"),
    Case(mk.LocalAlignment(), "strings"),
    Case(mk.LocalAlignment(0.5, -2.0, 3.0, 2.0, beta=0.8, normalised=False), "strings"),
    Case(mk.SmithWaterman(opening=1.5), "strings"),
    Case(mk.DensityProduct()),
    Case(mk.MixtureKernel(mk.MixtureModel(2, tol=0.1))),
    Case(mk.MixtureKernel(mk.MixtureModel(2, "diag", tol=0.1), unit=True)),
    Case(mk.LatentGaussian(2)),
    Case(mk.LatentGaussian(1, [0.0, 0.1, 0.2], [[1.0], [0.5], [0.0]], [1.0, 0.5, 2.0], unit=True)),
    Case(mk.LatentMonteCarlo(near_latent, n_latent=3, n_samples=40)),
    Case(mk.Fisher()),
    Case(mk.Fisher(mk.NormalModel(theta="both"))),
    Case(mk.Fisher(mk.MixtureModel(2, "diag", tol=0.1), "diagonal")),
    Case(mk.Fisher(mk.MultinomialModel()), "positive"),
    Case(mk.Fisher(mk.DirichletMultinomial(tol=0.1), "identity"), "positive"),
    Case(mk.Fisher(mk.MarkovChain(1), "diagonal"), "strings"),
    Case(mk.Fisher(mk.HiddenMarkov(2, "discrete", tol=0.01), "empirical"), "strings"),
    Case(mk.SharedPath(mk.HiddenMarkov(2, "discrete", tol=0.1)), "strings"),
    Case(mk.SharedPath(mk.HiddenMarkov(2, tol=0.1), unit=True), "rates"),
    Case(mk.ProbabilityProduct("gaussian", 0.7, covariance=0.5), "rates"),
    Case(mk.ProbabilityProduct("poisson", 0.8), "rates"),
]

OPERATORS = [
    Case(mk.RBF(0.7) + mk.Linear()),
    Case(mk.Linear() + mk.White(0.2)),
    Case(mk.RBF(0.7) * mk.Linear()),
    Case(2.5 * mk.RBF(0.7)),
    Case(mk.RBF() - mk.Matern()),
    Case(mk.Linear() ** 3),
    Case((0.3 * mk.Linear()).exp()),
    Case(mk.Linear().tanh()),
    Case(mk.Linear().poly([1.0, 2.0, 3.0])),
    Case((0.5 * mk.RBF()).series(geometric, radius=1.0)),
    Case(mk.Polynomial(2).gaussian(1.3)),
    Case(mk.Multiquadric().gaussian(0.8)),
    Case(mk.Polynomial(2).normalise()),
    Case((mk.RBF() + mk.White(0.1)).normalise()),
    Case(mk.RBF().centre()),
    Case(mk.RBF([1.0, 2.0, 3.0]).centre(SAMPLE)),
    Case(mk.RBF().on(0, 2)),
    Case(mk.RBF(0.9).warp(squares, squares_vjp)),
    Case(mk.RBF(0.9).warp(squares)),
    Case(mk.RBF().warp(length), "strings"),
    Case(mk.Linear().times(one_plus_first, one_plus_first_vjp)),
    Case(mk.RBF().times(one_plus_first)),
    Case(mk.RBF(0.4).named("trend")),
    Case(mk.RBF().minimum(mk.Linear())),
    Case(mk.RBF().maximum(mk.Linear())),
    Case(mk.Spectrum(2).on(0) * mk.RBF(0.5).on(1), "records"),
]

DEEP = [
    Case(2 * mk.RBF(0.3) + mk.Linear() ** 2 + mk.Matern(1.5)),
    Case((2 * mk.RBF(0.3) + mk.RBF(0.9)) * (mk.Linear() + 0.5)),
    Case(mk.RBF().centre(SAMPLE).on(2, 0, 1).normalise()),
    Case((mk.RBF() * mk.Polynomial(2).normalise()).centre()),
    Case(mk.RBF().on(0) * mk.Linear().on(1) + mk.Matern(2.5).on(2)),
    Case((mk.Linear().named("slope") + mk.RBF(0.5).named("bump")) / 2),
    Case(mk.Linear().centre().gaussian(0.7).centre()),
    Case((mk.Spectrum(2).on(0).normalise() + mk.RBF().on(1)).gaussian(0.9), "records"),
    Case(mk.Spectrum(1).normalise() * mk.Spectrum(3) + 1.0, "strings"),
    Case(mk.Spectrum(2).centre().normalise(), "strings"),
    Case(mk.Categorical("aitchison-aitken", 0.2).on(0, 1) * mk.RBF().on(2), "codes"),
]


# ---------------------------------------------------------------------------------------------- a covering sample
# Five factors of seven levels each. In the 49 rows of the orthogonal array over the integers mod 7 every pair of levels of
# two factors occurs exactly once. Levels of the leaves are families that share a statistic; two more columns of the array
# choose the member.
_LEFT = [
    [mk.RBF(0.7), mk.RationalQuadratic(1.3, 0.8), mk.InverseMultiquadric()],
    [mk.Laplacian(2.0), mk.Matern(1.5), mk.Matern(2.5, 0.8)],
    [mk.Linear(), mk.Polynomial(2, 0.5, 0.5), mk.QuadraticForm(COVARIANCE)],
    [mk.Cosine(), mk.ArcSine(0.5, 0.7), mk.Tanimoto(), mk.ArcCosine(1)],
    [mk.Intersection(), mk.Chi2(0.4), mk.Laplacian(1.5, metric="l1")],
    [mk.Brownian(), mk.BSpline(3, 1.5), mk.ANOVA(2, 0.8), mk.LinearSpline()],
    [mk.Constant(0.7), mk.Pairwise(dot), mk.Blockwise(product)],
]
_RIGHT = [
    [mk.RBF([0.5, 1.0, 2.0]), mk.RBF(covariance=COVARIANCE)],
    [mk.Matern(0.7), mk.Matern(3.2, 2.0)],
    [mk.Linear(), mk.Polynomial(3, 0.3, 0.2)],
    [mk.ArcCosine(2), mk.Cosine()],
    [mk.Intersection(), mk.Chi2(1.0)],
    [Basis.polynomials(2), Basis.gaussians([0.0, 0.5, 1.0], 0.4), mk.Periodic(2.1, 0.9)],
    [mk.White(0.3), mk.Multiquadric(), mk.Sigmoid(0.3, 0.1), mk.ThinPlate(3.0)],
]
_JOINED = [
    lambda a, b: a + b,
    lambda a, b: a * b,
    lambda a, b: a - b,
    lambda a, b: a.minimum(b),
    lambda a, b: a.maximum(b),
    lambda a, b: a + b + a,
    lambda a, b: a * b + b,
]
_INNER = [
    lambda k: k,
    lambda k: k.normalise(),
    lambda k: k.centre(SAMPLE),
    lambda k: k.gaussian(1.1),
    lambda k: k**2,
    lambda k: 0.6 * k,
    lambda k: k.named("part"),
]
_OUTER = [
    lambda k: k,
    lambda k: (0.2 * k).exp(),
    lambda k: k.poly([0.5, 1.0, 0.25]),
    lambda k: k.on(2, 0, 1),
    lambda k: k.warp(squares, squares_vjp),
    lambda k: k.times(one_plus_first, one_plus_first_vjp),
    lambda k: k.tanh(),
]


def orthogonal_array(levels=7, factors=7):
    """Rows of levels, `levels` a prime: any two of the factors show every pair of levels once."""
    rows = [(i, j) for i in range(levels) for j in range(levels)]
    return [(i, j, *((i + m * j) % levels for m in range(1, factors - 1))) for i, j in rows]


def _composite(row):
    left, right, joined, inner, outer, of_left, of_right = row
    a = _LEFT[left][of_left % len(_LEFT[left])]
    b = _RIGHT[right][of_right % len(_RIGHT[right])]
    return Case(_OUTER[outer](_JOINED[joined](_INNER[inner](a), b)), "positive")


@cache
def kernel_cases(composites=60):
    """Every registered kernel with suitable rows, then at most `composites` trees."""
    trees = DEEP + [_composite(row) for row in orthogonal_array()]
    return tuple(LEAVES + OPERATORS + trees[:composites])
