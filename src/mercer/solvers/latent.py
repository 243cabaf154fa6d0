r"""Latent positions of rows: outputs that share a Gaussian process, some of their entries missing (M21).

Each column of Y is a Gaussian process of the rows' positions, with the same kernel. A column with missing entries knows of the
rows where it is there; columns with the same rows share a factor. Lawrence (2005).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mercer.gram import prepared_gram
from mercer.linalg.waiting import run_interruptibly, seconds_for_eigh
from mercer.solvers.gaussian import Posterior, posterior
from mercer.solvers.preimage import Targets, descend

__all__ = ["Functions", "Outputs", "Pattern", "Places", "completed", "condition", "functions_of", "nearest_rows", "patterns",
           "place", "principal_positions"]  # fmt: skip

_SWEEPS = 30  # of filling gaps by principal components, for a start
_LEAST = 1e-10  # of the largest eigenvalue: smaller ones are not told from rounding


class Pattern(NamedTuple):
    """Columns that are there in the same rows."""

    rows: np.ndarray
    columns: np.ndarray


def patterns(Y: np.ndarray) -> list[Pattern]:
    """The columns of Y (n, p) by where they hold numbers, in order of first appearance."""
    there = ~np.isnan(Y)
    groups: dict = {}
    for j, column in enumerate(there.T):
        groups.setdefault(column.tobytes(), []).append(j)
    return [Pattern(np.flatnonzero(there[:, columns[0]]), np.array(columns)) for columns in groups.values()]


@dataclass(frozen=True, eq=False)
class Outputs:
    """Columns Y (n, p) conditioned on: one posterior for each pattern. evidence: log density of all entries that are there."""

    shape: tuple[int, int]
    patterns: list[Pattern]
    posteriors: list[Posterior]
    evidence: float

    @property
    def jitter(self) -> float:
        """The largest number that was added to a diagonal."""
        return max(found.factor.jitter for found in self.posteriors)

    def slope(self, overwrite=False) -> np.ndarray:
        """Slope (n, n) of the evidence in the covariance of the rows. `overwrite` makes it in the place of factors."""
        n = self.shape[0]
        if len(self.patterns) == 1 and len(self.patterns[0].rows) == n:
            return self.posteriors[0].slope(overwrite=overwrite)
        W = np.zeros((n, n))
        for group, found in self._each():
            W[np.ix_(group.rows, group.rows)] += found.slope(overwrite=overwrite)
        return W

    def mean(self, K: np.ndarray) -> np.ndarray:
        """Posterior mean (m, p) at positions with kernel values K (m, n)."""
        out = np.empty((len(K), self.shape[1]))
        for group, found in self._each():
            out[:, group.columns] = K[:, group.rows] @ found.coefficients
        return out

    def variance(self, K: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Posterior variance (m, p), from kernel values K (m, n) and own (m,) = k(x, x)."""
        out = np.empty((len(K), self.shape[1]))
        for group, found in self._each():
            part = found.covariance(np.ascontiguousarray(K[:, group.rows]), own, np.zeros((len(K), 0)))
            out[:, group.columns] = part[:, None]
        return out

    def _each(self):
        return zip(self.patterns, self.posteriors, strict=True)


def condition(K: np.ndarray, noise: float, Y: np.ndarray, groups: list[Pattern], *, warn=True) -> Outputs:
    """Condition on the entries of Y (n, p) that are there: K (n, n), which may be overwritten, and the noise's variance."""
    whole = len(groups) == 1 and len(groups[0].rows) == len(Y)
    found = [
        posterior(
            K if whole else K[np.ix_(g.rows, g.rows)], noise, Y[np.ix_(*g)], np.zeros((len(g.rows), 0)), warn=warn
        )
        for g in groups
    ]
    return Outputs(Y.shape, groups, found, float(sum(f.evidence for f in found)))


# ------------------------------------------------------------------------------------------------ where to begin
def completed(Y: np.ndarray, k: int) -> np.ndarray:
    """Y (n, p) with numbers in its gaps: of means 0 first, then of its k principal components, again and again."""
    gaps = np.isnan(Y)
    filled = np.where(gaps, 0.0, Y)
    for _ in range(_SWEEPS if gaps.any() else 0):
        U, s, Vt = np.linalg.svd(filled, full_matrices=False)
        filled[gaps] = ((U[:, :k] * s[:k]) @ Vt[:k])[gaps]
    return filled


