from mercer.approx.centres import MOST_LANDMARKS, MOST_SAMPLED, Centres, choosing_bytes, find_centres
from mercer.approx.cluster import (
    DaskLogisticSweeps,
    DaskRows,
    DaskSweeps,
    cluster_threads,
    heading,
    is_dask,
    label_masses,
    lazy_rows,
    logistic_sweeps_over,
    sweeps_over,
)
from mercer.approx.fourier import FOURIER_KINDS, FourierMap, fourier_target, random_fourier_map
from mercer.approx.landmarks import LANDMARKS, Landmarks, choose_landmarks
from mercer.approx.logistic_sweeps import HeldLogisticSweeps, Labelled, LocalLogisticSweeps
from mercer.approx.maps import FeatureMap, MapError
from mercer.approx.nystrom import NystromMap, nystrom_map
from mercer.approx.reduced_sets import REDUCTIONS, REFITS, ReducedSet, reduce_set
from mercer.approx.sketches import SKETCH_KINDS, ProductSketch, TensorSketch, polynomial_sketch_map
from mercer.approx.sweeps import LocalSweeps, cross_products

__all__ = [
    "FOURIER_KINDS",
    "LANDMARKS",
    "MOST_LANDMARKS",
    "MOST_SAMPLED",
    "REDUCTIONS",
    "REFITS",
    "SKETCH_KINDS",
    "Centres",
    "DaskLogisticSweeps",
    "DaskRows",
    "DaskSweeps",
    "FeatureMap",
    "FourierMap",
    "HeldLogisticSweeps",
    "Labelled",
    "Landmarks",
    "LocalLogisticSweeps",
    "LocalSweeps",
    "MapError",
    "NystromMap",
    "ProductSketch",
    "ReducedSet",
    "TensorSketch",
    "choose_landmarks",
    "choosing_bytes",
    "cluster_threads",
    "cross_products",
    "find_centres",
    "fourier_target",
    "heading",
    "is_dask",
    "label_masses",
    "lazy_rows",
    "logistic_sweeps_over",
    "nystrom_map",
    "polynomial_sketch_map",
    "random_fourier_map",
    "reduce_set",
    "sweeps_over",
]
