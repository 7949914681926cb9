"""Answers or verdicts on a cluster, made in a process that a test can kill: `python driver.py JSON`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import instrumented
import ray
from ray import cloudpickle

from instruct.base.models import ModelOptions
from instruct.data.prompts import EvalPrompt
from instruct.engines.ray_cluster import ClusterOptions
from instruct.generation import batches
from instruct.generation.answers import GenerationConfig, generate_answers
from instruct.judging import asking
from instruct.judging.asking import Judge
from instruct.judging.options import JudgeOptions
from instruct.judging.work import JudgingMode
from instruct.phases.judge import judge_run
from instruct.run.directory import RunDirectory


def main() -> None:
    given = json.loads(sys.argv[1])
    if "node" in given:
        ray.init(address=given["address"], log_to_driver=False)
        Path(given["node"]).write_text(ray.get_runtime_context().get_node_id())
    cloudpickle.register_pickle_by_value(instrumented)
    batches.make_engine = instrumented.logged(Path(given["log"]), given["seconds"])  # type: ignore[assignment]
    if "run" in given:
        asking.make_engine = instrumented.logged(Path(given["log"]), given["seconds"])  # type: ignore[assignment]
        judge = Judge(JudgeOptions(**given["judge"]), where=ClusterOptions(address=given["address"]))
        judge_run(RunDirectory(given["run"]), [judge], [("ours", "theirs")], JudgingMode())
        return
    systems = {name: folder and Path(folder) for name, folder in given["systems"].items()}
    prompts = [EvalPrompt(text, "tiny") for text in given["prompts"]]
    cluster = ClusterOptions(address=given["address"])
    config = GenerationConfig(**given["config"])
    generate_answers(
        ModelOptions(name=given["model"]), systems, prompts, "chat", config, Path(given["folder"]), cluster
    )


if __name__ == "__main__":
    main()
