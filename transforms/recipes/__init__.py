"""Code transforms that are more than one knob, one file each."""
