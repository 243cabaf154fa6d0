"""How fast is the Gram matrix of strings, beside strkernels in C?"""

import numpy as np

from benchmarks.harness import OURS, Contender, benchmark, compare

NOTES = (
    "normalised; what strkernels calls the spectrum kernel counts all substrings up to length k, which is BlendedSpectrum. Its "
    "time grows with the square of the number of strings: it takes part at 500. The error is that of the whole Gram matrix"
)


@benchmark("spectrum Gram matrix of DNA strings, normalised: 500 against strkernels, and 3,000")
def strings(small):
    for n, k, alone in (
        ((20, 3, False), (30, 5, True)) if small else ((500, 3, False), (3_000, 3, True), (3_000, 5, True))
    ):
        yield _race(n, 40 if small else 200, k, small, alone)


def _race(n, length, k, small, alone):
    rng = np.random.default_rng(0)
    X = np.array(["".join(rng.choice(list("ACGT"), m)) for m in rng.integers(length // 2, length * 3 // 2, n)])
    expected = _plain(X, k)
    peer = Contender("strkernels", lambda: _peer(X, k), needs="strkernels", rounds=1, aim=10.0)
    return compare(
        f"{n} strings, lengths 1 to {k}",
        [Contender(OURS, lambda: _ours(X, k)), *([] if alone else [peer])],
        error=lambda K: float(np.abs(K - expected).max()),
        error_name="largest error",
        sizes={"n": n, "mean length": length, "k": k},
        small=small,
        notes=NOTES,
    )


def _ours(X, k):
    from mercer.kernels import BlendedSpectrum

    return BlendedSpectrum(k).normalise()(X)


def _peer(X, k):
    from strkernels import SpectrumStringKernel

    return SpectrumStringKernel(order=k, alphabet=0)(X, X)


def _plain(X, k):
    """By the counts of scikit-learn."""
    from sklearn.feature_extraction.text import CountVectorizer

    C = CountVectorizer(analyzer="char", lowercase=False, ngram_range=(1, k)).fit_transform(X).astype(float)
    K = (C @ C.T).toarray()
    return K / np.sqrt(np.outer(K.diagonal(), K.diagonal()))
