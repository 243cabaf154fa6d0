"""`mercer compress`: a smaller model that predicts nearly the same."""

from mercer.cli.arguments import add_output, check_free, whole
from mercer.cli.console import Console, Outcome
from mercer.cli.words import shown

EXAMPLE = "mercer compress houses.mercer --vectors 50 -o small.mercer"


def arguments(parser):
    parser.add_argument("model", metavar="MODEL", help="a file that mercer fit wrote")
    parser.add_argument("--vectors", type=whole, default=100, metavar="N", help="vectors at most (default 100)")
    parser.add_argument("--method", choices=("auto", "kmeans", "greedy", "gradient"), default="auto")
    add_output(parser, "small.mercer", "the smaller model (default small.mercer)")


def run(options, console: Console) -> Outcome:
    from dataclasses import asdict, replace

    from mercer import compress, save
    from mercer.cli.models import read_model

    check_free(options.output, options.force)
    model = read_model(options.model)
    vectors = model.layout == "matrix" and model.model.kernel_.differentiable_inputs
    method = ("gradient" if vectors else "greedy") if options.method == "auto" else options.method
    small = compress(model.model, options.vectors, method, random_state=options.seed)
    save(replace(model, model=small, scores={}), options.output)
    done = small.compression_
    return Outcome({**asdict(done), "output": options.output}, f"{done}\nwritten    {shown(options.output)}")
