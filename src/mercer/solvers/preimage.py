r"""Pre-images: rows whose features come near a given point of feature space (M12).

The point is an expansion :math:`\Psi = \sum_i \gamma_i \varphi(x_i)`, and a row z is as good as

.. math:: \lVert \varphi(z) - \Psi \rVert^2 = k(z, z) - 2 \sum_i \gamma_i k(z, x_i) + \lVert \Psi \rVert^2

is small. All searches begin at rows that are known, keep the best row they have seen, and stop where nothing moves; so no row
is lost to a fixed point at infinity or to the mean of all data. Mika et al. (1999); Kwok & Tsang (2004).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.gram import gram, prepared_gram
from mercer.gram.radial import radial
from mercer.threads import map_tiles

__all__ = ["Preimages", "Targets", "best_candidates", "by_distances", "by_fixed_point", "by_gradient", "descend"]

_ROWS = 64  # targets that one thread takes at a time
_TARGETS = 1024  # whose products with all rows are held at a time
_SHORTEST = 2.0**-10  # part of a step that is still tried


@dataclass(frozen=True, eq=False)
class Preimages:
    """Rows and how well they hit their targets.

    residual (m,): squared distance in feature space; score (m,): cosine of the angle between phi(z) and the target, 1 where it
    is hit; iterations; converged (m,): whether the search came to rest.
    """

    rows: Any
    residual: np.ndarray
    score: np.ndarray
    iterations: int
    converged: np.ndarray


class Targets:
    """Points of feature space: coefficients (m, n) on the rows of a symmetric Gram; norms (m,): their squared lengths."""

    def __init__(self, K, coefficients, norms=None):
        self.K, self.coefficients = K, np.ascontiguousarray(coefficients, K.dtype)
        self.norms = self._norms() if norms is None else np.asarray(norms, np.float64)

    def __len__(self):
        return len(self.coefficients)

    def _norms(self):
        images = self.K @ self.coefficients.T
        return np.einsum("ij,ji->i", self.coefficients, images, dtype=np.float64)

    def objective(self, Z, index) -> np.ndarray:
        """k(z, z) - 2 <phi(z), Psi> of one row for each of the targets `index`: the squared distance but for a constant."""
        K = prepared_gram(self.K, Z)
        inner = _by_rows(len(index), lambda i: _dots(K[i].dense(), self.coefficients[index[i]]))
        return self.lengths(Z) - 2.0 * inner

    def gradient(self, Z, index) -> np.ndarray:
        """Slope of the objective in each row."""
        slope = -2.0 * prepared_gram(self.K, Z).pullback_inputs(self.coefficients[index])
        return slope if self.K.kernel.stationary else slope + self._own_slope(Z)

    def _own_slope(self, Z):
        """Gradient of k(z, z)."""
        parts = [Z[i : i + _ROWS] for i in range(0, len(Z), _ROWS)]
        return np.concatenate([gram(self.K.kernel, P, validated=True).pullback_inputs(np.eye(len(P))) for P in parts])

    def lengths(self, Z) -> np.ndarray:
        """k(z, z)."""
        return gram(self.K.kernel, Z, validated=True).diag().astype(np.float64)

    def finished(self, Z, iterations=0, converged=True) -> Preimages:
        """The record of a row for each target."""
        length = self.lengths(Z)
        inner = (length - self.objective(Z, np.arange(len(self)))) / 2
        size = np.sqrt(np.maximum(length, 0) * np.maximum(self.norms, 0))
        score = np.divide(inner, size, out=np.zeros(len(self)), where=size > 0)
        residual = np.maximum(length - 2.0 * inner + self.norms, 0)
        return Preimages(Z, residual, np.clip(score, -1, 1), iterations, np.broadcast_to(converged, len(self)))


def _by_rows(n, job):
    """job(slice) of some rows at a time, by the threads, joined."""
    parts = map_tiles(lambda i: job(slice(i * _ROWS, min((i + 1) * _ROWS, n))), -(-n // _ROWS))
    return np.concatenate(parts) if parts else np.empty(0)


def _dots(A, B):
    return np.einsum("ij,ij->i", A, B, dtype=np.float64)


# ------------------------------------------------------------------------------------------------ from known rows
def best_candidates(targets: Targets, rows=None) -> np.ndarray:
    """For each target the number of the row whose features come nearest, among some rows or the centres themselves."""
    K = targets.K if rows is None else prepared_gram(targets.K, rows)
    lengths = targets.lengths(targets.K.y.rows if rows is None else rows)
    best = np.empty(len(targets), np.intp)
    for some in _pieces(len(targets)):
        best[some] = (lengths[:, None] - 2.0 * (K @ targets.coefficients[some].T)).argmin(axis=0)
    return best


def _pieces(m):
    return [slice(i, min(i + _TARGETS, m)) for i in range(0, m, _TARGETS)]


def by_distances(targets: Targets, n_neighbors: int = 10) -> np.ndarray:
    """Rows at the right distances from the nearest centres. Kwok & Tsang (2004).

    The target fixes the value of the kernel with each of its nearest centres, the value fixes a distance, and the distances fix
    a row in the plane of these centres, by least squares.
    """
    f, K = _needed(targets), targets.K
    q = min(n_neighbors, K.shape[0])
    out = np.empty((len(targets), K.y.width), K.dtype)
    top = float(f.value(np.zeros(())))
    for some in _pieces(len(targets)):
        inner = (K @ targets.coefficients[some].T).T
        near = np.argsort(-inner, axis=1, kind="stable")[:, :q]
        size = np.sqrt(np.maximum(targets.norms[some], np.finfo(np.float64).tiny) / top)
        values = np.take_along_axis(inner, near, 1) / size[:, None]  # of the row in the direction of the target
        out[some] = _placed(K, near, f.inverse(np.clip(values, 1e-12 * top, top)), f.view)
    return out


def _placed(K, near, s, view):
    """Rows at squared distances s (m, q) from the centres near (m, q), as weighted means of these."""
    P = np.asarray(_dense(K.y.centred[view]), np.float64)[near]
    P = P - P.mean(axis=1, keepdims=True)
    own = np.einsum("mqd,mqd->mq", P, P)
    right = (own - own.mean(axis=1, keepdims=True) - s + s.mean(axis=1, keepdims=True)) / 2
    inverse = np.linalg.pinv(P @ P.transpose(0, 2, 1), rcond=1e-6, hermitian=True)
    c = np.einsum("mqr,mr->mq", inverse, right)
    weights = 1.0 / near.shape[1] + c - c.mean(axis=1, keepdims=True)
    return np.einsum("mq,mqd->md", weights, np.asarray(_dense(K.y.rows), np.float64)[near])


def _dense(rows):
    return rows.toarray() if sp.issparse(rows) else rows


def _needed(targets):
    f = radial(targets.K)
    if f is None:
        raise ValueError(
            f"{targets.K.kernel!r} is not a function of one distance between rows, which this pre-image method needs; "
            'method="gradient" takes any kernel with a gradient'
        )
    return f


# ------------------------------------------------------------------------------------------------ searches
def by_fixed_point(targets: Targets, start, *, tol: float = 1e-5, max_iter: int = 100) -> Preimages:
    r"""Where a kernel is f(s) of a squared distance, the best row is a weighted mean of the centres:

    .. math:: z = \sum_i v_i x_i / \sum_i v_i, \qquad v_i = \gamma_i f'(\lVert z - x_i \rVert^2)

    Mika et al. (1999).
    """
    f, rows = _needed(targets), targets.K.y.rows

    def propose(Z, index):
        K = prepared_gram(targets.K, Z)

        def means(some):
            V = f.slopes(K[some]) * targets.coefficients[index[some]]
            with np.errstate(all="ignore"):  # far from all centres the weights are 0; such a row stays where it is
                return _dense(V @ rows) / V.sum(axis=1, keepdims=True)

        return _by_rows(len(index), means)

    Z, _, iterations, rest = _descend(targets, start, propose, tol, max_iter)
    return targets.finished(Z, iterations, rest)


def by_gradient(targets: Targets, start, *, tol: float = 1e-5, max_iter: int = 200) -> Preimages:
    """Steepest descent of the squared distance from the start."""
    Z, _, iterations, rest = descend(targets, start, tol=tol, max_iter=max_iter)
    return targets.finished(Z, iterations, rest)


def descend(targets: Targets, start, *, tol: float, max_iter: int):
    """Steepest descent of each target's objective, its steps by Barzilai & Borwein (1988).

    Gives rows (m, d), their values, the iterations, and whether each row came to rest.
    """
    shape, spread = (len(targets), targets.K.y.width), _spread(targets.K.y.rows)
    rows, slopes, seen = np.zeros(shape), np.zeros(shape), np.zeros(len(targets), bool)

    def propose(Z, index):
        G = targets.gradient(Z, index)
        dz, dg = Z - rows[index], G - slopes[index]
        size, bend = np.linalg.norm(G, axis=1), _dots(dz, dg)
        step = np.divide(0.1 * spread, size, out=np.zeros(len(G)), where=size > 0)
        known = seen[index] & (bend > 0)
        step[known] = _dots(dz, dz)[known] / bend[known]
        rows[index], slopes[index], seen[index] = Z, G, True
        return Z - step[:, None] * G

    return _descend(targets, start, propose, tol, max_iter)


def _descend(targets, start, propose, tol, max_iter):
    """Rows that go towards what is proposed, by as much as it helps, until they rest."""
    Z = np.array(_dense(start), targets.K.dtype)
    value, active = targets.objective(Z, np.arange(len(Z))), np.arange(len(Z))
    rest, spread, iterations = np.zeros(len(Z), bool), _spread(targets.K.y.rows), 0
    while len(active) and iterations < max_iter:
        there = propose(Z[active], active).astype(Z.dtype)
        found, value[active], moved = _better(targets, Z[active], there, value[active], active)
        rest[active] = moved <= tol * spread
        Z[active], active, iterations = found, active[~rest[active]], iterations + 1
    return Z, value, iterations, rest


def _better(targets, Z, there, value, index):
    """Rows on the way from Z to `there` that are better than Z, their values, and how far they are from Z."""
    out, new, share = Z.copy(), value.copy(), 1.0
    open_ = np.flatnonzero(np.isfinite(there).all(axis=1))
    while len(open_) and share >= _SHORTEST:
        tried = Z[open_] + share * (there[open_] - Z[open_])
        got = targets.objective(tried, index[open_])
        good = got < value[open_]
        out[open_[good]], new[open_[good]] = tried[good], got[good]
        open_, share = open_[~good], share / 2
    return out, new, np.linalg.norm(out - Z, axis=1)


def _spread(rows):
    """Root of the mean squared distance of the rows from their mean."""
    if sp.issparse(rows):
        square, mean = rows.multiply(rows).sum() / rows.shape[0], np.asarray(rows.mean(axis=0)).ravel()
        return float(np.sqrt(max(square - mean @ mean, 0.0)))
    return float(np.sqrt(np.square(rows - rows.mean(axis=0)).sum(dtype=np.float64) / len(rows)))
