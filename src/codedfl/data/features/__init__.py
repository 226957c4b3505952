"""The feature map: what turns scaled columns into the x of the linear model (paper V, kernel embedding).

A feature map is one file in this folder, called by its name, or a file anywhere else, which an entry point of the group
``codedfl.features`` names: a class with the face of `FeatureMap`, made known by `register_feature_map`. Random Fourier
features are the paper's; linear ones are linear regression; random features of principal components need a covariance
that the devices sum first; wavelet scattering is for pictures; a frozen encoder is an ONNX file that a study names by
its hash.
"""

from codedfl.data.features.feature_map import (
    FEATURE_MAPS,
    FeatureChoice,
    FeatureMap,
    Principal,
    choose_features,
    feature_map_from_dict,
    own_keys,
    register_feature_map,
)

__all__ = [
    "FEATURE_MAPS",
    "FeatureChoice",
    "FeatureMap",
    "Principal",
    "choose_features",
    "feature_map_from_dict",
    "own_keys",
    "register_feature_map",
]
