"""JSON Schemas of what Pitstop reads and writes; `make docs` writes them anew from the types."""
