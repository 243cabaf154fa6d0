"""The parameters of a kernel as one vector of an optimiser: logs of positive ones, others as they are, extra numbers, rows."""

import numpy as np
from scipy.optimize import minimize

from mercer.kernels import Constant, Scaled
from mercer.kernels.names import slots
from mercer.kernels.parameters import specs

__all__ = ["Chart", "by_column", "minimum", "remembered", "row_units", "tunable"]

_SPREAD = 1.5  # standard deviation, in logs, of where restarts begin
SPAN = float(np.log(1e4))  # positive parameters stay within this factor of where they started
_NO_STEP = 2  # status of a search whose last line search failed
_ROUNDING, _FLAT = 1e-9, 1e-3  # parts of the value: what rounding may cost a search, and a slope that it may hide
_PART = 0.4  # of a lengthscale: the unit of rows that move
_FEW, _MANY = 10, 40  # earlier steps that L-BFGS remembers, the second where rows move
_LONG = 50_000  # numbers of rows that are too many for that


class Chart:
    """Flat search vector z <-> parameters `names` of a kernel and `extra` positive numbers by name.

    Positive numbers are logs, a positive definite matrix is its Cholesky factor with logs on the diagonal. What is infinite (a
    lengthscale that switches its column off) or 0 (a scale without a log) stays as it is.
    limits: (low, high) by name, on the natural scale; other positive ones may move by the factor 1e4, others freely.
    rows: {name: (m, d)} of rows that move as well, last and freely, in units (d,).
    """

    def __init__(self, kernel, names, extra=None, limits=None, rows=None, units=1.0):
        self.kernel, self.extra, self.limits = kernel, dict(extra or {}), dict(limits or {})
        self.parts = {n: _coordinates(kernel, n) for n in names}
        self.rows = {n: _Rows(Z, units) for n, Z in (rows or {}).items()}
        logs = np.log([*self.extra.values()])
        parameters = [*(part.start for part in self.parts.values()), logs]
        self.n_parameters = sum(map(len, parameters))
        self.start = np.concatenate([*parameters, *(part.start for part in self.rows.values())])

    @property
    def names(self):
        return list(self.parts)

    def __len__(self):
        return len(self.start)

    def scattered(self, rng, start=None) -> np.ndarray:
        """Another place to start from, at random around the first (or another `start`); rows stay."""
        other = (self.start if start is None else start).copy()
        other[: self.n_parameters] += _SPREAD * rng.standard_normal(self.n_parameters)
        return other

    @property
    def owners(self):
        """The name that each entry of z belongs to, but for rows."""
        return [*(n for n, part in self.parts.items() for _ in part.start), *self.extra]

    def _split(self, z):
        sizes = [len(part.start) for part in self.parts.values()]
        return dict(zip(self.parts, np.split(z, np.cumsum(sizes)), strict=False))

    def bounds(self) -> list:
        """(low, high) of each entry of z; None where it is free."""
        out: list[tuple[float | None, float | None]] = []
        for name, z in zip(self.owners, self.start, strict=False):
            logs = name in self.extra or self.parts[name].logs
            if name in self.limits:
                low, high = (np.log(v) if logs else v for v in self.limits[name])
                out.append((float(low), float(high)))
            else:
                out.append((z - SPAN, z + SPAN) if logs else (None, None))
        return out + [(None, None)] * (len(self) - self.n_parameters)

    def ties(self) -> np.ndarray:
        """Matrix (len(z), parameters) that moves all entries of a parameter together, and no rows."""
        owners = self.owners + [None] * (len(self) - self.n_parameters)
        return (np.array(owners)[:, None] == np.array(list(dict.fromkeys(self.owners)))).astype(float)

    def several(self) -> bool:
        """Whether some parameter has more than one number."""
        return any(part.logs and len(part.start) > 1 for part in self.parts.values())

    def at_bounds(self, z) -> list[str]:
        """Names of parameters that lie at an end of their range."""
        found = [
            name
            for name, v, (low, high) in zip(self.owners, z, self.bounds(), strict=False)
            if low is not None and high is not None and high > low and min(v - low, high - v) <= 1e-6 * (high - low)
        ]
        return list(dict.fromkeys(found))

    def kernel_at(self, z):
        changes = {n: self.parts[n].value(part) for n, part in self._split(z).items()}
        return self.kernel.replace(**changes) if changes else self.kernel

    def extra_at(self, z) -> dict:
        """Extra numbers, and rows, by name."""
        numbers = dict(zip(self.extra, np.exp(self._logs(z)).tolist(), strict=True))
        return {**numbers, **{n: part.value(self._places(z)[n]) for n, part in self.rows.items()}}

    def gradient(self, z, by_name, by_extra) -> np.ndarray:
        """Slopes in z from those in the parameters, and in the extra numbers and rows, by name."""
        parts = [self.parts[n].slope(part, np.asarray(by_name[n], np.float64)) for n, part in self._split(z).items()]
        numbers = np.array([by_extra[n] for n in self.extra], np.float64) * np.exp(self._logs(z))
        return np.concatenate([*parts, numbers, *(part.slope(by_extra[n]) for n, part in self.rows.items())])

    def _logs(self, z):
        return z[self.n_parameters - len(self.extra) : self.n_parameters]

    def _places(self, z):
        ends = np.cumsum([len(part.start) for part in self.rows.values()])
        return dict(zip(self.rows, np.split(z[self.n_parameters :], ends), strict=False))


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


