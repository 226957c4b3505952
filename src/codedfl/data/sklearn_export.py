"""A trained model as a fitted scikit-learn pipeline: clipping, scaling, random features if any, a linear model."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import LabelBinarizer, MinMaxScaler, StandardScaler

from codedfl.data.columns import NumberColumn
from codedfl.data.features.linear import LinearFeatures
from codedfl.data.features.rbf import RandomFourierFeatures
from codedfl.data.labels import ClassLabels
from codedfl.data.recipe import Recipe
from codedfl.errors import InvalidInput
from codedfl.typing import Floats


def as_pipeline(theta: Floats, recipe: Recipe) -> Any:
    """See ``TrainedModel.to_sklearn``."""
    odd = [one.name for one in getattr(recipe.columns, "columns", ()) if not _is_plain(one)]
    if odd:
        raise InvalidInput(f"to_sklearn must have columns of numbers without missing values only, got {odd[0]!r}")
    clipper, scaler = _clipper(recipe), _scaler(recipe)
    feature_map = recipe.feature_map
    if isinstance(feature_map, LinearFeatures):
        slopes = theta[int(feature_map.intercept) :]
        at_zero = feature_map.transform(np.zeros((1, recipe.n_columns))) @ theta
        return make_pipeline(clipper, scaler, _linear(slopes, at_zero[0], recipe))
    if isinstance(feature_map, RandomFourierFeatures):
        linear = _linear(theta, np.zeros(recipe.n_outputs), recipe)
        return make_pipeline(clipper, scaler, _sampler(feature_map), linear)
    raise InvalidInput(f"to_sklearn must have linear or rbf features, got {feature_map.name!r}")


def _is_plain(column: object) -> bool:
    return isinstance(column, NumberColumn) and column.missing is None


def _clipper(recipe: Recipe) -> Any:
    """Each column's range to [0, 1], and what lies beyond to its ends. A constant column becomes 0."""
    scaling = recipe.preprocessing
    low, width = _ends(recipe)
    clipper = MinMaxScaler(clip=True)
    varies = scaling.scale > 0
    divisor = np.where(varies, scaling.scale * width, 1.0)
    clipper.data_min_, clipper.data_range_ = scaling.shift + scaling.scale * low, scaling.scale * width
    clipper.data_max_ = clipper.data_min_ + clipper.data_range_
    clipper.scale_ = np.where(varies, 1.0 / divisor, 0.0)
    clipper.min_ = -clipper.data_min_ * clipper.scale_
    clipper.n_features_in_ = recipe.n_columns
    clipper.n_samples_seen_ = 1
    return clipper


def _ends(recipe: Recipe) -> tuple[Floats, Floats]:
    """Lower end and width of each column's range after scaling."""
    low, high = np.asarray(recipe.preprocessing.low), np.asarray(recipe.preprocessing.high)
    return low, high - low


def _scaler(recipe: Recipe) -> Any:
    """From [0, 1] to the scaled columns; a constant one stays 0."""
    low, width = _ends(recipe)
    scaler = StandardScaler()
    scaler.scale_ = 1.0 / width
    scaler.mean_ = np.where(recipe.preprocessing.scale > 0, -low / width, 0.0)
    scaler.var_ = np.square(scaler.scale_)
    scaler.n_features_in_ = recipe.n_columns
    scaler.n_samples_seen_ = 1
    return scaler


def _sampler(feature_map: RandomFourierFeatures) -> Any:
    sampler = RBFSampler(gamma=feature_map.gamma, n_components=feature_map.n_components, random_state=feature_map.seed)
    return sampler.fit(np.zeros((1, feature_map.input_dim)))


def _linear(slopes: Floats, constants: Floats, recipe: Recipe) -> Any:
    """Scores of {0, 1} classes as margins of {-1, 1} ones; targets in their own unit."""
    if not isinstance(recipe.labels, ClassLabels):
        low, high = recipe.decode(np.array([[-1.0], [1.0]]))
        unit = (high - low) / 2
        model = Ridge()
        model.coef_, model.intercept_ = slopes[:, 0] * unit, float(constants[0] * unit + (high + low) / 2)
    else:
        model = RidgeClassifier()
        order = np.argsort(recipe.labels.classes)  # scikit-learn's classes ascend
        classes, slopes, constants = np.asarray(recipe.labels.classes)[order], slopes[:, order], constants[order]
        model._label_binarizer = LabelBinarizer(pos_label=1, neg_label=-1).fit(classes)
        vars(model)["classes_"] = classes  # older scikit-learn has a property of this name, which then wins
        if recipe.n_outputs == 2:
            model.coef_, model.intercept_ = (slopes[:, 1:] - slopes[:, :1]).T, constants[1:] - constants[:1]
        else:
            model.coef_, model.intercept_ = 2 * slopes.T, 2 * constants - 1
    model.n_features_in_ = len(slopes)
    return model
