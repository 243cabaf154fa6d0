"""Loaders of the bundled data sets, with scikit-learn's conventions for what they return."""

from importlib import resources
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

Loaded: TypeAlias = Bunch | tuple[Any, Any]


def load_concrete(*, return_X_y: bool = False, as_frame: bool = False) -> Loaded:
    """Load the compressive strength of concrete (regression, 1030 rows, 8 columns).

    Each row is one mixture: seven ingredients in kg per cubic metre and the age in days. The target is the compressive
    strength in MPa. Some mixtures occur more than once, with other measured strengths.

    Parameters
    ----------
    return_X_y : bool
        Return the pair ``(data, target)`` instead of a Bunch.
    as_frame : bool
        Give ``data`` as a pandas DataFrame and ``target`` as a Series; needs pandas.

    Returns
    -------
    Bunch with ``data`` (1030, 8), ``target`` (1030,), ``feature_names``, ``target_name``, ``frame`` and ``DESCR``. The
    arrays are fresh at each call, so they may be changed freely.

    Examples
    --------
    >>> from mercer.datasets import load_concrete
    >>> X, y = load_concrete(return_X_y=True)
    >>> X.shape, y.shape
    ((1030, 8), (1030,))
    """
    return _load("concrete", "strength", load_concrete.__doc__, return_X_y, as_frame)


def load_energy(*, return_X_y: bool = False, as_frame: bool = False) -> Loaded:
    """Load the heating load of buildings (regression, 768 rows, 8 columns).

    Twelve building shapes of equal volume in four orientations, with several glazing areas and distributions, were
    put through a building simulator. The target is the heating load in kWh per square metre; it is a nearly
    noise-free function of the eight columns, on a regular design.

    Parameters
    ----------
    return_X_y : bool
        Return the pair ``(data, target)`` instead of a Bunch.
    as_frame : bool
        Give ``data`` as a pandas DataFrame and ``target`` as a Series; needs pandas.

    Returns
    -------
    Bunch with ``data`` (768, 8), ``target`` (768,), ``feature_names``, ``target_name``, ``frame`` and ``DESCR``. The
    arrays are fresh at each call.

    Examples
    --------
    >>> from mercer.datasets import load_energy
    >>> load_energy().feature_names[:3]
    ['relative_compactness', 'surface_area', 'wall_area']
    """
    return _load("energy_heating", "heating_load", load_energy.__doc__, return_X_y, as_frame)


def load_co2(*, return_X_y: bool = False, as_frame: bool = False) -> Loaded:
    """Load the weekly carbon dioxide record of Mauna Loa (time series, 2225 rows, 1 column).

    The column is the date as a decimal year, March 1958 to December 2001, in increasing order; weeks without a
    measurement are left out. The target is the concentration in parts per million.

    Parameters
    ----------
    return_X_y : bool
        Return the pair ``(data, target)`` instead of a Bunch.
    as_frame : bool
        Give ``data`` as a pandas DataFrame and ``target`` as a Series; needs pandas.

    Returns
    -------
    Bunch with ``data`` (2225, 1), ``target`` (2225,), ``feature_names``, ``target_name``, ``frame`` and ``DESCR``. The
    arrays are fresh at each call.

    Examples
    --------
    >>> from mercer.datasets import load_co2
    >>> year, ppm = load_co2(return_X_y=True)
    >>> float(ppm[0])
    316.1
    """
    return _load("co2_mauna_loa", "co2", load_co2.__doc__, return_X_y, as_frame)


def load_promoters(*, return_X_y: bool = False, as_frame: bool = False) -> Loaded:
    """Load DNA sequences of *E. coli*, promoters or not (binary, 106 strings).

    Each row is a string of 57 letters out of A, C, G, T. The target is 1 where the sequence is a promoter, a place at
    which transcription of a gene begins, and 0 otherwise; there are 53 of each.

    Parameters
    ----------
    return_X_y : bool
        Return the pair ``(data, target)`` instead of a Bunch.
    as_frame : bool
        Give ``data`` as a pandas DataFrame with the one column "sequence" and ``target`` as a Series; needs pandas.

    Returns
    -------
    Bunch with ``data`` (106,), an array of strings, ``target`` (106,), ``target_names``, ``feature_names``,
    ``target_name``, ``frame`` and ``DESCR``. The arrays are fresh at each call.

    Examples
    --------
    >>> from mercer.datasets import load_promoters
    >>> promoters = load_promoters()
    >>> str(promoters.data[0][:12]), promoters.target_names[promoters.target[0]]
    ('GCCTTCTCCAAA', 'promoter')
    """
    names = {"target_names": ["other", "promoter"]}
    return _load("promoters", "promoter", load_promoters.__doc__, return_X_y, as_frame, **names)


def _load(name: str, target_name: str, doc: str | None, return_X_y: bool, as_frame: bool, **extra: object) -> Loaded:
    data, target, feature_names = _read(name)
    frame = None
    if as_frame:
        frame, data, target = _framed(data, target, feature_names, target_name)
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        frame=frame,
        feature_names=feature_names,
        target_name=target_name,
        DESCR=_description(doc),
        **extra,
    )


def _read(name: str) -> tuple[NDArray[Any], NDArray[Any], list[str]]:
    resource = resources.files("mercer.datasets") / "data" / f"{name}.npz"
    with resource.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return arrays["data"], arrays["target"], arrays["feature_names"].tolist()


def _framed(data: NDArray[Any], target: NDArray[Any], feature_names: list[str], target_name: str) -> tuple[Any, ...]:
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("as_frame=True needs pandas: pip install pandas") from error
    columns = data.reshape(len(data), len(feature_names))
    if columns.dtype.kind == "U":
        columns = columns.astype(object)  # plain str objects; pandas then chooses its own string type
    frame = pd.DataFrame(columns, columns=feature_names)
    frame[target_name] = target
    return frame, frame[feature_names], frame[target_name]


def _description(doc: str | None) -> str:
    """Return the part of a loader's docstring that speaks of the data, with the place of the licences."""
    text = (doc or "").partition("Parameters\n")[0]  # empty under python -OO
    lines = [line.strip() for line in text.strip().splitlines()]
    if lines:
        lines[0] = lines[0].removeprefix("Load ")
        lines[0] = lines[0][:1].upper() + lines[0][1:]
    return "\n".join([*lines, "", "Source, licence and citation: mercer/datasets/data/ATTRIBUTION.md"]).lstrip()
