"""mercer: one kernel object, every method, any data, any scale."""

import logging

from mercer._version import __version__
from mercer.deferred import deferred_names
from mercer.gram import gram

__getattr__, __dir__, __all__ = deferred_names(__name__)

logging.getLogger("mercer").addHandler(logging.NullHandler())
