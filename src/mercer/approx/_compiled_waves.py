"""Compiled pass of the random Fourier features. The rules of `mercer.engines._compiled` hold here too."""

from mercer.engines._compiled import _wave, compiled


@compiled
def waves(phase, factor, out):
    """out = factor (cos phase, sin phase), row by row, so that a huge phase in one row changes no digit of another.

    phase float64 (n, m); out float64 (n, 2 m).
    """
    m = phase.shape[1]
    for i in range(phase.shape[0]):
        _wave(phase[i], 1, out[i, :m])
        _wave(phase[i], 0, out[i, m:])
        for t in range(2 * m):
            out[i, t] *= factor
