"""One YAML file per framework: how it is recognised and how its names map to knobs."""
