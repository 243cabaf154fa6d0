"""Kernel PCA, discriminants and clusters at size: memory, real digits, oil flow. Figures are printed; `-s` shows them."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier

from mercer import SVC, KernelKMeans, KernelPCA
from mercer.kernels import RBF
from test_limits import run

pytestmark = pytest.mark.slow

PEAK = """
    import resource, numpy as np
    from mercer import KernelKMeans, KernelPCA
    from mercer.kernels import RBF
    X = np.random.default_rng(0).standard_normal((N, 10))
    MODEL.fit(X[:600])   # compiles
    low = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    MODEL.fit(X)
    print(low * 1024, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def peak(n, model):
    """Bytes before and at the peak of a fit in a process of its own."""
    import textwrap

    code = textwrap.dedent(PEAK).replace("MODEL", model)
    return map(int, run(f"N = {n}\n{code}", timeout=900).split())


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("n", [6000, 10_000])
def test_components_take_little_more_than_the_gram(n):
    low, high = peak(n, "KernelPCA(10, kernel=RBF(3.0), random_state=0)")
    print(f"\nn = {n}: {(high - low) / (8 * n * n):.3f} of the Gram")
    assert high - low < 1.15 * 8 * n * n


@pytest.mark.timeout(1000)
@pytest.mark.parametrize(
    "model",
    [
        "KernelPCA(20, kernel=RBF(3.0), n_landmarks=500, random_state=0)",
        "KernelKMeans(10, kernel=RBF(3.0), n_landmarks=500, random_state=0, max_iter=1000)",
        "KernelKMeans(10, kernel=RBF(3.0), n_landmarks=500, batch_size=1000, random_state=0)",
    ],
    ids=["pca", "kmeans", "batches"],
)
def test_a_hundred_thousand_rows(model):
    _, high = peak(100_000, model)
    print(f"\n{model}: peak {high / 1e9:.2f} GB")
    assert high < 4e9


# ------------------------------------------------------------------------------------------------ oil flow (D15)
def neighbour_errors(T, y):
    near = KNeighborsClassifier(1).fit(T, y).kneighbors(return_distance=False)[:, 0]
    return int((y[near] != y).sum())


def test_oil_flow_in_two_components(data_home):
    """Leave-one-out errors of the nearest neighbour, mean of ten subsets of 100 rows, each with its best width."""
    with np.load(data_home / "oil_flow.npz") as file:
        X, y = file["X"].astype(float), file["y"]
    subsets = [np.random.RandomState(seed).permutation(1000)[:100] for seed in range(10)]
    widths = np.geomspace(0.2, 5.0, 25)

    def errors(Z):
        pca = [neighbour_errors(PCA(2).fit_transform(Z[s]), y[s]) for s in subsets]
        ours = [
            [neighbour_errors(KernelPCA(2, kernel=RBF(w)).fit_transform(Z[s]), y[s]) for s in subsets] for w in widths
        ]
        return np.mean(pca), np.array(ours)

    pca, ours = errors(X)
    scaled_pca, scaled = errors((X - X.mean(axis=0)) / X.std(axis=0))
    print(f"\nPCA {pca:.1f}, kernel PCA {ours.min(axis=0).mean():.1f} ({ours.min(axis=0).mean() / pca:.2f}); one width for all "
          f"{ours.mean(axis=1).min():.1f}; scaled: PCA {scaled_pca:.1f}, one width {scaled.mean(axis=1).min():.1f}")  # fmt: skip
    assert ours.min(axis=0).mean() <= 0.85 * pca
    assert scaled.mean(axis=1).min() <= 0.85 * scaled_pca


# ------------------------------------------------------------------------------------------------ digits (D16)
def digits(home, n, m, dtype=np.float32):
    with np.load(home / "mnist.npz") as file:
        X, T = file["X_train"][:n], file["X_test"][:m]
        return X.astype(dtype) / 255, file["y_train"][:n], T.astype(dtype) / 255, file["y_test"][:m]


def squared_error(Z, T):
    return float(np.square(Z - T).sum(axis=1, dtype=np.float64).mean())


def first_components(model, q):
    """The same model with its first q components."""
    few = KernelPCA.__new__(KernelPCA)
    few.__dict__.update(model.__dict__)
    few.coefficients_, few.eigenvalues_ = model.coefficients_[:, :q], model.eigenvalues_[:q]
    few.intercept_, few.scale_ = model.intercept_[:q], model.scale_[:q]
    return few


#: Pre-image methods and numbers of components; a gradient ends where a fixed point does, and takes longer.
METHODS = {"fixed_point": (20, 60, 150, 220, 300), "distances": (20, 60, 150, 220, 300), "gradient": (220,),
           "candidates": (20, 60, 150, 300)}  # fmt: skip


@pytest.mark.filterwarnings("ignore::mercer.errors.NumericalWarning")  # of noisy digits, some pre-images are poor
@pytest.mark.timeout(1700)
def test_denoising_digits(data_home):
    """Squared error of denoised digits, each method at its best number of components; 10 000 rows, 200 test digits."""
    X, _, T, _ = digits(data_home, 10_000, 200)
    rng = np.random.default_rng(0)
    linear = PCA(160, random_state=0).fit(X)
    model = KernelPCA(300, kernel=RBF(12.0), random_state=0).fit(X)
    table = {}
    for sd in (0.25, 0.5, 1.0):
        noisy = (T + sd * rng.standard_normal(T.shape)).astype(np.float32)
        codes = linear.transform(noisy)
        row = {
            "PCA": min(
                squared_error(codes[:, :q] @ linear.components_[:q] + linear.mean_, T)
                for q in (5, 10, 20, 40, 60, 80, 120, 160)
            )
        }
        for method, counts in METHODS.items():
            row[method] = min(squared_error(first_components(model, q).denoise(noisy, method), T) for q in counts)
        table[sd] = row
        print(f"\nsd {sd}: " + ", ".join(f"{name} {error:.2f}" for name, error in row.items()), flush=True)
    best = min(table[0.25][m] for m in ("fixed_point", "distances", "gradient"))
    assert table[0.25]["PCA"] >= 1.1 * best


@pytest.mark.timeout(1700)
def test_components_of_digits_serve_a_linear_classifier(data_home):
    """20 000 digits, 2000 components of landmarks' features, a linear support vector machine on them."""
    X, y, T, z = digits(data_home, 20_000, 10_000)
    model = KernelPCA(2000, kernel=RBF(5.0), n_landmarks=4000, random_state=0).fit(X)
    linear = SVC(C=5.0, kernel="linear", cache_size=2000).fit(model.transform(X), y)
    error = float((linear.predict(model.transform(T)) != z).mean())
    print(f"\n{len(model.eigenvalues_)} components: {100 * error:.2f} % of test digits wrong")
    assert error <= 0.028


def test_clusters_of_many_rows_are_found():
    rng = np.random.default_rng(0)
    y = np.arange(30_000) % 5
    X = 6 * rng.standard_normal((5, 3))[y] + rng.standard_normal((30_000, 3))
    labels = KernelKMeans(5, kernel=RBF(4.0), n_landmarks=200, n_init=5, random_state=0).fit_predict(X)
    table = np.array([[(labels[y == c] == k).sum() for k in range(5)] for c in range(5)])
    assert table.max(axis=1).sum() > 0.97 * len(y)
