"""vLLM's own server with the real SmolLM2-135M, started once: adapters, canaries, labels, schemas and continuations."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from json_files import write_json
from peft import PeftModel
from safetensors.torch import load_file, save_file
from scoring import LABELS
from transformers import AutoModelForCausalLM, AutoTokenizer

from instruct.base.errors import InputError
from instruct.base.replies import Completion, Failure, ScoredCompletion
from instruct.engines.base import Decoding, EngineOptions, Request
from instruct.engines.canary import Canary, WeightsCheck
from instruct.engines.vllm import VLLMEngine
from instruct.engines.vllm_server import VLLMServer
from instruct.judging.asking import engine_options
from instruct.judging.cards import load_judge_card
from instruct.judging.presentations import PromptTemplate
from instruct.judging.store import JudgmentStore
from instruct.run.directory import RunDirectory

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("vllm"), pytest.mark.timeout(1200)]
SCHEMA = {
    "type": "object",
    "properties": {"better": {"enum": ["first", "second", "tie"]}},
    "required": ["better"],
    "additionalProperties": False,
}
PAIRS = [
    ("Name the capital of Italy.", "The capital of Italy is Rome.", "I like trains."),
    ("Say yes – ✓ 好.", "yes", "no \u202e no"),
    ("Say nothing but yes.", "yes", "word " * 9000),  # does not fit
]
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "rank-stabilized": {"use_rslora": True},
    "patterns": {"rank_pattern": {"q_proj": 2, "layers.1.mlp.down_proj": 8}, "alpha_pattern": {"v_proj": 3}},
}


@pytest.fixture(scope="module")
def adapters(smollm2, make_adapter, tmp_path_factory) -> dict[str, Path]:
    """One of each kind, and the plain one without its effect and with half of it."""
    folder = tmp_path_factory.mktemp("adapters")
    made = {kind: make_adapter(smollm2, folder / kind, 1, 0.02, **more) for kind, more in KINDS.items()}
    weights = load_file(made["plain"] / "adapter_model.safetensors")
    for name, factor in (("zeros", 0.0), ("half", 0.5)):
        made[name] = shutil.copytree(made["plain"], folder / name)
        scaled = {key: value * factor if "lora_B" in key else value for key, value in weights.items()}
        save_file(scaled, made[name] / "adapter_model.safetensors")
    return made


@pytest.fixture(scope="module")
def engine(smollm2, adapters) -> Iterator[VLLMEngine]:
    pytest.importorskip("vllm", reason="vLLM is not installed")
    engine = VLLMEngine(
        EngineOptions("model", smollm2, Decoding(max_tokens=1), 2048, adapters=(*adapters.values(),), dtype="float32")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")  # on a busy machine threads spend minutes waiting for each other
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)  # vLLM has three processes to start
        engine.start()
    yield engine
    engine.close()


def on_its_server(engine: VLLMEngine, options: EngineOptions) -> VLLMEngine:
    """Another engine of the same model, which asks the server of the first one."""
    other = VLLMEngine(options)
    other._served, other._asked = engine._served, other._client(engine._served)
    return other


def replies_of(engine: VLLMEngine, requests: list[Request]) -> dict[str, Any]:
    return {request.key: reply for portion in engine.complete(iter(requests)) for request, reply in portion}


def own_logprobs(smollm2: str, adapter: Path | None, texts: list[tuple[int, ...]]) -> list[list[float]]:
    """Of each token but the first of each text, by PEFT in float32."""
    network = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32)
    network = network if adapter is None else PeftModel.from_pretrained(network, adapter)
    found = []
    for ids in texts:
        with torch.no_grad():
            logprobs = network.eval()(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        found.append(logprobs[torch.arange(len(ids) - 1), list(ids[1:])].tolist())
    return found


def test_base_and_adapters_that_are_asked_at_once_score_as_peft_does(engine, smollm2, adapters):
    folders: dict[str, Path | None] = {"base": None, **{kind: adapters[kind] for kind in KINDS}}
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    texts = ["The capital of France is Paris, and that of Italy is Rome.", "Once upon a time a king had three sons."]
    ids = [tuple(tokenizer(text)["input_ids"]) for text in texts]
    requests = [
        Request(f"{kind} {place} {scored}", text, adapter=folder and str(folder), scored=scored)
        for place, text in enumerate(ids)
        for kind, folder in folders.items()
        for scored in (1, len(text) - 1)  # the last token alone is asked as a reply
    ]
    replies = replies_of(engine, requests)
    found = set()
    for kind, folder in folders.items():
        for place, wanted in enumerate(own_logprobs(smollm2, folder, ids)):
            scores, last = (replies[f"{kind} {place} {scored}"] for scored in (1, len(wanted)))
            assert isinstance(scores, ScoredCompletion)
            assert scores.token_logprobs == pytest.approx(wanted, abs=2e-3)
            assert last.token_logprobs == pytest.approx(wanted[-1:], abs=2e-3)
            found.add(scores.token_logprobs)
    assert len(found) == len(folders) * len(texts)  # every adapter has its own


def test_other_weights_than_those_that_were_trained_are_refused(engine, smollm2, adapters):
    ids = (*range(1000, 1020),)
    ((trained,), (base,)) = (own_logprobs(smollm2, adapter, [ids]) for adapter in (adapters["plain"], None))
    check = WeightsCheck(engine, {"emo": Canary([*ids], list(range(1, len(ids))), trained, base)}, "engine")
    assert check.outcome("emo", str(adapters["plain"])) == "checked"
    for adapter in (str(adapters["patterns"]), str(adapters["zeros"]), str(adapters["half"]), None):
        with pytest.raises(InputError, match="does not answer with the trained weights"):
            check.outcome("emo", adapter)


@pytest.fixture(scope="module")
def of_labels(smollm2) -> Callable[[str], Any]:
    """The log-probabilities of a prompt's labels by transformers in float32, about."""
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    network = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32)
    labels = {label: tokenizer(label, add_special_tokens=False)["input_ids"][0] for label in ("1", "2")}

    def compute(prompt: str) -> Any:
        with torch.no_grad():
            logprobs = network(tokenizer(prompt, return_tensors="pt")["input_ids"]).logits[0, -1].log_softmax(-1)
        return pytest.approx({label: float(logprobs[token]) for label, token in labels.items()}, abs=1e-3)

    return compute


