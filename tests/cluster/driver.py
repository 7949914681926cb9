"""`generate_answers` on a cluster, in a process that a test can kill: `python driver.py JSON`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import instrumented
from ray import cloudpickle

from instruct.data.evaluation import EvalPrompt
from instruct.engines.cluster_options import ClusterOptions
from instruct.generation import batches
from instruct.generation.answers import GenerationConfig, generate_answers
from instruct.models import ModelOptions


def main() -> None:
    given = json.loads(sys.argv[1])
    cloudpickle.register_pickle_by_value(instrumented)
    batches.make_engine = instrumented.logged(Path(given["log"]), given["seconds"])  # type: ignore[assignment]
    systems = {name: folder and Path(folder) for name, folder in given["systems"].items()}
    prompts = [EvalPrompt(text, "tiny") for text in given["prompts"]]
    cluster = ClusterOptions(address=given["address"])
    config = GenerationConfig(**given["config"])
    generate_answers(
        ModelOptions(name=given["model"]), systems, prompts, "chat", config, Path(given["folder"]), cluster
    )


if __name__ == "__main__":
    main()
