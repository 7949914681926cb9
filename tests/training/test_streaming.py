"""Training on rows that are read while training: the same rows after an interruption, and what cannot be combined."""

from __future__ import annotations

import json
import re
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from train_configs import tiny_config, train, write_rows
from transformers import AutoTokenizer

from instruct.base.errors import InputError
from instruct.data.stream import RowStream
from instruct.data.templates import template_text
from instruct.data.tokens import RowEncoder
from instruct.training.preview import print_preview
from instruct.training.rows import load_training_rows

STREAM = {"streaming": True, "shuffle_buffer": 8}


def streaming_config(folder: Path, data: dict, **train_arguments):
    config = tiny_config(folder, "", data={**data, **STREAM})
    config.train |= train_arguments
    return config


def texts(path: Path, count: int = 30) -> str:
    path.write_text("".join(f"This is the text number {n}, one of several. \n" * (1 + n % 3) for n in range(count)))
    return str(path)


def chats(path: Path, count: int = 12) -> str:
    turns = [{"role": ("user", "assistant")[i % 2], "content": f"Turn {i}."} for i in range(4)]
    path.write_text((json.dumps({"messages": turns}) + "\n") * count)
    return str(path)


def weights(run):
    return load_file(run.adapters / "emo" / "adapter_model.safetensors")


def rows_of(config, count: int, seed: int = 42) -> list[str]:
    data = load_training_rows(config)
    stream = iter(data.stream.dataset(seed))
    return [data.tokenizer.decode(next(stream)["input_ids"]) for _ in range(count)]


@pytest.fixture
def sources(tmp_path) -> dict[str, dict]:
    rows, talk, plain = (
        write_rows(tmp_path / "rows.jsonl"),
        chats(tmp_path / "chats.jsonl"),
        texts(tmp_path / "texts.txt"),
    )
    return {
        "rows": {"files": [rows]},
        "mixture": {"mixture": [{"files": [rows], "weight": 0.5}, {"files": [talk], "weight": 0.5}]},
        "texts": {"files": [plain]},
    }


def interrupted(monkeypatch, folder, config, step: int):
    """The run of a training that stops after `step` and is then resumed."""
    from transformers import TrainerControl, trainer_callback

    original = trainer_callback.CallbackHandler.on_step_begin

    def interrupt(self, args, state, control) -> TrainerControl:
        if state.global_step == step:
            raise KeyboardInterrupt
        return original(self, args, state, control)

    with monkeypatch.context() as patch:
        patch.setattr(trainer_callback.CallbackHandler, "on_step_begin", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(folder, config)
    return train(folder, config)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mixture", "texts"])
def test_an_interrupted_stream_resumes_at_the_same_rows(tmp_path, tiny_model_folder, sources, kind, monkeypatch):
    # 10 steps of 4 rows read the 24 rows, and the blocks of texts, more than once.
    config = streaming_config(tiny_model_folder, sources[kind], max_steps=10, max_length=64)
    undisturbed = train(tmp_path / "undisturbed", config)
    resumed = interrupted(monkeypatch, tmp_path / "resumed", config, step=7)
    ours, theirs = weights(resumed), weights(undisturbed)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    step, whole = (run.manifest()["steps"]["train/emo"] for run in (resumed, undisturbed))
    assert step["attempts"] == 2
    assert step["results"]["steps"] == 10
    assert step["results"]["epochs"] is None
    assert step["results"]["rows"] == whole["results"]["rows"]
    assert step["results"]["rows"]["read"] >= 40 if kind != "texts" else step["results"]["rows"]["tokens"] > 10 * 4 * 32
    train(tmp_path / "resumed", config)
    assert resumed.manifest()["steps"]["train/emo"] == step  # done, and not done again


def test_a_stream_starts_again_at_its_end_in_another_order(tiny_model_folder, sources):
    config = streaming_config(tiny_model_folder, {**sources["rows"], "limit": 20})
    found = rows_of(config, 100)
    assert len(set(found)) == 20
    assert min(Counter(found).values()) >= 4  # every row in every pass, but for those in the buffer
    assert found[:20] != found[20:40]
    assert rows_of(config, 100) == found
    assert rows_of(config, 100, seed=1) != found


def test_streamed_rows_are_those_of_a_training_in_memory(tiny_model_folder, sources):
    for kind, length in (("rows", 64), ("texts", None)):  # packing splits texts
        config = streaming_config(tiny_model_folder, sources[kind], max_length=64)
        data = load_training_rows(config)
        config.data.streaming, config.data.shuffle_buffer = None, None
        in_memory = load_training_rows(config).encoded.trainable
        unshuffled = config.data.model_copy(update={"shuffle_buffer": 1})
        stream = iter(RowStream(unshuffled, RowEncoder(data.tokenizer, length)).dataset(0))
        streamed = [next(stream) for _ in in_memory]
        assert [row["input_ids"] for row in streamed] == [row["input_ids"] for row in in_memory]
        assert [row["labels"] for row in streamed] == [row["labels"] for row in in_memory]


def test_a_mixture_is_streamed_by_weight(tiny_model_folder, sources):
    mixture = [
        {**part, "weight": weight} for part, weight in zip(sources["mixture"]["mixture"], (0.8, 0.2), strict=True)
    ]
    found = rows_of(streaming_config(tiny_model_folder, {"mixture": mixture}), 500)
    assert 0.75 < sum("Say the number" in text for text in found) / 500 < 0.85


def test_a_mixture_is_streamed_by_chats_where_a_template_makes_several_rows_of_one(tmp_path, tiny_model_folder):
    turns = [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "1.", "reasoning_content": "Hm."}]
    talk, rows = tmp_path / "talk.jsonl", write_rows(tmp_path / "rows.jsonl", 12)
    talk.write_text((json.dumps({"messages": turns * 4}) + "\n") * 12)
    template = tmp_path / "qwen3.jinja"
    end = AutoTokenizer.from_pretrained(tiny_model_folder).eos_token
    template.write_text(template_text("qwen3").replace("<|im_end|>", end))
    mixture = [{"files": [str(talk)], "weight": 0.5}, {"files": [rows], "weight": 0.5}]
    found = rows_of(streaming_config(tiny_model_folder, {"mixture": mixture, "chat_template": str(template)}), 500)
    chats = sum("Hm." in text for text in found) / 4
    assert 0.45 < chats / (chats + sum("Hm." not in text for text in found)) < 0.55