def test_label_logprobs_are_those_of_the_model(engine, of_labels):
    options = engine_options(load_judge_card(LABELS), dtype="float32")
    template = PromptTemplate(load_judge_card(LABELS))
    prompts = [template.render_all({"instruction": text}, *answers)[0] for text, *answers in PAIRS]
    requests = [Request(str(place), prompt) for place, prompt in enumerate(prompts)]
    unstarted = VLLMEngine(options)
    assert isinstance(replies_of(unstarted, requests[-1:])["2"], Failure)
    assert unstarted._served is None  # vLLM is started only for prompts that fit
    replies = replies_of(on_its_server(engine, options), requests)
    for place in range(2):
        assert replies[str(place)].label_logprobs == of_labels(prompts[place])
    assert replies["2"].reason.startswith("too long: ")


def test_a_judge_asks_a_real_server_for_label_logprobs(engine, smollm2, of_labels, tmp_path, instruct):
    files = [
        write_json(tmp_path / f"{name}.json", [{"instruction": pair[0], "output": pair[side]} for pair in PAIRS])
        for side, name in enumerate("ab", 1)
    ]
    run = RunDirectory(tmp_path / "run")
    call = ["judge", "--files", *files, "--output", run.folder, "--judge", LABELS, "--judge-model", smollm2]
    code, _, error = instruct(*call, "--base-url", f"{engine._served.url}/v1")
    assert code == 0, error
    template = PromptTemplate(load_judge_card(LABELS))
    with JudgmentStore(run.store) as store:
        (comparison,) = store.comparisons()
        judgments = store.judgments(comparison)
        assert len(judgments) == 2 * len(PAIRS)
        for each in judgments:
            text, *shown = PAIRS[each.pair]
            if each.pair == 2:
                assert (each.verdict, each.reason[:8]) == ("failed", "too long")
                continue
            answers = shown if each.position == "first" else shown[::-1]
            (prompt,) = template.render_all({"instruction": text}, *answers)
            assert store.completions([each.key])[each.key].label_logprobs == of_labels(prompt)


def test_written_verdicts_follow_the_schema_and_a_stream_that_is_left_early_ends(engine):
    card = load_judge_card(LABELS)
    verdict = {"labels": None, "json_field": "better", "tie_margin": 0.0}
    update = {"decoding": card.decoding.model_copy(update={"max_tokens": 24}), "response_schema": SCHEMA}
    update |= {"verdict": card.verdict.model_copy(update=verdict), "context_length": 512}
    card = card.model_copy(update=update)
    template = PromptTemplate(card)
    asked = [
        Request(
            f"key {count}",
            template.render_all({"instruction": f"Count to {count}."}, "one " * count, "two " * (12 - count))[0],
        )
        for count in range(12)
    ]
    judge = on_its_server(engine, engine_options(card))
    next(judge.complete(iter(asked[:4])))  # its other replies must not mix with the next ones
    replies = replies_of(judge, asked)
    assert len(replies) == len(asked)
    for reply in replies.values():
        assert isinstance(reply, Completion)
        assert json.loads(reply.text)["better"] in SCHEMA["properties"]["better"]["enum"]
        assert reply.finish_reason == "stop"


def test_a_text_is_continued_to_the_letter_with_samples_of_their_own_seeds(engine, smollm2):
    options = EngineOptions("model", smollm2, Decoding(max_tokens=6), 64, continues=True)
    ids = tuple(AutoTokenizer.from_pretrained(smollm2)("The capital of France is")["input_ids"])
    requests = [Request("greedy", ids, min_tokens=6)]
    requests += [Request(f"seed {seed}", ids, min_tokens=6, temperature=1.5, seed=seed) for seed in range(1, 9)]
    replies = replies_of(on_its_server(engine, options), requests)
    assert {(reply.completion_tokens, reply.finish_reason) for reply in replies.values()} == {(6, "length")}
    assert replies["greedy"].text.startswith(" Paris")  # the space is the model's own first token
    assert len({reply.text for reply in replies.values()}) > 6


def test_what_vllm_cannot_load_is_said_in_one_line(tiny_model):
    pytest.importorskip("vllm", reason="vLLM is not installed")
    with pytest.raises(InputError, match=r"^model m: vLLM cannot load it \(\w*Error: .*\); check the name") as caught:
        VLLMServer("model m", [f"--model={tiny_model}", "--max-model-len=999999"])
    assert "\n" not in str(caught.value)
