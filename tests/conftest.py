"""What all tests share: where real data is, models that need no download, and no network."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# On a busy machine, slow says nothing. `make test-full` searches longer.
settings.register_profile("short", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", settings.get_profile("short"), max_examples=2000)
settings.load_profile("short")

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB: vLLM spends most of its start on writing its cache
# Two workers run at a time, and tiny models are too small for threads, which only wait for each other.
for _library in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "RAYON"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parent.parent


# Groups of tests, those that take longest first; each is the work of one process, so that two never start vLLM.
LONGEST = ("vllm", "distributed", "faults", "ray", "browser", "golden")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Make each group, and each module whose tests share a fixture, the work of one process.

    Named groups take longest: begin with them, so that no worker is left with one at the end.
    """
    items.sort(key=lambda item: (*LONGEST, _group(item)).index(_group(item)))
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    for item in items:
        group = _group(item)
        if group and not item.nodeid.endswith(f"@{group}"):
            # pytest-xdist 3.8 sets a field that pytest 9.2 no longer reads (pytest-xdist's issue 1386).
            item._nodeid = f"{item.nodeid}@{group}"
            if hasattr(item, "_id"):
                item._id = type(item._id).parse(item._nodeid)


def _group(item: pytest.Item) -> str | None:
    marker = item.get_closest_marker("xdist_group")
    if marker:
        return str(marker.args[0])
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    return item.path.stem if any(found[-1].scope == "module" for found in fixtures) else None


CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Take what a worker has loaded, and its tests, out of the garbage collector's sight.

    Each training ends with two full collections, of which one takes half a second with the libraries in memory.
    """
    if "PYTEST_XDIST_WORKER" in os.environ and session.items:
        for library in ("transformers.trainer", "trl", "peft", "datasets", "matplotlib.figure"):
            importlib.import_module(library)
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _drawn_once() -> Iterator[None]:
    """A figure is not drawn again of data that an earlier test has drawn; not so in tests of figures."""
    from instruct.reporting.figures.canvas import Drawing

    draw, drawn = Drawing.drawn, {}

    def draw_once(drawing: Drawing, *kinds: str) -> dict[str, bytes]:
        if re.search("test_figures|reproducible", os.environ.get("PYTEST_CURRENT_TEST", "")):
            return draw(drawing, *kinds)
        key = drawing.name, repr(drawing.data), kinds
        if key not in drawn:
            drawn[key] = draw(drawing, *kinds)
        return drawn[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Drawing, "drawn", draw_once)
        yield


@pytest.fixture(scope="session", autouse=True)
def _agrees_here(tmp_path_factory) -> Iterator[None]:
    """What the tests' runs may ask for is noted in a folder of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _read_once() -> Iterator[None]:
    """The template of model cards is compiled once, and a package's metadata are read once.

    Each checkpoint has a card with the versions of five packages: a fifth of the time of a tiny training.
    """
    import jinja2

    metadata = importlib.metadata.PathDistribution.metadata.fget
    read: dict[str, Any] = {}

    def read_once(package: Any) -> Any:
        if str(package._path) not in read:
            read[str(package._path)] = metadata(package)
        return read[str(package._path)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jinja2, "Template", functools.lru_cache(jinja2.Template))
        patch.setattr(importlib.metadata.PathDistribution, "metadata", property(read_once))
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data that is not part of the project."""
    folder = Path(os.environ.get("INSTRUCT_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real data is absent: {folder} (set INSTRUCT_SHARED_DATA)")
    return folder


@pytest.fixture
def instruct(monkeypatch, capsys, remedies) -> Callable[..., tuple[int, str, str]]:
    """`instruct(...)`, the command in this process: exit code, stdout, stderr."""
    from instruct.command.main import main

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["instruct", *map(str, arguments)])
        try:
            code = main()
        except SystemExit as end:  # argparse's own
            code = int(end.code or 0)
        stdout, stderr = capsys.readouterr()
        remedies(str(arguments[0]) if arguments else "", stderr)
        return code, stdout, stderr

    return call


_FLAG = re.compile(r"(?<![\w'-])--[a-z][\w.-]*\w")
_FOREIGN = {  # flags of pip, ray, vllm, accelerate, lm-eval and Inspect
    "--no-deps", "--head", "--address", "--num-cpus", "--reasoning-parser", "--config_file", "--num_processes",
    "--force-reinstall", "--log_samples", "--no-log-samples",
}  # fmt: skip


@functools.cache
def _verbs() -> dict[str, Any]:
    from instruct.command.main import make_parser, verbs_of

    return verbs_of(make_parser())


@pytest.fixture(autouse=True)
def remedies(monkeypatch) -> Iterator[Callable[[str, str], None]]:
    """Each error that a test meets can be acted on where it is shown: no room below command/ names a flag, and what the
    command prints, by the function that is returned, names flags and verbs that there are.
    """
    from instruct.base.errors import InstructError

    plain, wrong = InstructError.__init__, []

    def noted(error: InstructError, *arguments: Any) -> None:
        plain(error, *arguments)
        frame: Any = sys._getframe(1)
        while frame.f_code.co_filename.endswith("base/errors.py"):
            frame = frame.f_back
        room, reads_flags = Path(frame.f_code.co_filename), frame.f_code.co_name == "parse_overrides"
        if ROOT / "instruct" in room.parents and room.parent.name != "command" and not reads_flags:
            library = _FLAG.findall(str(sys.exc_info()[1]))  # of the error that this one tells
            named = {*_FLAG.findall(str(error))} - _FOREIGN - {*library}
            wrong.extend(f"{room.name}: {flag}: {error}" for flag in named)

    def check(verb: str, stderr: str) -> None:
        for line in re.findall(r"^instruct: (?!error:).*", stderr, re.MULTILINE):
            wrong.extend(
                f"no verb: {line}" for other in re.findall(r"`instruct ([a-z]+)", line) if other not in _verbs()
            )
            named = {verb, *re.findall(r"\binstruct ([a-z]+)\b", line)} & {*_verbs()}
            flags = {flag for name in named for flag in _verbs()[name]._option_string_actions}
            unknown = {*_FLAG.findall(line)} - flags - _FOREIGN
            wrong.extend(f"{verb}: {flag}: {line}" for flag in unknown if "." not in flag)

    monkeypatch.setattr(InstructError, "__init__", noted)
    yield check
    assert not wrong


@pytest.fixture
def printed(capsys) -> Iterator[pytest.CaptureFixture[str]]:
    """`capsys` of library functions whose log is printed, as by a command."""
    from instruct.base.output import printed_log

    with printed_log():
        yield capsys


@pytest.fixture
def without_figures(monkeypatch) -> None:
    """Reports have no figures, which take most of the time of a small one."""
    monkeypatch.setattr("instruct.reporting.report.draw_figures", lambda *_: None)


@pytest.fixture(scope="session")
def smollm2() -> str:
    """The folder of the embedded SmolLM2-135M-Instruct."""
    from instruct.base.models import EMBEDDED_MODEL, model_path

    return model_path(EMBEDDED_MODEL)


SPECIAL = ("<pad>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>")


def byte_tokenizer(special: Sequence[str] = SPECIAL, template: str = CHAT_TEMPLATE) -> Any:
    """A chat model's tokenizer, whose tokens are bytes and special ones: the first pads, the second ends a text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=special[0], eos_token=special[1], additional_special_tokens=special[2:]
    )
    fast.chat_template = template
    return fast


