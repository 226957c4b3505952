"""The feature map: what turns scaled columns into the x of the linear model (paper V, kernel embedding).

A feature map is one file in this folder, or anywhere else: a class with the face of `FeatureMap`, made known under a
name by `register_feature_map`, or by an entry point of the group ``codedfl.features``. Random Fourier features are the
paper's; linear ones are plain linear regression; random features of principal components need a covariance that the
devices sum first; wavelet scattering is for pictures; a frozen encoder is an ONNX file that a study names by its hash.
"""

from codedfl.data.features.feature_map import (
    FEATURE_MAPS,
    FeatureChoice,
    FeatureMap,
    PlainMap,
    choose_features,
    feature_map_from_dict,
    is_chosen_by_name,
    register_feature_map,
)
from codedfl.data.features.frozen_encoder import FrozenEncoder
from codedfl.data.features.linear import LinearFeatures
from codedfl.data.features.principal import Principal, PrincipalFourierFeatures
from codedfl.data.features.random_fourier import RandomFourierFeatures, default_gamma
from codedfl.data.features.scattering import WaveletScattering
from codedfl.data.onnx_session import ENCODERS_VARIABLE

__all__ = [
    "ENCODERS_VARIABLE",
    "FEATURE_MAPS",
    "FeatureChoice",
    "FeatureMap",
    "FrozenEncoder",
    "LinearFeatures",
    "PlainMap",
    "Principal",
    "PrincipalFourierFeatures",
    "RandomFourierFeatures",
    "WaveletScattering",
    "choose_features",
    "default_gamma",
    "feature_map_from_dict",
    "is_chosen_by_name",
    "register_feature_map",
]
