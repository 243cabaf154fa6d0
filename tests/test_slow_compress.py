"""Compression at size: digits by a support vector machine with 5 % of its vectors. Figures are printed; `-s` shows them."""

import numpy as np
import pytest

from mercer import SVC, compress

pytestmark = pytest.mark.slow


@pytest.mark.timeout(900)
def test_digits_with_one_vector_in_twenty(data_home):
    with np.load(data_home / "mnist.npz") as file:
        X, y = (file["X_train"][:10000] / 255).astype(np.float32), file["y_train"][:10000]
        new, labels = (file["X_test"] / 255).astype(np.float32), file["y_test"]
    model = SVC(C=10, gamma=0.02, cache_size=1000).fit(X, y)
    means = compress(model, 0.05, "kmeans", X=new, y=labels, random_state=0).compression_
    moved = compress(model, 0.05, X=new, y=labels, random_state=0, max_iter=500).compression_
    for record in (means, moved):
        print(f"\n{record}, {record.n_iter} steps, {record.seconds:.0f} s")
    assert moved.n_vectors == means.n_vectors == round(0.05 * moved.n_before)
    assert moved.score_after >= moved.score_before - 0.005
    assert moved.score_after > means.score_after
    assert moved.error < means.error
