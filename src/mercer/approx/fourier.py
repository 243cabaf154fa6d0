r"""Random Fourier features of shift-invariant kernels (X3).

By Bochner's theorem :math:`k(x - y) = E \cos(\omega^T (x - y))` for a distribution of frequencies: normal for the Gaussian,
Student's t with 2 nu degrees of freedom for the Matern kernel, independent Cauchy coordinates for the Laplacian of the L1
distance. Rahimi & Recht (2007); Yu, Suresh, Choromanski, Holtmann-Rice & Kumar (2016).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy.sparse as sp
from scipy import special
from scipy.linalg import hadamard

from mercer.approx.maps import BLOCK, RandomMap, ReadOnly, Target, checked_width, on_one_thread
from mercer.kernels import RBF, Kernel, Laplacian, Matern
from mercer.registry import register_record
from mercer.threads import map_tiles

__all__ = ["FOURIER_KINDS", "FourierMap", "fourier_target", "hadamard_transform", "random_fourier_map"]

FOURIER_KINDS = ("plain", "orthogonal", "structured")
FOURIER_KERNELS = (RBF, Matern, Laplacian)

_STEEPEST = 1e30  # frequency: beyond it cosines tell only equal rows apart, and float32 ends at 3e38
_NARROWEST = 64  # side of a structured block: in smaller ones the directions are too few to be spread evenly


def random_fourier_map(kernel: Kernel, d: int, n_components: int, rng: np.random.Generator, kind: str = "orthogonal",
                       near=None) -> "FourierMap":  # fmt: skip
    r"""Features :math:`\sqrt{2/D}\,(\cos \omega_i^T x, \sin \omega_i^T x)` with D / 2 random frequencies of the kernel.

    Pairs of cosine and sine have a smaller variance than cosines of a random phase, :math:`(1 + k(2\delta) - 2 k(\delta)^2) / D`
    for kind="plain", and are exact on the diagonal. Sutherland & Schneider (2015), section 3.

    kernel: RBF (also ARD and covariance), Matern or Laplacian, times a number and on chosen columns. d: columns of the rows.
    n_components: width D; an odd one has a last cosine of random phase instead of a pair. kind: "plain", independent
    frequencies; "orthogonal", orthogonal within blocks of d of them and of stratified lengths (for the L1 Laplacian
    stratified in each column); "structured", nearly so, as products of Hadamard matrices and random signs, which need no
    d x D / 2 matrix. near: rows whose mean becomes the origin; inner products do not depend on it, but far from it digits
    are lost.

    >>> rows = np.random.default_rng(0).random((5, 3))
    >>> phi = random_fourier_map(RBF(2.0), 3, 2000, np.random.default_rng(0))
    >>> bool(np.abs(phi(rows) @ phi(rows).T - RBF(2.0)(rows)).max() < 0.05)
    True
    """
    target = fourier_target(kernel, d)
    width = checked_width(n_components)
    m = (width + 1) // 2
    if kind not in FOURIER_KINDS:
        raise ValueError(f"kind={kind!r} is not known; there are {', '.join(map(repr, FOURIER_KINDS))}")
    centre = np.zeros(target.width) if near is None else _mean(target.view(kernel.validated(near)))
    scaling = _scaling(target)
    project = (
        _structured(target.leaf, scaling, m, rng)
        if kind == "structured"
        else _dense(target.leaf, scaling, m, rng, kind)
    )
    return FourierMap(target, width, centre, project, rng.uniform(0.0, 2.0 * np.pi) if width % 2 else 0.0)


def fourier_target(kernel: Kernel, d: int) -> Target:
    """What the features are of; kernels that they are not for are refused."""
    return Target.of(kernel, d, FOURIER_KERNELS, "random Fourier features")


@register_record
@dataclass(frozen=True, eq=False)
class FourierMap(RandomMap):
    """Cosines, then sines, of random projections of rows less their centre; `phase` is added to the last projection."""

    centre: np.ndarray
    projection: "Dense | Structured"
    phase: float = 0.0

    def _prepared(self, dtype):
        project, factor = self.projection.prepared(self.centre, dtype), math.sqrt(2.0 * self.target.scale / self.dim)
        waves = _waves if dtype == np.float32 else _compiled_waves()

        def compute(rows):
            angles = project(rows)
            angles[:, -1] += self.phase
            return waves(angles, dtype.type(factor))[:, : self.dim]

        return compute


def _waves(angles, factor):
    return factor * np.hstack([np.cos(angles), np.sin(angles)])


def _compiled_waves():
    """The same in float64, where it is ten times as fast as NumPy."""
    from mercer.approx import _compiled_waves as compiled

    def waves(angles, factor):
        out = np.empty((len(angles), 2 * angles.shape[1]))
        compiled.waves(np.ascontiguousarray(angles), factor, out)
        return out

    return waves


def _mean(rows):
    rows = (
        rows if sp.issparse(rows) else np.ascontiguousarray(rows)
    )  # in one order of summation, however they are stored
    with np.errstate(over="ignore"):  # rows whose mean overflows have features that do
        return np.asarray(rows.mean(axis=0, dtype=np.float64)).ravel()


# ---------------------------------------------------------------------------------------------- lengthscales
def _scaling(target):
    """What brings rows to unit lengthscale: factors (width,), or a matrix (width, width) for a full covariance."""
    leaf, width = target.leaf, target.width
    if getattr(leaf, "covariance", None) is not None:
        S = np.asarray(leaf.covariance, np.float64)
        _check_width("covariance", len(S), width)
        return on_one_thread(lambda: np.linalg.inv(np.linalg.cholesky(S)).T)
    lengthscale = np.asarray(target.number("lengthscale"), np.float64)
    if lengthscale.ndim:
        _check_width("lengthscale", len(lengthscale), width)
    return np.broadcast_to(1.0 / lengthscale, width).copy()


def _check_width(name, count, width):
    if count != width:
        raise ValueError(f"{name} is for {count} columns, but the rows have {width}")


# ---------------------------------------------------------------------------------------------- frequencies
def _frequencies(leaf, d, m, rng, kind):
    """Frequencies of the kernel with unit lengthscale as columns (d, m)."""
    if _over_columns(leaf):
        return rng.standard_cauchy((d, m)) if kind == "plain" else np.tan(np.pi * (strata((d, m), rng) - 0.5))
    return normal_directions(d, m, rng, kind) * _mixing(leaf, m, rng, kind)


def _over_columns(leaf):
    """Whether the kernel is a product over columns rather than a function of the Euclidean distance."""
    return type(leaf) is Laplacian and leaf.metric == "l1"


def normal_directions(d, m, rng, kind="orthogonal") -> np.ndarray:
    """Standard normal vectors as columns (d, m): independent, or orthogonal within blocks of d and with stratified lengths."""
    Z = rng.standard_normal((d, m))
    if kind == "plain" or not d:
        return Z
    blocks = map_tiles(lambda i: _haar(Z[:, i * d : (i + 1) * d]), -(-m // d))
    return np.hstack(blocks) * _lengths(d, m, rng)


def _haar(Z):
    """Orthonormal columns, evenly distributed: the signs of a QR factorisation alone would not be. Mezzadri (2007)."""
    Q, R = np.linalg.qr(Z)
    return Q * np.where(np.diagonal(R) < 0, -1.0, 1.0)


def _lengths(d, m, rng):
    """Lengths of m standard normal vectors of d entries."""
    return np.sqrt(2.0 * special.gammaincinv(0.5 * d, strata(m, rng)))


def _mixing(leaf, m, rng, kind):
    """1 / sqrt(g): a normal vector divided by sqrt(g), 2 nu g chi-squared with 2 nu degrees of freedom, is Student's t."""
    nu = {RBF: math.inf, Laplacian: 0.5}.get(type(leaf)) or float(leaf.nu)
    if math.isinf(nu):
        return np.ones(m)
    g = rng.standard_gamma(nu, m) if kind == "plain" else special.gammaincinv(nu, strata(m, rng))
    return 1.0 / np.sqrt(np.maximum(g / nu, _STEEPEST**-2))


