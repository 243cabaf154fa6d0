"""Basis functions of a relevance vector machine on its training rows, and their inner products."""

import numpy as np

from mercer.errors import NanError
from mercer.threads import map_tiles

__all__ = ["Design"]

_ROWS, _SERIAL = 128, 2**18  # basis functions a job, entries that one thread passes over at once
_WHOLE = 4000  # basis functions up to which the inner products of all pairs are computed at once
_ASKED = 1 / 32  # of all rows of inner products: who has asked for so many, one by one, gets the others too


class Design:
    """Basis functions on the training rows: something with `@` and `rows`, (M, n), and before it a constant if asked for.

    They are scaled to unit norm, which changes no evidence; a basis function of norm 0 is never used. room: bytes that the
    inner products of all pairs may take. All of them at once cost less than a few rows of them one by one, since a product of
    matrices is faster than many with a vector.
    """

    def __init__(self, basis, constant: bool, room: float = np.inf):
        self.basis, self.constant = basis, constant
        self.n = basis.shape[1]
        norms = self._norms()
        if norms.max() > 1e150:
            raise NanError(
                f"basis functions have norms up to {norms.max():.2g}, whose squares overflow; rescale the rows"
            )
        self.usable = norms > 1e-150
        self.scale = np.where(self.usable, 1.0 / np.where(self.usable, norms, 1.0), 0.0)
        self.may_hold = self._given and 8 * len(self) ** 2 <= room
        self._pairs: np.ndarray | None = None
        self._asked = 0

    def __len__(self):
        return self.basis.shape[0] + self.constant

    @property
    def _given(self):
        return hasattr(self.basis, "K")

    def products(self, V) -> np.ndarray:
        """Inner products (M, p) of all basis functions with the columns of V (n, p)."""
        out = np.empty((len(self), V.shape[1]))
        if self.constant:
            out[0] = V.sum(axis=0)
        if self._given:
            self._by_blocks(lambda rows, block: np.matmul(block, V, out=out[rows]))
        else:
            out[self.constant :] = self.basis @ V
        out *= self.scale[:, None]
        return out

    def cross(self, j) -> np.ndarray:
        """Inner products (M,) of basis function j with all."""
        if self._pairs is not None:
            return self._pairs[j]
        self._asked += 1
        if self.may_hold and self._asked > _ASKED * len(self):
            self.hold()
            return self.cross(j)
        return self.products(self.functions([j]).T)[:, 0]

    def hold(self):
        """Inner products of all pairs, if they have room: those with the functions before, and their mirror image."""
        if not self.may_hold or self._pairs is not None:
            return
        K, c, scale = self.basis.K, int(self.constant), self.scale
        pairs = np.empty((len(self), len(self)))
        if c:
            pairs[0] = pairs[:, 0] = self.products(np.ones((self.n, 1)))[:, 0] * scale[0]

        def job(i):
            rows = slice(i * _ROWS, min((i + 1) * _ROWS, len(K)))
            out = pairs[rows.start + c : rows.stop + c, c : rows.stop + c]
            np.matmul(K[rows] * scale[rows.start + c : rows.stop + c, None], K[: rows.stop].T, out=out)
            out *= scale[c : rows.stop + c]
            pairs[c : rows.start + c, rows.start + c : rows.stop + c] = out[:, : rows.start].T

        self._over_blocks(job)
        self._pairs = pairs

    def hold_few(self):
        """`hold`, where there are so few basis functions that it takes no time to speak of. Whether they are held."""
        if len(self) <= _WHOLE:
            self.hold()
        return self._pairs is not None

    def squares(self, b) -> np.ndarray:
        """Sums (M,) of squares of each basis function, weighted by b (n,)."""
        out = np.empty(len(self))
        if self.constant:
            out[0] = b.sum() * self.scale[0] ** 2

        def add(rows, block):
            block = block * self.scale[rows, None]
            block *= block
            out[rows] = block @ b

        self._by_blocks(add)
        return out

    def functions(self, index) -> np.ndarray:
        """Chosen basis functions as rows (a, n)."""
        index = np.asarray(index)
        out = np.ones((len(index), self.n))
        held = index >= self.constant
        if held.any():
            out[held] = self.basis.rows(index[held] - int(self.constant))
        out *= self.scale[index, None]
        return out

    def _norms(self):
        out = np.full(len(self), np.sqrt(self.n))

        def add(rows, block):
            peak = np.abs(block).max(axis=1)  # squares of what was not divided by it may overflow
            peak[peak == 0] = 1.0
            out[rows] = peak * np.sqrt(((block / peak[:, None]) ** 2).sum(axis=1))

        self._by_blocks(add)
        return out

    def _by_blocks(self, job):
        """job(rows of the answer, block of basis functions), over threads where there is work for them."""
        m = self.basis.shape[0]

        def run(i):
            rows = slice(i * _ROWS, min((i + 1) * _ROWS, m))
            block = self.basis.K[rows] if self._given else self.basis.rows(np.arange(rows.start, rows.stop))
            job(slice(rows.start + self.constant, rows.stop + self.constant), block)

        self._over_blocks(run)

    def _over_blocks(self, run):
        m = self.basis.shape[0]
        count = -(-m // _ROWS)
        if m * self.n > _SERIAL and self._given:
            map_tiles(run, count)
        else:
            for i in range(count):
                run(i)
