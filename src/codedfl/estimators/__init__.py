"""The face of scikit-learn: ridge regression and classification by the coded protocol (`codedfl[estimators]`)."""

from importlib.util import find_spec

from codedfl.errors import InvalidInput

if find_spec("sklearn") is None:
    raise InvalidInput("scikit-learn must be installed for the estimators: pip install 'codedfl[estimators]'")
