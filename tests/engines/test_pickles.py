"""Pickled weights: checked against the hub's hashes, converted to safetensors once, and nothing but tensors."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import huggingface_hub.constants
import huggingface_hub.hf_api
import pytest
import torch
from local_hub import COMMIT, running_hub
from safetensors.torch import load_file

from instruct.base.errors import InputError
from instruct.base.machine import has_gpu_device
from instruct.engines.base import Decoding, EngineOptions
from instruct.engines.memory import check_memory
from instruct.engines.transformers import TransformersEngine
from instruct.engines.weights import safetensors_folder
from instruct.judging.asking import engine_options
from instruct.judging.cards import load_judge_card
from instruct.run.directory import RunDirectory

JUDGE = f"""\
name: pickled
description: a hub model whose weights are pickles
model: authors/judge
revision: {COMMIT}
weights: pickle
protocol: pairwise
prompt: prompt.txt
prompt_form: text
decoding: {{max_tokens: 4}}
verdict: {{words: {{first: A, second: B}}}}
order_policy: one
leading_policy: single
context_length: 512
licence: none
"""


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("INSTRUCT_CACHE", str(tmp_path / "cache"))


# Old checkpoints have such a buffer, which transformers leaves out.
SHARED = "model.layers.0.self_attn.rotary_emb.inv_freq"


def sharded(folder: Path) -> Path:
    """The pickle in a folder, split in two, the second one with a tensor that shares the memory of another."""
    state = torch.load(folder / "pytorch_model.bin", weights_only=True)
    names = sorted(state)
    second = {name: state[name] for name in names[5:]}
    second[SHARED] = second[names[5]]
    torch.save({name: state[name] for name in names[:5]}, folder / "pytorch_model-00001-of-00002.bin")
    torch.save(second, folder / "pytorch_model-00002-of-00002.bin")
    (folder / "pytorch_model.bin").unlink()
    (folder / "pytorch_model.bin.index.json").write_text("{}")
    return folder


def converted(folder: Path) -> dict[str, torch.Tensor]:
    return {name: tensor for path in folder.glob("*.safetensors") for name, tensor in load_file(path).items()}


def test_a_pickle_becomes_safetensors_once(pickled_model_folder, tiny_model_folder, tmp_path, printed):
    model = str(pickled_model_folder)
    folder = safetensors_folder("judge x", model, None)
    assert folder.is_relative_to(tmp_path / "cache")
    assert f"converted to safetensors, once: {folder}" in printed.readouterr().err.replace("\n", "")
    original, made = load_file(tiny_model_folder / "model.safetensors"), converted(folder)
    assert made.keys() == original.keys()
    assert all(torch.equal(made[name], original[name]) and made[name].dtype == original[name].dtype for name in made)
    digest = hashlib.sha256((pickled_model_folder / "pytorch_model.bin").read_bytes()).hexdigest()
    assert json.loads((folder / "pickles.json").read_text()) == {
        "model": model, "revision": None, "checked_against_the_hub": False, "sha256": {"pytorch_model.bin": digest},
    }  # fmt: skip
    assert safetensors_folder("judge x", model, None) == folder
    assert printed.readouterr().err == ""
    # Different weights in the same folder are a different model.
    torch.save({name: tensor + 1 for name, tensor in original.items()}, pickled_model_folder / "pytorch_model.bin")
    assert safetensors_folder("judge x", model, None) != folder


def test_several_pickles_become_several_files_with_an_index(pickled_model_folder, tiny_model_folder):
    folder = safetensors_folder("judge x", str(sharded(pickled_model_folder)), None)
    original = load_file(tiny_model_folder / "model.safetensors")
    index = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    assert set(index) == {*original, SHARED}
    for name, file in index.items():
        assert name in load_file(folder / file)
    made = converted(folder)
    assert all(torch.equal(made[name], original[name]) for name in original)
    assert not list(folder.glob("pytorch_model*"))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"a": torch.ones(2), "steps": 3}, r"holds more than tensors \(steps: int\); use weights that are safetensors"),
        ({"state_dict": {"a": torch.ones(2)}}, r"holds more than tensors \(state_dict: dict\)"),
        ([torch.ones(2)], r"holds no named tensors"),
        (b"not a pickle", r"unpickler for tensors cannot read it"),
    ],
)
def test_anything_but_named_tensors_is_refused(pickled_model_folder, tmp_path, content, problem):
    path = pickled_model_folder / "pytorch_model.bin"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    with pytest.raises(InputError, match=problem) as caught:
        safetensors_folder("judge x", str(pickled_model_folder), None)
    assert str(path) in str(caught.value)
    assert not list((tmp_path / "cache").glob("models/*"))


class Code:
    """Opens a file to write as soon as it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return open, (str(self.mark), "w")


