"""Message brokers: a connection to one, who may do what at it, mosquitto set up, and a small one of our own.

``pip install 'codedfl[mqtt]'``. What travels over it are the frames of ``codedfl.engines.frames``.
"""
