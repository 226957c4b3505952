"""The type of ring numbers."""

import numpy as np
from numpy.typing import NDArray

Planes = NDArray[np.float32]
"""Ring numbers: one plane of centred residues for each prime in front of the array's own shape (``ring``)."""