def strata(shape, rng) -> np.ndarray:
    """Uniform random numbers, along the last axis one in each of m equal parts of (0, 1), in random order.

    Each is uniform by itself, so that averages stay unbiased; together they are more even than independent ones.
    """
    m = np.atleast_1d(shape)[-1]
    places = rng.permuted(np.broadcast_to(np.arange(m), shape), axis=-1)
    return np.minimum((places + rng.random(shape)) / m, np.nextafter(1.0, 0.0))


# ---------------------------------------------------------------------------------------------- projections
@register_record
@dataclass(frozen=True, eq=False)
class Dense(ReadOnly):
    """Frequencies as the columns of a matrix (width, m)."""

    W: np.ndarray

    def prepared(self, centre, dtype) -> Callable:
        W, c = self.W.astype(dtype), centre.astype(dtype)
        shift = np.einsum("j,jm->m", centre, self.W).astype(dtype)  # sparse rows are not shifted, but their products
        return lambda rows: rows @ W - shift if sp.issparse(rows) else (rows - c) @ W


def _dense(leaf, scaling, m, rng, kind):
    if scaling.ndim == 2:
        Z = _frequencies(leaf, len(scaling), m, rng, kind)
        return Dense(on_one_thread(lambda: scaling @ Z))
    kept = np.flatnonzero(scaling)  # columns of infinite lengthscale are ignored
    W = np.zeros((len(scaling), m))
    W[kept] = scaling[kept, None] * _frequencies(leaf, len(kept), m, rng, kind)
    return Dense(W)


