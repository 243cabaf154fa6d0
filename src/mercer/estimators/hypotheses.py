"""Tests of hypotheses with kernels (M23): are two samples of one distribution, are two columns of rows independent?"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from math import ceil, comb, factorial, isqrt
from numbers import Integral, Real
from operator import add
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy import stats

from mercer import validate
from mercer.errors import NanError, NotPSDError, NumericalWarning
from mercer.estimators.views import view_rows
from mercer.gram import gram
from mercer.gram.plan import budget, require
from mercer.kernels import RBF, Kernel, as_kernel
from mercer.linalg import smallest_eigenvalue
from mercer.random import generator
from mercer.solvers.hypotheses import (
    FACTOR_ROWS,
    BlockSums,
    Centred,
    IndependenceForm,
    TwoSampleForm,
    centred_gram,
    factor_rank,
    factored_gram,
    hsic_blocks,
    mmd_blocks,
)

__all__ = ["HypothesisTest", "KernelChoice", "hsic_test", "mmd_test"]

METHODS = ("permutation", "gamma", "spectrum", "linear", "block")
_CHOICE = 1000  # rows of each sample that a kernel is chosen on, at most
_FEW_BLOCKS = 10
_LONGEST = 30.0  # seconds that one sweep over a Gram that is not held may take
_COLUMNS = 256  # permutations that are multiplied with a Gram in memory together


@dataclass(frozen=True, eq=False)
class KernelChoice:
    """How a kernel was chosen, on rows that the test did not see.

    kernels : those to choose among. ratios : of each, the statistic over its standard deviation, which power grows with.
    n_rows : rows of each sample that this took.
    """

    kernels: tuple
    ratios: np.ndarray
    n_rows: tuple[int, ...]

    @property
    def best(self) -> int:
        """Number of the kernel with the largest ratio; the first of several."""
        return int(np.argmax(self.ratios))


@dataclass(frozen=True, eq=False)
class HypothesisTest:
    """What `mmd_test` and `hsic_test` give. `mercer.plots.NullDistributionDisplay` draws it.

    name : "MMD" or "HSIC". statistic : squared, so that 0 means equal distributions or independence. p_value : how often chance
        alone gives so much. threshold : the statistic above which the hypothesis is rejected at `level`.
    method, estimator : where the null distribution comes from, and whether the statistic is "biased" or "unbiased".
    kernels : one of MMD, two of HSIC, with all words resolved. n_rows : rows that the test saw, of X and of Y.
    null_mean, null_std : of the statistic where the hypothesis holds; null_sample : draws of it, from permutations or weighted
        chi-squares; null_distribution : gamma, or nearly normal. None where there is none.
    n_blocks, block_size : of "linear" and "block". choice : how the kernel was chosen, or None.
    """

    name: str
    statistic: float
    p_value: float
    threshold: float
    level: float
    method: str
    estimator: str
    kernels: tuple
    n_rows: tuple[int, ...]
    null_mean: float
    null_std: float
    null_sample: np.ndarray | None = None
    null_distribution: Any = None
    n_blocks: int | None = None
    block_size: int | None = None
    choice: KernelChoice | None = None
    _samples: Any = field(default=None, repr=False)

    @property
    def rejected(self) -> bool:
        """Whether chance is no explanation at this level."""
        return self.p_value <= self.level

    @property
    def kernel(self) -> Kernel:
        """The kernel of MMD, or of the first rows of HSIC."""
        return self.kernels[0]

    def witness(self, T) -> np.ndarray:
        """Mean of k(t, x) over the sample X minus that over Y (m,), for rows T: positive where X has more rows than Y.

        Gretton et al. (2012), section 2.3.
        """
        if self.name != "MMD":
            raise ValueError("only tests of two samples have a witness function; this one is of independence")
        rows, n, engine, memory = self._samples
        side = np.where(np.arange(validate.n_rows(rows)) < n, 1.0 / n, -1.0 / (validate.n_rows(rows) - n))
        K = gram(self.kernel, view_rows(T, self.kernel, "T"), rows, engine=engine, memory=memory, validated=True)
        return K @ side.astype(K.dtype)

    def __str__(self):
        said = "rejected" if self.rejected else "not rejected"
        what = "the samples have one distribution" if self.name == "MMD" else "X and Y are independent"
        how = "" if self.n_blocks is None else f", {self.n_blocks} blocks of {self.block_size} rows"
        squared = "MMD^2" if self.name == "MMD" else "HSIC"
        lines = [
            f"{squared} = {self.statistic:.4g} ({self.estimator}), p = {self.p_value:.3g} by {self.method}{how}",
            f"threshold {self.threshold:.4g} at level {self.level:g}: that {what} is {said}",
            f"rows: {' and '.join(map(str, self.n_rows))}; kernel: {', '.join(map(repr, self.kernels))}",
        ]
        if self.choice is not None:
            among, rows = len(self.choice.kernels), " and ".join(map(str, self.choice.n_rows))
            lines.append(
                f"kernel chosen among {among} on {rows} other rows, by the ratio {self.choice.ratios.max():.3g}"
            )
        return "\n".join(lines)

    __repr__ = __str__


def mmd_test(X, Y, kernel: Any = "rbf", *, method="permutation", statistic="biased", level=0.05, n_permutations=1000,
             block_size=None, random_state=0, engine=None, memory=None) -> HypothesisTest:  # fmt: skip
    r"""Test whether two samples come from one distribution, by the distance of their means in feature space.

    .. math:: \mathrm{MMD}^2 = \Big\lVert \frac1n \sum_i \varphi(x_i) - \frac1m \sum_j \varphi(y_j) \Big\rVert^2

    Parameters
    ----------
    X, Y : rows of the same kind, of any kind the kernel reads.
    kernel : a mercer kernel, or a word: "rbf" is a Gaussian with the median distance of all rows as lengthscale, the others are
        scikit-learn's with gamma="scale". Or a list to choose among, where numbers are lengthscales of Gaussians: the kernel is
        then chosen on one half of the rows, and the test made on the other.
    method : "permutation" has exactly the level asked for, whatever the rows. "gamma" takes a gamma distribution with the exact
        mean and variance over all permutations, "spectrum" a weighted sum of chi-squares. "linear" (pairs of rows) and "block"
        average over blocks of rows, with p-values of a normal distribution but for its skewness, for many rows.
    statistic : "biased" is the squared distance itself; "unbiased" has mean 0 where samples do not differ, as blocks always have.
    level : how often a true hypothesis may be rejected.
    n_permutations : permutations, or draws of the weighted sum.
    block_size : rows of each sample in a block; by default the square root of their number.
    random_state : of permutations, draws, the order of rows in blocks and the halves.
    engine, memory : how and within how many bytes Grams are computed.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import mmd_test
    >>> rng = np.random.default_rng(0)
    >>> found = mmd_test(rng.standard_normal((100, 2)), rng.laplace(size=(120, 2)) + 0.5)
    >>> found.rejected, found.p_value < 0.01
    (True, True)

    Gretton, Borgwardt, Rasch, Schölkopf & Smola (2012); Gretton, Fukumizu, Harchaoui & Sriperumbudur (2009); Zaremba, Gretton &
    Blaschko (2013) for blocks; Sutherland et al. (2017) for the choice of a kernel.
    """
    s = _settings("MMD", method, statistic, level, n_permutations, block_size, random_state, engine, memory)
    kernels = _kernels(kernel, "kernel")
    X, Y = (view_rows(side, _together(kernels), name) for side, name in ((X, "X"), (Y, "Y")))
    _refuse_different(X, Y)
    _enough(s, X, Y)
    choice = None
    if len(kernels) > 1:
        (some_x, X), (some_y, Y) = (_halves(side, s.rng) for side in (X, Y))
        _enough(s, X, Y, " after half of them served to choose a kernel")
        choice = _chosen_for_samples(kernels, some_x, some_y, s)
        kernels = [choice.kernels[choice.best]]
    rows, sizes = _stacked(X, Y), (validate.n_rows(X), validate.n_rows(Y))
    used = _resolved(kernels[0], rows)
    K = gram(used, rows, engine=engine, memory=memory, validated=True)
    if s.blocks:
        found = _of_blocks(mmd_blocks(K, *sizes, _block_size(s, min(sizes)), s.rng), s)
    else:
        few = [min(size, 30) for size in sizes]  # with more there are ways enough
        _warn_of_few(comb(sum(few), few[0]) // (1 + (sizes[0] == sizes[1])), s)
        C = _centred(K, _held(s, [K], optional=s.method != "spectrum"))
        found = _null(TwoSampleForm(C, sizes[0], s.unbiased), s)
    return HypothesisTest(
        **found, kernels=(used,), n_rows=sizes, choice=choice, _samples=(rows, sizes[0], engine, memory)
    )


def hsic_test(X, Y, kernel_x: Any = "rbf", kernel_y: Any = "rbf", *, method="permutation", statistic="biased", level=0.05,
              n_permutations=1000, block_size=None, random_state=0, engine=None, memory=None) -> HypothesisTest:  # fmt: skip
    r"""Test whether rows of X and rows of Y, given in pairs, are independent, by their covariance in feature space.

    .. math:: \mathrm{HSIC} = \frac1{n^2} \operatorname{tr}(K H L H) = \lVert \hat C_{xy} \rVert^2

    Parameters
    ----------
    X, Y : as many rows; they may be of different kinds.
    kernel_x, kernel_y : of the rows of X and of Y, each as in `mmd_test`; of lists the best pair is chosen.
    method, statistic, level, n_permutations, block_size, random_state, engine, memory : as in `mmd_test`. "linear" averages over
        blocks of four rows, the fewest there can be.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import hsic_test
    >>> rng = np.random.default_rng(0)
    >>> angle = rng.uniform(0, 6.28, 100)
    >>> hsic_test(np.cos(angle), np.sin(angle)).rejected  # not correlated, but not independent
    True

    Gretton, Fukumizu, Teo, Song, Schölkopf & Smola (2008); Zhang, Filippi, Gretton & Sejdinovic (2018) for blocks.
    """
    s = _settings("HSIC", method, statistic, level, n_permutations, block_size, random_state, engine, memory)
    kernels = _kernels(kernel_x, "kernel_x"), _kernels(kernel_y, "kernel_y")
    sides = [view_rows(side, _together(k), name) for side, k, name in ((X, kernels[0], "X"), (Y, kernels[1], "Y"))]
    _refuse_unpaired(*sides)
    _enough(s, sides[0])
    choice, pair = None, (kernels[0][0], kernels[1][0])
    if len(kernels[0]) * len(kernels[1]) > 1:
        order = s.rng.permutation(validate.n_rows(sides[0]))
        (some_x, X), (some_y, Y) = (_halves(side, order) for side in sides)
        sides = [X, Y]
        _enough(s, X, " after half of them served to choose a kernel")
        choice = _chosen_for_pairs(kernels, some_x, some_y, s)
        pair = choice.kernels[choice.best]
    used = tuple(_resolved(k, side) for k, side in zip(pair, sides, strict=True))
    K, L = (gram(k, side, engine=engine, memory=memory, validated=True) for k, side in zip(used, sides, strict=True))
    n = K.shape[0]
    if s.blocks:
        found = _of_blocks(hsic_blocks(K, L, _block_size(s, n), s.rng), s)
    else:
        _warn_of_few(factorial(min(n, 20)), s)
        found = _null(IndependenceForm(*_two_centred(K, L, s), s.unbiased), s)
    return HypothesisTest(**found, kernels=used, n_rows=(n, n), choice=choice)


# ------------------------------------------------------------------------------------------------ what was asked for
@dataclass(frozen=True)
class _Settings:
    name: str
    method: str
    unbiased: bool
    level: float
    count: int
    block_size: int | None
    rng: np.random.Generator
    engine: Any
    memory: Any

    @property
    def blocks(self):
        return self.method in ("linear", "block")

    @property
    def least(self):
        """Rows that the statistic needs of each sample."""
        return 4 if self.unbiased or self.blocks or self.name == "HSIC" else 2


def _settings(name, method, statistic, level, n_permutations, block_size, random_state, engine, memory):
    _refuse_word("method", method, METHODS)
    _refuse_word("statistic", statistic, ("biased", "unbiased"))
    if isinstance(level, bool) or not isinstance(level, Real) or not 0 < level < 1:
        raise ValueError(f"level={level!r} must be a number between 0 and 1, such as 0.05")
    if isinstance(n_permutations, bool) or not isinstance(n_permutations, Integral) or n_permutations < 1:
        raise ValueError(f"n_permutations={n_permutations!r} must be a whole number of at least 1")
    if method in ("permutation", "spectrum") and level * (n_permutations + 1) < 1:
        raise ValueError(f"n_permutations={n_permutations} gives no p-value below 1/{n_permutations + 1}, so level={level:g} is "
                         f"out of reach; use {ceil(1 / level) - 1} at least, or method=\"gamma\"")  # fmt: skip
    fewest = {"MMD": 2, "HSIC": 4}[name]
    if block_size is not None and method != "block":
        raise ValueError(f'block_size={block_size!r} is for method="block", but method={method!r}')
    if block_size is not None and (not isinstance(block_size, Integral) or block_size < fewest):
        raise ValueError(f"block_size={block_size!r} must be a whole number of at least {fewest} rows")
    validate.memory_bytes(memory)
    rng = generator(random_state)
    unbiased = statistic == "unbiased" or method in ("linear", "block")
    return _Settings(name, method, unbiased, float(level), int(n_permutations), block_size, rng, engine, memory)


def _refuse_word(name, value, known):
    if value not in known:
        raise ValueError(f"{name}={value!r} must be one of {', '.join(known)}")


def _kernels(kernel, name) -> list[Kernel]:
    given = list(kernel) if isinstance(kernel, (list, tuple, np.ndarray)) else [kernel]
    if not given:
        raise ValueError(f"{name} is an empty list; pass a kernel, or several to choose among")
    return [_kernel(k, name) for k in given]


def _kernel(kernel, name):
    if isinstance(kernel, str) and kernel == "precomputed":
        raise ValueError(f'{name}="precomputed": pass rows and a kernel; Blockwise(f) makes one of your function')
    if isinstance(kernel, str) and kernel == "rbf":
        return RBF("median")
    if isinstance(kernel, Real) and not isinstance(kernel, bool):
        return RBF(float(kernel))
    try:
        return as_kernel(kernel, gamma="scale")
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None


def _together(kernels) -> Kernel:
    """A kernel that reads what all of them read."""
    return reduce(add, kernels)


# ------------------------------------------------------------------------------------------------ rows
def _kind(rows):
    if isinstance(rows, validate.Table):
        return f"a table with columns {', '.join(map(str, rows.names))}"
    if rows.ndim == 2:
        return f"rows of {rows.shape[1]} numbers"
    words = {str: "strings", bytes: "bytes"}
    return next((words[t] for t in words if len(rows) and isinstance(rows[0], t)), "objects")


def _refuse_different(X, Y):
    if _kind(X) != _kind(Y):
        raise ValueError(f"X holds {_kind(X)}, but Y {_kind(Y)}: two samples must be of the same kind")


def _refuse_unpaired(X, Y):
    if validate.n_rows(X) != validate.n_rows(Y):
        raise ValueError(
            f"X has {validate.n_rows(X)} rows, but Y {validate.n_rows(Y)}: independence is asked of pairs of rows"
        )


def _enough(s, *parts):
    """Refuse samples with too few rows; the last of `parts` may be words for the message."""
    when = parts[-1] if isinstance(parts[-1], str) else ""
    for side, name in zip([p for p in parts if not isinstance(p, str)], "XY", strict=False):
        if validate.n_rows(side) < s.least:
            what = f"{s.method} {s.name}" if s.blocks else f"the {'un' if s.unbiased else ''}biased {s.name}"
            raise ValueError(f"{name} has {validate.n_rows(side)} rows{when}, but {what} needs {s.least} at least")


def _stacked(X, Y):
    if isinstance(X, validate.Table):
        return validate.Table(X.names, tuple(np.concatenate(both) for both in zip(X.columns, Y.columns, strict=True)))
    if sp.issparse(X) or sp.issparse(Y):
        return sp.csr_array(sp.vstack([sp.csr_array(X), sp.csr_array(Y)]))
    return np.concatenate([X, Y])


def _halves(rows, rng):
    """Rows to choose a kernel on, of which some are enough, and the others; an order of the rows does in place of chance."""
    order = rng if isinstance(rng, np.ndarray) else rng.permutation(validate.n_rows(rows))
    half = len(order) // 2
    return validate.take(rows, order[: min(half, _CHOICE)]), validate.take(rows, order[half:])


def _resolved(kernel, rows) -> Kernel:
    """The kernel with its words resolved, refused where it is known to be of no use."""
    kernel = kernel._resolved(rows, None)
    fact = kernel.validity
    if fact.kind == "not-psd" or (fact.kind == "cpd" and fact.order > 1):
        raise NotPSDError(
            f"{kernel!r} is not positive semi-definite ({fact.reason}); means in feature space need a kernel that is"
        )
    return kernel


# ------------------------------------------------------------------------------------------------ Grams
def _held(s, grams, optional) -> bool:
    """Whether the Grams are held in memory. Where one must be and does not fit, or a sweep takes too long, it is refused."""
    needed, room = sum(K.shape[0] ** 2 * K.dtype.itemsize for K in grams), budget(s.memory)
    if needed <= room:
        return True
    seconds = sum(K.plan.seconds for K in grams)
    if not optional or seconds > _LONGEST:
        remedies = ['method="block" or "linear"', "fewer rows or float32", 'a larger budget, memory="64GB"']
        remedies = ['method="gamma"', *remedies] if not optional and seconds <= _LONGEST else remedies
        require(needed, room, f"{s.name} by {s.method} of {grams[0].shape[0]} rows", remedies, seconds)
    return False


def _centred(K, hold):
    C = centred_gram(K, hold)
    if not (np.isfinite(C.trace) and np.isfinite(C.noise)):
        raise NanError(f"values of {K.kernel!r} over- or underflow on these rows; rescale the columns")
    fact = K.kernel.validity
    if fact.kind == "unknown" and hold and not C.flat:
        smallest, _ = smallest_eigenvalue(C.matrix, np.random.default_rng(0))
        if smallest < -10 * len(C) * C.noise:
            warnings.warn(f"{K.kernel!r} ({fact.reason}) is not positive semi-definite on these rows: smallest eigenvalue about "
                          f"{smallest:.3g}. The statistic is no squared distance", NumericalWarning, stacklevel=4)  # fmt: skip
    return C


def _two_centred(K, L, s) -> tuple[Centred, Centred]:
    """Both Grams centred: by factors of low rank where permutations are quicker with them, else in memory."""
    n, fit = K.shape[0], all(G.kernel.validity.certified and np.isfinite(G.trace()) for G in (K, L))
    room = 4 * n * factor_rank(n) * K.dtype.itemsize <= budget(s.memory)
    if s.method == "permutation" and n >= FACTOR_ROWS and fit and room:
        first = factored_gram(K)
        second = None if first is None else factored_gram(L)
        if first is not None and second is not None:
            return first, second
    hold = _held(s, [K, L], optional=s.method == "gamma")
    return _centred(K, hold), _centred(L, hold)


# ------------------------------------------------------------------------------------------------ the choice of a kernel
def _chosen_for_samples(kernels, X, Y, s) -> KernelChoice:
    rows, sizes = _stacked(X, Y), (validate.n_rows(X), validate.n_rows(Y))
    known = tuple(_resolved(k, rows) for k in kernels)
    ratios = [_ratio(TwoSampleForm(_looked_at(k, rows, s), sizes[0], True)) for k in known]
    return _choice(known, ratios, sizes)


def _chosen_for_pairs(kernels, X, Y, s) -> KernelChoice:
    """Among all pairs of a kernel of X and one of Y."""
    known = [[_resolved(k, rows) for k in some] for some, rows in zip(kernels, (X, Y), strict=True)]
    sides = [[_looked_at(k, rows, s) for k in some] for some, rows in zip(known, (X, Y), strict=True)]
    ratios = [_ratio(IndependenceForm(A, B, True)) for A, B in product(*sides)]
    return _choice(tuple(product(*known)), ratios, (validate.n_rows(X),) * 2)


def _choice(kernels, ratios, sizes):
    if not np.isfinite(ratios).any():
        raise ValueError("all rows are the same to each of the kernels: there is nothing to choose by")
    return KernelChoice(kernels, np.array(ratios), sizes)


def _looked_at(kernel, rows, s):
    return _centred(gram(kernel, rows, engine=s.engine, memory=s.memory, validated=True), True)


def _ratio(form):
    return -np.inf if form.flat else form.power_ratio()


# ------------------------------------------------------------------------------------------------ null distributions
def _null(form, s) -> dict:
    """Fields of the record that depend on the null distribution."""
    fields = {"name": s.name, "level": s.level, "method": s.method, "estimator": "unbiased" if s.unbiased else "biased"}
    if form.flat:  # equal rows: no statistic but 0 can be, and no p-value but 1
        sample = None if s.method == "gamma" else np.zeros(s.count)
        return fields | _answer(0.0, 1.0, 0.0, 0.0, 0.0) | {"null_sample": sample}
    if not np.isfinite([form.value, form.variance]).all():
        raise NanError("the statistic over- or underflows on these rows; rescale the columns")
    return fields | _NULLS[s.method](form, s)


def _answer(value, p_value, threshold, mean, std):
    return {"statistic": value, "p_value": float(p_value), "threshold": float(threshold), "null_mean": float(mean),
            "null_std": float(std)}  # fmt: skip


def _by_permutation(form, s):
    columns = min(s.count, max(16, budget(s.memory) // (32 * len(form)))) if _lazy(form) else _COLUMNS
    return _of_sample(form, form.permuted(s.count, s.rng, columns), s)


def _lazy(form):
    """Whether each product computes the Gram again, so that it should be with many columns."""
    return isinstance(form, TwoSampleForm) and not hasattr(form.C.matrix, "K")


def _by_spectrum(form, s):
    return _of_sample(form, form.spectral(s.count, s.rng), s)


def _of_sample(form, null, s):
    """The p-value counts the statistic itself among the draws, and those that equal it but for rounding."""
    p_value = (1 + np.count_nonzero(null >= form.value - form.tie)) / (1 + s.count)
    place = int(s.level * (s.count + 1) * (1 + 1e-12)) - 1  # rejected are those above so many draws
    threshold = np.sort(null)[::-1][place]
    return _answer(form.value, p_value, threshold, form.mean, np.sqrt(form.variance)) | {"null_sample": null}


def _by_gamma(form, s):
    centre, variance = form.centre, form.variance
    if not variance > 0:
        return _answer(form.value, 1.0, form.value, form.mean, 0.0)
    null = stats.gamma(centre**2 / variance, loc=form.mean - centre, scale=variance / centre)
    p_value, threshold = null.sf(form.value), null.isf(s.level)
    return _answer(form.value, p_value, threshold, form.mean, np.sqrt(variance)) | {"null_distribution": null}


_NULLS: dict[str, Callable] = {"permutation": _by_permutation, "spectrum": _by_spectrum, "gamma": _by_gamma}


def _warn_of_few(arrangements, s):
    if arrangements < 1 / s.level:
        warnings.warn(f"these rows can be permuted in {arrangements} different ways only, so nothing can be rejected at "
                      f"level={s.level:g}; more rows help", NumericalWarning, stacklevel=3)  # fmt: skip


def _block_size(s, n):
    size = {"linear": 2, "block": isqrt(n)}[s.method] if s.block_size is None else int(s.block_size)
    size = max(size, 4) if s.name == "HSIC" else max(size, 2)
    if n // size < 2:
        raise ValueError(f'{n} rows make no two blocks of {size}; use a smaller block_size, or method="permutation"')
    if n // size < _FEW_BLOCKS:
        warnings.warn(f"p-values of {n // size} blocks are rough, because their mean is not normal; take smaller ones, or "
                      'method="permutation"', NumericalWarning, stacklevel=3)  # fmt: skip
    return size


def _of_blocks(found: BlockSums, s) -> dict:
    fields = {"name": s.name, "level": s.level, "method": s.method, "estimator": "unbiased", "n_blocks": found.count,
              "block_size": found.size}  # fmt: skip
    if not np.isfinite([found.value, found.deviation]).all():
        raise NanError("the statistic over- or underflows on these rows; rescale the columns")
    if not found.deviation > 0:  # equal rows
        return fields | _answer(0.0, 1.0, 0.0, 0.0, 0.0)
    null = stats.pearson3(
        found.skewness, 0.0, found.deviation
    )  # normal, but for the skewness, which more blocks take away
    p_value, threshold = null.sf(found.value), null.isf(s.level)
    return fields | _answer(found.value, p_value, threshold, 0.0, found.deviation) | {"null_distribution": null}
