"""Checks and timings on CUDA. Usage, from the repository root:

    PYTHONPATH=src python out/gpu_check.py agree [--composites 0] [--jobs 8] [--verbs block,one,many,reduce,pullback]
    PYTHONPATH=src python out/gpu_check.py time [--n 1000000] [--m 20000] [--widths 10,28,90,784]
    PYTHONPATH=src python out/gpu_check.py robust

`agree` holds every kernel of tests/cases.py on CUDA to the reference engine (float32 accurate: 1e-5, float64: 1e-10, relative to
the largest entry; kernels of angles lose half their digits, see cases.TOLERANCE). `time` prints entries/s and errors of K @ v.
`robust` tries memory that is short, repetition to the last bit, odd sizes, and a compiler that fails.
"""
import argparse, multiprocessing, os, sys, time, warnings
sys.path[:0] = ["src", "tests"]
import numpy as np

LIMIT = {"float32": 1e-5, "float64": 1e-10}


def error(a, b):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return float(np.abs(a - b).max(initial=0.0) / max(1.0, np.abs(b).max(initial=0.0)))


def check(task):
    number, composites, verbs = task
    import torch
    from cases import TOLERANCE, kernel_cases
    from mercer.engines import _triton_run
    case, lines = kernel_cases(composites=composites)[number], []
    worst, fused = {}, None
    for dtype in LIMIT:
        for cross in (True, False):
            try:
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    K, R = case.gram("cuda", dtype, cross), case.gram("reference", dtype, cross)
                    e = [K.x.lowered.expression]
                    fused = _triton_run.why_not(K.engine.place(K.x.dtype), K.x, e) is None
                    D = R.dense().astype(float)
                    found = {}
                    V = np.random.default_rng(2).standard_normal((K.shape[1], 3)).astype(dtype)
                    if "block" in verbs:
                        found["block"] = error(K.dense(), D)
                    if "one" in verbs:
                        found["one"] = error(K @ V[:, 0], D @ V[:, 0].astype(float))
                    if "many" in verbs:
                        found["many"] = error(K @ V, D @ V.astype(float))
                    if "reduce" in verbs:
                        found["sum"] = error(K.reduce("sum"), D.sum(1))
                        found["max"] = error(K.reduce("max"), D.max(1))
                        found["argmin"] = error(K.reduce("argmin")[0], D.min(1))
                        found["logsumexp"] = error(K.reduce("logsumexp"), np.log(np.exp(D - D.max()).sum(1)) + D.max())
                        found["topk"] = error(K.reduce("topk", k=4)[0], -np.sort(-D, 1)[:, :4])
                    if "pullback" in verbs:
                        W = np.random.default_rng(3).standard_normal((K.shape[0], 1)), np.random.default_rng(4).standard_normal((K.shape[1], 1))
                        for w in (W, W[0] @ W[1].T):
                            a, b = K.pullback(w), R.pullback(w)
                            found["pullback"] = max([found.get("pullback", 0.0)] + [error(a[n], b[n]) for n in b])
                            if case.kernel.differentiable_inputs and not case.angle:
                                found["inputs"] = max(found.get("inputs", 0.0), error(K.pullback_inputs(w), R.pullback_inputs(w)))
                for w in said:
                    lines.append(f"WARNING {case} {dtype}: {w.message}")
                for verb, value in found.items():
                    limit = max(LIMIT[dtype], TOLERANCE["angle"][dtype] if case.angle else 0.0)
                    if verb in ("pullback", "inputs"):
                        limit = max(limit, TOLERANCE["gradient"][dtype])
                    worst[dtype, verb] = max(worst.get((dtype, verb), 0.0), value)
                    if not value <= limit:
                        lines.append(f"OFF {case} {dtype} cross={cross} {verb}: {value:.2e} > {limit:.0e} fused={fused}")
            except Exception as raised:
                lines.append(f"ERROR {case} {dtype} cross={cross}: {type(raised).__name__}: {str(raised)[:300]}")
    return str(case), case.angle, fused, worst, lines


def agree(options):
    from cases import kernel_cases
    tasks = [(i, options.composites, options.verbs.split(",")) for i in range(len(kernel_cases(composites=options.composites)))]
    start, worst, fused, wrong = time.time(), {}, 0, 0
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for name, angle, is_fused, found, lines in pool.imap_unordered(check, tasks):
            fused += bool(is_fused)
            wrong += bool(lines)
            print(*lines, sep="\n", end="\n" if lines else "", flush=True)
            if not angle:
                for key, value in found.items():
                    worst[key] = max(worst.get(key, 0.0), value)
    print(f"{len(tasks)} cases, {fused} by generated kernels, {wrong} with remarks, {time.time() - start:.0f} s")
    for key in sorted(worst):
        print("largest error", *key, f"{worst[key]:.1e}")


