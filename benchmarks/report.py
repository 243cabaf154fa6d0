"""Fill the tables of docs/performance.md from the records in docs/benchmarks: `python -m benchmarks.report [FOLDER]`.

With a folder its records, those of a full run, are kept first: they replace the ones of the same names.
"""

import json
import sys
from pathlib import Path

from benchmarks.harness import REGISTRY, ROOT

PAGE = ROOT / "docs" / "performance.md"
KEPT = ROOT / "docs" / "benchmarks"
BEGIN = "<!-- results: begin (written by python -m benchmarks.report; do not edit) -->"
END = "<!-- results: end -->"


def keep(folder: Path, kept: Path = KEPT) -> list[str]:
    """Copy the records of a run to those that the page is made of, and give their names."""
    records = _records(folder)
    kept.mkdir(exist_ok=True)
    for record in records:
        (kept / f"{record['name']}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return [record["name"] for record in records]


def report(folder: Path = KEPT) -> str:
    """The tables as Markdown: one section a benchmark, then what has no record, the machine last."""
    records = _records(folder)
    if not records:
        return "No results yet: run `make bench`, then `python -m benchmarks.report benchmarks/results`."
    missing = sorted(set(REGISTRY) - {record["name"] for record in records})
    without = [f"### Without a record\n\n{', '.join(f'`{name}`' for name in missing)}."] if missing else []
    return "\n\n".join([*(_section(record) for record in records), *without, _machines(records)])


def _records(folder):
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    if any(record["small"] for record in records):
        raise ValueError("the results come from a --small run, whose times mean nothing; run the benchmarks in full")
    return records


def _section(record):
    lines = [f"### {record['name']}", "", f"{record['question'][0].upper()}{record['question'][1:]}."]
    for result in record["results"]:
        raced = any("ratio" in row for row in result["rows"])
        lines += ["", f"**{result['case']}**", "", *(_race(result) if raced else _figures(result))]
        if result["notes"]:
            lines += ["", f"{result['notes'][0].upper()}{result['notes'][1:]}."]
    if "source" in record:
        lines += ["", f"Source: {record['source']}."]
    return "\n".join(lines)


def _race(result):
    yield f"| | seconds | ratio | aim | {result['error_name']} | peak memory | rounds |"
    yield "|---|---|---|---|---|---|---|"
    for row in result["rows"]:
        if "skipped" in row:
            yield f"| {row['name']} | skipped: {row['skipped']} | | | | | |"
            continue
        peak = "" if row["peak_bytes"] is None else f"{row['peak_bytes'] / 1e6:.0f} MB"
        aim = "" if row["aim"] is None else f"{row['aim']:g}"
        cells = [
            row["name"],
            f"{row['seconds']:.3g}",
            f"{row['ratio']:.2g}",
            aim,
            f"{row['error']:.3g}",
            peak,
            str(row["rounds"]),
        ]
        yield f"| {' | '.join(cells)} |"


def _figures(result):
    yield "| | seconds | from | to | aim: at most | rounds |"
    yield "|---|---|---|---|---|---|"
    for row in result["rows"]:
        aim = "" if row["aim_seconds"] is None else f"{row['aim_seconds']:g}"
        numbers = [f"{row[key]:.3g}" for key in ("seconds", "fastest", "slowest")]
        yield f"| {' | '.join([row['name'], *numbers, aim, str(row['rounds'])])} |"


def _machines(records):
    lines = ["### Machine", ""]
    for e in {json.dumps(_machine(r["environment"]), sort_keys=True): r["environment"] for r in records}.values():
        blas = "; ".join(f"{b['internal_api']} {b['version']} on {b['num_threads']} threads" for b in e["blas"])
        versions = ", ".join(f"{name} {version}" for name, version in e["versions"].items())
        lines.append(
            f"- {e['processor']}, {e['usable_cores']} of {e['cores']} cores, {e['system']}, Python {e['python']}; {blas}."
        )
        lines.append(f"  Versions: {versions}; commit {e['commit']}, {e['date']}.")
    return "\n".join(lines)


def _machine(environment):
    return {k: v for k, v in environment.items() if k not in ("load", "date")}


def fill(page: Path = PAGE, folder: Path = KEPT) -> None:
    """Put the report between the marks of the page."""
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n\n{report(folder)}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    import benchmarks.__main__  # noqa: F401  registers them all, so that those without a record are named

    for name in keep(Path(sys.argv[1])) if len(sys.argv) > 1 else []:
        print(f"kept {name}")
    fill()
    print(f"filled {PAGE.relative_to(ROOT)}")
