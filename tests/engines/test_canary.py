"""What answers is compared with what was trained, by the scores that an engine gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from instruct.base.errors import InputError
from instruct.base.replies import Failure, ScoredCompletion
from instruct.engines.canary import Canary, WeightsCheck

CANARY = Canary(ids=[5, 6, 7, 8], places=[2, 3], trained=[-1.0, -3.0], base=[-3.0, -2.0])


class Scores:
    """An engine that gives the last tokens the scores of an adapter (None: the base); None: it gives none."""

    def __init__(self, *scores: float | None, one_by_one: bool = False, base=CANARY.base) -> None:
        self.scores, self.base, self.one_by_one, self.asked = scores, base, one_by_one, []

    def complete(self, requests):
        for request in requests:
            self.asked.append((request.prompt, request.scored, request.adapter))
            if self.one_by_one and len(request.prompt) - request.scored > 1:
                raise InputError("one token at a time")
            of_place = dict(zip(CANARY.places, self.scores if request.adapter else self.base, strict=True))
            scores = [of_place[place] for place in range(request.scored, len(request.prompt))]
            yield [(request, Failure("no") if None in scores else ScoredCompletion("", token_logprobs=tuple(scores)))]


def outcome(engine, canary=CANARY, adapter="a", **siblings) -> str:
    return WeightsCheck(engine, {"emo": canary, **siblings}, "engine").outcome("emo", adapter)


def test_scores_of_the_trained_weights_pass_and_those_of_the_base_or_of_others_do_not():
    engine = Scores(-1.001, -3.001)
    check = WeightsCheck(engine, {"emo": CANARY, "mle": CANARY}, "engine")
    assert {check.outcome(name, name).split(";")[0] for name in ("emo", "mle")} == {"checked"}
    assert engine.asked == [((5, 6, 7, 8), 2, adapter) for adapter in (None, "emo", "mle")]  # the base once
    engine = Scores(-1.001, -3.001, one_by_one=True)
    assert outcome(engine) == "checked"
    assert engine.asked[-3:] == [((5, 6, 7, 8), 2, "a"), ((5, 6, 7), 2, "a"), ((5, 6, 7, 8), 3, "a")]
    for scores in ((-3.0, -2.0), (-2.0, -2.5), (-5.0, -1.0), (-1.0, -7.0)):
        with pytest.raises(InputError, match=r"^system emo does not answer with the trained weights: .*; give the"):
            outcome(Scores(*scores))


def test_a_sibling_that_answers_is_named_and_one_that_is_the_same_is_said():
    engine = Scores(-1.5, -3.5)
    mle = replace(CANARY, trained=[-1.5, -3.5])
    with pytest.raises(InputError, match="has the log-probabilities of mle"):
        outcome(engine, mle=mle)
    assert outcome(engine, mle, mle=CANARY) == "checked"
    assert outcome(engine, mle, mle=mle) == "checked; not told apart from mle"
    assert outcome(engine, mle, mle=replace(mle, ids=[1, 2, 3, 4])) == "checked"  # of another text


@pytest.mark.parametrize(
    ("canary", "engine", "said"),
    [
        (replace(CANARY, trained=CANARY.base), Scores(-3.0, -2.0), "training moved too little"),
        (CANARY, Scores(-1.5, -2.5, base=(-4.0, -1.0)), "training moved too little"),  # a noisy engine
        (CANARY, Scores(-1.0, float("nan")), "what answers does not score given text"),
    ],
)
def test_what_cannot_be_told_apart_or_scored_is_said_and_not_refused(canary, engine, said):
    assert outcome(engine, canary).startswith(f"not checked: {said}")


def test_an_engine_without_the_base_is_judged_by_its_residuals():
    assert outcome(Scores(-1.001, -3.001, base=(None, None))) == "checked"
    with pytest.raises(InputError):
        outcome(Scores(-3.001, -2.001, base=(None, None)))
