"""Traces of PyTorch's profiler: read event by event, whatever their size."""
