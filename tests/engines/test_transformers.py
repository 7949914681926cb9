"""A judge in transformers, compared with direct calls of a tiny model; pickled weights."""

from __future__ import annotations

import importlib.util
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from instruct.base.errors import InputError
from instruct.base.replies import Completion, Failure
from instruct.engines.base import Request
from instruct.engines.transformers import TransformersEngine
from instruct.engines.vllm import VLLMEngine
from instruct.judging.asking import Judge, engine_options
from instruct.judging.cards import JudgeCard, load_judge_card
from instruct.judging.options import JudgeOptions

LABELS = str(Path(__file__).resolve().parent.parent / "judges" / "smollm2_labels")  # a card that only tests use
needs_vllm = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed")
PROMPTS = ["Which one is better?", "One, two, three and so on: first or second?", "Hm."]


@pytest.fixture(scope="module")
def wide_model(tiny_model_folder, tmp_path_factory):
    """The tiny model with weights so large that beam search and greedy decoding differ."""
    folder = tmp_path_factory.mktemp("wide") / "model"
    model = AutoModelForCausalLM.from_pretrained(tiny_model_folder)
    torch.manual_seed(3)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    model.to(torch.bfloat16).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_model_folder).save_pretrained(folder)
    return folder


@pytest.fixture
def make_card():
    def make(name: str, model: Path, decoding: dict[str, Any] | None = None, **fields: Any) -> JudgeCard:
        card = load_judge_card(name)
        decoded = card.decoding.model_copy(update=decoding or {})
        update = {"model": str(model), "revision": None, "context_length": 1024, "decoding": decoded, **fields}
        return card.model_copy(update=update)

    return make


def replies(engine: Any, prompts: list[Any]) -> list[Any]:
    requests = [Request(f"key {index}", prompt) for index, prompt in enumerate(prompts)]
    found = {request.key: reply for portion in engine.complete(iter(requests)) for request, reply in portion}
    engine.close()
    return [found[request.key] for request in requests]


