r"""Window sums on a regular grid by the fast Fourier transform (M14), in one or two dimensions.

Each point is dealt to the four nodes around it (4 x 4 in the plane) with the weights of cubic interpolation, the sums at the
nodes are a convolution, and between nodes the cubic is used again. Both steps err by at most :math:`\frac{3}{128} \delta^4 f`,
where :math:`\delta^4 f` is the fourth difference of the window, here summed over the points: the steps are chosen so that this
stays below a part of the largest density. Dealing to two nodes by linear interpolation, Silverman (1982), would ask for far
finer grids. Windows whose slope jumps (boxcar, triangular, Epanechnikov, cosine, exponential) would too, and are refused.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import fft

from mercer.threads import map_tiles, thread_count

__all__ = ["SMOOTH", "Binned", "bin_windows", "why_not"]

#: Windows that have a continuous slope.
SMOOTH = ("gaussian", "biweight", "tricube")

#: Error allowed, as a part of the largest density.
ACCURACY = {1: 1e-6, 2: 1e-4}
_STEPS = {"gaussian": (0.04, 0.11), "biweight": (0.008, 0.05), "tricube": (0.012, 0.06)}  # that will mostly do
_MOST = 2**23  # nodes

#: Coefficients of 1, t, t^2, t^3 in the weights of the nodes -1, 0, 1, 2 of cubic interpolation at t.
_CUBIC = np.array([[0, 6, 0, 0], [-2, -3, 6, -1], [3, -6, 3, 0], [-1, 3, -3, 1]]) / 6.0
_PARTS = (
    8  # of the points at most, each with a grid of its own: not one a thread, for sums may not depend on their number
)
_REACH = 8.5  # of a Gaussian, in bandwidths
_SAFETY = 2.0  # the differences are taken at the nodes, the errors between them


def why_not(shape, d, factors) -> str:
    """Why sums cannot be taken on a grid; empty where they can."""
    if d > 2:
        return f"a grid has at most 2 columns, not {d}"
    if factors is not None:
        return "on a grid all points have the same bandwidth"
    if shape.name not in SMOOTH:
        return f"the {shape.name} window is not smooth enough for a grid (those that are: {', '.join(SMOOTH)})"
    return ""


@dataclass(frozen=True, eq=False)
class Binned:
    """values (N,) or (N, M) are the density at low + step * (i, j), `error` bounds its error there and between nodes."""

    values: np.ndarray
    low: np.ndarray
    step: float
    error: float

    def density(self, Q) -> np.ndarray:
        """At the rows of Q (m, d), never negative; 0 outside the grid, where no window reaches."""
        from mercer.solvers import _compiled_parzen as loops

        out = np.empty(len(Q))
        table = self.values.reshape(len(self.values), -1)
        loops.look_up(table, np.ascontiguousarray(Q, np.float64), self.low, 1.0 / self.step, out)
        return out

    def grid(self, num):
        """(points, density): `num` equidistant places an axis, from where the first window begins to where the last ends."""
        span = self.step * (np.array(self.values.shape) - 5)
        axes = [np.linspace(a + 2 * self.step, a + 2 * self.step + s, num) for a, s in zip(self.low, span, strict=True)]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        return points, self.density(points)


def bin_windows(Z, weights, shape, form="radial", accuracy=None) -> Binned:
    """The density of windows of unit bandwidth around rows Z (n, d), d <= 2, with weights (n,), or one number for all.

    The grid is refined until its error is at most `accuracy` of the largest density found, 1e-6 on a line and 1e-4 in the plane
    unless given. What needs too many nodes is refused.
    """
    d = Z.shape[1]
    accuracy = ACCURACY[d] if accuracy is None else accuracy
    step = _STEPS[shape.name][d - 1] * min(1.0, (accuracy / ACCURACY[d]) ** 0.25)
    constant = math.exp(shape.log_constant(d, form))
    while True:
        low, lengths = _frame(Z, step, min(shape.reach, _REACH))
        values, differences = _convolve(_binned(Z, weights, low, step, lengths), shape, form, step)
        error = 2.0 * _SAFETY * 3.0 / 128.0 * differences.max() + 1e-14 * values.max()
        if error <= accuracy * values.max():
            return Binned(constant * np.maximum(values, 0.0), low, step, constant * float(error))
        step *= max(0.9 * (accuracy * values.max() / error) ** 0.25, 0.4)


def _frame(Z, step, reach):
    """First node and numbers of nodes of the grid that holds all windows, and two nodes more on each side."""
    lowest, highest = Z.min(axis=0), Z.max(axis=0)
    lengths = [math.ceil(x) + 6 for x in (highest - lowest + 2.0 * reach) / step]
    if math.prod(lengths) > _MOST:
        size = " x ".join(map(str, lengths))
        raise ValueError(
            f'algorithm="fft" needs {size} nodes for the accuracy it promises, more than {_MOST}: the bandwidth is small beside '
            'the range of the data; use algorithm="tree"'
        )
    return lowest - reach - 2.0 * step, lengths


def _binned(Z, weights, low, step, lengths):
    from mercer.solvers import _compiled_parzen as loops

    Z = np.ascontiguousarray(Z, np.float64)
    w = np.ascontiguousarray(np.atleast_1d(weights), np.float64)
    deal = loops.bin_line if Z.shape[1] == 1 else loops.bin_plane
    parts = min(_PARTS, max(1, len(Z) // max(10_000, math.prod(lengths))))
    edges = np.arange(parts + 1) * len(Z) // parts

    def job(i):
        out = np.zeros(lengths if Z.shape[1] == 2 else (*lengths, 4))
        deal(Z, w, low, 1.0 / step, edges[i], edges[i + 1], out)
        return out

    found = np.add.reduce(map_tiles(job, parts))
    return found if Z.shape[1] == 2 else _dealt(found @ _CUBIC)


def _dealt(weights):
    """Add weights (N, 4) to the nodes -1, 0, 1, 2 beside each; those at both ends are empty."""
    out = weights[:, 1].copy()
    out[:-1] += weights[1:, 0]
    out[1:] += weights[:-1, 2]
    out[2:] += weights[:-2, 3]
    return out


def _convolve(counts, shape, form, step):
    """Sums of windows at the nodes, and sums of the fourth differences of windows."""
    sizes = [fft.next_fast_len(length, real=True) for length in counts.shape]
    squares = [np.minimum(np.arange(s), s - np.arange(s)) ** 2 * step**2 for s in sizes]
    window, differences = _window(shape, form, squares)
    workers = thread_count()
    spectrum = fft.rfftn(counts, sizes, workers=workers)
    within = tuple(slice(0, length) for length in counts.shape)
    sums, errors = (
        fft.irfftn(spectrum * fft.rfftn(part, workers=workers), sizes, workers=workers)[within]
        for part in (window, differences)
    )
    return sums, errors


def _window(shape, form, squares):
    """The window at the nodes of a grid that is periodic, 0 being its first, and its fourth differences along the axes."""
    if form == "product":
        columns = [shape.value(s) for s in squares]
        window = columns[0] if len(columns) == 1 else np.multiply.outer(*columns)
    else:
        window = shape.value(squares[0] if len(squares) == 1 else np.add.outer(*squares))
    differences = np.zeros_like(window)
    for axis in range(window.ndim):
        second = np.roll(window, 1, axis) + np.roll(window, -1, axis) - 2.0 * window
        differences += np.abs(np.roll(second, 1, axis) + np.roll(second, -1, axis) - 2.0 * second)
    return window, differences
