"""Options that several commands have: what is typed, and what help says of them.

What it does not: read what was typed (`options`), or declare what one command alone has.
"""

from __future__ import annotations

from typing import Annotated

import typer

Shapes = Annotated[
    list[str],
    typer.Option("--shape", metavar="NAME=1,3,224,224", help="the shape of an input"),
]
Bindings = Annotated[
    list[str],
    typer.Option("--bind", metavar="NAME=x.npy", help="fix an input to a value"),
]
TargetName = Annotated[str, typer.Option("--target", metavar="T", help="what the C is to run on")]
Threads = Annotated[
    int | None, typer.Option("--threads", metavar="N", help="default: the target's cores")
]
Strict = Annotated[
    bool, typer.Option("--strict", help="neither fuse nor reorder floating-point operations")
]
NoWinograd = Annotated[
    bool, typer.Option("--no-winograd", help="no minimal filtering of convolutions: it rounds more")
]
JsonFlag = Annotated[bool, typer.Option("--json", help="print the result as JSON")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="print nothing but errors")]
