"""Arguments that several verbs share, and the care for files that exist."""

import argparse
from pathlib import Path

from mercer.errors import TableError

__all__ = ["add_columns", "add_output", "check_free", "choices_of", "fraction", "seconds", "whole"]


def add_columns(parser: argparse.ArgumentParser):
    """How a file of data is read."""
    group = parser.add_argument_group("columns")
    group.add_argument("--no-header", action="store_true", help="the first line is a row; columns are 0, 1, 2, ...")
    group.add_argument("--missing", action="append", default=[], metavar="WORD", help="also stands for a missing value")


def add_kinds(parser: argparse.ArgumentParser):
    group = parser.add_argument_group("kinds of columns ('*' for all)")
    for kind, said in (("category", "take as categories"), ("text", "take as text"), ("drop", "leave out")):
        group.add_argument(f"--{kind}", action="append", default=[], metavar="COL", help=said)


def add_output(parser: argparse.ArgumentParser, default: str | None, what: str):
    parser.add_argument("-o", "--output", default=default, metavar="FILE", help=what)
    parser.add_argument("--force", action="store_true", help="overwrite files that exist")


def choices_of(options):
    """What was said about the columns."""
    from mercer.cli.prepare import Choices

    task = getattr(options, "task", "auto")
    return Choices(
        options.target, task, options.category, options.text, options.drop, getattr(options, "test_size", 0.2)
    )


def check_free(path: str | None, force: bool):
    """Refuse, before any work is done, a place where a file is or cannot be."""
    if path is None:
        return
    place = Path(path)
    if place.is_dir():
        raise TableError(f"{path} is a folder; give the name of a file in it")
    if not place.parent.is_dir():
        raise TableError(f"{path}: the folder of this file does not exist; make it first")
    if place.exists() and not place.is_file():
        raise TableError(f"{path} is a device or a pipe; give the name of an ordinary file")
    if (place.exists() or place.is_symlink()) and not force:
        raise TableError(f"{path} exists; --force overwrites it")


def fraction(text: str) -> float:
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds")
    return value


def whole(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 on")
    return value
