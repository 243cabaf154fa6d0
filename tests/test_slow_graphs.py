"""Graph kernels on real graphs: accuracy by nested cross-validation; and baskets by k-medoids."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from mercer import SVC, KMedoids
from mercer.kernels import Graph, Jaccard, WeisfeilerLehman, WLOptimalAssignment, read_graphs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

PENALTIES = 10.0 ** np.arange(-2, 3)


@pytest.mark.parametrize(
    ("name", "kernel", "widths", "wanted"),
    [
        ("mutag", WeisfeilerLehman, (1.0, 0.5), 0.85),
        ("ptc_mr", WeisfeilerLehman, (1.0, 0.5), 0.58),
        ("imdb_multi", WeisfeilerLehman, (1.0, 0.5), 0.51),
        ("imdb_binary", WLOptimalAssignment, (), 0.73),
    ],
)
def test_accuracy_by_nested_cross_validation(data_home, name, kernel, widths, wanted):
    """Rounds, width and penalty are chosen in each outer fold by an inner cross-validation. Five repeats.

    The Gaussian of the distance of normalised features; of the assignments the normalised kernel itself.
    """
    path = data_home / f"graph_{name}.npz"
    with np.load(path) as file:
        y = file["y"]
    graphs = [
        Graph(g.n_nodes, g.edges, g.codes) for g in read_graphs(path)
    ]  # labels of edges are left out, as in most tables
    grams = _grams(kernel, widths, graphs)
    scores = [_repeat(grams, y, seed) for seed in range(5)]
    print(f"\n{name}: {np.mean(scores):.4f}, repeats {np.round(scores, 4).tolist()}")
    assert np.mean(scores) >= wanted


def _grams(kernel, widths, graphs):
    unit = [kernel(h).normalise() for h in range(6)]
    return [k(graphs) for k in ([k.gaussian(width) for k in unit for width in widths] if widths else unit)]


def _repeat(grams, y, seed):
    """Share of right answers of the outer folds together."""
    right = 0
    for train, test in StratifiedKFold(10, shuffle=True, random_state=seed).split(y, y):
        within = np.ix_(train, train)
        best, C = _chosen([K[within] for K in grams], y[train], seed)
        model = SVC(C=C, kernel="precomputed").fit(grams[best][within], y[train])
        right += (model.predict(grams[best][np.ix_(test, train)]) == y[test]).sum()
    return right / len(y)


def _chosen(grams, y, seed):
    """Number of the Gram matrix and penalty with the best inner score; the first of equal ones."""
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    found = np.array([GridSearchCV(SVC(kernel="precomputed"), {"C": PENALTIES}, cv=folds, refit=False).fit(K, y)
                      .cv_results_["mean_test_score"] for K in grams])  # fmt: skip
    best, penalty = np.unravel_index(found.argmax(), found.shape)
    return best, PENALTIES[penalty]


def test_groceries(data_home):
    """Eight clusters of baskets, each described by the articles that are more frequent in it than elsewhere."""
    with np.load(data_home / "groceries.npz") as file:
        ptr, items, names = file["indptr"], file["indices"], file["items"]
    baskets = [frozenset(names[items[a:b]].tolist()) for a, b in pairwise(ptr)]
    baskets = [b for b in baskets if 2 <= len(b) <= 8][:3000]
    model = KMedoids(8, kernel=Jaccard(), random_state=0).fit(baskets)
    overall, described = Counter(i for b in baskets for i in b), 0
    print()
    for c in range(8):
        mine = [b for b, label in zip(baskets, model.labels_, strict=True) if label == c]
        share = {i: n / len(mine) for i, n in Counter(i for b in mine for i in b).items()}
        typical = sorted(share, key=lambda i: share[i] - overall[i] / len(baskets), reverse=True)[:3]
        described += share[typical[0]] > 0.5
        print(f"{len(mine):5d} baskets around {sorted(baskets[model.medoid_indices_[c]])}: "
              + ", ".join(f"{i} {share[i]:.0%}" for i in typical))  # fmt: skip
    assert described >= 6  # most clusters have an article that half of their baskets hold
