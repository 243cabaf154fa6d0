"""The parameters of a kernel as one vector of an optimiser: logs of positive ones, others as they are, extra numbers last."""

import numpy as np
from scipy.optimize import minimize

from mercer.kernels import Constant, Scaled
from mercer.kernels.names import slots
from mercer.kernels.parameters import specs

__all__ = ["Chart", "by_column", "minimum", "tunable"]

_SPREAD = 1.5  # standard deviation, in logs, of where restarts begin
SPAN = float(np.log(1e4))  # positive parameters stay within this factor of where they started
_NO_STEP = 2  # status of a search whose last line search failed
_ROUNDING, _FLAT = (
    1e-9,
    1e-3,
)  # parts of the value: what a search may miss by rounding, and a slope that rounding may hide


class Chart:
    """Flat search vector z <-> parameters `names` of a kernel and `extra` positive numbers by name.

    Positive numbers are logs, a positive definite matrix is its Cholesky factor with logs on the diagonal. What is infinite (a
    lengthscale that switches its column off) or 0 (a scale without a log) stays as it is.
    limits: (low, high) by name, on the natural scale; other positive ones may move by the factor 1e4, others freely.
    """

    def __init__(self, kernel, names, extra=None, limits=None):
        self.kernel, self.extra, self.limits = kernel, dict(extra or {}), dict(limits or {})
        self.parts = {n: _coordinates(kernel, n) for n in names}
        logs = np.log([*self.extra.values()])
        self.start = np.concatenate([*(part.start for part in self.parts.values()), logs])

    @property
    def names(self):
        return list(self.parts)

    def __len__(self):
        return len(self.start)

    def scattered(self, rng) -> np.ndarray:
        """Another place to start from, at random around the first."""
        return self.start + _SPREAD * rng.standard_normal(len(self))

    @property
    def owners(self):
        """The name that each entry of z belongs to."""
        return [*(n for n, part in self.parts.items() for _ in part.start), *self.extra]

    def _split(self, z):
        sizes = [len(part.start) for part in self.parts.values()]
        return dict(zip(self.parts, np.split(z, np.cumsum(sizes)), strict=False))

    def bounds(self) -> list:
        """(low, high) of each entry of z; None where it is free."""
        out: list[tuple[float | None, float | None]] = []
        for name, z in zip(self.owners, self.start, strict=True):
            logs = name in self.extra or self.parts[name].logs
            if name in self.limits:
                low, high = (np.log(v) if logs else v for v in self.limits[name])
                out.append((float(low), float(high)))
            else:
                out.append((z - SPAN, z + SPAN) if logs else (None, None))
        return out

    def ties(self) -> np.ndarray:
        """Matrix (len(z), parameters) that moves all entries of a parameter together."""
        owners = self.owners
        return (np.array(owners)[:, None] == np.array(list(dict.fromkeys(owners)))).astype(float)

    def several(self) -> bool:
        """Whether some parameter has more than one number."""
        return any(part.logs and len(part.start) > 1 for part in self.parts.values())

    def at_bounds(self, z) -> list[str]:
        """Names of parameters that lie at an end of their range."""
        found = [
            name
            for name, v, (low, high) in zip(self.owners, z, self.bounds(), strict=True)
            if low is not None and high is not None and high > low and min(v - low, high - v) <= 1e-6 * (high - low)
        ]
        return list(dict.fromkeys(found))

    def kernel_at(self, z):
        changes = {n: self.parts[n].value(part) for n, part in self._split(z).items()}
        return self.kernel.replace(**changes) if changes else self.kernel

    def extra_at(self, z) -> dict[str, float]:
        return dict(zip(self.extra, np.exp(z[len(z) - len(self.extra) :]).tolist(), strict=True))

    def gradient(self, z, by_name, by_extra=()) -> np.ndarray:
        """Slopes in z from those in the parameters, by name, and those in the extra numbers, in their order."""
        parts = [self.parts[n].slope(part, np.asarray(by_name[n], np.float64)) for n, part in self._split(z).items()]
        return np.concatenate([*parts, np.asarray(by_extra, np.float64) * np.exp(z[len(z) - len(self.extra) :])])


class _Numbers:
    """A number or one for each column; `logs` where they are positive."""

    def __init__(self, values, logs):
        self.values, self.logs = values, logs
        self.free = np.isfinite(values) & ((values > 0) | (not logs))
        self.start = np.log(values[self.free]) if logs else values[self.free]

    def value(self, z):
        out = self.values.copy()
        out[self.free] = np.exp(z) if self.logs else z
        return float(out) if out.ndim == 0 else out

    def slope(self, z, slopes):
        return slopes[self.free] * np.exp(z) if self.logs else slopes[self.free]