def test_code_in_a_pickle_is_not_run(pickled_model_folder, tmp_path):
    mark, path = tmp_path / "mark", pickled_model_folder / "pytorch_model.bin"
    torch.save({**torch.load(path, weights_only=True), "code": Code(mark)}, path)
    options = EngineOptions("judge x", str(pickled_model_folder), Decoding(), 512, allow_pickle=True)
    with pytest.raises(InputError):
        TransformersEngine(options).start()
    assert not mark.exists()


@pytest.fixture(scope="module")
def one_hub(tmp_path_factory):
    """One for all tests, since transformers asks the first one that it knew."""
    with running_hub(tmp_path_factory.mktemp("hub")) as server:
        yield server


@pytest.fixture
def hub(one_hub, pickled_model_folder):
    """A hub with one model, `authors/judge`."""
    files = {path.name: path.read_bytes() for path in sharded(pickled_model_folder).iterdir()}
    one_hub.repositories["authors/judge"], one_hub.wrong_hash = files, ""
    one_hub.requests.clear()
    return one_hub


@pytest.fixture
def judge_once(hub, tmp_path, monkeypatch, instruct):
    """`judge_once()`: exit code and stderr of `instruct judge` with the pickled judge, asking this hub only."""
    card, run = tmp_path / "judges" / "pickled", tmp_path / "runs" / "r"

    def judge() -> tuple[int, str]:
        for name, value in (
            ("ENDPOINT", hub.address),
            ("HUGGINGFACE_CO_URL_TEMPLATE", hub.address + "/{repo_id}/resolve/{revision}/{filename}"),
            ("HF_HUB_CACHE", str(tmp_path / "hub")),
            ("HF_HUB_OFFLINE", False),
        ):
            monkeypatch.setattr(huggingface_hub.constants, name, value)
        monkeypatch.setattr(huggingface_hub.hf_api.api, "endpoint", hub.address)
        monkeypatch.chdir(tmp_path)
        card.mkdir(parents=True, exist_ok=True)
        (card / "judge.yaml").write_text(JUDGE)
        (card / "prompt.txt").write_text("{instruction} {first} {second}")
        (run / "outputs").mkdir(parents=True)
        for name in ("ours", "theirs"):
            row = {"dataset": "d", "instruction": "Why?", "output": f"{name} says so.", "generator": name}
            (run / "outputs" / f"{name}.json").write_text(json.dumps([row]))
        (run / "config.yaml").write_text("name: r\nsystems: {}\ncomparisons: []\n")
        manifest = {"format": 3, "created": "2026-01-01T00:00:00+00:00", "versions": {}, "machine": {}, "steps": {}}
        (run / "manifest.json").write_text(json.dumps(manifest))
        names = ("--candidate", "ours", "--baseline", "theirs")
        code, _, err = instruct("judge", run, "--judge", "pickled", "--engine", "transformers", *names)
        return code, " ".join(err.split())

    return judge


