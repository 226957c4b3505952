"""Settings for all tests. Being here also puts this folder on the path, for ``oracle`` and ``scenario``."""

from __future__ import annotations

from hypothesis import settings

# No deadline: the first call of a kernel may compile it. The same examples in every run: a red suite stays red until
# it is mended, and nothing is green by luck.
settings.register_profile("codedfl", deadline=None, max_examples=50, derandomize=True, database=None)
settings.load_profile("codedfl")
