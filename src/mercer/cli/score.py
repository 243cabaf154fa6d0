"""`mercer score`: how well a model predicts rows whose target is known."""

from mercer.cli.arguments import add_columns
from mercer.cli.console import Console, Outcome

EXAMPLE = "mercer score houses.mercer sold.csv"


def arguments(parser):
    parser.add_argument("model", metavar="MODEL", help="a file that mercer fit wrote")
    parser.add_argument("data", metavar="DATA", help="rows with the columns of the model and its target")
    add_columns(parser)


def run(options, console: Console) -> Outcome:
    from mercer.cli.fit import score_table
    from mercer.cli.models import raw_columns, read_model
    from mercer.cli.prepare import known_targets, target_values
    from mercer.cli.tables import read_sheets
    from mercer.report.intervals import scores

    model = read_model(options.model)
    train, test = read_sheets(options.data, header=not options.no_header, missing=options.missing)
    notes: list[str] = []
    sheet = known_targets(train if test is None else test, model.target, notes)
    for note in notes:
        console.note(note)
    y = target_values(sheet, model.target, model.classes)
    rows = model.rows(*raw_columns(model, sheet))
    probability = model.model.predict_proba(rows) if model.has_probabilities else None
    found = scores(model.task, y, model.model.predict(rows), probability, options.seed)
    return Outcome({"rows": len(y), "task": model.task, "scores": found}, score_table({f"{len(y)} rows": found}))