# A model of 2 layers for a `byte_tokenizer`.
SIZES = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 1024, "pad_token_id": 0, "bos_token_id": None,
    "eos_token_id": 1,
}  # fmt: skip


@pytest.fixture(scope="session")
def tiny_model_folder(tmp_path_factory) -> Path:
    """A chat model of 2 layers and hidden size 32 with a byte-level tokenizer, saved as safetensors."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    fast = byte_tokenizer()
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(fast), **SIZES))
    folder = tmp_path_factory.mktemp("model") / "tiny"
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def reward_model(tmp_path_factory, tiny_model_folder) -> Path:
    """Qwen3, Skywork-Reward-V2's architecture, with one label and the tiny tokenizer."""
    import torch
    from transformers import AutoTokenizer, Qwen3Config, Qwen3ForSequenceClassification

    tokenizer = AutoTokenizer.from_pretrained(tiny_model_folder)
    torch.manual_seed(0)
    wide = {"head_dim": 32}  # as vLLM's attention on a CPU needs
    config = Qwen3Config(vocab_size=len(tokenizer), **SIZES, **wide, num_labels=1, initializer_range=0.2)
    folder = tmp_path_factory.mktemp("reward") / "model"
    Qwen3ForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def tiny_experiment(tmp_path, tiny_model_folder, monkeypatch) -> dict[str, Any]:
    """A config in the current folder: one system that is trained for a step, and a judge, both with a tiny model."""
    import yaml

    monkeypatch.chdir(tmp_path)
    rows = [{"instruction": f"Say {n}.", "input": "", "output": f"It is {n}."} for n in range(4)]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = tmp_path / "model"
    shutil.copytree(tiny_model_folder, model)
    settings = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**settings, "max_position_embeddings": 8192}))  # bytes are tokens
    shutil.copytree(ROOT / "tests" / "judges" / "smollm2_labels", "judge")
    card = yaml.safe_load(Path("judge/judge.yaml").read_text())
    Path("judge/judge.yaml").write_text(yaml.safe_dump({**card, "name": "judge", "model": str(model)}))
    return {
        "name": "mine",
        "model": {"name": str(model), "dtype": "float32"},
        "data": {"files": ["rows.jsonl"], "template": "chat"},
        "lora": {"r": 2},
        "train": {"max_steps": 1, "report_to": "none"},
        "systems": {"emo": {"objective": "emo"}},
        "answers": {"limit": 3, "generation": {"engine": "transformers", "max_new_tokens": 4}},
        "judges": [{"card": "judge/judge.yaml", "engine": "transformers"}],
        "comparisons": [["emo", "baseline"]],
    }