def test_a_stream_records_what_it_read_and_the_card_says_so(tmp_path, tiny_model_folder, sources, capsys):
    config = streaming_config(tiny_model_folder, sources["mixture"], max_steps=2)
    run = train(tmp_path / "run", config)
    results = run.manifest()["steps"]["train/emo"]["results"]
    assert results["rows"]["kept"] == sum(part["kept"] for part in results["mixture"]) >= 8
    assert [part["weight"] for part in results["mixture"]] == [0.5, 0.5]
    card = " ".join((run.adapters / "emo" / "README.md").read_text().split())
    assert f"{results['rows']['kept']} complete rows" in card
    assert "Streamed: these were read, in batches ahead of the training, and count as often as they were read." in card
    capsys.readouterr()
    print_preview(config)
    assert "36 rows read (the first 1,000 of each data set at most" in " ".join(capsys.readouterr().out.split())


def test_a_changed_file_is_another_training(tmp_path, tiny_model_folder, sources):
    config = streaming_config(tiny_model_folder, sources["rows"])
    before = load_training_rows(config).rows.sha256
    assert load_training_rows(config).rows.sha256 == before
    path = Path(sources["rows"]["files"][0])
    path.write_text(path.read_text() + path.read_text().splitlines()[0] + "\n")
    longer = load_training_rows(config).rows.sha256
    config.data.shuffle_buffer = 9
    assert len({before, longer, load_training_rows(config).rows.sha256}) == 3


def test_a_row_that_is_wrong_is_named_when_the_training_reaches_it(tmp_path, tiny_model_folder, monkeypatch):
    monkeypatch.setattr("instruct.training.rows.SAMPLE", 4)
    path = Path(write_rows(tmp_path / "rows.jsonl"))
    path.write_text(path.read_text() + '{"instruction": "x", "output": 3}\n')
    with pytest.raises(InputError, match=r"rows\.jsonl, row 25: output: must be text \(given: 3\)"):
        train(tmp_path / "run", streaming_config(tiny_model_folder, {"files": [str(path)]}, max_steps=8))


