"""`mercer check-kernel`: is this kernel positive semi-definite? Its certificate, and a test on rows."""

from mercer.cli.arguments import add_columns, add_kinds, whole
from mercer.cli.console import Console, Outcome

EXAMPLE = 'mercer check-kernel "RBF() - 0.5*Linear()"'


def arguments(parser):
    parser.add_argument("kernel", metavar="KERNEL", help='such as "2*RBF() + Linear()"')
    parser.add_argument("--data", metavar="DATA", help="test on the rows of a file (default: normal random numbers)")
    parser.add_argument("--rows", type=whole, default=500, metavar="N", help="rows at most (default 500)")
    parser.add_argument("--width", type=whole, default=3, metavar="D", help="columns of the random rows (default 3)")
    parser.set_defaults(target=None)
    add_columns(parser)
    add_kinds(parser)


def run(options, console: Console) -> Outcome:
    from mercer import check_kernel
    from mercer.kernels import parse_kernel

    kernel = parse_kernel(options.kernel)
    report = check_kernel(kernel, _rows(options, kernel, console))
    data = {"kernel": repr(kernel), "certificate": str(kernel.validity), "certified": kernel.validity.certified,
            "refuted": not report.ok, "rows": report.n, "symmetric": report.symmetric,
            "smallest_eigenvalue": report.smallest_eigenvalue, "tolerance": report.tolerance}  # fmt: skip
    return Outcome(data, f"{kernel!r}\n{report}", code=0 if report.ok else 1)


def _rows(options, kernel, console):
    from mercer.random import generator

    rng = generator(options.seed)
    if options.data is None:
        if kernel.reads not in ("vectors", "gaps", "any", "parts") or any(isinstance(c, str) for c in kernel.columns):
            from mercer.errors import TableError

            raise TableError(f"{kernel!r} does not read plain numbers; give rows that it reads with --data")
        return _random_rows(kernel, rng.standard_normal((options.rows, options.width)), console)
    from mercer.cli.arguments import choices_of
    from mercer.cli.prepare import coded_rows
    from mercer.cli.tables import read_sheets

    sheet, _ = read_sheets(options.data, header=not options.no_header, missing=options.missing, targets=False)
    named = any(isinstance(c, str) for c in kernel.columns)
    index = rng.permutation(len(sheet))[: options.rows]
    return coded_rows(sheet.take(index), choices_of(options), named)


def _random_rows(kernel, X, console):
    """Normal numbers, or their absolute values for kernels of histograms, which refuse others."""
    try:
        kernel(X[:2])
    except ValueError:
        console.note("the kernel refuses negative numbers: tested on absolute values")
        return abs(X)
    return X
