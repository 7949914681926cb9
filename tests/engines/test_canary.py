"""What answers is compared with what was trained: in every engine, and with every kind of wrong weights."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import stored
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from instruct.base.errors import InputError
from instruct.base.models import ModelOptions
from instruct.base.replies import Failure, ScoredCompletion
from instruct.data.evaluation import EvalPrompt
from instruct.engines.base import Decoding, EngineOptions
from instruct.engines.canary import FILE, Canary, WeightsCheck, compare_scores, read_canary
from instruct.engines.start import make_engine
from instruct.generation import replies
from instruct.generation.answers import GenerationConfig, generate_answers

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
        (CANARY, Scores(-1.0, None), "what answers does not score given text"),
        (CANARY, Scores(-1.0, float("nan")), "what answers does not score given text"),
        (replace(CANARY, trained=[float("nan"), -3.0]), Scores(-1.0, -3.0), "training moved too little"),
    ],
)
def test_what_cannot_be_told_apart_or_scored_is_said_and_not_refused(canary, engine, said):
    assert outcome(engine, canary).startswith(f"not checked: {said}")


def test_an_engine_without_the_base_is_judged_by_its_residuals():
    assert outcome(Scores(-1.001, -3.001, base=(None, None))) == "checked"
    with pytest.raises(InputError):
        outcome(Scores(-3.001, -2.001, base=(None, None)))


class Simulated:
    """A training and what an engine makes of it.

    Noise is louder at unlikely tokens, has heavy tails, is partly common to neighbors, and swallows a part of small
    changes, as was measured of SmolLM2-135M (its base and a trained adapter in float32 and bfloat16).
    """

    def __init__(self, draw: np.random.Generator) -> None:
        self.draw, self.count = draw, int(draw.integers(16, 65))
        self.base = -draw.gamma(0.6, 3.0, self.count)
        self.doubt = 1 - np.exp(self.base)
        self.size = 10 ** draw.uniform(-3, 0.7)
        self.noise = float(draw.choice([1e-6, 0.006, 0.05, 0.15]))
        self.movement = self.moves(self.size)
        computed = self.scores(self.movement, self.noise * draw.choice([1e-3, 1.0]))
        self.has_base = draw.random() < 0.7
        self.canary = self.canary_of(self.movement, computed if draw.random() < 0.8 else None)

    def moves(self, size: float) -> np.ndarray:
        return size * self.doubt * (0.3 + self.draw.standard_t(4, self.count))

    def canary_of(self, movement: np.ndarray, computed=None) -> Canary:
        ids = list(range(self.count + 1))
        return Canary(ids, ids[1:], list(self.base + movement), list(self.base), computed)

    def scores(self, movement: np.ndarray, noise: float | None = None) -> list[float]:
        noise = self.noise if noise is None else noise
        size = float(np.sqrt((movement**2).mean())) + 1e-12
        own = self.draw.standard_t(4, self.count) / 2**0.5
        common = np.convolve(self.draw.normal(size=self.count + 2), np.ones(3) / 3**0.5, "valid")
        louder = noise * self.draw.uniform(0.8, 1.2) * self.doubt
        kept = 1 - min(0.5, self.draw.uniform(0, 0.5) * float(np.sqrt((louder**2).mean())) / size)
        return list(self.base + kept * movement + louder * (0.9 * own + 0.4 * common))

    def outcome(self, movement: np.ndarray, **siblings: Canary):
        base = self.scores(0 * movement) if self.has_base else None
        return compare_scores(self.canary, self.scores(movement), base, siblings)


def test_ten_thousand_trainings_are_known_again_and_nothing_else_is_taken_for_them():
    draw = np.random.default_rng(0)
    of_right, wrong = Counter(), {"zeros": Counter(), "half": Counter(), "unrelated": Counter()}
    of_sibling = Counter()
    for number in range(10_000):
        case = Simulated(draw)
        sibling = case.movement + case.moves(case.size * 10 ** draw.uniform(-1.5, 0.3))
        siblings = {"mle": case.canary_of(sibling)}
        found = case.outcome(case.movement, **siblings)
        of_right[found.weights] += 1
        if number % 10:
            continue
        answers = {"zeros": 0 * case.movement, "half": case.movement / 2, "unrelated": case.moves(case.size)}
        for name, movement in answers.items():
            if found.weights == "right" and case.has_base:
                wrong[name][case.outcome(movement).weights] += 1
            else:
                assert case.outcome(movement).weights != "right", (name, vars(case))
        of_other = case.outcome(sibling, **siblings)
        told_apart = of_other.weights == "wrong" or "mle" in of_other.reason
        of_sibling[told_apart or of_other.weights] += 1
    print(of_right, wrong, of_sibling)
    assert of_right["wrong"] == 0
    assert of_right["right"] > 4000
    assert all(counts["wrong"] > 300 for counts in wrong.values())
    assert all(counts["right"] == 0 for counts in wrong.values())
    assert of_sibling["right"] == 0


def test_a_damaged_file_is_refused(tmp_path):
    assert read_canary(None) is read_canary(tmp_path) is None
    CANARY.save(tmp_path)
    assert read_canary(tmp_path) == CANARY
    changes = (
        {"places": [3, 4]},
        {"trained": [-1.0]},
        {"ids": ["a"] * len(CANARY.ids)},
        {"places": [1.5] * 2},
        {"ids": 7},
    )
    for content in ({"ids": [1]}, [1], *({**asdict(CANARY), **change} for change in changes)):
        (tmp_path / FILE).write_text(json.dumps(content))
        with pytest.raises(InputError, match=r"canary\.json: is damaged; restore it"):
            read_canary(tmp_path)


def canary_of(model: Path, adapter: Path, ids: list[int]) -> Canary:
    """From PEFT in float32."""
    from peft import PeftModel

    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    places = list(range(1, len(ids)))

    def scores(network) -> list[float]:
        with torch.no_grad():
            logs = network(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
        return [float(logs[place - 1, ids[place]]) for place in places]

    base = scores(network)
    return Canary(ids, places, scores(PeftModel.from_pretrained(network, adapter)), base)


def engine_of(kind: str, model: Path, *adapters: Path):
    return make_engine(
        kind,
        EngineOptions("model", str(model), Decoding(max_tokens=4), 64, adapters=adapters, dtype="float32", chat=True),
    )


def check_each_kind_of_wrong_weights(
    kind: str, model: Path, adapters: dict[str, Path], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trained adapter passes; another, one of zeros, one at half its scale, and no adapter are refused.

    Where one of zeros has taken the place of the trained one, `generate` refuses before it writes an answer.
    """
    canary = canary_of(model, adapters["emo"], list(range(10, 30)))
    wrong = {"another": adapters["mle"], "none": None}
    for name, factor in (("zeros", 0.0), ("half", 0.5)):
        wrong[name] = folder / name
        shutil.copytree(adapters["emo"], wrong[name])
        path = wrong[name] / "adapter_model.safetensors"
        save_file({key: value * factor if "lora_B" in key else value for key, value in load_file(path).items()}, path)
    engine = engine_of(kind, model, adapters["emo"], *filter(None, wrong.values()))
    try:
        check = WeightsCheck(engine, {"emo": canary}, "engine")
        for adapter in wrong.values():
            with pytest.raises(InputError, match="does not answer with the trained weights"):
                check.outcome("emo", adapter and str(adapter))
        assert check.outcome("emo", str(adapters["emo"])) == "checked"
        canary.save(wrong["zeros"])
        monkeypatch.setattr(replies, "make_engine", lambda *_, **__: engine)  # which runs already
        options, config = ModelOptions(name=str(model), dtype="float32"), GenerationConfig(engine=kind)
        prompts, answers = [EvalPrompt("Say hello.", "tiny")], folder / "answers"
        with pytest.raises(InputError, match=r"^system emo does not answer with the trained weights"):
            generate_answers(options, {"emo": wrong["zeros"]}, prompts, "chat", config, answers)
        assert stored.count(answers, "emo") == 0
        assert not (answers / "emo.json").exists()
    finally:
        engine.close()


def test_transformers_that_loads_other_weights_is_refused(tiny_model, tiny_adapters, tmp_path, monkeypatch):
    check_each_kind_of_wrong_weights("transformers", tiny_model, tiny_adapters, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.xdist_group("vllm")
def test_vllm_that_loads_other_weights_is_refused(wide_heads, make_adapter, tmp_path, monkeypatch):
    names = enumerate(("mle", "emo"), 1)
    adapters = {name: make_adapter(wide_heads, tmp_path / name, seed, 0.5) for seed, name in names}
    check_each_kind_of_wrong_weights("vllm", wide_heads, adapters, tmp_path, monkeypatch)
