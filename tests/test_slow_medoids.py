"""k-medoids at full size: swaps on real data against NumPy, one batch for all of MNIST, memory, and medoids as a classifier."""

import gzip
import textwrap

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from fresh import run
from mercer import KMedoids, NearestMedoidClassifier
from mercer.kernels import RBF, Spectrum
from test_limits import linux

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def mnist(data_home):
    """Grey values from 0 to 1 in single precision, and digits."""
    with np.load(data_home / "mnist.npz") as file:
        images = {name: file[name] for name in ("X_train", "y_train", "X_test", "y_test")}
    X, T = (images[n].reshape(len(images[n]), -1).astype(np.float32) / 255 for n in ("X_train", "X_test"))
    return X, images["y_train"], T, images["y_test"]


def gains(D, medoids):
    """Change of the loss by every swap with every candidate (n, k), from sorted distances and one product."""
    order = np.argsort(D[medoids], axis=0)[:2]
    dn, ds = np.take_along_axis(D[medoids], order, 0)
    mine = np.eye(len(medoids))[order[0]]
    kept = np.minimum(D - dn, 0.0)  # where the nearest medoid stays
    moved = np.minimum(D, ds) - dn  # where it goes
    return kept.sum(axis=1)[:, None] + (moved - kept) @ mine


def test_no_swap_helps(mnist):
    X = mnist[0][:4000].astype(np.float64)
    model = KMedoids(20, kernel=RBF(5.0), random_state=0).fit(X)
    D = np.sqrt(2 - 2 * np.exp(-(cdist(X, X) ** 2) / 50))
    assert model.inertia_ == pytest.approx(D[model.medoid_indices_].min(axis=0).sum(), rel=1e-7)
    rows = np.setdiff1d(np.arange(len(X)), model.medoid_indices_)
    assert gains(D, model.medoid_indices_)[rows].min() > -1e-6 * model.inertia_
    other = np.append(model.medoid_indices_[1:], rows[0])
    assert gains(D, other).min() < -1e-4 * model.inertia_  # the twin sees what is left to gain


def test_one_batch_of_all_of_mnist(mnist):
    X = mnist[0]
    some = KMedoids(50, kernel="linear", method="fasterpam", random_state=0).fit(X[:10_000])
    batch = KMedoids(50, kernel="linear", method="onebatch", random_state=0).fit(X[:10_000])
    everything = KMedoids(50, kernel="linear", random_state=0).fit(X)
    assert everything.solver_used_ == "onebatch"
    others = some.transform(X).min(axis=1).sum()
    print(f"\n10 000 rows: one batch {batch.inertia_ / some.inertia_:.4f} times the loss of all pairs; "
          f"{len(X)} rows: {everything.inertia_ / others:.4f} times that of the medoids of 10 000")  # fmt: skip
    assert batch.inertia_ < 1.03 * some.inertia_
    assert everything.inertia_ < 1.02 * others


@linux
def test_memory_of_one_batch():
    """In a process of its own: n x m distances, and 1.2 times as much at most."""
    out = run(
        textwrap.dedent("""
        import numpy as np
        from fresh import measured
        from mercer import KMedoids
        from mercer.solvers.medoids import batch_rows

        X = np.random.default_rng(0).standard_normal((60_000, 5))
        KMedoids(5, method="onebatch", random_state=0).fit(X[:2000])
        taken = measured(lambda: KMedoids(5, random_state=0).fit(X))
        print(taken / (60_000 * batch_rows(60_000, 5) * 8))
        """),
        timeout=200,
    )
    assert 0.9 < float(out) < 1.2


def test_medoids_of_digits_classify(mnist):
    X, y, T, t = mnist
    scores = [NearestMedoidClassifier(m, kernel="linear", random_state=0).fit(X, y).score(T, t) for m in (1, 10, 100)]
    print(f"\nMNIST, 1, 10 and 100 medoids a class: {scores}")
    assert scores[0] < scores[1] < scores[2]
    assert scores[2] > 0.93


def test_promoters(data_home):
    with gzip.open(data_home / "promoters.tsv.gz", "rt") as file:
        kind, dna = zip(*(line.split() for line in file), strict=True)
    k, train = Spectrum(4).normalise(), np.arange(0, len(dna), 2)
    test = np.arange(1, len(dna), 2)
    D = np.sqrt(np.maximum(2 - 2 * k(list(dna)), 0))
    texts, labels = [dna[i] for i in train], np.array(kind)[train]
    nearest = NearestMedoidClassifier(len(train), kernel=k).fit(texts, labels)
    expected = labels[D[np.ix_(test, train)].argmin(axis=1)]
    assert (nearest.predict([dna[i] for i in test]) == expected).mean() > 0.98  # but for ties
    few = KMedoids(6, kernel=k, n_init=5, random_state=0).fit(list(dna))
    assert few.inertia_ == pytest.approx(D[few.medoid_indices_].min(axis=0).sum(), rel=1e-6)
    rows = np.setdiff1d(np.arange(len(dna)), few.medoid_indices_)
    assert gains(D, few.medoid_indices_)[rows].min() > -1e-6 * few.inertia_
