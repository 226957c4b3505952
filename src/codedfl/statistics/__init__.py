"""Statistics: what a device adds up over its rows. One file per statistic; analyses ask for their totals."""
