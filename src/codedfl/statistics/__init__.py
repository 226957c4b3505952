"""Statistics: what a device adds up over its rows. One file per statistic; analyses ask for their totals."""

from codedfl.on_demand import load_all

load_all(__name__, __path__)  # each makes its statistic known
