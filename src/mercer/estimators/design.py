"""Values of a kernel at centres, in groups of rows, and what is solved on them; see `mercer.estimators.kernel_machine`."""

import numpy as np
import scipy.sparse as sp

from mercer import validate
from mercer.approx.sweeps import group_sums
from mercer.gram import GivenGram
from mercer.gram.plan import budget, require
from mercer.solvers.centers import independent_columns, solve_least_squares, triangle_of
from mercer.solvers.logistic import curvature, slopes
from mercer.solvers.neighbors import search_of
from mercer.threads import map_tiles

__all__ = ["GROUP", "Columns", "Design", "DesignSweeps", "Shared", "Tail", "Targets"]

GROUP = 2048  # rows whose basis functions are held at a time by a thread


class Design:
    """Values (n, K) of the basis functions at rows, in float64; `shared` divides them by their sum."""

    def __init__(self, K, shared=None):
        self.K, self.shared = K, shared

    @property
    def shape(self):
        return self.K.shape

    def __getitem__(self, some) -> "Design":
        return Design(self.K[some], self.shared)

    def dense(self) -> np.ndarray:
        values = np.asarray(self.K.dense(), np.float64)
        return values if self.shared is None else self.shared(values, self.K)

    def __matmul__(self, B):
        if self.shared is None:
            return np.asarray(self.K @ B, np.float64)
        n = len(self.K)
        parts = map_tiles(lambda i: self[i * GROUP : (i + 1) * GROUP].dense() @ B, -(-n // GROUP))
        return np.vstack(parts)

    def held(self, room) -> "Design":
        """With its values in memory, if they fit."""
        n, k = self.shape
        if 8 * n * k > room:
            return self
        out = np.empty((n, k))

        def job(i):
            some = slice(i * GROUP, (i + 1) * GROUP)
            out[some] = self[some].dense()

        map_tiles(job, -(-n // GROUP))
        return Design(GivenGram(out))


class Shared:
    """Basis functions divided by their sum. Where all of them are 0, the nearest centre has all: so it is in the limit."""

    def __init__(self, kernel, centres, engine):
        self.kernel, self.centres, self.engine = kernel, centres, engine

    def __call__(self, values, K):
        peak = np.abs(values).max(axis=1, initial=0.0)
        if (values.min(axis=1, initial=0.0) < -1e-12 * peak).any():
            raise ValueError(f"normalised=True shares out 1 among the basis functions, but the kernel {self.kernel!r} has "
                             f"negative values, {values.min():.3g} here; use normalised=False")  # fmt: skip
        values = np.maximum(values, 0.0)
        empty = np.flatnonzero(peak == 0.0)
        if len(empty):
            values[empty], peak[empty] = self._limit(K[empty]), 1.0
        values /= peak[:, None]
        return values / values.sum(axis=1, keepdims=True)

    def _limit(self, K):
        if isinstance(self.kernel, str):  # nothing is known but that all values are 0
            return np.ones(K.shape)
        search = search_of(self.kernel, self.centres, engine=self.engine)
        nearest = search.nearest(search.queries(K.x.rows), 1).columns
        out = np.zeros(K.shape)
        out[np.arange(len(out)), nearest] = 1.0
        return out


class Tail:
    """Functions beside those of the centres that are not penalised: none, a constant, or a polynomial of degree 1.

    means (d,): the constant is the value there. Columns that the rows do not tell apart are left out.
    """

    def __init__(self, kind, rows, w, memory=None):
        self.kind, self.memory, self.means = kind, memory, None
        if kind == "linear":
            X = self._numbers(rows)
            self.means = np.average(X, axis=0, weights=w)
            spread = np.abs(X - self.means).max(axis=0, initial=0.0)
            self.units = np.where(spread > 0, spread, 1.0)
            root = np.sqrt(w)
            R = triangle_of(len(w), X.shape[1] + 1, lambda some: root[some, None] * self._monomials(X[some]))
            self.basis = independent_columns(R)

    def _numbers(self, rows):
        if sp.issparse(rows):
            require(8 * rows.shape[0] * rows.shape[1], budget(self.memory), 'dense rows for tail="linear"',
                    ['tail="constant"', "fewer columns"])  # fmt: skip
            return rows.toarray()
        if isinstance(rows, validate.Table) or getattr(rows, "ndim", 1) == 2:
            return np.asarray(validate.numeric(rows), np.float64)
        raise ValueError('tail="linear" is a polynomial of rows of numbers, and these are objects; use tail="constant"')

    def _monomials(self, X):
        return np.column_stack([np.ones(len(X)), (X - self.means) / self.units])

    def columns(self, rows) -> np.ndarray:
        """Values (n, q) of the functions."""
        if self.kind != "linear":
            return np.ones((validate.n_rows(rows), int(self.kind == "constant")))
        return self._monomials(self._numbers(rows)) @ self.basis

    def parts(self, c, scale):
        """Constant (t,) and slopes (d, t) or None, from coefficients (q, t)."""
        if self.kind != "linear":
            return scale * (c[0] if len(c) else np.zeros(c.shape[1])), None
        c = self.basis @ c
        return scale * c[0], scale * c[1:] / self.units[:, None]

    def side_conditions(self, rows, k):
        """N (K, K - q) of orthonormal columns, for w = N v, with F(centres)^T w = 0; None without a tail."""
        if self.kind is None:
            return None
        U, values, _ = np.linalg.svd(self.columns(rows) if self.kind == "linear" else np.ones((k, 1)))
        return U[:, int((values > 1e-10 * values.max(initial=0.0)).sum()) :]


class Columns:
    """Weighted columns [F, Phi N, T] in groups of rows."""

    def __init__(self, design, N, F, T, root):
        self.design, self.N, self.F, self.T, self.root = design, N, F, T, root
        self.q, self.k = F.shape[1], design.shape[1] if N is None else N.shape[1]

    def _values(self, some):
        values = self.design[some].dense()
        return values if self.N is None else values @ self.N

    def _some(self, some):
        return self.root[some, None] * np.hstack([self.F[some], self._values(some), self.T[some]])

    def solve(self, alpha):
        """Coefficients, and the gradient there, computed from scratch, in parts of the size of its terms."""
        R = triangle_of(len(self.root), self.q + self.k + self.T.shape[1], self._some)
        found = solve_least_squares(R, self.q, self.k, alpha)
        unit, size = _length(R[:, self.q : self.q + self.k]), _length(R[:, self.q + self.k :])
        gradient = group_sums(len(self.root), lambda some: self._slopes(some, found)) + alpha * found.coefficients
        return found, _length(gradient) / unit / size if unit > 0 and size > 0 else 0.0

    def _slopes(self, some, found):
        Phi = self._values(some)
        error = Phi @ found.coefficients + self.F[some] @ found.free - self.T[some]
        return (self.root[some, None] * Phi).T @ (self.root[some, None] * error)

    def farthest(self, found):
        """Largest distance of predictions from the targets, in parts of the largest target."""

        def job(i):
            some = slice(i * GROUP, (i + 1) * GROUP)
            error = self._values(some) @ found.coefficients + self.F[some] @ found.free - self.T[some]
            return np.abs(error).max(initial=0.0)

        worst = max(map_tiles(job, -(-len(self.root) // GROUP)))
        return float(worst / max(np.abs(self.T).max(initial=0.0), np.finfo(float).tiny))


class DesignSweeps:
    """Passes of Newton's method over the rows of a design. B and V (K + 1, p): coefficients and, in the last row, intercepts."""

    def __init__(self, design, codes, w):
        self.design, self.codes, self.w = design, codes, w

    def gradient(self, B):
        sums = group_sums(len(self.w), lambda some: self._slopes(some, B))
        return float(sums[-1, 0]), sums[:-1]

    def _slopes(self, some, B):
        Phi = self.design[some].dense()
        loss, R = slopes(Phi @ B[:-1] + B[-1], self.codes[some], self.w[some])
        return np.vstack([Phi.T @ R, R.sum(axis=0), np.full((1, B.shape[1]), loss)])

    def hessian(self, B, V):
        return group_sums(len(self.w), lambda some: self._bends(some, B, V))

    def _bends(self, some, B, V):
        Phi = self.design[some].dense()
        R = curvature(Phi @ B[:-1] + B[-1], Phi @ V[:-1] + V[-1], self.w[some])
        return np.vstack([Phi.T @ R, R.sum(axis=0)])


def _length(A):
    """Frobenius norm, also where squares overflow."""
    peak = float(np.abs(A).max(initial=0.0))
    return peak * float(np.linalg.norm(A / peak)) if peak > 0 else 0.0


class Targets:
    """Targets as columns of magnitude one; remembers the power of two that was taken out, and the shape they had."""

    def __call__(self, y):
        Y = np.asarray(y, np.float64)
        peak = float(np.abs(Y).max())
        if not peak <= 1e150:
            raise ValueError(f"y has entries up to {peak:.3g}, too large for sums of squares; rescale y")
        self.scale, self.shape = float(np.ldexp(1.0, int(np.frexp(peak)[1]))), Y.shape
        return (Y / self.scale).reshape(len(Y), -1)