def test_pandalm_is_decoded_as_by_its_authors(wide_model, make_card):
    """Four beams, early stopping, a repetition penalty of 1.2, ids 0, 1, 2 (pandalm/utils/pandalm_inference.py)."""
    network = AutoModelForCausalLM.from_pretrained(wide_model, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(wide_model)
    tokenizer.eos_token = None
    folder = wide_model.with_name("without-end")
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    done = replies(
        TransformersEngine(engine_options(make_card("pandalm", folder, {"max_tokens": 24}), dtype="float32")), PROMPTS
    )
    expected, greedy = [], []
    network.config.pad_token_id, network.config.bos_token_id, network.config.eos_token_id = 0, 1, 2
    for prompt in PROMPTS:
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        for found, beams in ((expected, 4), (greedy, 1)):
            config = GenerationConfig(
                num_beams=beams,
                early_stopping=True if beams > 1 else None,
                repetition_penalty=1.2,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=2,
            )
            answer = network.generate(ids, generation_config=config, max_new_tokens=24)[0, ids.shape[1] :]
            found.append(tokenizer.decode(answer, skip_special_tokens=True))
    assert [reply.text for reply in done] == expected
    assert expected != greedy


def test_label_logprobs_equal_those_of_the_model(wide_model, make_card):
    card = make_card(LABELS, wide_model)
    done = replies(TransformersEngine(engine_options(card, dtype="float32")), PROMPTS)
    network = AutoModelForCausalLM.from_pretrained(wide_model, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(wide_model)
    labels = [tokenizer(label)["input_ids"][0] for label in ("1", "2")]
    for prompt, reply in zip(PROMPTS, done, strict=True):
        with torch.no_grad():
            wanted = network(torch.tensor([tokenizer(prompt)["input_ids"]])).logits[0, -1].log_softmax(-1)[labels]
        assert list(reply.label_logprobs) == ["1", "2"]
        assert torch.allclose(torch.tensor(list(reply.label_logprobs.values())), wanted, atol=1e-4)
        assert (reply.prompt_tokens, reply.completion_tokens) == (len(tokenizer(prompt)["input_ids"]), 1)


def test_a_reply_depends_only_on_its_own_prompt(wide_model, make_card):
    for decoding in ({"max_tokens": 12}, {"max_tokens": 12, "temperature": 1.0}):
        card = make_card("autoj", wide_model, decoding)
        together = replies(TransformersEngine(engine_options(card)), PROMPTS)
        assert replies(TransformersEngine(engine_options(card)), PROMPTS[::-1]) == together[::-1]
        assert replies(TransformersEngine(engine_options(card)), PROMPTS[-1:]) == together[-1:]
        assert len({reply.text for reply in together}) == len(PROMPTS)


def test_a_too_long_prompt_is_measured_in_rendered_tokens(wide_model, make_card):
    card = make_card("autoj", wide_model, {"max_tokens": 8}, prompt_form="chat", context_length=64)
    chats = [[{"role": "user", "content": text}] for text in ("Hi.", "word " * 30)]
    engine = TransformersEngine(engine_options(card))
    assert engine.tokens(chats[0]) == 7  # <|user|>, three bytes, <|end|>, a line break, <|assistant|>
    short, long = replies(engine, chats)
    assert isinstance(short, Completion)
    assert long == Failure("too long: 154 tokens and 8 to answer exceed 64", permanent=True)


def test_keys_depend_on_the_engine_and_greedy_decoding_is_noted(wide_model, make_card):
    card = make_card("pandalm", wide_model)
    beams, greedy = TransformersEngine(engine_options(card)), VLLMEngine(engine_options(card))
    assert beams.identity != greedy.identity
    assert beams.identity["model"] == greedy.identity["model"] != str(wide_model)  # a hash of the folder's content
    assert beams.notes == []
    assert greedy.notes == ["decoded greedily with the repetition penalty; its authors use 4 beams, which vLLM has not"]
    assert VLLMEngine(engine_options(make_card("autoj", wide_model))).notes == []


def test_an_ignored_json_schema_is_noted(wide_model, make_card):
    card = make_card("autoj", wide_model, response_schema={"type": "object"})
    assert TransformersEngine(engine_options(card)).notes == [
        "asked without its JSON schema, which transformers cannot hold replies to"
    ]


def test_cards_and_options_that_need_a_server_are_refused(wide_model, make_card):
    with pytest.raises(InputError, match=r"judge alpaca_eval_gpt4: an annotator of alpaca-eval needs a server"):
        Judge(JudgeOptions(card="alpaca_eval_gpt4", engine="transformers")).check()
    card = make_card("autoj", wide_model, {"extra": {"tools": []}})
    with pytest.raises(InputError, match=r"judge autoj: decoding with extra, null or \{\} needs a server"):
        Judge(JudgeOptions(card="autoj", engine="transformers"), card).check()
    with pytest.raises(
        InputError, match=r"engine transformers asks no server at http://x; leave `engine` or `base_url`"
    ):
        Judge(JudgeOptions(card="autoj", base_url="http://x", engine="transformers")).check()


def test_a_label_of_several_tokens_is_refused(wide_model, make_card):
    card = make_card(LABELS, wide_model)
    labels = card.verdict.labels.model_copy(update={"second": "22"})
    card = card.model_copy(update={"verdict": card.verdict.model_copy(update={"labels": labels})})
    with pytest.raises(InputError, match=r"the label '22' is 2 tokens of its tokenizer; use one"):
        replies(TransformersEngine(engine_options(card)), PROMPTS)


@pytest.mark.parametrize("engine", ["transformers", pytest.param("vllm", marks=needs_vllm)])
def test_a_pickle_is_refused_unless_the_card_allows_it(pickled_model_folder, make_card, engine):
    with pytest.raises(InputError, match=r"has no \*\.safetensors, its weights are a pickle.*`weights: pickle`"):
        Judge(JudgeOptions(card=LABELS, engine=engine), make_card(LABELS, pickled_model_folder)).check()


def test_a_pickle_that_the_card_allows_judges_like_safetensors(pickled_model_folder, tiny_model_folder, make_card):
    allowed = make_card(LABELS, pickled_model_folder, weights="pickle")
    Judge(JudgeOptions(card=LABELS), allowed).check()
    with Judge(JudgeOptions(card=LABELS, engine="transformers"), allowed).open() as judge:
        assert replies(judge, PROMPTS) == replies(
            TransformersEngine(engine_options(make_card(LABELS, tiny_model_folder))), PROMPTS
        )


class _Touch:
    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return Path.touch, (Path(self._path),)


IN_VLLM = [needs_vllm, pytest.mark.slow, pytest.mark.xdist_group("vllm")]


@pytest.mark.parametrize("engine", [TransformersEngine, pytest.param(VLLMEngine, marks=IN_VLLM)])
def test_code_in_a_pickle_is_not_run(pickled_model_folder, make_card, tmp_path, engine):
    ran = tmp_path / "ran"
    with (pickled_model_folder / "pytorch_model.bin").open("wb") as file:
        pickle.dump({"model.norm.weight": _Touch(str(ran))}, file, protocol=2)
    card = make_card(LABELS, pickled_model_folder, weights="pickle")
    with pytest.raises(InputError, match=r"unpickler for tensors cannot read its \.bin files; use"):
        replies(engine(engine_options(card)), PROMPTS)
    assert not ran.exists()


def test_a_folder_without_weights_or_tokenizer_is_refused(tiny_model_folder, make_card, tmp_path):
    (tmp_path / "config.json").write_bytes((tiny_model_folder / "config.json").read_bytes())
    with pytest.raises(InputError, match=r"has no weights \(\*\.safetensors\); save it with save_pretrained"):
        Judge(JudgeOptions(card=LABELS), make_card(LABELS, tmp_path)).check()
    (tmp_path / "model.safetensors").write_bytes((tiny_model_folder / "model.safetensors").read_bytes())
    with pytest.raises(InputError, match=r"judge smollm2_labels: .* has no tokenizer"):
        replies(TransformersEngine(engine_options(make_card(LABELS, tmp_path))), PROMPTS)