def principal_positions(Y: np.ndarray, k: int) -> np.ndarray:
    """Positions (n, k) by the principal components of Y, which has no gaps."""
    U, s, Vt = np.linalg.svd(Y - Y.mean(axis=0), full_matrices=False)
    largest = Vt[np.arange(len(s)), np.abs(Vt).argmax(axis=1)]
    X = np.zeros((len(Y), k))
    X[:, : len(s)] = (U * np.copysign(s, largest))[:, :k]  # signs as in scikit-learn's PCA
    return X


class Functions(NamedTuple):
    """Orthogonal functions of rows in the space of a kernel: values (n, r) = K A at the rows, coefficients A (n, r)."""

    values: np.ndarray
    coefficients: np.ndarray


def functions_of(K: np.ndarray) -> Functions:
    """All functions that a Gram matrix (n, n) has, up to rounding, each of norm 1 in the space of its kernel."""
    values, V = run_interruptibly(np.linalg.eigh, K, seconds_predicted=seconds_for_eigh(len(K)))
    kept = values > _LEAST * values[-1]
    root, V = np.sqrt(values[kept]), V[:, kept]
    return Functions(V * root, V / root)


# ------------------------------------------------------------------------------------------------ new rows
def nearest_rows(Y: np.ndarray, known: np.ndarray, k: int) -> np.ndarray:
    """Numbers (m, k) of the known rows nearest to each row of Y, in the mean square of the entries that both have."""
    a, b = np.nan_to_num(Y), np.nan_to_num(known)
    there, here = (~np.isnan(Y)).astype(float), (~np.isnan(known)).astype(float)
    squares = (a**2) @ here.T + there @ (b**2).T - 2.0 * a @ b.T
    far = np.where((shared := there @ here.T) > 0, squares / np.maximum(shared, 1.0), np.inf)
    return np.argsort(far, axis=1, kind="stable")[:, :k]


def place(K, outputs: Outputs, noise: float, Y: np.ndarray, starts: np.ndarray, *, tol=1e-7, max_iter=500):
    """The most probable positions (m, k) of rows Y (m, p), and whether they rest: best ends of descents from starts (m, s, k)."""
    m, s, k = starts.shape
    places = Places(K, outputs, noise, np.repeat(Y, s, axis=0))
    Z, value, _, rest = descend(places, starts.reshape(m * s, k), tol=tol, max_iter=max_iter)
    best = np.arange(m), value.reshape(m, s).argmin(axis=1)
    return Z.reshape(m, s, k)[best], rest.reshape(m, s)[best]


class Places(Targets):
    """Positions of new rows Y (m, p), NaN where missing: how improbable they are, given the outputs of known positions.

    The objective is -log p(y | x) + |x|^2 / 2, of all entries that are there.
    """

    def __init__(self, K, outputs: Outputs, noise: float, Y: np.ndarray):
        self.K, self.outputs, self.noise, self.Y = K, outputs, noise, Y

    def __len__(self):
        return len(self.Y)

    def objective(self, Z, index) -> np.ndarray:
        return self._at(Z, index)[0]

    def gradient(self, Z, index) -> np.ndarray:
        _, W, by_own = self._at(Z, index, slope=True)
        slope = prepared_gram(self.K, Z).pullback_inputs(W) + Z
        return slope if self.K.kernel.stationary else slope + by_own[:, None] * self._own_slope(Z)

    def _at(self, Z, index, slope=False):
        """Objectives (m,), and their slopes in the kernel's values with the known positions (m, n) and in k(x, x) (m,)."""
        K, own = prepared_gram(self.K, Z).dense(), self.lengths(Z)
        value, by_own = 0.5 * np.square(Z).sum(axis=1), np.zeros(len(Z))
        W = np.zeros(K.shape) if slope else None
        for group, found in self.outputs._each():
            T = self.Y[np.ix_(index, group.columns)]
            there, k = ~np.isnan(T), np.ascontiguousarray(K[:, group.rows])
            through = found.factor.solve(np.ascontiguousarray(k.T)).T
            variance = _positive(own - np.einsum("mn,mn->m", k, through) + self.noise, own)[:, None]
            residual = np.where(there, T - k @ found.coefficients, 0.0)
            value += 0.5 * (there * np.log(2 * np.pi * variance) + residual**2 / variance).sum(axis=1)
            if W is not None:
                by_variance = 0.5 * (there / variance - (residual / variance) ** 2).sum(axis=1)
                W[:, group.rows] -= (residual / variance) @ found.coefficients.T + 2.0 * by_variance[:, None] * through
                by_own += by_variance
        return value, W, by_own


def _positive(variance, own):
    """What rounding leaves of a variance that is 0 must not be divided by."""
    return np.maximum(variance, np.finfo(float).eps * np.maximum(own, np.finfo(float).tiny))
