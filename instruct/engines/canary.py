"""A canary: a text whose log-probabilities are kept beside trained weights, to know them again in what answers.

No statistic finds the fault that the model that answered is not the one that was trained: an adapter whose names do not
match is ignored, a server holds another one, a merge lost its rounding. The engine that is about to answer scores the
text. It answers with the trained weights if its scores moved from the base's as training moved them: a regression
through the origin has the slope 1, that of the base is 0, and that of an adapter at half its scale is ½.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from instruct.base.errors import InputError
from instruct.base.files import write_atomically
from instruct.base.replies import ScoredCompletion
from instruct.engines.base import Engine, Request

FILE = "canary.json"
KEY = "canary"  # of its requests
# A slope is known if so many of its standard errors are at most BAND, and right if it is 1 ± BAND.
_ERRORS, BAND = 4, 0.25
# The noise of trained weights is at most twice that of their base in the same engine (SmolLM2-135M: .8 to 1.2 times).
_LOUDER = 3
# Nats by which float32 sums in another order differ, and to which the file is rounded.
_ROUNDING = 1e-5


@dataclass(frozen=True)
class Canary:
    """Log-probabilities, natural, of tokens of a text given those before them, computed in float32 where possible.

    Attributes:
        ids: the text's tokens.
        places: of the tokens that are scored, in `ids`, ascending.
        trained: under the trained weights.
        base: under the weights that training began with.
        computed: under the trained weights, in the precision of the training; None: `trained` and `base` are, too.
    """

    ids: list[int]
    places: list[int]
    trained: list[float]
    base: list[float]
    computed: list[float] | None = None

    def save(self, folder: Path) -> None:
        """Keep it beside the weights in `folder`."""
        write_atomically(folder / FILE, json.dumps(asdict(self)) + "\n")

    def scores(self, engine: Engine, adapter: str | None) -> list[float]:
        """Of each place, the log-probability that an engine gives its token; none if it does not score given text.

        Raises:
            InputError: it scores no text with this adapter.
        """

        def asked(ends: Sequence[int], first: int | None = None) -> dict[int, float]:
            """The log-probabilities of the tokens before these ends, or of all from `first` on, by their places."""
            scored = [end - 1 if first is None else first for end in ends]
            requests = [
                Request(f"{KEY} {end}", tuple(self.ids[:end]), 0.0, adapter, 1, seed=0, temperature=0.0, scored=start)
                for end, start in zip(ends, scored, strict=True)
            ]
            return {
                place: logprob
                for portion in engine.complete(requests)
                for request, reply in portion
                if isinstance(reply, ScoredCompletion)
                for place, logprob in enumerate(reply.token_logprobs, request.scored or 0)
            }

        try:
            found = asked([len(self.ids)], self.places[0])
        except InputError:  # an adapter beside the weights in vLLM, which scores one token at a time
            found = asked([place + 1 for place in self.places])
        return [found.get(place, math.nan) for place in self.places] if found else []


def read_canary(folder: Path | None) -> Canary | None:
    """What training kept beside the weights in a folder; None if it kept nothing.

    Raises:
        InputError: the file is damaged.
    """
    if folder is None or not (path := folder / FILE).is_file():
        return None
    try:
        canary = Canary(**json.loads(path.read_text(encoding="utf-8")))
        numbers = np.array([canary.places, canary.trained, canary.base, canary.computed or canary.base], dtype=float)
        whole = all(type(number) is int and number >= 0 for number in [*canary.ids, *canary.places])
        if not whole or numbers.shape[1] < 1 or not all(0 < place < len(canary.ids) for place in canary.places):
            raise ValueError
    except (ValueError, TypeError, IndexError):
        raise InputError(f"{path}: is damaged; restore it, or delete it to answer without the check") from None
    return canary


def canaries_of(folders: Mapping[str, Path | None]) -> dict[str, Canary]:
    """The canaries of those systems whose training kept one, by name."""
    return {name: canary for name, folder in folders.items() if (canary := read_canary(folder)) is not None}


class Slope(NamedTuple):
    """How far scores moved along a known movement: 0 not at all, 1 as far.

    Attributes:
        margin: four standard errors of `value`, which noise causes.
        is_other: whether the scores moved in other ways, too, which noise does not explain.
    """

    value: float
    margin: float
    is_other: bool


def slope_of(movement: np.ndarray, moved: np.ndarray, noise: np.ndarray | None) -> Slope:
    """The regression of what scores moved on a known movement, through the origin.

    The standard error is the larger of that of equal variances and White's (1980), of the residuals. Other weights
    have large residuals, too, and a base that is not the trained one large noise: where noise was measured by itself,
    the larger error of both counts, up to twice the smaller.

    Args:
        movement, moved: [tokens], nats.
        noise: [tokens], of the same tokens' scores with the base's weights; None: was not measured.
    """
    size = float(movement @ movement)
    if not size:
        return Slope(0.0, math.inf, False)
    value = float(movement @ moved) / size
    residuals = moved - value * movement

    def error(of: np.ndarray) -> float:
        equal = float(of @ of) / max(1, len(of) - 1) / size
        return math.sqrt(max(equal, _norm(movement * of) ** 2 / size**2) + _ROUNDING**2 / size)

    by_noise = error(residuals if noise is None else noise)
    less, more = sorted([error(residuals), by_noise])
    most = np.sort(np.abs(residuals))[:-1]  # noise has outliers
    is_other = _norm(most) > math.sqrt(size) * max(BAND, _ERRORS * by_noise * math.sqrt(len(moved)))
    return Slope(value, _ERRORS * min(more, _LOUDER * less), is_other)


class Outcome(NamedTuple):
    """Whether scores are those of the trained weights, and what is to be said about it."""

    weights: Literal["right", "wrong", "unknown"]
    reason: str


def compare_scores(
    canary: Canary,
    scores: Sequence[float],
    base: Sequence[float] | None = None,
    siblings: Mapping[str, Canary] | None = None,
) -> Outcome:
    """Whether an engine's scores are those of the trained weights, not the base's or a sibling's.

    A narrow dtype also loses a part of every small change, so that right weights move less: as much as the trainer
    lost, as far as the engine is as noisy, and about half the ratio of noise to movement (SmolLM2-135M: slopes of .65,
    .87 and .97 where training moved the text by 2, 4 and 7 times bfloat16's noise).

    Args:
        base: the same engine's scores with the base alone, which tell its noise; None: it has no base.
        siblings: the canaries of other systems; those on other texts say nothing.
    """
    trained, start, found = (np.array(values, dtype=float) for values in (canary.trained, canary.base, scores))
    movement, noise = trained - start, None if base is None else np.array(base, dtype=float) - start
    value, margin, is_other = slope_of(movement, found - start, noise)
    residuals, size = found - start - value * movement, max(_norm(movement), _ROUNDING)
    loudness = min(_norm(residuals), _norm(residuals if noise is None else noise))
    coarse = np.array(canary.computed or trained, dtype=float) - trained
    its_loss = abs(float(coarse @ movement)) / size**2 * min(1.0, loudness / max(_norm(coarse), _ROUNDING))
    lost = max(loudness / size / 2, its_loss)
    alike = []
    for name, other in (siblings or {}).items():
        if (other.ids, other.places) == (canary.ids, canary.places):
            apart = np.array(other.trained, dtype=float) - trained
            nearer, unsure, is_third = slope_of(apart, found - trained, noise)
            unsure += lost * abs(float(apart @ movement)) / max(float(apart @ apart), _ROUNDING**2)
            if abs(nearer - 1) <= BAND and unsure <= BAND and not is_third:
                return Outcome("wrong", f"a text that training kept has the log-probabilities of {name}")
            if not nearer + unsure < 0.5:
                alike.append(name)
    # Between the band and this end, it depends on the draw of the noise.
    if not margin + lost <= BAND or BAND < abs(value - 1) <= BAND + (margin + lost) / 2:
        reason = f"slope {value:.2f} ± {margin + lost:.2f}"
        reason += "" if noise is None else f"; the base alone differs by up to {np.abs(noise).max():.2g}"
        return Outcome("unknown", f"training moved too little for this engine's precision ({reason})")
    if abs(value - 1) > BAND or is_other:
        others = ", and otherwise than it did" if is_other else ""
        return Outcome(
            "wrong",
            f"the log-probabilities of a text moved {value:.2f} ± {margin + lost:.2f} times as far as training moved "
            f"them{others}",
        )
    return Outcome("right", f"not told apart from {', '.join(alike)}" if alike else "")


def _norm(values: np.ndarray) -> float:
    return float(np.sqrt(values @ values))


class WeightsCheck:
    """Asks one engine whether it answers with the weights that were trained; the base scores each text once.

    Args:
        engine: has been started.
        canaries: of the systems of a run, by name.
        setting: the key that names the engine.
    """

    def __init__(self, engine: Engine, canaries: Mapping[str, Canary], setting: str) -> None:
        self.canaries, self._engine, self._setting = canaries, engine, setting
        self._of_base: dict[tuple[int, ...], list[float]] = {}

    def outcome(self, system: str, adapter: str | None) -> str:
        """Have the engine score a system's text; "checked", or "not checked", and what is to be said about it.

        Args:
            adapter: as in a request to the engine; None: the engine was started on whole weights.

        Raises:
            InputError: the engine does not answer with the trained weights.
        """
        canary = self.canaries[system]
        try:
            base = self._base_scores(canary) if adapter is not None else []
            scores = canary.scores(self._engine, adapter)
        except InputError as error:
            return f"not checked: {error}"
        if not scores or not np.isfinite(scores).all():
            return "not checked: what answers does not score given text"
        siblings = {name: other for name, other in self.canaries.items() if name != system}
        weights, reason = compare_scores(canary, scores, base or None, siblings)
        if weights == "wrong":
            raise InputError(
                f"system {system} does not answer with the trained weights: {reason}; give the trained adapter with "
                f"its own base and check what the server or the engine loads, or set {self._setting} to another"
            )
        return f"not checked: {reason}" if weights == "unknown" else "; ".join(filter(None, ["checked", reason]))

    def _base_scores(self, canary: Canary) -> list[float]:
        """Those of the base alone; none if the engine does not have it."""
        key = (*canary.ids, *canary.places)
        if key not in self._of_base:
            try:
                scores = canary.scores(self._engine, None)
            except InputError:
                scores = []
            self._of_base[key] = scores if np.isfinite(scores).all() else []
        return self._of_base[key]


def moved_by(engine: Engine, ids: list[int], adapter: str) -> float | None:
    """The most that an adapter moves a log-probability of a text's tokens; None: the engine scores no given text.

    Raises:
        InputError: as `Canary.scores`.
    """
    text = Canary(ids, list(range(1, len(ids))), [], [])
    without, with_adapter = text.scores(engine, None), text.scores(engine, adapter)
    if not without or not with_adapter:
        return None
    return float(np.abs(np.subtract(without, with_adapter)).max())
