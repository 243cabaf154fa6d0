"""V3: Bochner's test of a stationary kernel on the line: is its Fourier transform non-negative?"""

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize_scalar

from mercer.diagnostics.cosine import Transform, cosine_transform
from mercer.errors import NanError
from mercer.kernels import Constant, Kernel, Periodic, White

__all__ = ["FourierReport", "fourier_check"]

OCTAVES = 100  # lags from 2^-100 to 2^100 are looked at, so that no lengthscale has to be known
PROBES = 8  # an octave
LINES = 2**14  # most coefficients of a Fourier series


@dataclass(frozen=True)
class FourierReport:
    """Numerical spectral density S(w) = int k(t) exp(-i w t) dt of a stationary kernel of one column.

    ok: the density is nowhere below minus its estimated error, and there is no negative mass at w = 0.
    minimum, frequency, error: smallest density found, where, and the error estimated there.
    frequencies, density, errors: the grid, w >= 0. lines: the kernel is periodic (or constant), `frequencies` are its
    harmonics and `density` their masses 2 pi c_m.
    mass_at_zero: 2 pi lim k(t), the mass of the constant that the kernel tends to; it is not part of `density`.
    """

    kernel: Kernel
    minimum: float
    frequency: float
    error: float
    mass_at_zero: float
    lines: bool
    frequencies: np.ndarray = field(repr=False)
    density: np.ndarray = field(repr=False)
    errors: np.ndarray = field(repr=False)

    @property
    def ok(self) -> bool:
        return self.minimum >= -self.error and self.mass_at_zero >= 0

    def __str__(self):
        what = "line masses (Fourier series)" if self.lines else "spectral density"
        found = f"smallest {what} {self.minimum:.4g} +- {self.error:.0e} at w = {self.frequency:.4g}"
        mass = f"; mass {self.mass_at_zero:.4g} at w = 0" if self.mass_at_zero else ""
        if not self.ok:
            return f"{self.kernel!r} is refuted by Bochner's theorem: {found}{mass}"
        lowest, highest = self.frequencies.min(), self.frequencies.max()
        return (
            f"{self.kernel!r} is not refuted on the line: {found}{mass}; looked at {lowest:.3g} <= w <= {highest:.4g}"
        )


def fourier_check(kernel: Kernel, *, dim: int = 1, frequencies=None) -> FourierReport:
    r"""Bochner's test (V3): a continuous stationary k is PSD on the line exactly if its Fourier transform is >= 0.

    .. math:: S(\omega) = \int k(t) e^{-i\omega t} dt = 2 \int_0^\infty k(t) \cos(\omega t)\, dt

    k is replaced by polynomials on panels whose sizes follow its scales, and these are transformed exactly; a slow tail is
    tapered smoothly, far out. The error is the sum of the panels' errors and of twice what moving the taper changes.
    Periodic and constant kernels have lines instead of a density, and are tested by their Fourier series.

    dim: 1; in more dimensions an isotropic kernel has another transform, and may fail where this test is passed.
    frequencies: (m,) to look at, by default 0 to 1000 over the lag at which the kernel has half decayed.

    >>> from mercer.kernels import Window
    >>> report = fourier_check(Window())  # 2 sin(w) / w
    >>> report.ok, round(report.minimum, 4), round(report.frequency, 3)
    (False, -0.4345, 4.493)
    """
    _refuse(kernel, dim)
    if all(isinstance(leaf, (Constant, Periodic)) for leaf in kernel._leaves):
        if frequencies is not None:
            raise ValueError(
                f"{kernel!r} has lines at the harmonics of its period and no density elsewhere; give no frequencies"
            )
        return _lines(kernel)
    k = _Lags(kernel)
    spectrum = cosine_transform(k.centred, k.scale, k.size)
    w = _grid(k.scale, spectrum.integrable) if frequencies is None else _given(frequencies, spectrum.integrable)
    density, errors = spectrum(w)
    minimum, frequency, error = _lowest(spectrum, w, density, errors)
    return FourierReport(kernel, minimum, frequency, error, 2 * math.pi * k.limit, False, w, density, errors)


def _refuse(kernel, dim):
    if not isinstance(kernel, Kernel):
        raise TypeError(f"fourier_check needs a kernel, got {kernel!r}")
    if dim != 1:
        raise ValueError(
            f"dim={dim!r}: only kernels of one column (dim=1) have this test; use check_kernel on rows of yours"
        )
    if not kernel.stationary:
        raise ValueError(
            f"{kernel!r} is not stationary (a function of x - y), so Bochner's theorem says nothing about it"
        )
    if any(isinstance(leaf, White) for leaf in kernel._leaves):
        raise ValueError(
            f"{kernel!r} contains White, which is not continuous at 0: it has no spectral density; leave it out"
        )
    try:
        kernel(np.zeros((1, 1)))
    except ValueError as error:
        raise ValueError(f"{kernel!r} cannot be evaluated on rows of one column: {error}") from error
    if kernel.resolve(np.array([[0.0], [1.0]])) != kernel:
        raise ValueError(f"{kernel!r} has parameters to be taken from data; call kernel.resolve(X) first")


