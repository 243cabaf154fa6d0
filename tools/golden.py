"""Write tests/golden/vN: small files of the present format with what their models answer, which later versions must still read.

Usage: golden.py [FOLDER]. Files that are there stay as they were; what they do not show yet is added.
"""

import json
import sys
import warnings
import zipfile
from itertools import chain
from pathlib import Path

import numpy as np
from sklearn.base import clone

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import mercer
from cases import kernel_cases
from estimator_cases import ESTIMATOR_CASES, answers, regression, suited
from mercer import kernels as mk
from mercer import validate
from mercer.estimators.table_model import Coding, TableModel, laid_out
from mercer.persist.container import FORMAT_VERSION
from test_files import nameless
from test_structured_everywhere import KINDS, take

HOME = Path(__file__).resolve().parents[1] / "tests" / "golden"
N, ASKED = 12, 3


def vectors():
    """One model of every registered estimator, on a few rows of numbers; half of them in float32."""
    done: dict[str, int] = {}
    for case in ESTIMATOR_CASES:
        name = type(case.estimator).__name__
        if name in done or case.precomputed:
            continue
        done[name] = len(done)
        X, y = regression(N)
        X = np.round(X, 6).astype(np.float32 if done[name] % 2 else np.float64)
        model = clone(case.estimator)
        if hasattr(model, "max_components"):
            model.set_params(max_components=2)
        yield name, model.fit(X, suited(model, y)), np.round(regression(ASKED, seed=1)[0], 3).tolist()


def objects():
    """Models of rows that are no numbers; they are asked about rows of their own."""
    y = np.arange(float(N))
    for kind in KINDS:
        kernel, rows, _, _ = KINDS[kind]
        yield kind, mercer.KernelRidge(kernel=kernel).fit(take(rows, range(N)), y), None


def others():
    """Parts of the format that the rest does not show."""
    X, y = regression(N)
    X, T = np.round(X, 6), np.round(regression(ASKED, seed=1)[0], 3).tolist()
    yield "precomputed", mercer.SVC(kernel="precomputed").fit(mk.RBF()(X), y > 0), mk.RBF()(T, X).tolist()
    yield "labels", mercer.SVC(kernel=mk.RBF([0.5, np.inf, 2.0])).fit(X, np.where(y > 0, "so", "ßo")), T
    yield "generator", mercer.Nystroem(mk.RBF(), n_components=3, random_state=np.random.default_rng(3)).fit(X), T
    yield "legacy", mercer.KernelKMeans(2, random_state=np.random.RandomState(3)).fit(X), T
    yield (
        "sparse",
        mercer.KernelKMeans(2, kernel="precomputed", random_state=0).fit(mk.RBF()(X)),
        mk.RBF()(T, X).tolist(),
    )
    yield "basis", mercer.KernelRidge(kernel=mk.Basis.polynomials(2) + mk.RBF().centre()).fit(X, y), T
    yield "mixture", mercer.KernelRidge(kernel=mk.MixtureKernel(mk.MixtureModel(2, "diag", tol=0.1))).fit(X, y), T
    yield "function", mercer.KernelRidge(kernel=mk.RBF().warp(np.square)).fit(X, y), T
    yield "engine", mercer.KernelRidge(kernel=mk.RBF(), engine=mercer.Engine("reference")).fit(X, y), T
    yield "compressed", mercer.compress(mercer.KernelRidge(kernel=mk.RBF()).fit(X, y), 4), T
    coding, kind = Coding.learned("x", "numeric", X[:, 0]), Coding("kind", "category")
    side = np.where(X[:, 1] > 0, "a", "b").astype(object)
    inside = laid_out({**coding.coded(X[:, 0]), **kind.coded(side)}, "table")
    model = mercer.KernelLogistic(kernel=mk.RBF().on("x") + mk.Categorical().on("kind")).fit(
        inside, (y > 0).astype(int)
    )
    names = ("no", "yes")
    yield (
        "table",
        TableModel(model, "classification", "y", (coding, kind), "table", names),
        {"x": X[:ASKED, 0].tolist(), "kind": ["a", "b", "c"]},
    )
    few = np.arange(3.0)  # so few values are not packed
    yield "bytes", mercer.KernelRidge(kernel=mk.Spectrum(2)).fit([b"ab\x00c", b"bcab", b"\xffab"], few), None
    for kind in (set, frozenset):
        yield (
            kind.__name__,
            mercer.KernelRidge(kernel=mk.Jaccard()).fit([kind("ab"), kind("bc"), kind("abc")], few),
            None,
        )
    many = [frozenset("abcd"[: i % 5]) for i in range(N)]
    yield "frozensets", mercer.KernelRidge(kernel=mk.Jaccard()).fit(many, y), None
    yield "lists", mercer.KernelRidge(kernel=mk.Spectrum(2)).fit([[1, 2, i] for i in range(N)], y), None


