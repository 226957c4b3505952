"""The study as a contract: the file, its roster, what is frozen and remembered on a device, and its plain words."""

from codedfl.contract.roster import Member, Roster, load_roster, save_roster
from codedfl.contract.snapshot import Snapshot, take_snapshot
from codedfl.contract.study import ClassTarget, NumberTarget, Study, StudyColumn, StudyModel, SubModel
from codedfl.contract.toml_file import load_study, parse_study

__all__ = [
    "ClassTarget",
    "Member",
    "NumberTarget",
    "Roster",
    "Snapshot",
    "Study",
    "StudyColumn",
    "StudyModel",
    "SubModel",
    "load_roster",
    "load_study",
    "parse_study",
    "save_roster",
    "take_snapshot",
]
