"""Latent positions of oil flow (D15), and entries that are taken out of it. Figures are printed; `-s` shows them."""

from time import perf_counter

import numpy as np
import pytest
from sklearn.decomposition import PCA

from mercer import GPLVM
from mercer.kernels import RBF
from test_slow_pca import neighbour_errors

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def oil_flow(home):
    with np.load(home / "oil_flow.npz") as file:
        return file["X"].astype(float), file["y"]


def subsets():
    return [np.random.RandomState(seed).permutation(1000)[:100] for seed in range(10)]


@pytest.mark.parametrize("settings", [{}, {"back_constraint": RBF(0.35)}], ids=["free", "back"])
def test_errors_of_the_nearest_neighbour(data_home, settings):
    """Leave-one-out, of 100 rows; Lawrence (2005) has 4 on a subset of his, and 20 by PCA. No label is seen by the fit."""
    X, y = oil_flow(data_home)
    start = perf_counter()
    errors = [neighbour_errors(GPLVM(**settings).fit(X[s]).embedding_, y[s]) for s in subsets()]
    seconds = perf_counter() - start
    linear = np.mean([neighbour_errors(PCA(2).fit_transform(X[s]), y[s]) for s in subsets()])
    print(f"\n{settings}: {np.mean(errors):.1f} {errors}, PCA {linear:.1f}; {seconds:.0f} s")
    assert np.mean(errors) <= 5


def test_a_thousand_rows(data_home):
    """Lawrence (2005) has 1 error, and 162 by PCA."""
    X, y = oil_flow(data_home)
    start = perf_counter()
    model = GPLVM().fit(X)
    seconds = perf_counter() - start
    errors, linear = neighbour_errors(model.embedding_, y), neighbour_errors(PCA(2).fit_transform(X), y)
    print(f"\nGPLVM {errors}, PCA {linear}; {seconds:.0f} s, {model.n_iter_} evaluations")
    assert linear > 150
    assert errors <= 0.2 * linear


def without_some(X):
    """Rows with a tenth of their entries taken out, and where."""
    gaps = np.random.default_rng(0).random(X.shape) < 0.1
    return np.where(gaps, np.nan, X), gaps


def test_entries_that_were_taken_out(data_home):
    """Of the rows of a fit, and of new ones: nearer than by a linear kernel.

    In a fit a few rows have the wrong place, where the columns that would tell are missing, so that the median is compared.
    """
    X, _ = oil_flow(data_home)
    order = np.random.RandomState(0).permutation(1000)
    rows, new = X[order[:100]], X[order[100:300]]
    (holed, gaps), (asked, unknown) = without_some(rows), without_some(new)
    found = {}
    for kernel in ("linear", None):
        filled = GPLVM(missing="marginalise", kernel=kernel).fit(holed).impute()
        model = GPLVM(missing="marginalise", kernel=kernel).fit(rows)
        expected = model.inverse_transform(model.transform(asked))
        found[kernel] = np.median(np.abs(filled - rows)[gaps]), np.sqrt(np.mean((expected - new)[unknown] ** 2))
    text = ", ".join(f"{kernel}: {inside:.3f} and {outside:.3f}" for kernel, (inside, outside) in found.items())
    print(f"\nmedian error in the rows of a fit, root mean squared error in new rows: {text}")
    assert found[None][0] < 0.5 * found["linear"][0]
    assert found[None][1] < 0.7 * found["linear"][1]
