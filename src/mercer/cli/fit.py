"""`mercer fit`: choose and fit a model for a table, and test it on rows held out."""

from pathlib import Path

from mercer.cli.arguments import add_columns, add_kinds, add_output, check_free, choices_of, fraction, seconds
from mercer.cli.console import Console, Outcome, aligned, number
from mercer.cli.words import shown
from mercer.errors import TableError

EXAMPLE = 'mercer fit houses.csv --target price --kernel "2*RBF() + Linear()" -o houses.mercer'
MODELS = ("auto", "svc", "logistic", "gp", "ridge", "svr")  # of search.MODELS, which is slow to import


def arguments(parser):
    parser.add_argument("data", metavar="DATA", help="csv, tsv, parquet, libsvm or npz")
    parser.add_argument("--target", metavar="COL", help="the column to predict (y in npz and libsvm)")
    parser.add_argument(
        "--kernel", metavar="TEXT", help='such as "2*RBF() + Linear()"; chosen by the columns if left out'
    )
    parser.add_argument("--model", choices=MODELS, default="auto", help="auto: svc for classes, ridge for numbers")
    parser.add_argument("--task", choices=("auto", "classification", "regression"), default="auto")
    parser.add_argument("--test", metavar="FILE", help="rows to test on, instead of some of DATA")
    parser.add_argument(
        "--test-size", type=fraction, default=0.2, metavar="SHARE", help="of rows held out (default 0.2)"
    )
    parser.add_argument(
        "--time", type=seconds, default=120.0, metavar="S", help="seconds for search and fit, about (default 120)"
    )
    add_output(parser, "model.mercer", "the model (default model.mercer)")
    parser.add_argument("--report", metavar="HTML", help="a page about the study")
    add_columns(parser)
    add_kinds(parser)


def run(options, console: Console) -> Outcome:
    report = options.report
    for path in (options.output, report):
        check_free(path, options.force)
    if report is not None and Path(report).absolute() == Path(options.output).absolute():
        raise TableError(f"{report} cannot be the model and the report; name two files")
    study, model = _made(options, console)
    from mercer.persist import save

    save(model, options.output)
    if report is not None:
        from mercer.report import write_report

        write_report(report, study, force=options.force)
    return Outcome(_data(study, options, report), _text(study, options, report))


def _made(options, console):
    from mercer.cli.making import make_study
    from mercer.cli.tables import read_sheet, read_sheets
    from mercer.kernels import parse_kernel

    kernel = None if options.kernel is None else parse_kernel(options.kernel)
    how = {"header": not options.no_header, "missing": options.missing}
    sheet, test = read_sheets(options.data, **how)
    if options.test is not None:
        test = read_sheet(options.test, **how)
    study, model, notes = make_study(
        sheet, test, choices_of(options), title=Path(options.data).name, kernel=kernel, model=options.model,
        seconds=options.time, seed=options.seed, tell=console.tell,
    )  # fmt: skip
    for note in notes:
        console.note(note)
    return study, model


def _data(study, options, report):
    return {
        "title": study.title, "task": study.task, "target": study.target, "classes": study.classes,
        "rows": {"train": len(study.y_train), "test": len(study.y_test)}, "columns": list(study.columns),
        "kernel": repr(study.kernel), "certificate": study.certificate, "model": type(study.model).__name__,
        "scores": study.scores, "baselines": study.baselines, "candidates": list(study.candidates),
        "approximations": list(study.approximations), "seconds": study.timings, "seed": study.seed,
        "output": options.output, "report": report,
    }  # fmt: skip


def _text(study, options, report):
    from mercer.estimators.additive import shown as short

    classes = "" if study.classes is None else f", {len(study.classes)} classes"
    lines = [
        f"{shown(study.title)}: {study.task} of {shown(study.target)}{classes}",
        f"rows       {len(study.y_train)} to train on, {len(study.y_test)} to test",
        f"columns    {_columns(study.columns)}",
        f"model      {type(study.model).__name__}, chosen among {len(study.candidates)} kernels",
        f"kernel     {shown(short(study.kernel), 300)}",
        f"           {shown(study.certificate, 300)}",
        *(f"note       {shown(told, 300)}" for told in study.approximations),
        "",
        score_table({"this model": study.scores, **study.baselines}),
        "",
        f"seconds    {', '.join(f'{name} {s:.1f}' for name, s in study.timings.items())}",
        f"written    {shown(options.output)}" + ("" if report is None else f", {shown(report)}"),
    ]
    return "\n".join(lines)


def _columns(columns):
    counts: dict[str, int] = {}
    for c in columns:
        counts[c["kind"]] = counts.get(c["kind"], 0) + 1
    missing = sum(c["missing"] for c in columns)
    return ", ".join(f"{n} {kind}" for kind, n in counts.items()) + (f"; {missing} missing values" if missing else "")


def score_table(by_model) -> str:
    """Scores of several models on the test rows, with their intervals."""
    names = list(next(iter(by_model.values())))
    rows = [[model, *(_interval(found.get(name)) for name in names)] for model, found in by_model.items()]
    return aligned(rows, ["on the test rows", *names])


def _interval(score):
    return "" if score is None else "{} [{}, {}]".format(*map(number, score))
