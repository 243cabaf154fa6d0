"""Passes of logistic regression: loss, slopes and curvature over rows whose Gram with the landmarks is not kept, or is held."""

from dataclasses import dataclass, replace

import numpy as np

from mercer.approx import sweeps
from mercer.gram import prepared_gram
from mercer.solvers.logistic import curvature, slopes
from mercer.streams import Block, Held, Look, Stream, look

__all__ = ["HeldLogisticSweeps", "Labelled", "LocalLogisticSweeps", "added_masses", "added_pair", "group_masses"]


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows of a stream with classes by number for labels, and weights times those of the classes."""

    stream: Stream | Held
    classes: np.ndarray
    factors: np.ndarray

    def blocks(self, size):
        for block in self.stream.blocks(size):
            yield self._coded(block)

    def look(self, size, rng) -> Look:
        seen = look(self.stream, size, rng)
        return replace(seen, sample=self._coded(seen.sample))

    def _coded(self, block):
        # A label that only rows of weight 0 have is not among the classes; its rows count for nothing.
        codes = np.searchsorted(self.classes, block.y[:, 0]).clip(max=len(self.classes) - 1)
        return Block(block.X, codes[:, None].astype(np.float64), block.w * self.factors[codes])


def group_masses(block) -> list[dict[float, float]]:
    """Weight of each label in each group of rows."""
    return [_masses(part) for part in Held(*block).blocks(sweeps.GROUP)]


def _masses(block):
    if block.y.shape[1] != 1:
        raise ValueError(f"y must be one label for each row; the stream has {block.y.shape[1]} targets")
    labels, codes = np.unique(block.y[block.w > 0, 0], return_inverse=True)
    return dict(zip(labels.tolist(), np.bincount(codes, weights=block.w[block.w > 0]).tolist(), strict=True))


def added_masses(a, b) -> dict[float, float]:
    """Weights of the labels of two sets of rows together."""
    return {label: a.get(label, 0.0) + b.get(label, 0.0) for label in a.keys() | b.keys()}


class HeldLogisticSweeps:
    """Passes over a Gram K (n, M) in memory, float64. codes (n,): numbers of the classes; w (n,): weights."""

    def __init__(self, K, codes, w):
        self.K, self.codes, self.w = K, codes, w

    def gradient(self, B):
        loss, R = slopes(self.K @ B[:-1] + B[-1], self.codes, self.w)
        return loss, _with_sums(self.K, R)

    def hessian(self, B, V):
        F, D = (self.K @ A[:-1] + A[-1] for A in (B, V))
        return _with_sums(self.K, curvature(F, D, self.w))


class LocalLogisticSweeps:
    """Passes on this machine. centres: Gram of the landmarks; stream: anything with `blocks(size)`, y the classes by number."""

    def __init__(self, stream, centres):
        self.stream, self.centres = stream, centres

    def gradient(self, B):
        """Loss and slopes (M + 1, p) at B."""
        return self._pass(B, _add_slopes, B.shape)

    def hessian(self, B, V):
        """Change of the slopes (M + 1, p) at B in the direction V."""
        return self._pass(np.hstack([B, V]), _add_curvature, B.shape)[1]

    def _pass(self, B, add, shape):
        """Loss and float64 sums over all blocks."""
        B = np.ascontiguousarray(B)  # another layout, as coefficients may have after a journey, has other last digits
        parts = (self._block_sums(block, B, add, shape) for block in self.stream.blocks(sweeps.READ))
        return sweeps.bracketed(parts, added_pair, sweeps.SPAN // sweeps.READ)

    def _block_sums(self, block, B, add, shape):
        codes = block.y[:, 0].astype(np.intp)

        def each(tile, some, sums):
            add(tile, B, codes[some], block.w[some], sums)

        # One row more than the slopes have, for the loss.
        sums = sweeps.tile_sums(prepared_gram(self.centres, block.X), (shape[0] + 1, shape[1]), each)
        return float(sums[-1, 0]), sums[:-1]


def added_pair(a, b):
    """Losses and slopes of two sets of rows together."""
    return a[0] + b[0], a[1] + b[1]


def _add_slopes(tile, B, codes, w, sums):
    tile = tile.astype(np.float64, copy=False)
    loss, R = slopes(tile @ B[:-1] + B[-1], codes, w)
    sums[:-1] += _with_sums(tile, R)
    sums[-1, 0] += loss


def _add_curvature(tile, B, codes, w, sums):
    """B: the point and the direction, side by side: both are multiplied while the tile is in the cache."""
    tile, p = tile.astype(np.float64, copy=False), B.shape[1] // 2
    both = tile @ B[:-1] + B[-1]
    sums[:-1] += _with_sums(tile, curvature(both[:, :p], both[:, p:], w))


def _with_sums(K, R):
    """K^T R, and below it the sums of R: slopes in the coefficients and in the intercepts."""
    return np.vstack([K.T @ R, R.sum(axis=0)])
