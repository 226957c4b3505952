"""codedfl-lab: what researchers add to codedfl. Fleets and costs, baselines, comparisons, the planner, reproduction.

Each name is imported when it is first used; DESIGN.md says which folder may import which.
"""

from typing import TYPE_CHECKING

from codedfl.on_demand import names_on_demand

__all__ = [  # noqa: RUF022 (data-flow order, not the alphabet)
    "Dataset",
    "Problem",
    "make_problem",
    "Ring",
    "FixedPoint",
    "GradientCode",
    "GroupedCode",
    "Scheme",
    "CodedScheme",
    "CodedPadded",
    "CodedKeys",
    "OneShot",
    "RoleKeys",
    "RoleSums",
    "register_scheme",
    "Simulated",
    "Fleet",
    "LatencyModel",
    "FleetLatency",
    "register_latency",
    "Conditions",
    "Conventional",
    "ConventionalFullBatch",
    "DropSlowest",
    "CodedFedL",
    "simulate",
    "Entry",
    "Settings",
    "compare",
    "Limits",
    "Search",
    "plan",
]

if TYPE_CHECKING:
    from codedfl_lab.baselines.coded_fedl import CodedFedL
    from codedfl_lab.baselines.conventional import Conventional, ConventionalFullBatch
    from codedfl_lab.baselines.drop_slowest import DropSlowest
    from codedfl_lab.code.gradient_code import GradientCode, GroupedCode
    from codedfl_lab.comparing.comparison import Entry, Settings, compare
    from codedfl_lab.comparing.simulator import simulate
    from codedfl_lab.costs.times import Conditions
    from codedfl_lab.fleet.fleet import Fleet
    from codedfl_lab.fleet.latency import FleetLatency, LatencyModel
    from codedfl_lab.fleet.latency_models import register_latency
    from codedfl_lab.planning.planner import Limits, Search, plan
    from codedfl_lab.primes.fixed_point import FixedPoint
    from codedfl_lab.primes.ring import Ring
    from codedfl_lab.problems.dataset import Dataset
    from codedfl_lab.problems.problem import Problem, make_problem
    from codedfl_lab.schemes.coded_keys import CodedKeys, OneShot
    from codedfl_lab.schemes.coded_padded import CodedPadded
    from codedfl_lab.schemes.descriptor import CodedScheme, Scheme
    from codedfl_lab.schemes.registry import register_scheme
    from codedfl_lab.schemes.role_keys import RoleKeys, RoleSums
    from codedfl_lab.training.in_process import Simulated
else:  # hidden from type checkers, which would take every name for a good one
    __getattr__, __dir__ = names_on_demand(
        __name__,
        {
            "codedfl_lab.problems.dataset": ["Dataset"],
            "codedfl_lab.problems.problem": ["Problem", "make_problem"],
            "codedfl_lab.primes.ring": ["Ring"],
            "codedfl_lab.primes.fixed_point": ["FixedPoint"],
            "codedfl_lab.code.gradient_code": ["GradientCode", "GroupedCode"],
            "codedfl_lab.schemes.descriptor": ["Scheme", "CodedScheme"],
            "codedfl_lab.schemes.coded_padded": ["CodedPadded"],
            "codedfl_lab.schemes.coded_keys": ["CodedKeys", "OneShot"],
            "codedfl_lab.schemes.role_keys": ["RoleKeys", "RoleSums"],
            "codedfl_lab.schemes.registry": ["register_scheme"],
            "codedfl_lab.training.in_process": ["Simulated"],
            "codedfl_lab.fleet.fleet": ["Fleet"],
            "codedfl_lab.fleet.latency": ["LatencyModel", "FleetLatency"],
            "codedfl_lab.fleet.latency_models": ["register_latency"],
            "codedfl_lab.costs.times": ["Conditions"],
            "codedfl_lab.baselines.conventional": ["Conventional", "ConventionalFullBatch"],
            "codedfl_lab.baselines.drop_slowest": ["DropSlowest"],
            "codedfl_lab.baselines.coded_fedl": ["CodedFedL"],
            "codedfl_lab.comparing.simulator": ["simulate"],
            "codedfl_lab.comparing.comparison": ["Entry", "Settings", "compare"],
            "codedfl_lab.planning.planner": ["Limits", "Search", "plan"],
        },
    )