class _Square:
    """A positive definite matrix."""

    logs = False

    def __init__(self, S):
        self.places = np.tril_indices(len(S))
        self.shape = S.shape
        L = np.linalg.cholesky(S)
        L[np.diag_indices(len(S))] = np.log(L.diagonal())
        self.start = L[self.places]

    def _factor(self, z):
        L = np.zeros(self.shape)
        L[self.places] = z
        L[np.diag_indices(len(L))] = np.exp(L.diagonal())
        return L

    def value(self, z):
        L = self._factor(z)
        return L @ L.T

    def slope(self, z, slopes):
        L = self._factor(z)
        D = (slopes + slopes.T) @ L
        D[np.diag_indices(len(L))] *= L.diagonal()
        return D[self.places]


def _coordinates(kernel, name):
    slot = slots(kernel)[name]
    node = kernel._at(slot.path)
    spec = specs(type(node))[slot.field]
    values = np.asarray(kernel.get_params()[name], np.float64)
    if spec.matrix:
        return _Square(values)
    factor = isinstance(node, (Scaled, Constant))  # may be negative, but a kernel that was one must stay one
    return _Numbers(values, bool((spec.low >= 0 or factor) and np.all(values >= 0)))


def tunable(kernel, names, argument) -> list[str]:
    """The differentiable parameters meant by `names` (None: all of them); others are refused in the name of the argument."""
    known = kernel.differentiable
    names = list(known) if names is None else list(names)
    unknown = [n for n in names if n not in known]
    if unknown:
        raise ValueError(f"{argument} names {unknown[0]!r}, but the differentiable parameters of {kernel!r} are "
                         f"{', '.join(known) or 'none'}")  # fmt: skip
    return names


def by_column(kernel, rows, argument):
    """The kernel with one lengthscale for each column where it has one for all."""
    names = [n for n in kernel.differentiable if n.split("__")[-1] == "lengthscale"]
    scalars = {n: v for n in names if np.ndim(v := kernel.get_params()[n]) == 0}
    if getattr(rows, "ndim", 1) != 2 or kernel.columns or not names:
        raise ValueError(
            f"{argument} needs rows of numbers and a kernel with a lengthscale for all of them, got {kernel!r}"
        )
    return kernel.replace(**{n: np.full(rows.shape[1], float(v)) for n, v in scalars.items()})


def minimum(objective, chart: Chart, start=None, max_iter=100, tie_first=True):
    """L-BFGS in the entries of a chart: all entries of a parameter together first, for one by one there are poor minima."""
    start, bounds = chart.start if start is None else start, chart.bounds()
    start = np.clip(start, *_ends(bounds))
    if tie_first and chart.several():
        start = _tied(objective, chart.ties(), start, bounds, max_iter)
    return _lbfgs(objective, start, bounds, max_iter)


def _lbfgs(objective, start, bounds, max_iter):
    def search(x):
        return minimize(objective, x, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": int(max_iter)})

    found = search(start)
    if found.status != _NO_STEP:
        return found
    again = search(found.x)  # without memory of the steps before
    size = max(1.0, abs(found.fun))
    if found.fun - again.fun <= _ROUNDING * size and _slope_within(again, bounds) <= _FLAT * size:
        again.success, again.message = True, "no step gains more than rounding"
    return again


def _slope_within(found, bounds):
    """Largest entry of the slope, where a bound does not hold the point."""
    return np.abs(np.clip(found.x - found.jac, *_ends(bounds)) - found.x).max(initial=0.0)


def _ends(bounds):
    """Lower and upper ends as arrays, infinite where there is none."""
    return np.array([(-np.inf if a is None else a, np.inf if b is None else b) for a, b in bounds]).T


def _tied(objective, ties, start, bounds, max_iter):
    def tied(t):
        value, gradient = objective(start + ties @ t)
        return value, ties.T @ gradient

    low, high = _ends(bounds) - start
    free = [(low[own > 0].max(), high[own > 0].min()) for own in ties.T]
    limits = [(a if np.isfinite(a) else None, b if np.isfinite(b) else None) for a, b in free]
    return start + ties @ _lbfgs(tied, np.zeros(ties.shape[1]), limits, max_iter).x
