"""The names of the objectives. It imports nothing heavy: the command's help lists them."""

from typing import Literal, get_args

ObjectiveName = Literal["mle", "emo", "energy", "mixce", "tailr", "dft", "goldfish", "ent"]
OBJECTIVES: tuple[str, ...] = get_args(ObjectiveName)