def _profile(kernel, t):
    """k at the lags t."""
    return kernel(np.asarray(t, np.float64).reshape(-1, 1), np.zeros((1, 1)))[:, 0]


# ------------------------------------------------------------------------------------------------------------- lags
class _Lags:
    """The kernel as a function of the lag: its limit far out, its size, and the lag at which it has half decayed."""

    def __init__(self, kernel):
        self.kernel = kernel
        t = 2.0 ** (np.arange(2 * PROBES * OCTAVES) / PROBES - OCTAVES)
        values = self._values(np.r_[0.0, t])
        self._refuse_growth(values)
        self.size = float(np.abs(values).max())
        self.limit = self._limit(values)
        moved = np.abs(values[1:] - values[0])
        self.scale = float(t[np.argmax(moved >= 0.5 * moved.max())])

    def _values(self, t):
        try:
            return _profile(self.kernel, t)
        except NanError as error:
            raise ValueError(
                f"{self.kernel!r} has no finite values at large lags, so it has no Fourier transform"
            ) from error

    def _refuse_growth(self, values):
        size = (
            np.abs(values[1:]).reshape(-1, 10 * PROBES).max(axis=1)
        )  # by ten octaves, so that an oscillation is not growth
        if size[-1] > 1.5 * size[-5] and size[-1] > abs(values[0]):
            raise ValueError(
                f"{self.kernel!r} grows with the lag, so it has no Fourier transform ({self.kernel.validity}); "
                "use check_kernel, which tests conditionally PD kernels"
            )

    def _limit(self, values):
        """The constant that the last octaves agree on; 0 for a kernel that is still decaying there, or oscillating."""
        tail = values[-20 * PROBES :]
        settled = np.ptp(tail) <= 1e-14 * self.size and abs(tail[-1]) > 1e-12 * self.size
        return float(tail[-1]) if settled else 0.0

    def centred(self, t):
        return _profile(self.kernel, t) - self.limit


def _grid(scale, integrable):
    w = np.union1d(np.geomspace(1e-2, 1e3, 160), np.linspace(0.05, 25.0, 500)) / scale
    return np.r_[0.0, w] if integrable else w


def _given(frequencies, integrable):
    w = np.asarray(frequencies, np.float64)
    if w.ndim != 1 or not w.size or not np.isfinite(w).all() or w.min() < 0:
        raise ValueError("frequencies must be a non-empty 1-D array of finite numbers >= 0")
    if not integrable and not w.all():
        raise ValueError("this kernel decays too slowly to have a density at w = 0; leave that frequency out")
    return w


def _lowest(spectrum: Transform, w, density, errors):
    """The minimum on the grid, of what errors do not explain if there is such, refined between its neighbours."""
    certain = density < -errors
    i = int(np.where(certain | ~certain.any(), density, np.inf).argmin())
    best = float(density[i]), float(w[i]), float(errors[i])
    if density[i] >= -errors[i] or not 0 < i < len(w) - 1 or not w[i - 1] < w[i] < w[i + 1]:
        return best
    found = minimize_scalar(lambda v: spectrum(np.array([v]))[0][0], bounds=(w[i - 1], w[i + 1]), method="bounded",
                            options={"xatol": 1e-9 * w[i]})  # fmt: skip
    value, error = spectrum(np.array([found.x]))
    return min(best, (float(value[0]), float(found.x), float(error[0])))


# ------------------------------------------------------------------------------------------------------------- lines
def _lines(kernel):
    """Fourier series of a periodic kernel: masses 2 pi c_m at the harmonics of its period."""
    period, n = _period(kernel), 64
    while True:
        values = _profile(kernel, np.arange(n) * (period / n))
        c = np.fft.rfft(values).real / n
        rest = float(np.abs(c[-n // 8 :]).max())  # what folds back onto the others
        if rest <= 1e-15 * np.abs(values).max() or n >= LINES:
            break
        n *= 2
    mass, error = 2 * math.pi * c[: n // 4], 2 * math.pi * (rest * 8 + 1e-15 * np.abs(values).max())
    w = 2 * math.pi / period * np.arange(len(mass))
    i = int(mass.argmin())
    return FourierReport(kernel, float(mass[i]), float(w[i]), error, 0.0, True, w, mass, np.full(len(w), error))


def _period(kernel):
    """The shortest common period of the leaves; any for a constant."""
    periods = [float(leaf.period) for leaf in kernel._leaves if isinstance(leaf, Periodic)] or [1.0]
    for multiple in range(1, 65):
        candidate = multiple * max(periods)
        ratios = np.array([candidate / p for p in periods])
        if np.abs(ratios - ratios.round()).max() < 1e-9 * ratios.max():
            return candidate
    raise ValueError(
        f"{kernel!r} has periods {periods} without a common multiple below 64 of the longest; test its parts"
    )
