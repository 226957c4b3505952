"""The protocol on a message broker: long-lived devices, milliseconds per epoch, no open port, no code that travels.

``pip install 'codedfl[mqtt]'``. A device is a daemon (``daemon``, ``codedfl join``), the server a command (``post``,
``codedfl serve``), the broker mosquitto or a small one of our own (``broker_folder``, ``small_broker``).
"""
