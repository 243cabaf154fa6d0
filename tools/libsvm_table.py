"""Write tests/libsvm_table.json: dual values and support sets of stock LIBSVM, by scikit-learn, on the cases of the slow tests.

Usage: libsvm_table.py DATA_FOLDER
"""

import json
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import numpy as np
from sklearn import svm

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from libsvm_cases import CASES, TABLE, TOLERANCES, Case, duals, load, objective, pack, repetitions

TIGHTER = 1e-2  # part of the smallest tolerance: by this the least dual value is known


def fitted(case: Case, X, y, tol):
    """A model of scikit-learn and the dual value of each of its machines."""
    model = getattr(svm, case.machine)(tol=tol, **case.parameters).fit(X, y)
    return model, [objective(case, dual, X, y) for dual in duals(model, y)]


def entries(case: Case, home: Path):
    """A record for each tolerance; `least` is the smallest dual value seen at any, of each machine."""
    X, y = load(case, home)
    group = repetitions(X, y)
    fits = [fitted(case, X, y, tol) for tol in (*TOLERANCES, TIGHTER * min(TOLERANCES))]
    least = np.min([values for _, values in fits], axis=0).tolist()
    for tol, (model, values) in zip(TOLERANCES, fits[:-1], strict=True):
        yield {
            **asdict(case),
            "tol": tol,
            "n": len(y),
            "n_distinct": int(group.max()) + 1,
            "objective": values,
            "least": least,
            "n_support": len(model.support_),
            "n_support_distinct": len(np.unique(group[model.support_])),
            "support": [pack(dual.support, len(y)) for dual in duals(model, y)],
        }


def main(arguments: list[str]) -> None:
    home = Path(arguments[0])
    table = {
        "made_with": {name: version(name) for name in ("scikit-learn", "numpy", "scipy")},
        "entries": [entry for case in CASES for entry in entries(case, home)],
    }
    TABLE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
