"""How these runs were made, with the code of commit 2c4942b: `PYTHONPATH=CLONE python make.py NEW_FOLDER`.

NAME.yaml is a config, NAME/ the run directory that `instruct run NAME.yaml` left behind in runs/; what a run makes
again without a step (report/, locks) was left out. A run called stopped_... was killed by SIGKILL, by itself. The
address in the configs is nobody's: the fake server of these tests, as an HTTP proxy, answers for it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
ENDPOINT = "http://192.0.2.1:8000/v1"  # an address for documentation
LOCKS = (".judging.lock", ".manifest.lock", ".metrics.lock")
TURN = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>\n{% endfor %}"

# What kills a run: in its second training at step 5; with one system answered and a third of the other; with one judge
# done and three replies of the other stored.
STOPS = {
    "training": """
from transformers.trainer_callback import DefaultFlowCallback as Patched
name, reached = "on_step_end", lambda self, args, state, *more: state.global_step == 5 and args.output_dir[-3:] == "emo"
""",
    "answering": """
from instruct.generation.journal import Journal as Patched
name, reached = "append", lambda self, batch: self.path.name == "emo.batches.jsonl" and self.finished == 1
""",
    "judging": """
from instruct.judging.judge import _Work as Patched
name, reached = "take", lambda self, portion: self.judge.card.name == "in_json" and self.asked == 3
""",
}
KILLED = """
go_on = getattr(Patched, name)
def patched(*given, **named):
    done = go_on(*given, **named)
    if reached(*given):
        os.kill(os.getpid(), signal.SIGKILL)
    return done
setattr(Patched, name, patched)
"""


def make_model(folder: Path) -> None:
    """One layer, hidden size 16, tokens of a character; weights large enough for answers that differ."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    special = ["<pad>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
    alphabet = [*special, "\u010a", "\u0120", *map(chr, range(33, 127))]  # ASCII; a line break and a space first
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<|end|>", additional_special_tokens=special[2:]
    )
    fast.chat_template = TURN + "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    fast.save_pretrained(folder)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    special_ids = {"pad_token_id": 0, "bos_token_id": None, "eos_token_id": 1}
    config = LlamaConfig(
        vocab_size=len(alphabet), **sizes, **special_ids, num_key_value_heads=1, max_position_embeddings=512,
        tie_word_embeddings=True, initializer_range=0.3,
    )  # fmt: skip
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(folder)


def write_inputs(folder: Path) -> None:
    """Rows, prompts, texts, a task and four judges, in a few words."""
    colors = ["red", "green", "blue", "black", "white", "gray", "pink", "brown"]
    rows = [{"instruction": f"Name something {c}.", "input": "", "output": f"A {c} door."} for c in colors]
    for name, chosen in (("rows", rows), ("more", rows[:4])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in chosen))
    prompts = [{"instruction": f"Which door is {c}?", "output": "That one.", "generator": "us"} for c in colors[:6]]
    (folder / "prompts.json").write_text(json.dumps(prompts, indent=1) + "\n")
    (folder / "texts.txt").write_text("".join(f"the door of the house was {c} as the sky\n" for c in colors[:4]))
    (folder / "data" / "tasks").mkdir(parents=True)
    task = {"name": "mood", "labels": ["bad", "good"], "template": "{text} It is {label}.", "shots": 2,
            "source": {"splits": {"train": ["train.csv"], "test": ["test.csv"]}}, "licence": "MIT"}  # fmt: skip
    (folder / "data" / "tasks" / "mood.yaml").write_text(yaml.safe_dump(task, sort_keys=False))
    (folder / "train.csv").write_text("text,label\na fine day,1\na grim day,0\nfine food,1\ngrim food,0\n")
    (folder / "test.csv").write_text("text,label\na grim hour,0\nfine words,1\ngrim weather,0\n")
    for kind in ("words", "json", "rating", "labels"):
        judge = folder / "judges" / f"in_{kind}"
        shutil.copytree(ROOT / "tests" / "golden" / "judges" / f"golden_{kind}", judge)
        card = yaml.safe_load((judge / "judge.yaml").read_text())
        card |= {"name": judge.name, "model": f"some/{kind}"}
        (judge / "judge.yaml").write_text(yaml.safe_dump(card, sort_keys=False))
    price = {"model": "some/words", "endpoint": "192.0.2.1:8000", "input": 2, "output": 8}
    (folder / "judges" / "prices.yaml").write_text(yaml.safe_dump({"prices": [price]}))