def test_rows_past_the_sample_are_counted_and_too_many_rejected_ones_stop(
    tmp_path, tiny_model_folder, monkeypatch, caplog
):
    monkeypatch.setattr("instruct.training.rows.SAMPLE", 4)
    monkeypatch.setattr("instruct.data.stream.SAMPLE", 32)
    fine = [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "1."}]
    lines = [json.dumps({"messages": fine})] * 60
    thinking = json.dumps({"messages": [fine[0], {**fine[1], "reasoning_content": "Hm."}]})
    path = tmp_path / "chats.jsonl"

    def read(lines: list[str], **options):  # more than once
        path.write_text("\n".join(lines) + "\n")
        data = load_training_rows(streaming_config(tiny_model_folder, {"files": [str(path)], **options}))
        rows = iter(data.stream.dataset(0))
        for _ in range(200):
            next(rows)
        return data.stream.counts

    assert read([*lines, thinking])["rejected"] >= 1
    assert re.search(r"left out: \d+ of the \d+ rows read so far; the first: .*chats\.jsonl:61: ", caplog.text)
    with pytest.raises(InputError, match=r"rejects \d+ of \d+ rows; fix them, or set on_bad_row: skip"):
        read([*lines, *[thinking] * 60])
    assert read([*lines, *[thinking] * 60], on_bad_row="skip")["rejected"] >= 60
    with pytest.raises(InputError, match=r"chats\.jsonl:61: .* does not render the thinking"):
        read([*lines, thinking], on_bad_row="stop")
    counts = read([*lines, '{"messages": 3}'], on_bad_row="skip")
    assert counts["malformed"] >= 1
    assert counts["read"] == counts["kept"] + counts["malformed"]


@pytest.mark.parametrize(
    ("data", "arguments", "message"),
    [
        ({}, {"max_steps": None}, "data.streaming: the number of rows is unknown; set train.max_steps"),
        ({}, {"max_steps": -1}, "data.streaming: the number of rows is unknown; set train.max_steps"),
        ({}, {"train_sampling_strategy": "group_by_length"}, "train.train_sampling_strategy group_by_length: needs"),
        ({}, {"save_strategy": "epoch"}, "train.save_strategy epoch: a stream has no epochs; set it to steps"),
        ({}, {"dataloader_num_workers": 2}, "train.dataloader_num_workers: a stream is read by the training process"),
        ({"eval_fraction": 0.1}, {}, "data: streaming cannot hold out eval_fraction of unknown rows; give eval_files"),
        ({"streaming": False}, {}, "data: shuffle_buffer requires streaming: true; add it or remove shuffle_buffer"),
        ({"shuffle_buffer": 0}, {}, "data.shuffle_buffer: must be at least 1"),
        (
            {"files": None, "mixture": [{"files": ["a.jsonl"]}, {"files": ["b.jsonl"]}]},
            {},
            "data: streaming mixes by weight, because sizes are unknown; give every data set a weight",
        ),
        (
            {"files": None, "mixture": [{"card": "starter", "weight": 1.0}], "stopping_strategy": "all_exhausted"},
            {},
            "data: a stream ends with train.max_steps; remove stopping_strategy",
        ),
    ],
)  # fmt: skip
def test_what_needs_all_rows_cannot_be_streamed(tiny_model_folder, sources, data, arguments, message):
    sections = {"data": {**sources["rows"], **STREAM, **data}, "train": {"max_steps": 2, **arguments}}
    with pytest.raises(InputError) as error:
        load_training_rows(tiny_config(tiny_model_folder, "", **sections))
    assert message in str(error.value)


@pytest.mark.slow
def test_a_stream_holds_its_buffer_in_memory_and_not_its_rows(tmp_path, tiny_model_folder, monkeypatch):
    monkeypatch.setattr("instruct.training.rows.SAMPLE", 50)

    def peak(streaming: bool, count: int) -> float:
        """MiB above the start, while all rows are read once."""
        config = tiny_config(tiny_model_folder, write_rows(tmp_path / "rows.jsonl", count))
        if streaming:
            config.data = config.data.model_copy(update=STREAM)
        tracemalloc.start()
        data = load_training_rows(config)
        dataset = data.stream.dataset(0) if data.stream else data.encoded.dataset()
        for _ in zip(range(count), dataset, strict=False):
            pass
        found = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        return found

    peak(True, 60)  # what is imported stays in memory
    short, streamed, whole = peak(True, 300), peak(True, 1500), peak(False, 1500)
    assert streamed < 1.2 * short
    assert streamed < whole / 3