def test_pickles_of_the_hub_are_checked_converted_and_recorded(hub, judge_once, tmp_path):
    code, err = judge_once()
    assert code == 5, err  # its random weights write no verdict
    assert "authors/judge: its pickled weights are converted to safetensors, once" in err
    (folder,) = (tmp_path / "cache" / "models").iterdir()
    record = json.loads((folder / "pickles.json").read_text())
    files = hub.repositories["authors/judge"].items()
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files if name.endswith(".bin")}
    assert record == {
        "model": "authors/judge", "revision": COMMIT, "checked_against_the_hub": True, "sha256": digests,
    }  # fmt: skip
    steps = json.loads((tmp_path / "runs" / "r" / "manifest.json").read_text())["steps"]
    (note,) = [note for step in steps.values() for note in step["results"]["notes"]]
    assert f"pickles of authors/judge at revision {COMMIT}, checked against the hub's SHA-256" in note
    assert all(f"{name} {digest}" in note for name, digest in digests.items())

    shutil.rmtree(tmp_path / "runs")
    hub.requests.clear()
    code, err = judge_once()
    assert code == 5
    assert "converted to safetensors" not in err
    assert not [path for path in hub.requests if path.endswith(".bin")]


def test_a_pickle_with_another_hash_than_the_hubs_is_refused(hub, judge_once, tmp_path):
    hub.wrong_hash = "pytorch_model-00002-of-00002.bin"
    code, err = judge_once()
    assert code == 2, err
    assert "pytorch_model-00002-of-00002.bin has the SHA-256" in err
    assert f"but the hub's is {'0' * 64} at revision {COMMIT}; delete it from the hub's cache" in err
    assert not list(tmp_path.glob("cache/models/*/config.json"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.parametrize("name", ["autoj", "autoj_4bit", "autoj_single", "pandalm"])
def test_a_judge_that_does_not_fit_is_refused_before_the_hub_is_asked(name, monkeypatch):
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: pytest.fail("the hub was asked"))
    card = load_judge_card(name)
    begun = time.monotonic()
    with pytest.raises(InputError, match=rf"judge {name}: needs its .* and this machine has no GPU; give `base_url`"):
        check_memory(engine_options(card))
    assert time.monotonic() - begun < 5


@pytest.mark.skipif(has_gpu_device(), reason="this machine has a GPU")
@pytest.mark.parametrize("name", ["autoj", "pandalm"])
def test_a_judge_without_its_gpu_is_refused_without_loading_torch_and_leaves_no_store(name, tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.start({"name": "run", "systems": {}, "comparisons": []})
    run.outputs.mkdir()
    for system in ("ours", "theirs"):
        (run.outputs / f"{system}.json").write_text(json.dumps([{"instruction": "Why?", "output": system}]))
    program = (
        "import sys; from instruct.command.main import main; code = main(); "
        "print(code, *({'torch', 'vllm', 'transformers'} & sys.modules.keys()))"
    )
    command = ["judge", run.folder, "--judge", name, "--candidate", "ours", "--baseline", "theirs"]
    ended = subprocess.run([sys.executable, "-c", program, *command], capture_output=True, text=True, timeout=120)
    assert ended.stdout.split() == ["2"], ended.stderr
    assert f"judge {name}: needs its " in ended.stderr
    assert "and this machine has no GPU; give --base-url of a server that serves it" in " ".join(ended.stderr.split())
    assert not run.store.exists()


def test_a_gpu_that_is_too_small_is_refused(monkeypatch):
    card = load_judge_card("autoj")
    properties = type("Properties", (), {"total_memory": 16e9})
    monkeypatch.setattr("instruct.engines.memory.has_gpu", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    with pytest.raises(InputError, match=r"a GPU of 40 GB, and this machine's GPU has 16 GB; give `base_url`"):
        check_memory(engine_options(card))
    properties.total_memory = 42e9
    check_memory(engine_options(card))


def test_a_folder_larger_than_the_memory_is_refused(tmp_path):
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(2**43)  # sparse: takes no disk
    options = EngineOptions("judge x", str(tmp_path), Decoding(), 512)
    with pytest.raises(InputError, match=r"judge x: the weights in .* need at least 4096 GiB of memory and \d+ GiB"):
        check_memory(options)
