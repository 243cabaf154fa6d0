"""Kernels on graphs pair by pair: random walks, and the propagation of continuous attributes."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from mercer.errors import NanError
from mercer.kernels.bags import all_stacked, of_bags, require_vectors, sums_of_pairs
from mercer.kernels.base import Kernel, PairKernel, frozen, require_memory
from mercer.kernels.graph_features import check_labelled
from mercer.kernels.graphs import Graph, degrees
from mercer.kernels.parameters import Count, Positive, Spec
from mercer.kernels.radial import RBF
from mercer.kernels.validity import certificate
from mercer.registry import register

__all__ = ["Propagation", "RandomWalk"]

_STEPS = 2**24  # products of a loop of walks between two looks at the interpreter


@dataclass(frozen=True, eq=False)
class _Walker:
    """What the loop of walks reads: CSR neighbours, labels, and the largest eigenvalue of the adjacency."""

    ptr: np.ndarray
    near: np.ndarray
    labels: np.ndarray
    labelled: bool | None  # None: no nodes
    radius: float


@register
@frozen
class RandomWalk(PairKernel):
    r"""Random-walk kernel (S11): common label sequences of walks of all lengths l, weighted by decay to l.

    .. math:: k = \sum_{l=0}^{steps} \lambda^l\, \mathbf{1}^\top A_\times^l \mathbf{1}

    for the adjacency of the product graph, whose nodes are pairs of nodes with the same label. With `steps=None` the sum is
    infinite: it converges if decay is below the reciprocal of the largest eigenvalue of that adjacency, for which the product of
    those of the two graphs is a bound; it is checked for every pair. Labels of edges are not read. Gärtner et al. (2003).

    >>> edge = ([(0, 1)], "CO")
    >>> float(RandomWalk(0.5, steps=1)([edge], [edge])[0, 0])  # 2 nodes, and C-O in both directions
    3.0
    """

    decay: Positive = 0.01
    steps: Annotated[Any, Spec(low=0, integer=True, optional=True)] = None
    reads_objects = True
    not_differentiable = ("decay",)

    def parse(self, x):
        g = Graph.read(x)
        A = g.adjacency
        labelled = g.codes is not None if g.n_nodes else None
        return _Walker(A.indptr.astype(np.int64), A.indices.astype(np.int64), g.labels, labelled, _radius(A))

    def pair(self, x, y):
        check_labelled(x.labelled, y.labelled)
        bound = float(self.decay) * x.radius * y.radius
        if self.steps is None and bound >= 1.0:
            raise ValueError(f"RandomWalk(decay={self.decay:g}) may not converge: the largest eigenvalues of two graphs are "
                             f"{x.radius:.4g} and {y.radius:.4g}, so decay must be below {1 / (x.radius * y.radius):.3g}; "
                             "choose a smaller one, or a number of steps")  # fmt: skip
        return self._summed(x, y, bound)

    def _summed(self, x, y, bound):
        from mercer.kernels import _compiled_graphs as loops

        n, m = len(x.labels), len(y.labels)
        require_memory(
            17 * n * m, f"RandomWalk on graphs of {n} and {m} nodes", ["use WeisfeilerLehman, or smaller graphs"]
        )
        X = (x.labels[:, None] == y.labels[None, :]).astype(np.float64)
        Y, total, done = np.empty_like(X), float(X.sum()), not X.any()
        left = np.inf if self.steps is None else int(self.steps)
        each = max(1, _STEPS // max(len(x.near) * m + n * len(y.near) + X.size, 1))
        while left > 0 and not done:
            some = int(min(left, each))
            total, done = loops.walks(X, x.ptr, x.near, y.ptr, y.near, x.labels, y.labels, float(self.decay),
                                      bound if self.steps is None else 1.0, total, Y, some)  # fmt: skip
            left -= some
        if not np.isfinite(total):
            raise NanError(
                f"RandomWalk: the walks of {self.steps} steps are more than float64 holds; use a smaller decay"
            )
        return total

    @property
    def validity(self):
        return certificate("psd", "an inner product of counts of labelled walks with weights >= 0")


def _radius(A):
    """Largest eigenvalue of an adjacency, or the bound by the largest degree where it would take long."""
    if not A.nnz:
        return 0.0
    if A.shape[0] > 500:
        return float(np.diff(A.indptr).max())
    return float(np.linalg.eigvalsh(A.toarray())[-1])


@register
@frozen
class Propagation(PairKernel):
    r"""Propagation kernel of continuous attributes (S11): a kernel of vectors, summed over all pairs of nodes and all rounds.

    .. math:: k = \sum_{t=0}^{steps} \sum_{v, v'} \kappa(x_v^{(t)}, x_{v'}^{(t)}), \qquad x^{(t+1)} = D^{-1} A x^{(t)}

    In each round a node takes the mean of its neighbours' attributes; one without neighbours keeps its own. Words such as
    "median" in the kernel are resolved on the attributes of the rows. After Neumann et al. (2016), without their hashing.

    >>> g = {"edges": [(0, 1)], "attributes": [[0.0], [1.0]]}
    >>> from mercer.kernels import Linear
    >>> float(Propagation(Linear(), steps=1)([g])[0, 0])  # (0 + 1)^2 before, (1 + 0)^2 after
    2.0
    """

    kernel: Kernel = RBF()
    steps: Count = 2
    reads_objects = True

    def check(self):
        require_vectors(self)

    def _resolved(self, rows, weight):
        X, node = all_stacked(lambda x: self.parse(x)[0], rows)
        if not len(X):
            return self
        return self._with(kernel=self.kernel.resolve(X, None if weight is None else weight[node]))

    def parse(self, x):
        """Attributes of the nodes in all rounds."""
        g = Graph.read(x)
        if g.n_nodes == 0:
            return [np.zeros((0, 0))] * (int(self.steps) + 1)
        if g.attributes is None:
            raise ValueError('Propagation reads graphs whose nodes have "attributes"; this one has none')
        A, degree = g.adjacency, degrees(g.edges, g.n_nodes)
        rounds = [g.attributes]
        for _ in range(int(self.steps)):
            mean = (A @ rounds[-1]) / np.maximum(degree, 1)[:, None]
            rounds.append(np.where(degree[:, None] > 0, mean, rounds[-1]))
        return rounds

    def block(self, xs, ys):
        return sum(
            sums_of_pairs(self.kernel, [x[t] for x in xs], [y[t] for y in ys]) for t in range(int(self.steps) + 1)
        )

    def __repr__(self):
        return f"Propagation({self.kernel!r}, steps={int(self.steps)})"

    @property
    def validity(self):
        return of_bags(self.kernel.validity, "sum over all pairs of nodes")
