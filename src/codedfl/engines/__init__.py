"""Engines carry a request to a device and bring its reply: in process, in virtual time, over MQTT, over Flower."""
