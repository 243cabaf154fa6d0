"""`python -m benchmarks [name ...]`: run benchmarks by name or by the beginning of a name; all of them without a name."""

import argparse
import sys
from pathlib import Path

from benchmarks import (
    dask,
    density,
    first_call,
    gaussian_process,
    gpu,
    gram_composite,
    gram_rbf,
    graphs,
    landmarks,
    local_regression,
    low_rank,
    medoids,
    new_expression,
    pca,
    ridge_fit,
    ridge_path,
    rvm,
    strings,
    svm,
)
from benchmarks.harness import REGISTRY, RESULTS, run

QUESTIONS = (
    gram_rbf,
    gram_composite,
    ridge_fit,
    ridge_path,
    svm,
    rvm,
    gaussian_process,
    landmarks,
    low_rank,
    medoids,
    pca,
    density,
    local_regression,
    graphs,
    strings,
    dask,
    gpu,
    first_call,
    new_expression,
)  # importing registers


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help="benchmarks to run; all of them if none is named")
    parser.add_argument("--list", action="store_true", help="list the benchmarks and leave")
    parser.add_argument(
        "--small", action="store_true", help="tiny sizes, to see that everything runs; times mean nothing"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER", help="where the JSON files go")
    options = parser.parse_args(arguments)
    if options.list:
        print(_list())
        return 0
    names = options.names or list(REGISTRY)
    unknown = [n for n in names if not _matching(n)]
    if unknown:
        print(f"no benchmark begins with {unknown[0]!r}; there are\n{_list()}", file=sys.stderr)
        return 2
    for name in dict.fromkeys(match for n in names for match in _matching(n)):
        run(name, small=options.small, folder=options.results)
        print()
    print(f"written to {options.results}")
    return 0


def _matching(name):
    return [name] if name in REGISTRY else [known for known in REGISTRY if known.startswith(name)]


def _list():
    width = max(map(len, REGISTRY))
    return "\n".join(f"  {b.name.ljust(width)}  {b.question}" for b in REGISTRY.values())


if __name__ == "__main__":
    sys.exit(main())
