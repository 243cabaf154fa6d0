"""Graph kernels on real graphs: accuracy by nested cross-validation, walks against all pairs, and baskets by k-medoids."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from mercer import SVC, KMedoids
from mercer.kernels import Jaccard, ShortestPath, WeisfeilerLehman, WLOptimalAssignment, read_graphs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

OA, WL = WLOptimalAssignment, WeisfeilerLehman
MOLECULES = [OA(1), WL(1), OA(3) + ShortestPath(), OA(5)]
NETWORKS = [OA(1), OA(3)]


@pytest.mark.parametrize(
    ("name", "kernels", "penalties", "wanted"),
    [
        ("mutag", [OA(1) + WL(1)], (10.0, 100.0), 0.85),
        ("ptc_mr", MOLECULES, (1.0, 10.0), 0.58),
        ("imdb_binary", NETWORKS, (1.0, 10.0), 0.73),
        ("imdb_multi", NETWORKS, (1.0, 10.0), 0.51),
    ],
)
def test_accuracy_by_nested_cross_validation(data_home, name, kernels, penalties, wanted):
    """Kernel and penalty are chosen in each outer fold by an inner cross-validation; ten folds, five repeats."""
    path = data_home / f"graph_{name}.npz"
    graphs = read_graphs(path)
    with np.load(path) as file:
        y = file["y"]
    grams = [_normalised(k)(graphs) for k in kernels]  # of pairs: no kernel here is learned from the rows
    scores = [_repeat(grams, y, penalties, seed) for seed in range(5)]
    print(f"\n{name}: {np.mean(scores):.4f}, repeats {np.round(scores, 4).tolist()}")
    assert np.mean(scores) >= wanted


def _normalised(kernel):
    parts = getattr(kernel, "parts", (kernel,))
    return sum((k.normalise() for k in parts[1:]), parts[0].normalise())


def _repeat(grams, y, penalties, seed):
    right = 0
    for train, test in StratifiedKFold(10, shuffle=True, random_state=seed).split(y, y):
        K, C = _chosen([K[np.ix_(train, train)] for K in grams], y[train], penalties, seed)
        model = SVC(C=C, kernel="precomputed").fit(grams[K][np.ix_(train, train)], y[train])
        right += (model.predict(grams[K][np.ix_(test, train)]) == y[test]).sum()
    return right / len(y)


def _chosen(grams, y, penalties, seed):
    """Number of the kernel and penalty with the best inner score."""
    folds = StratifiedKFold(5 if len(y) < 500 else 3, shuffle=True, random_state=seed)
    best = (-1.0, 0, 1.0)
    for i, K in enumerate(grams):
        search = GridSearchCV(SVC(kernel="precomputed"), {"C": penalties}, cv=folds, refit=False).fit(K, y)
        best = max(best, (search.cv_results_["mean_test_score"].max(), i, search.best_params_["C"]), key=lambda b: b[0])
    return best[1:]


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
