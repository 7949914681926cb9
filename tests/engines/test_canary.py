"""What answers is compared with what was trained: in every engine, and with every kind of wrong weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import stored
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from instruct.base.errors import InputError
from instruct.base.models import ModelOptions
from instruct.base.replies import Failure, ScoredCompletion
from instruct.data.evaluation import EvalPrompt
from instruct.engines.base import Decoding, EngineOptions
from instruct.engines.canary import FILE, TOLERANCES, Canary, check_weights_that_answer, read_canary
from instruct.engines.start import make_engine
from instruct.generation import batches
from instruct.generation.answers import GenerationConfig, generate_answers

CANARY = Canary(ids=[5, 6, 7, 8], places=[2, 3], trained=[-1.0, -2.0], base=[-3.0, -2.0], dtype="float32")


class Scores:
    """An engine that gives the last tokens these scores; None: it gives none."""

    def __init__(self, *scores: float | None, one_by_one: bool = False) -> None:
        self.scores, self.one_by_one, self.asked = scores, one_by_one, []

    def complete(self, requests):
        (request,) = requests
        self.asked.append((request.prompt, request.scored, request.adapter))
        if self.one_by_one and len(request.prompt) - request.scored > 1:
            raise InputError("one token at a time")
        of_place = dict(zip(CANARY.places, self.scores, strict=True))
        scores = [of_place[place] for place in range(request.scored, len(request.prompt))]
        yield [(request, Failure("no") if None in scores else ScoredCompletion("", token_logprobs=tuple(scores)))]


def test_scores_of_the_trained_weights_pass_and_those_of_the_base_or_of_others_do_not():
    engine = Scores(-1.001, -2.001)
    assert check_weights_that_answer(engine, CANARY, "a", "float32", "system emo") == "checked"
    assert engine.asked == [((5, 6, 7, 8), 2, "a")]
    engine = Scores(-1.001, -2.001, one_by_one=True)
    assert check_weights_that_answer(engine, CANARY, "a", "float32", "system emo") == "checked"
    assert engine.asked[1:] == [((5, 6, 7), 2, "a"), ((5, 6, 7, 8), 3, "a")]
    for scores in ((-3.0, -2.0), (-1.2, -2.0), (-1.0, -7.0)):
        with pytest.raises(InputError, match=r"^system emo does not answer with the trained weights: .*; give the"):
            check_weights_that_answer(Scores(*scores), CANARY, None, "float32", "system emo")


def test_the_coarser_of_both_dtypes_decides():
    assert check_weights_that_answer(Scores(-1.3, -2.0), CANARY, None, "bfloat16", "s") == "checked"
    assert check_weights_that_answer(Scores(-1.05, -2.0), CANARY, None, "float16", "s") == "checked"
    with pytest.raises(InputError):
        check_weights_that_answer(Scores(-1.3, -2.0), CANARY, None, "float16", "s")


@pytest.mark.parametrize(
    ("canary", "scores", "outcome"),
    [
        (Canary([5, 6], [1], [-1.0], [-1.015], "float32"), (), "training moved no log-probability of its text by mo"),
        (CANARY, (-1.0, None), "what answers does not score given text"),
    ],
)
def test_what_cannot_be_told_apart_or_scored_is_said_and_not_refused(canary, scores, outcome):
    assert check_weights_that_answer(Scores(*scores), canary, None, "float32", "s").startswith(
        f"not checked: {outcome}"
    )


def test_a_damaged_file_is_refused(tmp_path):
    assert read_canary(None) is read_canary(tmp_path) is None
    CANARY.save(tmp_path)
    assert read_canary(tmp_path) == CANARY
    (tmp_path / FILE).write_text(json.dumps({"ids": [1]}))
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
    return Canary(ids, places, scores(PeftModel.from_pretrained(network, adapter)), base, "float32")


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
    assert max(abs(a - b) for a, b in zip(canary.trained, canary.base, strict=True)) > 4 * TOLERANCES["float32"]
    wrong = {"another": adapters["mle"], "none": None}
    for name, factor in (("zeros", 0.0), ("half", 0.5)):
        wrong[name] = folder / name
        shutil.copytree(adapters["emo"], wrong[name])
        path = wrong[name] / "adapter_model.safetensors"
        save_file({key: value * factor if "lora_B" in key else value for key, value in load_file(path).items()}, path)
    engine = engine_of(kind, model, adapters["emo"], *filter(None, wrong.values()))
    try:
        for adapter in wrong.values():
            with pytest.raises(InputError, match="does not answer with the trained weights"):
                check_weights_that_answer(engine, canary, adapter and str(adapter), "float32", "system emo")
        outcome = check_weights_that_answer(engine, canary, str(adapters["emo"]), "float32", "system emo")
        assert outcome == "checked"
        canary.save(wrong["zeros"])
        monkeypatch.setattr(batches, "make_engine", lambda *_, **__: engine)  # which runs already
        options, config = ModelOptions(name=str(model), dtype="float32"), GenerationConfig(engine=kind)
        prompts, answers = [EvalPrompt("Say hello.", "tiny")], folder / "answers"
        with pytest.raises(InputError, match=r"^system emo does not answer with the trained weights"):
            generate_answers(options, {"emo": wrong["zeros"]}, prompts, "chat", config, answers)
        assert stored.finished(answers, "emo") == 0
        assert not (answers / "emo.json").exists()
    finally:
        engine.close()


def test_transformers_that_loads_other_weights_is_refused(tiny_model, tiny_adapters, tmp_path, monkeypatch):
    check_each_kind_of_wrong_weights("transformers", tiny_model, tiny_adapters, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.xdist_group("vllm")
@pytest.mark.parametrize("merges", [True, pytest.param(False, marks=pytest.mark.full)], ids=["merged", "layers"])
def test_vllm_that_loads_other_weights_is_refused(tiny_model, make_adapter, tmp_path, monkeypatch, merges):
    model = tmp_path / "model"
    shutil.copytree(tiny_model, model)
    config = LlamaConfig.from_pretrained(tiny_model)
    config.update({"hidden_size": 64, "head_dim": 32})  # vLLM's attention on a CPU has no narrower heads
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(model)
    # Adapters that may have changed the base's weights are layers beside them, as all are on a GPU: each token is then
    # asked as a reply.
    options = {} if merges else {"init_lora_weights": "eva"}
    adapters = {
        name: make_adapter(model, tmp_path / name, seed, 0.5, **options) for seed, name in enumerate(("mle", "emo"), 1)
    }
    check_each_kind_of_wrong_weights("vllm", model, adapters, tmp_path, monkeypatch)
