"""Evaluations by Inspect, for the tests of what reads them: `python inspect_runs.py FOLDER` writes the recorded log."""

from __future__ import annotations

import sys
from typing import Any

WRONG = 3


def tasks() -> list[Any]:
    """Sums, asked twice and scored in each way that a score can have values, one of which fails; and a choice."""
    from inspect_ai import Epochs, Task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.scorer import Score, accuracy, choice, match, mean, scorer, stderr
    from inspect_ai.solver import generate, multiple_choice, solver, system_message

    @scorer(metrics={"length": [mean(), stderr()], "right": [accuracy()]})
    def parts() -> Any:
        async def score(state: Any, target: Any) -> Any:
            text = state.output.completion
            return Score(value={"length": len(text), "right": text == target.text})

        return score

    @scorer(metrics=[mean()])
    def graded() -> Any:
        async def score(state: Any, target: Any) -> Any:
            return Score(value="CIPN"[int(state.sample_id) % 4])

        return score

    @scorer(metrics=[mean()])
    def unscored() -> Any:
        async def score(state: Any, target: Any) -> Any:
            return Score.unscored(reason="grader_failed") if state.sample_id == 1 else Score(value=0.25)

        return score

    @solver
    def failing() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            if state.sample_id == WRONG and state.epoch == 2:
                raise ValueError("broken tool")
            return state

        return solve

    sums = [
        Sample(id=n, input=f"What is {n} + {n}?", target=str(2 * n), metadata={"passage": f"story {n // 2}"})
        for n in range(1, 6)
    ]
    choices = [Sample(input=f"Pick {letter}.", choices=["this", "that"], target=letter) for letter in "ABAB"]
    return [
        Task(
            dataset=MemoryDataset(sums), solver=[system_message("Be brief."), failing(), generate()], name="sums",
            scorer=[match(), graded(), parts(), unscored()], epochs=Epochs(2, ["mean", "at_least_1"]),
            fail_on_error=False, version=3,
        ),
        Task(dataset=MemoryDataset(choices), solver=multiple_choice(), scorer=choice(), name="choices"),
    ]  # fmt: skip


def mock(number: int) -> Any:
    """A model whose answers depend on a number; with their usage, for which it would look up a tokenizer."""
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    texts = [str(2 * ((number + place) % 5)) if number < 5 else "ANSWER: A" for place in range(10)]
    outputs = [ModelOutput.from_content("mockllm/model", text) for text in texts]
    for output in outputs:
        output.usage = ModelUsage(input_tokens=5, output_tokens=1, total_tokens=6)
    return get_model(f"mockllm/m{number}", custom_outputs=outputs)


if __name__ == "__main__":
    from inspect_ai import eval as evaluate

    evaluate(tasks()[0], model=mock(1), log_dir=sys.argv[1], log_format="eval", display="none", temperature=0.5)