@register_record
@dataclass(frozen=True, eq=False)
class Structured(ReadOnly):
    """Blocks H D3 H D2 H D1 of p frequencies each, H a Hadamard matrix and D1, D2, D3 random signs (blocks, 3, p)."""

    scaling: np.ndarray
    signs: np.ndarray
    lengths: np.ndarray

    def prepared(self, centre, dtype) -> Callable:
        p, m = self.signs.shape[2], len(self.lengths)
        scaling, signs, c = self.scaling.astype(dtype), self.signs.astype(dtype), centre.astype(dtype)
        # Each transform multiplies lengths by sqrt(p).
        lengths = (self.lengths * p**-1.5).astype(dtype)

        def project(rows):
            rows = (rows.toarray() if sp.issparse(rows) else rows) - c
            wide = np.zeros((BLOCK, p), dtype)
            wide[:, : len(scaling)] = rows @ scaling if scaling.ndim == 2 else rows * scaling
            phase = np.empty((BLOCK, len(signs), p), dtype)
            for block, (first, second, third) in enumerate(signs):
                turned = hadamard_transform(hadamard_transform(wide * first) * second)
                phase[:, block] = hadamard_transform(turned * third)
            return phase.reshape(BLOCK, -1)[:, :m] * lengths

        return project


def _structured(leaf, scaling, m, rng):
    if _over_columns(leaf):
        raise ValueError(
            f'kind="structured" is for kernels of the Euclidean distance, got {leaf!r}; use kind="plain" or "orthogonal"'
        )
    p = max(_NARROWEST, 1 << (len(scaling) - 1).bit_length())
    signs = rng.integers(0, 2, (-(-m // p), 3, p), dtype=np.int8) * np.int8(2) - np.int8(1)
    lengths = _lengths(p, m, rng) * _mixing(leaf, m, rng, "structured")
    return Structured(scaling, signs, lengths)


def hadamard_transform(X: np.ndarray) -> np.ndarray:
    """X @ H with the p x p Hadamard matrix, p = X.shape[1] a power of two.

    H is the Kronecker product of two of side about sqrt(p), so two products with small matrices do it: more operations than
    butterflies, but at the speed of BLAS.

    >>> hadamard_transform(np.eye(2))
    array([[ 1.,  1.],
           [ 1., -1.]])
    """
    p = X.shape[1]
    outer = 1 << ((p.bit_length() - 1) // 2)
    inner = p // outer
    # One row of X after the other: BLAS may round rows of a larger product by where they stand in it.
    half = X.reshape(-1, outer, inner) @ _hadamard(inner, X.dtype)
    return (_hadamard(outer, X.dtype) @ half).reshape(X.shape)


@cache
def _hadamard(side, dtype):
    H = hadamard(side, dtype)
    H.flags.writeable = False
    return H
