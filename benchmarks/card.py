"""`python -m benchmarks.card PART`: on a machine with a GPU, agreement with the reference and the questions of `benchmarks.gpu`.

Each part takes less than nine minutes on a card of 2024: agreement, products, solvers, landmarks.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# As many processes as cores: compiling takes most of the time. The plugin of benchmarks warns of processes, an error here.
PYTEST = "pytest -q -n auto --dist worksteal -p no:cacheprovider -p no:benchmark".split()
PARTS = {
    "agreement": [*PYTEST, "-m", "gpu", "tests/test_gpu.py"],
    "products": ["benchmarks", "gpu_ceilings", "gpu_products", "gpu_composite", "gpu_tiles"],
    "solvers": ["benchmarks", "gpu_svm", "gpu_ridge", "gpu_evidence", "gpu_density"],
    "landmarks": ["benchmarks", "gpu_landmarks"],
}


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.card", description=__doc__)
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--results", help="where the JSON files go")
    options = parser.parse_args(arguments)
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    for part in options.parts:
        command = [sys.executable, "-m", *PARTS[part]]
        if options.results and part != "agreement":
            command += ["--results", options.results]
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path})
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
