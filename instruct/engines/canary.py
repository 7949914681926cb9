"""A canary: a text whose log-probabilities are kept beside trained weights, to know them again in what answers.

No statistic finds the fault that the model that answered is not the one that was trained: an adapter whose names do not
match is ignored, a server holds another one, a merge lost its rounding. The engine that is about to answer scores the
text; its scores have to be those of the trained weights, not those of the weights that training began with.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from instruct.base.errors import InputError
from instruct.base.files import write_atomically
from instruct.base.replies import ScoredCompletion
from instruct.engines.base import Engine, Request

FILE = "canary.json"
KEY = "canary"  # of its requests
# Between the trainer and another engine, the largest difference of a token's log-probability that rounding explains:
# twice the largest of 64 tokens of SmolLM2-135M in that dtype and in float32 (bfloat16 .28, float16 .031). A logit of
# 16 to 32 is a multiple of 1/8 in bfloat16 and of 1/64 in float16; float32 leaves room for another order of sums.
TOLERANCES = {"float32": 0.01, "float16": 0.06, "bfloat16": 0.6}


@dataclass(frozen=True)
class Canary:
    """Log-probabilities, natural, of tokens of a text given those before them.

    Attributes:
        ids: the text's tokens.
        places: of the tokens that are scored, in `ids`, ascending.
        trained: under the trained weights, as the trainer computes them.
        base: under the weights that training began with.
        dtype: that the trainer computed in.
    """

    ids: list[int]
    places: list[int]
    trained: list[float]
    base: list[float]
    dtype: str

    def save(self, folder: Path) -> None:
        """Keep it beside the weights in `folder`."""
        write_atomically(folder / FILE, json.dumps(asdict(self)) + "\n")

    def scores(self, engine: Engine, adapter: str | None) -> list[float]:
        """Of each place, the log-probability that an engine gives its token; none if it does not score given text.

        Raises:
            InputError: it scores no text with this adapter.
        """

        def asked(ids: list[int], start: int) -> dict[int, float]:
            """The log-probabilities of the tokens from `start` on, by their places."""
            request = Request(KEY, tuple(ids), adapter=adapter, max_tokens=1, seed=0, temperature=0.0, scored=start)
            replies = [reply for portion in engine.complete([request]) for _, reply in portion]
            return dict(enumerate(replies[0].token_logprobs if isinstance(replies[0], ScoredCompletion) else (), start))

        try:
            found = asked(self.ids, self.places[0])
        except InputError:  # an adapter beside the weights in vLLM, which scores one token at a time
            found = {place: asked(self.ids[: place + 1], place).get(place, math.nan) for place in self.places}
        return [found[place] for place in self.places] if found else []


def read_canary(folder: Path | None) -> Canary | None:
    """What training kept beside the weights in a folder; None if it kept nothing.

    Raises:
        InputError: the file is damaged.
    """
    if folder is None or not (path := folder / FILE).is_file():
        return None
    try:
        canary = Canary(**json.loads(path.read_text(encoding="utf-8")))
        if not len(canary.places) == len(canary.trained) == len(canary.base) or canary.dtype not in TOLERANCES:
            raise ValueError
    except (ValueError, TypeError):
        raise InputError(f"{path}: is damaged; restore it, or delete it to answer without the check") from None
    return canary


def check_weights_that_answer(engine: Engine, canary: Canary, adapter: str | None, dtype: str, system: str) -> str:
    """Have the engine score the canary's text; "checked", or "not checked: " and why.

    Args:
        adapter: as in a request to the engine.
        dtype: that the engine computes in.
        system: as a message names it.

    Raises:
        InputError: the engine does not answer with the trained weights.
    """
    tolerance = max(TOLERANCES[canary.dtype], TOLERANCES.get(dtype, TOLERANCES["bfloat16"]))
    moved = _largest(canary.trained, canary.base)
    if moved <= 2 * tolerance:
        return f"not checked: training moved no log-probability of its text by more than {moved:.2g}"
    try:
        scores = canary.scores(engine, adapter)
    except InputError as error:
        return f"not checked: {error}"
    if not scores or not all(map(math.isfinite, scores)):
        return "not checked: what answers does not score given text"
    from_trained, from_base = _largest(scores, canary.trained), _largest(scores, canary.base)
    if from_trained > tolerance or from_trained >= from_base:
        raise InputError(
            f"{system} does not answer with the trained weights: a log-probability of a text that training kept "
            f"differs by {from_trained:.3g} from theirs ({tolerance:g} is allowed), and by {from_base:.3g} from those "
            "that training began with; give the trained adapter with its own base, and check what the server or the "
            "engine loads"
        )
    return "checked"


def moved_by(engine: Engine, ids: list[int], adapter: str) -> float | None:
    """The most that an adapter moves a log-probability of a text's tokens; None: the engine scores no given text.

    Raises:
        InputError: as `Canary.scores`.
    """
    text = Canary(ids, list(range(1, len(ids))), [], [], "float32")
    without, with_adapter = text.scores(engine, None), text.scores(engine, adapter)
    return _largest(without, with_adapter) if without and with_adapter else None


def _largest(some: Sequence[float], others: Sequence[float]) -> float:
    return max(abs(one - other) for one, other in zip(some, others, strict=True))
