"""One file per scheme: its descriptor, and how its devices and its server share; ``registry`` finds it by its name."""
