"""One file a scheme: what it costs, how long it takes and what it shows to whom (``registry`` finds it by name)."""

from __future__ import annotations

from codedfl.schemes.baselines.coded_fedl import CodedFedL
from codedfl.schemes.baselines.coded_secagg import CodedSecAgg
from codedfl.schemes.baselines.conventional import Conventional, ConventionalFullBatch
from codedfl.schemes.baselines.drop_slowest import DropSlowest
from codedfl.schemes.baselines.light_secagg import LightSecAgg
from codedfl.schemes.coded import CodedScheme, GradientCoded
from codedfl.schemes.coded_keys import CodedKeys
from codedfl.schemes.coded_padded import CodedPadded
from codedfl.schemes.one_shot import OneShot
from codedfl.schemes.registry import SCHEMES, coded_scheme, coded_type, make_scheme, register_scheme, scheme_type
from codedfl.schemes.role_keys import RoleKeys
from codedfl.schemes.role_sums import RoleSums
from codedfl.schemes.scheme import Conditions, Descent, DeviceCosts, Scheme, WorkShape, epoch_end_times

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
