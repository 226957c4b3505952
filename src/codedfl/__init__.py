"""codedfl: regression and kernel models on rows that devices keep to themselves.

The server reads exact sums over whole groups of devices and nothing smaller, and the fastest replies are enough. No
device sees another's data. DESIGN.md draws the data flow; the names below follow it. Each is imported when it is first
used. The paper's gradient codes, fleets and simulations are ``codedfl_lab``'s.
"""

from itertools import chain
from typing import TYPE_CHECKING

from codedfl.on_demand import names_on_demand
from codedfl.version import __version__

if TYPE_CHECKING:  # each under its own name, which makes it public
    from codedfl.contract.study import Study as Study
    from codedfl.contract.toml_file import load_study as load_study
    from codedfl.crypto.sealed import Identity as Identity
    from codedfl.data.features import FeatureMap as FeatureMap
    from codedfl.data.model import TrainedModel as TrainedModel
    from codedfl.data.recipe import Recipe as Recipe
    from codedfl.errors import CodedFLError as CodedFLError
    from codedfl.errors import InvalidInput as InvalidInput
    from codedfl.errors import MessageRefused as MessageRefused
    from codedfl.errors import NotEnoughDevices as NotEnoughDevices
    from codedfl.errors import RangeExceeded as RangeExceeded
    from codedfl.errors import SolverFailed as SolverFailed
    from codedfl.errors import WrongAnswers as WrongAnswers
    from codedfl.estimators.cox import CodedCoxRegression as CodedCoxRegression
    from codedfl.estimators.glm import CodedGammaRegressor as CodedGammaRegressor
    from codedfl.estimators.glm import CodedLogisticRegression as CodedLogisticRegression
    from codedfl.estimators.glm import CodedNegativeBinomialRegressor as CodedNegativeBinomialRegressor
    from codedfl.estimators.glm import CodedPoissonRegressor as CodedPoissonRegressor
    from codedfl.estimators.linear import CodedLasso as CodedLasso
    from codedfl.estimators.linear import CodedLinearRegression as CodedLinearRegression
    from codedfl.estimators.ridge import CodedRidge as CodedRidge
    from codedfl.estimators.ridge import CodedRidgeClassifier as CodedRidgeClassifier
    from codedfl.estimators.ridge_path import CodedRidgeClassifierCV as CodedRidgeClassifierCV
    from codedfl.estimators.ridge_path import CodedRidgeCV as CodedRidgeCV
    from codedfl.exact.scales import Bounds as Bounds
    from codedfl.solve.closed_form import ClosedForm as ClosedForm
    from codedfl.solve.descent import GradientDescent as GradientDescent
    from codedfl.solve.descent import Nesterov as Nesterov
    from codedfl.solve.descent import StepSchedule as StepSchedule
    from codedfl.solve.krylov import BlockKrylov as BlockKrylov
    from codedfl.solve.krylov import ConjugateGradient as ConjugateGradient
    from codedfl.solve.registry import SolverKind as SolverKind
    from codedfl.solve.registry import SolverSettings as SolverSettings
    from codedfl.solve.registry import make_solver as make_solver
    from codedfl.solve.registry import register_solver as register_solver
    from codedfl.solve.solver import Solver as Solver
else:  # hidden from type checkers, which would take every name for a good one
    # In the order of the data flow.
    _HOMES = {
        "codedfl.data.features": ["FeatureMap"],
        "codedfl.data.recipe": ["Recipe"],
        "codedfl.contract.study": ["Study"],
        "codedfl.contract.toml_file": ["load_study"],
        "codedfl.exact.scales": ["Bounds"],
        "codedfl.crypto.sealed": ["Identity"],
        "codedfl.solve.solver": ["Solver"],
        "codedfl.solve.descent": ["GradientDescent", "Nesterov", "StepSchedule"],
        "codedfl.solve.krylov": ["ConjugateGradient", "BlockKrylov"],
        "codedfl.solve.closed_form": ["ClosedForm"],
        "codedfl.solve.registry": ["SolverKind", "SolverSettings", "make_solver", "register_solver"],
        "codedfl.data.model": ["TrainedModel"],
        "codedfl.estimators.ridge": ["CodedRidge", "CodedRidgeClassifier"],
        "codedfl.estimators.ridge_path": ["CodedRidgeCV", "CodedRidgeClassifierCV"],
        "codedfl.estimators.linear": ["CodedLinearRegression", "CodedLasso"],
        "codedfl.estimators.glm": [
            "CodedLogisticRegression",
            "CodedPoissonRegressor",
            "CodedNegativeBinomialRegressor",
            "CodedGammaRegressor",
        ],
        "codedfl.estimators.cox": ["CodedCoxRegression"],
        "codedfl.errors": [
            "CodedFLError",
            "InvalidInput",
            "MessageRefused",
            "NotEnoughDevices",
            "RangeExceeded",
            "SolverFailed",
            "WrongAnswers",
        ],
    }
    __all__ = [*chain.from_iterable(_HOMES.values()), "__version__"]  # noqa: PLE0604
    __getattr__, __dir__ = names_on_demand(__name__, _HOMES)
