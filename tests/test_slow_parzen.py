"""Window sums at full size: ten million points on a line and a million in space, in a limited address space."""

import sys

import pytest

from fresh import run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

LIMITED = """
    import resource, time
    import numpy as np
    from mercer.solvers.parzen import parzen
    from mercer.solvers.windows import SHAPES

    resource.setrlimit(resource.RLIMIT_AS, (4 * 10**9, 4 * 10**9))
    n, d, m, shape = N, D, M, SHAPES[NAME]
    h = n ** (-1.0 / (d + 4))
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((n, d))
    Z /= h
    Q = rng.standard_normal((m, d)) * (1.2 / h)
    start = time.perf_counter()
    made = parzen(Z, None, shape, algorithm=WORD)
    found = made.log_density(Q, rtol=RTOL)
    seconds = time.perf_counter() - start
    chosen = Q[:20]
    sums = np.array([shape.value(((Z - q) ** 2).sum(axis=1)).mean() for q in chosen])
    expected = sums * np.exp(shape.log_constant(d))
    print(made.used, seconds, np.abs(np.exp(found[:20]) - expected).max() / expected.max())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the address space")
@pytest.mark.parametrize(
    ("n", "d", "m", "name", "word", "rtol", "used"),
    [
        (10**7, 1, 10**5, "gaussian", "auto", 0.0, "line"),
        (10**7, 1, 10**5, "exponential", "auto", 0.0, "line"),
        (10**7, 1, 10**5, "biweight", "fft", 0.0, "fft"),
        (10**7, 1, 10**5, "epanechnikov", "auto", 0.0, "tree"),
        (10**6, 3, 10**5, "gaussian", "auto", 1e-4, "tree"),
        (10**6, 3, 10**5, "tricube", "auto", 0.0, "tree"),
    ],
)
def test_many_points_in_four_gigabytes(n, d, m, name, word, rtol, used):
    code = LIMITED
    for key, value in {"NAME": name, "N": n, "D": d, "M": m, "WORD": word, "RTOL": rtol}.items():
        code = code.replace(f"SHAPES[{key}]", f"SHAPES[{value!r}]").replace(f"={key})", f"={value!r})")
    code = code.replace("N, D, M,", f"{n}, {d}, {m},")
    word, seconds, error = run(code, timeout=550, OPENBLAS_NUM_THREADS="2").split()
    print(f"\n{name}, {n} points, {m} queries in {d} dimension(s): {word}, {float(seconds):.1f} s, error {error}")
    assert word == used
    assert float(error) <= {"fft": 1e-6}.get(used, max(rtol, 1e-11))
