"""The study as a contract: the file, its roster, what is frozen and remembered on a device, and its plain words."""
