"""The prompts that are answered."""

from __future__ import annotations

from instruct.data.evaluation import EvalSet, load_eval_set
from instruct.generation.options import AnswerOptions


def evaluation_set(answers: AnswerOptions) -> EvalSet:
    """The evaluation set, cut to `limit`.

    Raises:
        InputError: no such set, or prompts that cannot be read.
    """
    return load_eval_set(answers.eval_set, files=answers.files, limit=answers.limit)
