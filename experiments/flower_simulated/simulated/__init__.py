"""The codedfl app on virtual nodes."""