def timing(options):
    import torch
    from mercer import Engine
    from mercer import kernels as mk
    from mercer.engines import _triton_run
    from mercer.gram import gram
    n, m = options.n, options.m
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    for d in map(int, options.widths.split(",")):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, d), dtype=np.float32)
        Y = X[rng.permutation(n)[:m]] + np.float32(0)
        l = float(np.sqrt(d))
        some = np.arange(0, n, max(1, n // 2000))
        A, B = torch.tensor(X[some]).cuda().double(), torch.tensor(Y).cuda().double()
        for kernel in (mk.RBF(l), 2 * mk.RBF(l) + mk.Matern(1.5, l) * mk.Linear()):
            exact = torch.exp(-0.5 * (torch.cdist(A, B) / l) ** 2)
            if "Matern" in repr(kernel):
                r = np.sqrt(3) * torch.cdist(A, B) / l
                exact = 2 * exact + (1 + r) * torch.exp(-r) * (A @ B.T)
            for precision in ("accurate", "fast", "float64") if d <= 28 else ("accurate", "fast"):
                for p in (1, 16):
                    V = torch.randn(m, p, generator=torch.Generator().manual_seed(1)).cuda()
                    t0 = time.time()
                    K = gram(kernel, torch.tensor(X).cuda(), torch.tensor(Y).cuda(), engine=Engine("cuda", precision=precision))
                    t1 = time.time()
                    with warnings.catch_warnings(record=True) as said:
                        warnings.simplefilter("always")
                        out = K @ V
                    torch.cuda.synchronize()
                    t2, best = time.time(), np.inf
                    for _ in range(3):
                        torch.cuda.synchronize()
                        t = time.time()
                        out = K @ V
                        torch.cuda.synchronize()
                        best = min(best, time.time() - t)
                    ref = exact @ V.double()
                    err = float((out[torch.tensor(some).cuda()].double() - ref).norm() / ref.norm())
                    tiles = [v for k, v in _triton_run._chosen.items()][-1:]
                    print(f"d={d} {repr(kernel)[:28]:28} {precision:8} p={p:2}: {best * 1e3:8.1f} ms {n * m / best:.2e} entries/s error {err:.1e} "
                          f"prepare {t1 - t0:.1f} s first {t2 - t1:.1f} s tiles {tiles} {[str(w.message)[:200] for w in said]}", flush=True)


def robust(options):
    import torch
    from mercer import Engine, kernels as mk
    from mercer.engines import _triton_run, tensors
    from mercer.gram import gram
    rng = np.random.default_rng(0)
    for n, m, d in ((1, 1, 1), (1, 17, 3), (17, 1, 65), (129, 257, 90), (300, 200, 2000), (5, 70000, 2)):
        X, Y = rng.standard_normal((n, d)), rng.standard_normal((m, d))
        for dtype in ("float32", "float64"):
            k = mk.RBF(float(np.sqrt(d))) + mk.Laplacian(float(np.sqrt(d))) + mk.Laplacian(10.0 * d, metric="l1")
            K, R = (gram(k, X.astype(dtype), Y.astype(dtype), engine=e) for e in ("cuda", "cpu"))
            v = rng.standard_normal(m).astype(dtype)
            print("size", n, m, d, dtype, "K @ v", f"{error(K @ v, R @ v):.1e}", "argmin", bool((K.reduce("argmin")[1] == R.reduce("argmin")[1]).all()),
                  "cross", f"{error(K.engine.cross(K.x, K.y, np.ones((n, 2))), R.engine.cross(R.x, R.y, np.ones((n, 2)))):.1e}")
    X = rng.standard_normal((200_000, 10)).astype("float32")
    Y = X[:5000] + np.float32(0.5)
    for engine in (Engine("cuda", deterministic=True), Engine("cuda")):
        K = gram(mk.RBF(3.0), X, Y, engine=engine)
        v = rng.standard_normal((5000, 1)).astype("float32")
        print("repeated", engine, np.array_equal(K @ v, K @ v))
    far = np.vstack([rng.standard_normal((40, 3)), rng.standard_normal((40, 3)) + 2e4]).astype("float32")
    print("two clusters", [f"{error(gram(k, far, engine='cuda').dense(), gram(k, far, engine='reference').dense()):.1e}" for k in (mk.RBF(), mk.Laplacian())])
    torch.set_float32_matmul_precision("high")
    print("TF32 set by the user", f"{error(gram(mk.Linear(), X[:500], engine='cuda').engine._values(gram(mk.Linear(), X[:500], engine='cuda').x, gram(mk.Linear(), X[:500], engine='cuda').y).cpu(), X[:500].astype(float) @ X[:500].T.astype(float)):.1e}")
    torch.set_float32_matmul_precision("highest")
    K = gram(mk.RBF(3.0), X, X[:60000] + np.float32(0), engine=Engine("cuda"))
    expected = K @ np.ones((60000, 1), np.float32)
    saved, _triton_run.why_not = _triton_run.why_not, lambda *a: "no kernels in this trial"
    torch.cuda.empty_cache()
    for fraction in (0.01, 0.005, 0.003):
        try:
            torch.cuda.set_per_process_memory_fraction(fraction)
            print("memory", fraction, f"{error(K @ np.ones((60000, 1), np.float32), expected):.1e}")
        except Exception as raised:
            print("memory", fraction, type(raised).__name__, str(raised)[:300])
    torch.cuda.set_per_process_memory_fraction(1.0)
    _triton_run.why_not = saved
    saved, _triton_run._function = _triton_run._function, lambda text: 1 / 0
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        L = gram(mk.Cauchy(3.0) if hasattr(mk, "Cauchy") else mk.RationalQuadratic(1.3, 3.0), X[:3000], engine="cuda")
        print("failing compiler", f"{error(L @ X[:3000], gram(L.kernel, X[:3000]) @ X[:3000]):.1e}", [str(w.message) for w in said])
    _triton_run._function = saved


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["agree", "time", "robust"])
    parser.add_argument("--composites", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--verbs", default="block,one,many")
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--m", type=int, default=20_000)
    parser.add_argument("--widths", default="10,28,90,784")
    options = parser.parse_args()
    {"agree": agree, "time": timing, "robust": robust}[options.what](options)
