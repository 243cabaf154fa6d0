"""The command `mercer`: one table of verbs, each a module of its own that is imported when it is called."""

import argparse
import importlib
import os
import sys
import warnings
from collections.abc import Sequence

from mercer._version import __version__
from mercer.cli.console import Console
from mercer.errors import MercerError

__all__ = ["VERBS", "main"]

VERBS = {  # the module of a verb has EXAMPLE, arguments(parser) and run(options, console) -> Outcome
    "fit": "choose and fit a model for a table, and test it",
    "predict": "predictions of a model for new rows",
    "score": "how well a model predicts rows whose target is known",
    "tune": "learn the parameters of a kernel by gradient",
    "info": "what is in a model file, without running it",
    "kernels": "all kernels with formula and certificate",
    "check-kernel": "is this kernel positive semi-definite?",
    "compress": "a smaller model that predicts nearly the same",
    "gallery": "the examples: list, copy and run them",
    "bench": "the speed of this machine, and the benchmarks",
    "doctor": "versions, threads, linear algebra and devices; does it work?",
}
_EXPECTED = (MercerError, OSError, MemoryError, ValueError, TypeError, ImportError)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 if it went well, 1 if not, 2 if it was not understood."""
    words = list(sys.argv[1:] if argv is None else argv)
    console = Console("--json" in words)
    try:
        options = _parser(words).parse_args(words)
        console = Console(options.json, options.quiet)
        return _run(options, console)
    except SystemExit as stop:  # of argparse
        return stop.code if isinstance(stop.code, int) else 2
    except KeyboardInterrupt:
        return console.fail("stopped", 130)
    finally:
        console.close()


def _run(options, console) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_, **__: console.note(f"note: {message}")
        try:
            outcome = _module(options.verb).run(options, console)
            console.close()
            console.give(outcome)
            sys.stdout.flush()
            return outcome.code
        except BrokenPipeError:  # the reader has seen enough
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (until the end, so that nothing complains at exit)
            return 1
        except _EXPECTED as error:
            if options.debug:
                raise
            return console.fail(_in_words(error), 1)


def _in_words(error) -> str:
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror}"
    return str(error) or type(error).__name__


# ------------------------------------------------------------------------------------------------ arguments
def _module(verb):
    return importlib.import_module(f"mercer.cli.{verb.replace('-', '_')}")


def _parser(words) -> argparse.ArgumentParser:
    """A parser that knows all verbs by name and the arguments of the one that is called."""
    parser = _Parser(prog="mercer", description="Kernel methods for tables, texts and strings.", epilog=_epilog())
    parser.as_json, parser.formatter_class = "--json" in words, argparse.RawDescriptionHelpFormatter
    parser.add_argument("--version", action="version", version=f"mercer {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, title="verbs")
    called = next((w for w in words if w in VERBS), None)
    for verb, said in VERBS.items():
        sub = verbs.add_parser(
            verb, help=said, description=said[0].upper() + said[1:] + ("" if said[-1] == "?" else ".")
        )
        sub.as_json = parser.as_json
        if verb == called:
            module = _module(verb)
            module.arguments(sub)
            sub.epilog = f"example: {module.EXAMPLE}"
            _common(sub)
    return parser


class _Parser(argparse.ArgumentParser):
    """With --json a mistake in the arguments is JSON too."""

    as_json = False

    def error(self, message):
        if not self.as_json:
            self.print_usage(sys.stderr)
        raise SystemExit(Console(self.as_json).fail(message, 2))


def _common(parser):
    group = parser.add_argument_group("everywhere")
    group.add_argument("--json", action="store_true", help="the result as one line of JSON, nothing else")
    group.add_argument("-q", "--quiet", action="store_true", help="no notes and no progress")
    group.add_argument("--seed", type=int, default=0, metavar="N", help="of all that is random (default 0)")
    group.add_argument("--debug", action="store_true", help="the whole story of an error")


def _epilog():
    return "mercer VERB --help tells more.\nexample: mercer fit houses.csv --target price -o houses.mercer"
