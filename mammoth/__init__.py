"""The engine: how a run happens. It knows no single method and no single benchmark."""

__version__ = "0.1.0"
