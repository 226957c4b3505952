"""One file a scheme: what it costs, how long it takes and what it shows to whom (``registry`` finds it by name)."""

from __future__ import annotations

from codedfl_lab.baselines.coded_fedl import CodedFedL
from codedfl_lab.baselines.coded_secagg import CodedSecAgg
from codedfl_lab.baselines.conventional import Conventional, ConventionalFullBatch
from codedfl_lab.baselines.drop_slowest import DropSlowest
from codedfl_lab.baselines.light_secagg import LightSecAgg
from codedfl_lab.costs.coded import CodedScheme, GradientCoded
from codedfl_lab.costs.coded_keys import CodedKeys
from codedfl_lab.costs.coded_padded import CodedPadded
from codedfl_lab.costs.one_shot import OneShot
from codedfl_lab.costs.registry import SCHEMES, coded_scheme, coded_type, make_scheme, register_scheme, scheme_type
from codedfl_lab.costs.role_keys import RoleKeys
from codedfl_lab.costs.role_sums import RoleSums
from codedfl_lab.costs.scheme import Conditions, Descent, DeviceCosts, Scheme, WorkShape, epoch_end_times

__all__ = [
    "SCHEMES",
    "CodedFedL",
    "CodedKeys",
    "CodedPadded",
    "CodedScheme",
    "CodedSecAgg",
    "Conditions",
    "Conventional",
    "ConventionalFullBatch",
    "Descent",
    "DeviceCosts",
    "DropSlowest",
    "GradientCoded",
    "LightSecAgg",
    "OneShot",
    "RoleKeys",
    "RoleSums",
    "Scheme",
    "WorkShape",
    "coded_scheme",
    "coded_type",
    "epoch_end_times",
    "make_scheme",
    "register_scheme",
    "scheme_type",
]
