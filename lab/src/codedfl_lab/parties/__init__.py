"""What the devices of a training sum (``statistic``), and how devices and server are made for it (``making``)."""