class _Rows:
    """Rows of numbers."""

    def __init__(self, Z, units):
        self.shape, self.units = Z.shape, units
        self.start = (Z / units).ravel()

    def value(self, z):
        return z.reshape(self.shape) * self.units

    def slope(self, slopes):
        return (slopes * self.units).ravel()


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


def row_units(kernel, Z) -> np.ndarray:
    """Steps (d,) in which a kernel changes about as much in each column: parts of its lengthscales, or of the columns' spread."""
    spread = Z.std(axis=0)
    known = [v for n, v in kernel.get_params().items() if n.split("__")[-1] == "lengthscale"]
    lengths = [np.broadcast_to(v, spread.shape) for v in known if np.shape(v) in ((), spread.shape)]
    found = np.exp(np.mean(np.log(lengths), axis=0)) if lengths else spread
    return _PART * np.where(np.isfinite(found) & (found > 0), found, 1.0)


def minimum(objective, chart: Chart, start=None, max_iter=100, tie_first=True, tol=2e-9):
    """L-BFGS in the entries of a chart: all entries of a parameter together first, for one by one there are poor minima."""
    start, bounds = chart.start if start is None else start, chart.bounds()
    start = np.clip(start, *_ends(bounds))
    if tie_first and chart.several():
        start = _tied(objective, chart.ties(), start, bounds, max_iter, tol)
    return _lbfgs(objective, start, bounds, max_iter, tol, remembered(len(start)) if chart.rows else _FEW)


def remembered(size) -> int:
    """Earlier steps, of two vectors each, that a search of rows remembers."""
    return _MANY if size < _LONG else _FEW


def _lbfgs(objective, start, bounds, max_iter, tol=2e-9, memory=_FEW):
    options = {"maxiter": int(max_iter), "maxcor": memory, "ftol": tol}

    def search(x):
        return minimize(objective, x, jac=True, method="L-BFGS-B", bounds=bounds, options=options)

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


def _tied(objective, ties, start, bounds, max_iter, tol):
    def tied(t):
        value, gradient = objective(start + ties @ t)
        return value, ties.T @ gradient

    low, high = _ends(bounds) - start
    free = [(low[own > 0].max(), high[own > 0].min()) for own in ties.T]
    limits = [(a if np.isfinite(a) else None, b if np.isfinite(b) else None) for a, b in free]
    return start + ties @ _lbfgs(tied, np.zeros(ties.shape[1]), limits, max_iter, tol).x
