"""Compiled coordinate descent on a quadratic with an L1 penalty. The rules of `mercer.engines._compiled` hold here too."""

from mercer.engines._compiled import compiled

__all__ = ["descend"]


@compiled
def descend(H, r, w, alpha, epochs, tol):
    """Epochs of coordinate descent on -r^T d + d^T H d / 2 + alpha |w + d|_1: w and r, its slopes, are changed.

    Stops when no coordinate violates its condition by more than tol. Returns the largest violation of the last epoch.
    """
    worst = 0.0
    for _ in range(epochs):
        worst = 0.0
        for j in range(w.size):
            bend, old = H[j, j], w[j]
            slope = r[j]
            if old > 0.0:
                violation = abs(slope - alpha)
            elif old < 0.0:
                violation = abs(slope + alpha)
            else:
                violation = max(abs(slope) - alpha, 0.0)
            worst = max(worst, violation)
            if violation == 0.0 or not bend > 0.0:
                continue
            z = slope + bend * old
            new = 0.0
            if z > alpha:
                new = (z - alpha) / bend
            elif z < -alpha:
                new = (z + alpha) / bend
            step = new - old
            if step != 0.0:
                w[j] = new
                for k in range(w.size):
                    r[k] -= step * H[j, k]
        if worst <= tol:
            break
    return worst
