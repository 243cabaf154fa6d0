"""How fast is one exact kernel ridge fit, and how much memory does it take?"""

from benchmarks.harness import OURS, Contender, benchmark, compare
from benchmarks.ridge_data import GAMMA, LENGTHSCALE, D, problem, relative_residual

ALPHA = 0.1


@benchmark("kernel ridge fit, float64, 8,000 rows, 20 columns, against scikit-learn and himalaya")
def ridge_fit(small):
    n = 100 if small else 8_000
    X, y, _ = problem(n)
    result = compare(
        "fit with one penalty",
        [
            Contender(OURS, lambda: _ours(X, y)),
            Contender("scikit-learn KernelRidge", lambda: _sklearn(X, y), "sklearn", aim=2.0),
            # An eigendecomposition, a minute at full size: twice is enough.
            Contender(
                "himalaya KernelRidge", lambda: _himalaya(X, y), "himalaya", rounds=None if small else 2, aim=1.2
            ),
        ],
        error=lambda model: relative_residual(X, y, model.dual_coef_, ALPHA),
        error_name="relative residual",
        sizes={"n": n, "d": D, "dtype": "float64"},
        small=small,
    )
    for row in result["rows"]:
        if row.get("peak_bytes") is not None:
            row["peak_over_gram"] = row["peak_bytes"] / (8 * n * n)
    shares = [f"{row['name']} {row['peak_over_gram']:.2f}" for row in result["rows"] if "peak_over_gram" in row]
    result["notes"] = "residual recomputed with distances by differences; peak memory over 8 n^2 bytes: " + ", ".join(
        shares
    )
    yield result


def _ours(X, y):
    from mercer import KernelRidge
    from mercer.kernels import RBF

    return KernelRidge(ALPHA, kernel=RBF(LENGTHSCALE)).fit(X, y)


def _sklearn(X, y):
    from sklearn.kernel_ridge import KernelRidge

    return KernelRidge(alpha=ALPHA, kernel="rbf", gamma=GAMMA).fit(X, y)


def _himalaya(X, y):
    from himalaya.backend import set_backend
    from himalaya.kernel_ridge import KernelRidge

    set_backend("numpy")
    return KernelRidge(alpha=ALPHA, kernel="rbf", kernel_params={"gamma": GAMMA}).fit(X, y)
