"""Whether a file trains a network of two-dimensional convolutions."""

from __future__ import annotations

import re

from pitstop.rules.pysource import PyModule

_TWO = re.compile(
    r"^(torch\.nn\.Conv2d|torch\.nn\.functional\.conv2d|timm\.create_model"
    r"|torchvision\.models\.(?!vit_|swin_)\w+)$"
)
_OTHER = re.compile(r"^torch\.nn\.(?:functional\.)?(?:Conv|conv)(?:Transpose)?(?:1d|3d)$")


def convolutional(module: PyModule) -> bool:
    """True for convolutions over images, and no others, which want another memory format."""
    names = [call.name for call in module.calls]
    return any(_TWO.match(name) for name in names) and not any(_OTHER.match(n) for n in names)