def configs() -> dict[str, dict[str, Any]]:
    """Each run's config as its user would write it."""
    words, in_json, rating, labels = (
        {"card": f"in_{kind}", "base_url": ENDPOINT, "concurrency": 1} for kind in ("words", "json", "rating", "labels")
    )
    words["budget_usd"] = 1.0
    train = {"max_steps": 6, "per_device_train_batch_size": 2, "save_steps": 2, "logging_steps": 1, "max_length": 128,
             "learning_rate": 0.01, "report_to": "none", "use_cpu": True}  # fmt: skip
    generation = {"engine": "transformers", "max_new_tokens": 6, "batch_size": 2}
    common = {
        "model": {"name": "./model", "dtype": "float32"},
        "data": {"files": ["rows.jsonl"], "template": "chat"},
        "lora": {"r": 2},
        "train": train,
        "systems": {"mle": {"objective": "mle"}, "emo": {"objective": "emo"}},
        "answers": {"files": ["prompts.json"], "generation": generation},
    }
    emo = {"emo": {"objective": "emo"}}
    base = {"base": {"objective": "none"}}
    pair = {"comparisons": [["emo", "baseline"]]}
    full = {
        "lora": None,
        "data": {**common["data"], "eval_fraction": 0.25, "eval_samples": 1},
        "train": {**train, "eval_steps": 2},
        "systems": emo,
    }
    mixture = [{**common["data"], "weight": 0.75}, {"files": ["more.jsonl"], "template": "chat", "weight": 0.25}]
    texts = {"files": ["texts.txt"], "prefix": "3 words", "continuation": "4 words", "samples": 2,
             "generation": {"engine": "transformers", "max_new_tokens": 6, "batch_size": 4}}  # fmt: skip
    server = {"files": ["prompts.json"], "generation": {**generation, "engine": "server", "base_url": ENDPOINT}}
    return {
        "two_judges": {**common, **pair, "judges": [words, rating]},
        "full": {**common, **full},
        "mixture_and_task": {**common, "data": {"mixture": mixture}, "systems": {**base, **emo}, "answers": None,
                             "evaluation": {"tasks": {"cards": ["mood"], "folder": "."}}},
        "texts": {**common, "answers": None, "continuations": texts,
                  "evaluation": {"texts": {"reference_model": {"name": "./model", "dtype": "float32"}}}},
        "seeds": {**common, **pair, "model": {"name": "./model"}, "systems": emo, "seeds": [1, 2], "judges": [labels]},
        "stopped_training_lora": common,
        "stopped_training_full": {**common, **full},
        "stopped_answering": common,
        "stopped_answering_server": {**common, "answers": server, "systems": {**base, **emo}},
        "stopped_judging": {**common, **pair, "judges": [words, in_json]},
    }  # fmt: skip


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir()
    make_model(folder / "model")
    write_inputs(folder)
    port = folder / "port"
    server = subprocess.Popen([sys.executable, ROOT / "tests" / "engines" / "fake_server.py", port, folder / "log"])
    while not port.exists():
        time.sleep(0.1)
    proxy = f"http://127.0.0.1:{port.read_text()}"
    known = {**os.environ, "http_proxy": proxy, "HTTP_PROXY": proxy, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    for name, config in configs().items():
        plain = json.loads(json.dumps({"name": name, **config}))  # without YAML's anchors
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(plain, sort_keys=False))
        stop = STOPS[name.split("_")[1]] + KILLED if name.startswith("stopped") else ""
        lines = ["import os, signal, sys", stop, "from instruct.cli import main", "sys.exit(main())"]
        done = subprocess.run([sys.executable, "-c", "\n".join(lines), "run", f"{name}.yaml"], cwd=folder, env=known)
        assert done.returncode == (-9 if stop else 0), name
        for left_out in ("report", "judgments.sqlite-shm", *LOCKS):
            path = folder / "runs" / name / left_out
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        (folder / "runs" / name).rename(folder / name)
    server.kill()
    for left_over in (port, folder / "log"):
        left_over.unlink()
    (folder / "runs").rmdir()


if __name__ == "__main__":
    main()
