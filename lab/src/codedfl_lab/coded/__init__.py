"""The paper's two phases as requests and replies: a device is a function, as in ``codedfl.sum``, and keeps no run.

Read ``study`` (what all parties know), ``wire`` (requests and replies), ``padded`` and ``keys`` (the two schemes, a few
functions each), ``device`` and ``session``, in this order. Enrolment, generations, signatures and sealed replies are
those of ``codedfl.sum``, and so are the engines: in this process, in virtual time, on a broker.
"""
