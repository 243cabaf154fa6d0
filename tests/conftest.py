"""Settings shared by all tests."""

import os
import signal

os.environ.setdefault("MPLBACKEND", "Agg")  # before anything can import matplotlib: tests have no display

import pytest
from hypothesis import settings

from mercer import datasets

# The same examples at every run: a failure in one lane can be seen again in another. HYPOTHESIS_PROFILE=explore looks
# for new ones. No deadline: the first example of a test may compile.
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=30)
settings.register_profile("explore", deadline=None, derandomize=False, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


# A shell starts jobs in the background with Ctrl-C ignored, and then Python does not raise KeyboardInterrupt either.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def data_home():
    """The folder of larger data sets; the test is skipped where there is none."""
    try:
        return datasets.data_home()
    except FileNotFoundError as error:
        pytest.skip(str(error))
