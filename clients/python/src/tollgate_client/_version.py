"""The version of this package, which is also sent as part of `User-Agent`."""

__version__ = "0.1.0"
