r"""Window sums on a line to rounding, at a cost that hardly depends on how many points there are (M14).

Gaussian windows: the points of a cell of unit width are replaced by 20 points with weights that give the same sum for every
polynomial of degree 19. The error of one window is at most :math:`2^{1-P} a^P\, 1.09 / \sqrt{P!}` for the P points of a cell of
half-width a (Chebyshev's interpolation, with Cramer's bound of the Hermite functions), here about 1e-21. Exponential windows:
the sums over all points on one side of a point follow from those of its neighbour.
"""

import numpy as np

from mercer.threads import map_tiles

__all__ = ["Bells", "Decays", "line_of"]

_POINTS = 20  # of a cell
_REACH = 11.0  # exp(-reach^2 / 2) is 1e-26
_SURE = 1e-5  # below such a sum the error of 1e-21 is not far enough below rounding
_TOGETHER = 64  # queries that a loop takes at a time


def line_of(shape, z, w):
    """Sums of windows around sorted points z (n,) with heights w (n,), or None where there is no such method."""
    if shape.name == "gaussian":
        return Bells(z, w)
    if shape.name == "exponential" and w.min() > 1e-100:  # smaller ones might vanish beside a gap
        return Decays(z, w)
    return None


class Bells:
    """Gaussian windows, by few points for each cell that has many."""

    def __init__(self, z, w):
        from mercer.solvers import _compiled_parzen as loops

        cells = np.floor(z - z[0])
        starts = np.flatnonzero(np.concatenate([[True], cells[1:] != cells[:-1]]))
        stops = np.append(starts[1:], len(z))
        many = stops - starts > 2 * _POINTS
        node = np.cos((np.arange(_POINTS) + 0.5) * np.pi / _POINTS)
        series = np.cos(np.arange(_POINTS)[:, None] * np.arccos(node)) * (2.0 / _POINTS)  # T_j at the nodes
        series[0] *= 0.5

        def job(i):
            a, b = starts[i], stops[i]
            if not many[i]:
                return z[a:b], w[a:b]
            middle = 0.5 * (z[a] + z[b - 1])
            moments = np.zeros(_POINTS)
            for c in range(a, b, 10**6):
                loops.chebyshev_moments(z, w, c, min(c + 10**6, b), middle, moments)
            return (middle + 0.5 * node)[::-1], (moments @ series)[::-1]

        parts = map_tiles(job, len(starts))
        self.z, self.w = (np.ascontiguousarray(np.concatenate(part)) for part in zip(*parts, strict=True))
        sizes = np.array([len(part[0]) for part in parts])
        self.first, self.last = z[starts], z[stops - 1]
        self.edges = np.concatenate([[0], np.cumsum(sizes)])

    def log_sums(self, q):
        """Logarithms of the sums at q (m,), and for which of them they are exact."""
        from mercer.solvers import _compiled_parzen as loops

        order = np.argsort(q, kind="stable")
        q, sums = q[order], np.empty(len(q))

        def job(i):
            part = slice(i * _TOGETHER, (i + 1) * _TOGETHER)
            place = np.full(_TOGETHER, q[part][0])
            place[: len(q[part])] = q[part]
            a = self.edges[np.searchsorted(self.last, place[0] - _REACH)]
            b = self.edges[np.searchsorted(self.first, q[part][-1] + _REACH, "right")]
            total = np.zeros(_TOGETHER)
            loops.bells(place, self.z, self.w, a, max(a, b), total)
            sums[order[part]] = total[: len(q[part])]

        map_tiles(job, -(-len(q) // _TOGETHER))
        return np.log(np.maximum(sums, 1e-300)), sums > _SURE


class Decays:
    """Exponential windows, by sums over all points to the left and to the right of each."""

    def __init__(self, z, w):
        from mercer.solvers import _compiled_parzen as loops

        self.z, self.left, self.right = z, np.empty(len(z)), np.empty(len(z))
        loops.decays(z, w, self.left, self.right)

    def log_sums(self, q):
        """Logarithms of the sums at q (m,), and for which of them they are exact."""
        after = np.searchsorted(self.z, q, "right")
        before = np.maximum(after - 1, 0)
        after = np.minimum(after, len(self.z) - 1)
        left = np.where(q >= self.z[before], np.log(self.left[before]) - (q - self.z[before]), -np.inf)
        right = np.where(q < self.z[after], np.log(self.right[after]) - (self.z[after] - q), -np.inf)
        return np.logaddexp(left, right), np.ones(len(q), bool)
