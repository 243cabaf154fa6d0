"""`mercer tune`: every parameter of a kernel learned by gradient."""

from mercer.cli.arguments import add_columns, add_kinds, add_output, check_free, choices_of, whole
from mercer.cli.console import Console, Outcome
from mercer.cli.words import shown

EXAMPLE = 'mercer tune houses.csv --target price --kernel "RBF() + Linear()" --ard -o tuned.mercer'


def arguments(parser):
    parser.add_argument("data", metavar="DATA", help="csv, tsv, parquet, libsvm or npz")
    parser.add_argument("--target", metavar="COL", help="the column to predict (y in npz and libsvm)")
    parser.add_argument("--kernel", metavar="TEXT", default="RBF()", help='where the search begins (default "RBF()")')
    parser.add_argument("--task", choices=("auto", "classification", "regression"), default="auto")
    parser.add_argument("--ard", action="store_true", help="one lengthscale for each column")
    parser.add_argument("--rows", type=whole, default=1000, metavar="N", help="rows to learn on at most (default 1000)")
    parser.add_argument(
        "--steps", type=whole, default=100, metavar="N", help="steps of the search at most (default 100)"
    )
    add_output(parser, None, "the model fitted with what was learned (default: none)")
    add_columns(parser)
    add_kinds(parser)


def run(options, console: Console) -> Outcome:
    from mercer import SVC, KernelRidge, save, tune
    from mercer.cli.fit import score_table
    from mercer.cli.prepare import prepare
    from mercer.cli.tables import read_sheets
    from mercer.estimators.table_model import TableModel
    from mercer.kernels import parse_kernel
    from mercer.random import generator
    from mercer.report.intervals import scores

    check_free(options.output, options.force)
    kernel = parse_kernel(options.kernel)
    sheet, test = read_sheets(options.data, header=not options.no_header, missing=options.missing)
    named = any(isinstance(c, str) for c in kernel.columns)
    p = prepare(sheet, test, choices_of(options), generator(options.seed), named)
    for note in p.notes:
        console.note(note)
    machine = KernelRidge(1e-2, kernel=kernel, fit_intercept=True) if p.task == "regression" else SVC(kernel=kernel)
    found = tune(machine, p.X, p.y, ard=options.ard, n_rows=min(options.rows, len(p.y)), max_iter=options.steps,
                 random_state=options.seed)  # fmt: skip
    reached = scores(p.task, p.y_test, found.estimator.predict(p.X_test), seed=options.seed)
    if options.output is not None:
        save(
            TableModel(found.estimator, p.task, p.target, p.codings, p.layout, p.classes, p.scales, reached),
            options.output,
        )
    data = {"objective": found.objective, "value": found.value, "kernel": repr(found.kernel), "learned": found.extra,
            "converged": found.converged, "evaluations": found.n_evaluations, "at_bounds": found.at_bounds,
            "not_determined": found.flat, "scores": reached, "output": options.output}  # fmt: skip
    said = "\n".join(shown(line, 1000) for line in str(found).split("\n"))
    written = f"\n\nwritten    {shown(options.output)}" if options.output else ""
    return Outcome(data, f"{said}\n\n{score_table({'tuned': reached})}{written}")