@pytest.fixture
def pickled_model_folder(tmp_path, tiny_model_folder) -> Path:
    """The tiny model with its weights as a pickle, and none as safetensors."""
    import torch
    from safetensors.torch import load_file

    folder = tmp_path / "pickled"
    shutil.copytree(tiny_model_folder, folder)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder


@pytest.fixture
def run_and_kill(tmp_path) -> Callable[..., None]:
    """`run_and_kill(command, reached, timeout, **popen)`: SIGKILL the process group as soon as `reached()`."""

    def run(command: list[str], reached: Callable[[], bool], timeout: float = 600, **popen: Any) -> None:
        path = tmp_path / "killed.log"
        with path.open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **popen)
            try:
                deadline = time.monotonic() + timeout
                while not reached():
                    assert process.poll() is None, "it ended before it was killed: " + path.read_text()[-4000:]
                    assert time.monotonic() < deadline
                    time.sleep(0.002)
            finally:
                with suppress(ProcessLookupError):  # it has ended by itself, and the test has failed
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        assert process.returncode == -signal.SIGKILL

    return run


@pytest.fixture
def short_waits(monkeypatch):
    """A server's faults are waited out in milliseconds."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.002)
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.02)


@contextlib.contextmanager
def _fake_servers(folder: Path) -> Iterator[Callable[..., tuple[str, Callable[[], list[dict]]]]]:
    started = []

    def start(faults: dict[str, str | list[str]] | None = None, delay: float = 0.01):
        index = len(started)
        port_file, log = folder / f"port{index}", folder / f"requests{index}.jsonl"
        command = [sys.executable, str(ROOT / "tests" / "engines" / "fake_server.py"), str(port_file), str(log)]
        started.append(subprocess.Popen([*command, json.dumps(faults or {}), str(delay)]))
        deadline = time.monotonic() + 60
        while not port_file.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)

        def requests() -> list[dict]:
            lines = log.read_bytes().split(b"\n") if log.exists() else [b""]
            return [json.loads(line) for line in lines[:-1]]  # the last line may still be incomplete

        return f"http://127.0.0.1:{port_file.read_text()}/v1", requests

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.fixture
def fake_server(tmp_path):
    """Start the fake judge: `start(faults, delay)` gives its base URL and a function that reads its log."""
    with _fake_servers(tmp_path) as start:
        yield start


@pytest.fixture(scope="session")
def shared_fake_server(tmp_path_factory):
    """`fake_server`, whose servers stay for all tests."""
    with _fake_servers(tmp_path_factory.mktemp("server")) as start:
        yield start


# Models for generation: answers that differ, end of text and end of turn apart, and LoRA adapters.
_CHAT = (
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def save_model(folder: Path, seed: int = 0) -> Path:
    """Two layers, hidden 32, a context of 512; weights large enough for answers that differ."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = byte_tokenizer(("<|pad|>", "<|eos|>", "<|start|>", "<|end|>"), _CHAT)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    sizes = SIZES | {"num_attention_heads": 2, "max_position_embeddings": 512}
    config = LlamaConfig(vocab_size=len(tokenizer), **sizes, initializer_range=0.3)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    return folder


def save_adapter(model: str | Path, folder: Path, seed: int, scale: float, rank: int = 4, **options: Any) -> Path:
    """A LoRA adapter whose B is not zero, as if it had been trained."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16)
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=["q_proj", "v_proj", "down_proj"], **options)
    adapted = get_peft_model(base, config)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=scale)
    adapted.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tiny_adapters(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("adapters")
    return {name: save_adapter(tiny_model, folder / name, seed, 0.5) for seed, name in enumerate(("mle", "emo"), 1)}


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Path]:
    return save_model


@pytest.fixture(scope="session")
def make_adapter() -> Callable[..., Path]:
    return save_adapter
