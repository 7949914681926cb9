"""How recorded.eval was made, by inspect_ai 0.3.285: `python inspect_runs.py FOLDER` evaluates once more."""

from __future__ import annotations

import sys
from typing import Any

WRONG = 3


def sums() -> Any:
    """Sums, asked twice and scored in each way that a score can have values, one of which fails."""
    from inspect_ai import Epochs, Task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.scorer import Score, accuracy, match, mean, scorer, stderr
    from inspect_ai.solver import generate, solver, system_message

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

    samples = [
        Sample(id=n, input=f"What is {n} + {n}?", target=str(2 * n), metadata={"passage": f"story {n // 2}"})
        for n in range(1, 6)
    ]
    return Task(
        dataset=MemoryDataset(samples), solver=[system_message("Be brief."), failing(), generate()], name="sums",
        scorer=[match(), graded(), parts(), unscored()], epochs=Epochs(2, ["mean", "at_least_1"]),
        fail_on_error=False, version=3,
    )  # fmt: skip


def mock() -> Any:
    """A model whose answers have their usage, for which it would look up a tokenizer."""
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    outputs = [ModelOutput.from_content("mockllm/model", str(2 * ((1 + place) % 5))) for place in range(10)]
    for output in outputs:
        output.usage = ModelUsage(input_tokens=5, output_tokens=1, total_tokens=6)
    return get_model("mockllm/m1", custom_outputs=outputs)


if __name__ == "__main__":
    from inspect_ai import eval as evaluate

    evaluate(sums(), model=mock(), log_dir=sys.argv[1], log_format="eval", display="none", temperature=0.5)
