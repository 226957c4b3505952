"""What a scheme costs, how long it takes and what models it makes: functions about its descriptor."""

from codedfl_lab.costs import coded as coded  # registers what the coded schemes add to the functions of ``times``
