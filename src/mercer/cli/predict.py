"""`mercer predict`: predictions of a model for new rows, as csv."""

import csv
import io

from mercer.cli.arguments import add_columns, add_output, check_free
from mercer.cli.console import Console, Outcome

EXAMPLE = "mercer predict houses.mercer new.csv -o prices.csv"


def arguments(parser):
    parser.add_argument("model", metavar="MODEL", help="a file that mercer fit wrote")
    parser.add_argument("data", metavar="DATA", help="rows with the columns that the model reads")
    parser.add_argument(
        "--probability", action="store_true", help="also the probability of each class, where there are such"
    )
    add_output(parser, None, "csv of the predictions (default: the screen)")
    add_columns(parser)


def run(options, console: Console) -> Outcome:
    from mercer.cli.models import in_order, raw_columns, read_model
    from mercer.cli.tables import read_sheets
    from mercer.errors import TableError

    check_free(options.output, options.force)
    model = read_model(options.model)
    if options.probability and not model.has_probabilities:
        raise TableError(f"a {type(model.model).__name__} has no probabilities; fit with --model logistic or gp")
    train, test = read_sheets(options.data, header=not options.no_header, missing=options.missing, targets=False)
    sheet = train if test is None else test
    columns, matrix = raw_columns(model, in_order(model, sheet) if options.no_header else sheet)
    found = model.predict(columns, matrix).tolist()
    table = {model.target: found}
    if options.probability and model.classes is not None:
        P = model.predict_proba(columns, matrix)
        table |= {f"probability of {c}": P[:, j].tolist() for j, c in enumerate(model.classes)}
    return _given(options, table, found)


def _given(options, table, found):
    data = {"target": next(iter(table)), "rows": len(found), "output": options.output}
    if options.output is None:
        return Outcome({**data, "predictions": found, "columns": table}, as_csv(table).rstrip("\n"))
    from pathlib import Path

    from mercer.persist.atomic import replacing

    with replacing(Path(options.output)) as file:
        file.write(as_csv(table).encode("utf-8"))
    return Outcome(data, f"{len(found)} predictions written to {options.output}")


def as_csv(table: dict[str, list]) -> str:
    """Columns as csv. Texts that a spreadsheet would take for a formula have a ' in front."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_safe(name) for name in table])
    writer.writerows([_safe(v) for v in row] for row in zip(*table.values(), strict=True))
    return out.getvalue()


def _safe(value):
    if not isinstance(value, str):
        return repr(value) if isinstance(value, float) else value
    return f"'{value}" if value[:1] in tuple("=+-@\t\r") and not _is_number(value) else value


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True