def rest():
    """Whatever else the cases of the tests hold; only those that show something new are kept."""
    X, y = regression(N)
    for i, case in enumerate(ESTIMATOR_CASES):
        if not case.precomputed:
            yield (
                f"{type(case.estimator).__name__}-{i}",
                clone(case.estimator).fit(X, suited(case.estimator, y)),
                regression(ASKED, seed=1)[0].tolist(),
            )
    for i, case in enumerate(kernel_cases(0)):
        if not nameless(case.kernel):
            rows = case.X()[:N]
            yield (
                f"{type(case.kernel).__name__}-{i}",
                mercer.KernelRidge(kernel=case.kernel, indefinite="clip").fit(rows, y[: len(rows)]),
                None,
            )


def asked(model, T):
    """What a model says of rows of JSON: numbers, columns by name, or if None some of its own."""
    if T is None:
        rows = validate.take(model.X_fit_, np.arange(ASKED))
    else:
        rows = {name: np.array(column) for name, column in T.items()} if isinstance(T, dict) else np.array(T)
    return np.asarray(answers(model, rows))


def shows(path):
    """What of the format a file shows: kinds of values, ways of packing, records, estimators, dtypes."""
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    found = {f"dtype {row['dtype'].rstrip('0123456789') if 'U' in row['dtype'] else row['dtype']}"
             for row in manifest["arrays"].values()}  # fmt: skip
    nodes = [manifest["content"]]
    while nodes:
        node = nodes.pop()
        nodes += node if isinstance(node, list) else node.values() if isinstance(node, dict) else []
        if isinstance(node, dict):
            found |= {f"{key} {node[key]}" for key in ("is", "pack") if isinstance(node.get(key), str)}
            if node.get("is") in ("record", "estimator") or node.get("pack") == "records":
                found.add(f"class {node['class']}")
    return found


def candidates():
    return chain(vectors(), objects(), others(), rest())


def main(folder, models=None):
    """Add to a folder what its files do not show yet."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    answers_file = folder / "answers.json"
    table = json.loads(answers_file.read_text()) if answers_file.exists() else {}
    seen = set().union(*(shows(folder / f"{name}.mercer") for name in table))
    for name, model, T in models or candidates():
        new = folder / f".{name}.new"
        mercer.save(model, new, functions={"square": np.square})
        shown = shows(new)
        if shown <= seen:
            new.unlink()
            continue
        if name in table:
            new.unlink()
            raise SystemExit(f"{name} is there already, and golden files are never written again; give it another name")
        seen |= shown
        new.rename(folder / f"{name}.mercer")
        table[name] = {"class": type(model).__name__, "rows": T, "answers": asked(model, T).tolist()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in table.items())
    answers_file.write_text(f"{{{lines}}}\n")
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{folder}: {len(table)} models, {size / 1e3:.0f} kB")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:] or [HOME / f"v{FORMAT_VERSION}"])
