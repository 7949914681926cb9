"""The judge phase: the judges compare the systems' answers; the report tells what they found.

`compare_answers` does so from Python, as `instruct judge --candidate A --baseline B` does on the command line.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from instruct.base.cards import validated
from instruct.base.errors import InputError, InstructError, Problems, counted
from instruct.base.output import say
from instruct.data.evaluation import AnswerForm
from instruct.engines.base import likely_tokens
from instruct.generation.answers import evaluation_set
from instruct.generation.options import AnswerOptions
from instruct.judging.answer_files import GivenAnswers, run_of_answers
from instruct.judging.asking import Judge
from instruct.judging.comparison import ComparisonKey
from instruct.judging.judge import ask_judges, comparison_tasks
from instruct.judging.money import JudgingEstimate, estimate_of
from instruct.judging.options import GENERAL_JUDGE, JudgeOptions
from instruct.judging.work import JudgingMode
from instruct.phases.steps import Step
from instruct.reporting.report import Report, written_report
from instruct.run.directory import RunDirectory

# Of an answer and of a judge's instructions. GPT-4 writes 307 to AlpacaEval's prompts, text-davinci-003 113.
ANSWER_TOKENS, INSTRUCTION_TOKENS = 300, 250


class Judging(Step):
    """The config's judges compare the systems' answers."""

    name = "judge"

    def inputs(self, run: RunDirectory) -> Iterator[tuple[str, dict[str, Any]]]:
        manifest = run.manifest()
        for options in self.config.judges:
            with contextlib.suppress(InputError):  # `check` says what is wrong with the judge
                judge = Judge(options, where=self.config.cluster)
                for pair in options.comparisons or self.config.compared:
                    names = (run.answers_path(name).stem for name in pair)
                    step = ComparisonKey(judge.card.name, *names).step("judge", manifest)
                    if step in manifest["steps"]:
                        judge.settle_dtype(run)
                        yield step, {"judge": judge.options.made_with()}

    def check(self, run: RunDirectory, phases: Collection[str]) -> list[Judge]:
        problems, judges, now = Problems(), [], bool({"answer", "judge"} & {*phases})
        for options in self.config.judges:
            with problems.collected():
                judges.append(judge := Judge(options, where=self.config.cluster))
                if now:
                    judge.settle_dtype(run)
                    judge.check()
                    if options.budget_usd is None and judge.costs_money:
                        raise InputError(
                            f"judge {judge.card.name}: costs money; set `budget_usd`, a limit for the whole run"
                        )
        problems.refuse()
        for judge in judges if now else ():
            card, options = judge.card, judge.options
            orders = "both orders" if judge.orders == "both" else "one order"
            shown = "each answer alone" if card.rates_alone else orders
            comparisons = counted(len(options.comparisons or self.config.compared), "comparison")
            say(f"judge     {card.name} ({card.model}), {shown}, {comparisons}")
            if judge.costs_money and "answer" in phases:
                with contextlib.suppress(InputError):  # the answer phase says what is wrong with the prompts
                    estimate = _estimate(judge, options.comparisons or self.config.compared, self.config.answers)
                    say(f"  {estimate.words()}; answers of {ANSWER_TOKENS} tokens are assumed")
        if now and not judges and self.config.answers:
            say("judge     none: add one under judges, or run `instruct judge` afterwards")
        return judges

    def make(self, run: RunDirectory, read: list[Judge]) -> InstructError | None:
        if not read:
            if self.config.answers:
                say(f"answered  judge the answers with `instruct judge {run.folder}`")
            elif self.config.continuations:
                say(f"continued {run.continuations}")
            return None
        return judge_run(run, read, self.config.compared, self.mode)


def _estimate(judge: Judge, compared: Sequence[tuple[str, str]], answers: AnswerOptions | None) -> JudgingEstimate:
    """What asking a judge about all answers will take, before they are written."""
    card = judge.card
    orders = 2 if judge.orders == "both" else 1
    texts = len({name for pair in compared for name in pair}) if card.rates_alone else len(compared) * orders
    beside = INSTRUCTION_TOKENS + ANSWER_TOKENS * (1 if card.rates_alone else 2)
    prompts = evaluation_set(answers).prompts if answers else []
    likely = [beside + likely_tokens(prompt.instruction) for prompt in prompts] * texts
    return estimate_of(likely, card.decoding.most_tokens(card.context_length), judge.price)


def judge_run(
    run: RunDirectory, judges: Sequence[Judge], comparisons: Sequence[tuple[str, str]], mode: JudgingMode
) -> InstructError | None:
    """Let each judge compare a run's answers; what stopped or refused the last one that did not finish.

    Args:
        comparisons: pairs of candidate and baseline, for judges that name none of their own.

    Raises:
        InputError: no judge can be asked.
    """
    return ask_judges(
        run, judges, lambda judge: comparison_tasks(run, judge, judge.options.comparisons or comparisons), mode
    )


def judge_and_report(
    run: RunDirectory,
    judges: Sequence[Judge],
    comparisons: Sequence[tuple[str, str]],
    mode: JudgingMode,
) -> tuple[Report, InstructError | None]:
    """Let each judge compare a run's answers, and write the report; a partial one if a judge did not finish.

    Returns:
        The report, and what stopped or refused the last judge that did not finish.
    """
    failure = judge_run(run, judges, comparisons, mode)
    return written_report(run.folder, failure=failure), failure


def compare_answers(
    candidate: GivenAnswers,
    baseline: GivenAnswers,
    judge: str | Path | Sequence[str | Path] | None = None,
    output: str | Path | None = None,
    *,
    model: str | None = None,
    base_url: str | None = None,
    engine: Literal["vllm", "transformers", "server"] | None = None,
    orders: Literal["both", "one"] | None = None,
    criteria: str | None = None,
    trim: bool = False,
    concurrency: int = 64,
    timeout: float = 300.0,
    budget_usd: float | None = None,
    retry_failed: bool = False,
    common_prompts: bool = False,
    prompt_column: str | None = None,
    response_column: str | None = None,
    cluster_column: str | None = None,
    questions: str | None = None,
) -> Report:
    """Let a judge compare two systems' answers to the same prompts, and report who won.

    Args:
        candidate, baseline: a file of answers, or rows with `instruction`, `output` and maybe `generator`,
            `dataset` and `id`, as in AlpacaEval's model_outputs.json. A file's system is called like the file, that of
            rows like their generator.
        judge: a name from `instruct list judges`, a judge's folder, or several of either. None: with a model
            `pairwise`, else the bundled `smollm2_score`.
        output: the run directory to create or continue: it keeps every reply, so that none is asked for twice, and has
            the report as files. None: nothing is kept, for judges that cost nothing.
        model: ask this model with the judge's prompt, under a name of its own.
        base_url: an OpenAI-compatible server to ask.
        engine: what runs the model; None: what is installed.
        orders: show each pair in both orders or in one; None: as the judge's card says.
        criteria: what to compare by, in words, for rows without `criteria` of their own.
        trim: cut answers that exceed the judge's context, both equally.
        concurrency: requests to a server at a time.
        timeout: seconds for a server's reply, of each attempt.
        budget_usd: the most to spend in this run, in US dollars; required for a judge that costs money.
        retry_failed: ask again what failed in an earlier call.
        common_prompts: compare on the prompts that both have, and say how many were left out.
        prompt_column, response_column: what the columns `instruction` and `output` are called, where they are not.
        cluster_column: has the same value in rows that depend on each other; by default `cluster`, else those with the
            same prompt do.
        questions: a benchmark's file of questions, for its files of answers that have only their ids.

    Returns:
        The report: `print(report)` shows its summary, `report.judges` has every figure.

    Raises:
        InputError: answers that do not fit together, an unknown judge, or one that cannot be asked.
        StoppedError: the budget or too many failures; what was judged is in `output`, with its report.
    """
    options: dict[str, Any] = {"model": model, "base_url": base_url, "engine": engine, "orders": orders, "trim": trim}
    options |= {"criteria": criteria}
    options |= {"concurrency": concurrency, "timeout": timeout, "budget_usd": budget_usd}
    if judge is None:
        judge = GENERAL_JUDGE if model else "smollm2_score"
    names = [judge] if isinstance(judge, str | Path) else list(judge)
    if not names:
        raise InputError("judge: is empty; name one (see `instruct list judges`)")
    judges = [Judge(validated(JudgeOptions, {"card": str(name), **options}, "compare_answers")) for name in names]
    for one in judges:
        if output is None and one.costs_money:
            raise InputError(f"judge {one.card.name}: costs money; give output, the folder that keeps its replies")
        one.check()
    with contextlib.ExitStack() as stack:
        if output is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()), "comparison")
        else:
            folder = Path(output).expanduser()
        form = AnswerForm(prompt_column, response_column, questions, cluster_column)
        run, pairs = run_of_answers(folder, [candidate], baseline, form, common_prompts)
        report, failure = judge_and_report(run, judges, pairs, JudgingMode(retry_failed=retry_failed))
    if failure:
        raise failure
    return report
