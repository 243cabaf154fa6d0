"""`mercer info`: what is in a model file, without making the model."""

from mercer.cli.console import Console, Outcome, aligned, number
from mercer.cli.words import listed, shown

EXAMPLE = "mercer info houses.mercer"


def arguments(parser):
    parser.add_argument("file", metavar="FILE", help="a file that mercer wrote")


def run(options, console: Console) -> Outcome:
    from mercer.cli.models import check_is_no_pickle
    from mercer.persist import info

    check_is_no_pickle(options.file)
    found = dict(info(options.file))
    return Outcome(found, aligned([(name, _in_words(value)) for name, value in found.items()], longest=400))


def _in_words(value):
    if isinstance(value, dict):
        return ", ".join(f"{shown(k)} {_in_words(v)}" for k, v in value.items())
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return listed((f"{v.get('name')} ({v.get('kind')})" for v in value), 12)
    if isinstance(value, list) and len(value) == 3 and all(isinstance(v, float) for v in value):
        return "{} [{}, {}]".format(*map(number, value))
    return listed(value, 12) if isinstance(value, list) else value
