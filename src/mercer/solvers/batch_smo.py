r"""Many duals at once on a device that holds the whole Gram: the machines of all pairs of classes.

Each is the problem of `smo` without a kink,

.. math:: \min_\beta \tfrac12 \beta^T K \beta + \langle c, \beta\rangle, \quad l \le \beta \le u, \quad \textstyle\sum \beta = s

on rows of its own. In a round every problem chooses a block of its worst violators and solves it pair by pair on its small Gram
matrix, all of them side by side; then one product of the Gram with what changed moves all gradients.
"""

import time
from importlib.util import find_spec

import numpy as np

from mercer.gram import budget
from mercer.linalg import Status
from mercer.solvers.smo import DualProblem, DualSolution, Progress, certified, largest_slopes
from mercer.tensors import exact_products

__all__ = ["fits_together", "solve_blocks", "solve_duals"]

_BLOCK = 512
_INNER = 0.1  # as in `smo`
_TINY = 1e-12
_CORRECTIONS, _PATIENCE = 5, 30
_SHARE = 0.8  # of a device that the Gram may take
_ROWS, _FEWEST = 4096, 32  # multiplied in float64 at a time, at most and at least
_PARTS = 16  # that copies for that are of the Gram
_LOOK = 32  # steps between two looks whether blocks are solved
_FEW = 4  # variables that moved are fewer than this part of all: only their rows are multiplied
_NEVER = 1e300  # less urgent than any slope, more than what was taken already


def fits_together(K) -> bool:
    """Whether all of a Gram can be held by the GPU that computes it, within the memory that it was given."""
    room = getattr(getattr(K, "engine", None), "room", lambda: None)()
    return room is not None and K.shape[0] ** 2 * K.dtype.itemsize <= _SHARE * min(room, budget(K.memory, room))


def solve_duals(K, rows, problems: list[DualProblem], *, tol=1e-3, max_iter=None, time_limit=None,
                callback=None) -> list[DualSolution]:  # fmt: skip
    """Solve the dual of each problem on its rows of a Gram (indices), until no pair of slopes differs by more than `tol`."""
    batch = _Batch(K.matrix(), rows, problems, float(tol))
    with exact_products(batch.K.device):
        return batch.run(_Limits(batch, max_iter, time_limit, callback))


class _Limits:
    """What a user allows."""

    def __init__(self, batch, max_iter, time_limit, callback):
        self.batch, self.callback, self.started = batch, callback, time.monotonic()
        self.max_iter = max(10_000_000, 100 * batch.width) if max_iter is None else max_iter
        self.seconds = np.inf if time_limit is None else time_limit * len(batch.problems)

    def reached(self, violation):
        now = time.monotonic() - self.started
        steps = int(self.batch.steps.max())
        told = Progress(int(self.batch.steps.sum()), violation, self.batch.in_play, now)
        if self.callback is not None and self.callback(told):
            return True
        return steps >= self.max_iter or now > self.seconds


