"""The study file: everything that turns rows into a model, and what the parties agree to, in one TOML file."""

from codedfl.data.studies.study import ClassTarget, NumberTarget, Study, StudyColumn
from codedfl.data.studies.toml_file import load_study, parse_study

__all__ = ["ClassTarget", "NumberTarget", "Study", "StudyColumn", "load_study", "parse_study"]
