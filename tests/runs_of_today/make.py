"""How these run directories were made, with the code of commit 2c4942b: `python make.py FOLDER PROXY` in its clone.

PROXY is the address of tests/engines/fake_server.py, which stands in for http://192.0.2.1:8000/v1 (nobody's address).
A run called stopped_... ended in the middle, by os._exit, as a killed process does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

STOPS = {  # from a phase to what ends the process there
    "training": """
from transformers.trainer_callback import DefaultFlowCallback
go_on = DefaultFlowCallback.on_step_end
def stop(self, args, state, control, **more):
    if state.global_step == 5:
        os._exit(9)
    return go_on(self, args, state, control, **more)
DefaultFlowCallback.on_step_end = stop
""",
    "answering": """
from instruct.generation.journal import Journal
go_on = Journal.append
def stop(self, batch):
    go_on(self, batch)
    if self.finished == 2:
        os._exit(9)
Journal.append = stop
""",
    "judging": """
from instruct.judging.judge import _Work
go_on, count = _Work.take, []
def stop(self, portion):
    judged = go_on(self, portion)
    count.extend(portion)
    if len(count) >= 3:
        os._exit(9)
    return judged
_Work.take = stop
""",
}


def configs() -> dict[str, dict]:
    """The runs by name: each config as its user wrote it."""
    judge = {"card": "pandalm", "base_url": "http://192.0.2.1:8000/v1", "concurrency": 1, "orders": "one"}
    common = {
        "model": {"name": "./model", "dtype": "float32"},
        "data": {"files": ["rows.jsonl"], "template": "chat"},
        "lora": {"r": 2},
        "train": {"max_steps": 6, "per_device_train_batch_size": 2, "save_steps": 2, "logging_steps": 1,
                  "max_length": 128, "report_to": "none"},
        "systems": {"mle": {"objective": "mle"}, "emo": {"objective": "emo"}},
        "answers": {"files": ["prompts.json"],
                    "generation": {"engine": "transformers", "max_new_tokens": 4, "batch_size": 2}},
        "comparisons": [["emo", "baseline"]],
    }  # fmt: skip
    held_out = {"files": ["rows.jsonl"], "template": "chat", "eval_fraction": 0.25, "eval_samples": 1}
    evaluated = {**common["train"], "eval_steps": 2}
    one = {"emo": {"objective": "emo"}}
    base = {"base": {"objective": "none"}}
    mixture = [{"files": [name], "template": "chat", "weight": weight}
               for name, weight in (("rows.jsonl", 0.75), ("more.jsonl", 0.25))]  # fmt: skip
    texts = {"files": ["texts.txt"], "prefix": "3 words", "samples": 2,
             "generation": {"engine": "transformers", "max_new_tokens": 4, "batch_size": 4}}  # fmt: skip
    metrics = {"held_out": {"files": ["texts.txt"]}, "metrics": ["perplexity", "entropy", "diversity"]}
    return {
        "finished_lora": {**common, "judges": [judge, {**judge, "card": "autoj"}]},
        "finished_full": {**common, "lora": None, "data": held_out, "train": evaluated, "systems": one,
                          "comparisons": []},
        "finished_mixture": {**common, "data": {"mixture": mixture}, "systems": {**base, **one},
                             "comparisons": [["emo", "baseline"]], "judges": [judge]},
        "finished_tasks": {**common, "systems": {**base, **one}, "comparisons": [],
                           "evaluation": {"tasks": {"cards": ["mood"], "folder": "."}}},
        "finished_texts": {key: value for key, value in common.items() if key not in ("answers", "comparisons")}
        | {"continuations": texts, "evaluation": {"texts": metrics}},
        "finished_seeds": {**common, "seeds": [1, 2], "systems": one, "comparisons": []},
        "stopped_training_lora": {**common, "comparisons": []},
        "stopped_training_full": {**common, "lora": None, "data": held_out, "train": evaluated, "systems": one,
                                  "comparisons": []},
        "stopped_answering": {**common, "judges": [judge]},
        "stopped_judging": {**common, "judges": [judge, {**judge, "card": "autoj"}]},
    }  # fmt: skip


def write_inputs(folder: Path) -> None:
    """Rows, prompts, texts and a task, in a few words."""
    colors = ["red", "green", "blue", "black", "white", "gray", "pink", "brown"]
    rows = [{"instruction": f"Name something {c}.", "input": "", "output": f"A {c} door."} for c in colors]
    for name, chosen in (("rows", rows), ("more", rows[:4])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in chosen))
    prompts = [
        {"instruction": f"Which door is {c}?", "output": "The old one.", "generator": "people"} for c in colors[:6]
    ]
    (folder / "prompts.json").write_text(json.dumps(prompts, indent=1) + "\n")
    (folder / "texts.txt").write_text(
        "".join(f"the door of the old house was {c} and the sky too\n" for c in colors[:4])
    )
    card = {"name": "mood", "labels": ["bad", "good"], "template": "{text} It is {label}.", "shots": 2,
            "source": {"splits": {"train": ["train.csv"], "test": ["test.csv"]}}, "licence": "MIT"}  # fmt: skip
    (folder / "data" / "tasks").mkdir(parents=True)
    (folder / "data" / "tasks" / "mood.yaml").write_text(yaml.safe_dump(card))
    for name, texts in (("train", ["a fine day,1", "a grim day,0", "fine food,1", "grim food,0"]),
                        ("test", ["a grim hour,0", "fine words,1", "grim weather,0"])):  # fmt: skip
        (folder / f"{name}.csv").write_text("text,label\n" + "".join(line + "\n" for line in texts))


def main() -> None:
    folder, proxy = Path(sys.argv[1]), sys.argv[2]
    write_inputs(folder)
    known = {**os.environ, "http_proxy": proxy, "HTTP_PROXY": proxy, "OMP_NUM_THREADS": "1"}
    for name, config in configs().items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump({"name": name, **config}, sort_keys=False))
        stop = STOPS.get(name.split("_")[1], "") if name.startswith("stopped") else ""
        script = f"import os, sys\n{stop}\nfrom instruct.cli import main\nsys.argv[1:] = ['run', '{name}.yaml']\n"
        script += "sys.exit(main())"
        done = subprocess.run([sys.executable, "-c", script], cwd=folder, env=known)
        assert done.returncode == (9 if stop else 0), name


if __name__ == "__main__":
    main()