class _Batch:
    """Variables of all problems as (problems, width) tensors; those behind the last of a problem cannot move."""

    def __init__(self, K, rows, problems, tol):
        self.K, self.rows, self.problems, self.tol = K, rows, problems, tol
        self.width = max(map(len, rows))
        self.q = min(_BLOCK, 1 << (self.width - 1).bit_length())
        self.width = max(self.width, self.q)
        self.index = self._padded(rows, np.int64)
        self.lower, self.upper = (self._padded([getattr(p, n) for p in problems]) for n in ("lower", "upper"))
        self.linear = self._padded([p.linear for p in problems])
        self.beta = self._padded([np.zeros(len(p.linear)) if p.start is None else p.start for p in problems])
        self.steps = np.zeros(len(problems), dtype=np.int64)
        self.block = None
        self.tiny = _TINY * max(float(K.diagonal().abs().max()), float(np.finfo(np.float32).tiny))

    def _padded(self, parts, dtype=np.float64):
        import torch

        out = np.zeros((len(parts), self.width), dtype)
        for row, part in zip(out, parts, strict=True):
            row[: len(part)] = part
        return torch.from_numpy(out).to(self.K.device)

    # ------------------------------------------------------------------------------------ the loop
    def run(self, limits):
        best = np.inf
        for _ in range(_CORRECTIONS + 1):
            self.g = self._gradient()
            violation = float(self._slopes()[0].max())
            # What is claimed is checked on a gradient from scratch.
            if violation <= self.tol or not violation < 0.5 * best:
                break
            best = violation
            if self._rounds(limits) is Status.MAX_ITER:
                self.g = self._gradient()
                return self._solutions(Status.MAX_ITER)
        return self._solutions(None)

    def _rounds(self, limits):
        least, stalled = np.inf, 0
        while True:
            violation, up, down = self._slopes()
            worst = float(violation.max())
            self.in_play = int((violation > self.tol).sum()) * self.width
            if worst <= self.tol:
                return Status.CONVERGED
            if limits.reached(worst):
                return Status.MAX_ITER
            stalled = 0 if worst < 0.98 * least else stalled + 1
            if stalled > _PATIENCE:
                return Status.STAGNATED
            least = min(least, worst)
            self._solve_blocks(self._choose(up, down), violation, limits)

    def _slopes(self):
        """Violations (problems,), and slopes up and down: of variables that may not move that way, infinite."""
        up = self.g.masked_fill(self.beta >= self.upper, np.inf)
        down = self.g.masked_fill(self.beta <= self.lower, -np.inf)
        return down.amax(1) - up.amin(1), up, down

    def _choose(self, up, down):
        """The worst violators both ways, and after them half of the last block, its newest variables."""
        import torch

        kept = self.block[:, : self.q // 2] if self.block is not None else None
        new = self.q if kept is None else self.q - self.q // 2
        first = self._least(up, [kept], new - new // 2)
        rest = self._least(-down, [first, kept], new // 2)
        self.block = torch.cat([part for part in (first, rest, kept) if part is not None], 1)
        return self.block

    @staticmethod
    def _least(slopes, taken, count):
        urgency = slopes.clamp(max=_NEVER)
        for part in taken:
            if part is not None:
                urgency.scatter_(1, part, np.inf)
        return urgency.topk(count, dim=1, largest=False).indices

    def _solve_blocks(self, W, violation, limits):
        places = self.index.gather(1, W)
        gram = self.K[places[:, :, None], places[:, None, :]]
        lower, upper, before = (part.gather(1, W) for part in (self.lower, self.upper, self.beta))
        tol = (_INNER * violation).clamp(min=0.5 * self.tol)
        limit = int(min(10 * self.q, limits.max_iter - self.steps.max()))
        beta = before.clone()
        steps = _solver(beta.device)(gram, beta, self.g.gather(1, W), lower, upper, tol, self.tiny, limit)
        self.steps += steps.cpu().numpy().astype(np.int64)
        self.beta.scatter_(1, W, beta)
        self._move(places, beta - before)

    def _move(self, places, change):
        """Gradients follow by one product of the Gram, or of few of its rows, with what changed."""
        import torch

        number = torch.arange(len(places), device=places.device)[:, None].expand_as(places)
        D = self.K.new_zeros((len(self.K), len(places)))
        D.index_put_(
            (places, number), change.to(D.dtype), accumulate=True
        )  # places behind the last are row 0, changed by 0
        moved = D.abs().amax(1).nonzero()[:, 0]
        few = len(moved) * _FEW < len(self.K)
        product = self.K[moved].T @ D[moved] if few else self.K @ D
        self.g += product.double().T.gather(1, self.index)

    def _gradient(self):
        """K beta + c, made in float64."""
        import torch

        number = torch.arange(len(self.beta), device=self.beta.device)[:, None].expand_as(self.beta)
        B = self.beta.new_zeros((len(self.K), len(self.beta)))
        B.index_put_((self.index, number), self.beta, accumulate=True)
        step = max(_FEWEST, min(_ROWS, len(self.K) // _PARTS))
        parts = [self.K[i : i + step].double() @ B for i in range(0, len(self.K), step)]
        return torch.cat(parts).T.gather(1, self.index) + self.linear

    # ------------------------------------------------------------------------------------ the answer
    def _solutions(self, status):
        beta, g = self.beta.cpu().numpy(), self.g.cpu().numpy()
        return [self._solution(i, beta[i], g[i], status) for i in range(len(self.problems))]

    def _solution(self, i, beta, g, status):
        problem, n = self.problems[i], len(self.rows[i])
        beta, g = beta[:n].copy(), g[:n].copy()
        violation = largest_slopes(problem, beta, g)[0]
        if violation <= 1.5 * self.tol:
            status = Status.CONVERGED
        return certified(problem, beta, g, status or Status.STAGNATED, int(self.steps[i]), violation)


def _solver(device):
    """By one kernel where Triton can run, else by torch."""
    from mercer.engines._triton_run import interpreted

    if find_spec("triton") is None or (device.type != "cuda" and not interpreted()):
        return solve_blocks
    from mercer.solvers._triton_smo import solve_blocks as by_kernel

    return by_kernel


def solve_blocks(K, beta, f, lower, upper, tol, tiny, limit):
    """Steps (problems,) of pairs on blocks: K (problems, q, q), and (problems, q) variables, which are moved, slopes and bounds.

    The pair of the smallest slope up and the partner with which the most is gained, until no slopes of a problem are further
    apart than its `tol`. Fan, Chen & Lin (2005).
    """
    import torch

    diagonal, every = K.diagonal(dim1=1, dim2=2).double(), torch.arange(len(K), device=K.device)
    steps = torch.zeros(len(K), dtype=torch.float64, device=K.device)
    for number in range(limit):
        up = f.masked_fill(beta >= upper, np.inf)
        low, i = up.min(1)
        going = f.masked_fill(beta <= lower, -np.inf).amax(1) - low > tol
        if number % _LOOK == 0 and not bool(going.any()):
            break
        row, apart = K[every, i].double(), f - low[:, None]
        curve = (diagonal[every, i][:, None] + diagonal - 2.0 * row).clamp(min=tiny)
        gain = (apart.square() / curve).masked_fill((beta <= lower) | (apart <= 0.0), -1.0)
        j = gain.argmax(1)
        above, below = (upper - beta)[every, i], (beta - lower)[every, j]
        step = torch.minimum((apart / curve)[every, j], torch.minimum(above, below)).masked_fill(~going, 0.0)
        # At a border a variable is exactly there.
        high, less = torch.where(step >= above, upper[every, i], beta[every, i] + step), beta[every, j] - step
        less = torch.where(step >= below, lower[every, j], less)
        beta[every, i] = high.where(going, beta[every, i])
        beta[every, j] = less.where(going, beta[every, j])
        f += step[:, None] * (row - K[every, j].double())
        steps += going
    return steps
