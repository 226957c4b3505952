"""The heading of the help that marks an option as a setting, and the parameter that takes them (``settings``)."""

PANEL, SET = "Settings", "settings"
