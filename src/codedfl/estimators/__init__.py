"""scikit-learn's API: regression and classification by the secure sum (``codedfl[estimators]``)."""

from importlib.util import find_spec

from codedfl.errors import InvalidInput

if find_spec("sklearn") is None:
    raise InvalidInput("scikit-learn must be installed for the estimators: pip install 'codedfl[estimators]'")
