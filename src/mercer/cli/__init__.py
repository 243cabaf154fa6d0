"""The command line: `mercer fit`, `predict`, `score`, and others; `mercer --help` lists them."""

from mercer.cli.main import main

__all__ = ["main"]
