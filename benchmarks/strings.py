"""How fast is the Gram matrix of strings, beside strkernels in C?"""

import numpy as np

from benchmarks.harness import OURS, Contender, benchmark, compare

NOTES = (
    "normalised; what strkernels calls the spectrum kernel counts all substrings up to length k, which is BlendedSpectrum. Its "
    "time grows with the square of the number of strings: it takes part at 200"
)


@benchmark("spectrum Gram matrix of DNA strings, normalised: 200 against strkernels, and 3,000")
def strings(small):
    for n in (20, 30) if small else (200, 3_000):
        for k in (3, 5) if n > 200 else (3,):
            yield _race(n, 40 if small else 200, k, small, alone=n in (30, 3_000))


def _race(n, length, k, small, alone):
    rng = np.random.default_rng(0)
    X = np.array(["".join(rng.choice(list("ACGT"), m)) for m in rng.integers(length // 2, length * 3 // 2, n)])
    expected = _plain(X[:10], k)
    peer = Contender("strkernels", lambda: _peer(X, k), needs="strkernels", rounds=1, aim=10.0)
    return compare(
        f"{n} strings, lengths 1 to {k}",
        [Contender(OURS, lambda: _ours(X, k)), *([] if alone else [peer])],
        error=lambda K: float(np.abs(K[:10, :10] - expected).max()),
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
    """By counting."""
    from collections import Counter

    counts = [Counter(x[i : i + j] for j in range(1, k + 1) for i in range(len(x) - j + 1)) for x in X]
    K = np.array([[sum(v * b[u] for u, v in a.items()) for b in counts] for a in counts], float)
    return K / np.sqrt(np.outer(K.diagonal(), K.diagonal()))
