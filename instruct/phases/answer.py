"""The answer phase: every system answers prompts, continues prefixes, or both. What is done is not done again."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, InstructError, Problems, counted, one_line
from instruct.base.files import sha256_of, write_atomically
from instruct.base.models import ModelOptions
from instruct.base.output import say, warn
from instruct.data.cards import Template
from instruct.data.evaluation import EvalSet, answers_of, load_answers
from instruct.data.options import DataOptions, template_of
from instruct.data.prefixes import PrefixSet
from instruct.data.sources import RawRow
from instruct.data.templates import MODES, Rendering
from instruct.generation.answers import evaluation_set, generate_answers, sampled_at
from instruct.generation.continuations import config_prefixes, continue_texts, lengths, prefixes_text
from instruct.generation.kept import forgive
from instruct.generation.options import AnswerOptions, EngineConfig
from instruct.generation.written import ReplyStats
from instruct.judging.presentations import Answers, joined
from instruct.phases.evaluate import match_temperatures, predictors
from instruct.phases.steps import Step
from instruct.phases.systems import check_elsewhere, system_folders, warn_of_changed_files, weights_identity
from instruct.run.directory import RunDirectory
from instruct.run.lock import only_process, outputs_of

Read = tuple[EvalSet | None, PrefixSet | None]


class Answering(Step):
    """Every system answers prompts, continues prefixes, or both."""

    name = "answer"

    def inputs(self, run: RunDirectory) -> Iterator[tuple[str, dict[str, Any]]]:
        if self.config.answers:
            yield "answers", {"options": self.config.answered_with()}
        for step in run.manifest()["steps"] if self.config.continuations else ():
            if step.startswith("continuations/"):
                yield step, {"options": self.config.continued_with()}

    def check(self, run: RunDirectory, phases: Collection[str]) -> Read:
        """What is answered and continued; that what is compared has answers to the same prompts."""
        config, problems = self.config, Problems()
        now = self.name in phases
        prompts: EvalSet | None = None
        prefixes: PrefixSet | None = None
        if now:
            with problems.collected():
                dora = config.lora is not None and config.lora.use_dora
                if config.answers:
                    _check_engine("answers", config.answers.generation, config.model, dora)
                if config.continuations:
                    _check_engine("continuations", config.continuations.generation, config.model, dora)
        if {"answer", "evaluate"} & {*phases}:
            with problems.collected():
                check_elsewhere(config.systems, config.model)
        if config.answers and {"answer", "train"} & {*phases}:
            with problems.collected() if now or config.answers.files else contextlib.suppress(InputError):
                prompts = evaluation_set(config.answers)
        if config.continuations and {"answer", "train"} & {*phases}:
            with problems.collected() if now or config.continuations.files else contextlib.suppress(InputError):
                prefixes = config_prefixes(config.model, config.continuations)
                lengths(prefixes, config.continuations)
        judged = itertools.chain.from_iterable(options.comparisons or config.compared for options in config.judges)
        for pair in dict.fromkeys([*config.comparisons, *judged]):
            with problems.collected():
                _check_comparison(pair, prompts if now else None, run.folder)
        problems.refuse()
        if prompts and config.answers and now:
            limit = config.answers.generation.max_new_tokens
            count = counted(len(prompts.prompts), "prompt")
            say(f"answer    {prompts.name}: {count}, at most {counted(limit, 'token')} each")
        if prefixes and config.continuations and now:
            say(f"continue  {prefixes_text(prefixes, config.continuations)}")
        return prompts, prefixes

    def make(self, run: RunDirectory, read: Read) -> None:
        self.generate(run, *read)

    def generate(
        self, run: RunDirectory, prompts: EvalSet | None = None, prefixes: PrefixSet | None = None
    ) -> dict[str, Path]:
        """Every system of the run answers prompts, continues prefixes, or both, as the config says.

        Prefixes are also continued by the controls: MLE at the temperatures that match the other systems' entropies.

        Args:
            prompts, prefixes: what the config names; None: it is read.

        Returns:
            The file of each system's answers, or of its continuations; both if the config asks for both.

        Raises:
            InputError: a system is not trained yet, the prompts or prefixes cannot be read, or another process writes
                the outputs of a system.
        """
        files: dict[str, Path] = {}
        with contextlib.ExitStack() as locks:
            for name in self.config.systems:
                locks.enter_context(only_process(run, outputs_of(name)))
            folders = (run.outputs, *run.outputs.glob("turn_*"), run.continuations) if self.mode.retry_failed else ()
            again = [forgive(folder, name) for folder in folders for name in self.config.systems]
            if self.config.answers:
                self._answer(run, any(again), prompts)
                files |= {name: run.outputs / f"{name}.json" for name in self.config.systems}
            if self.config.continuations:
                paths = self._continue(run, prefixes)
                files |= {
                    f"{name} (continuations)" if self.config.answers else name: path for name, path in paths.items()
                }
        warn_of_changed_files(run)
        return files

    def _answer(self, run: RunDirectory, again: bool, evaluation: EvalSet | None) -> None:
        """Every system of the run answers the config's evaluation set; one engine serves all adapters.

        Args:
            again: also if all is answered, because failed requests are to be sent again.
            evaluation: the evaluation set; None: it is read.

        Raises:
            InputError: a system is not trained yet, or verdicts were made on the answers to other prompts, or with
                other options.
        """
        config, options = self.config, self.config.answers
        assert options
        systems = system_folders(config.systems, run)
        engine = options.generation.engine
        weights = {name: weights_identity(config.model, run, folder, engine) for name, folder in systems.items()}
        evaluation = evaluation or evaluation_set(options)
        template = options.template or trained_template(config.data)
        rendering = _rendering(config.data.rendering(run.day), config.trained, run)
        inputs: dict[str, Any] = {
            "options": config.answered_with(),
            "weights": weights,
            "prompts": evaluation.sha256,
            "template": template,
        }
        if chat := rendering.identity():
            inputs["chat"] = chat
        outputs = {name: run.outputs / f"{name}.json" for name in systems}
        record = None
        if run.is_done("answers", inputs) and all(path.is_file() for path in outputs.values()):
            record = run.manifest()["steps"]["answers"]
            if not again and not any(made.get("again") for made in record["results"].values()):
                return
        _check_judged(run, inputs)
        made_with = _made_with(options, evaluation, template) | {"model": config.model.model_dump(mode="json")}
        if config.cluster:
            made_with["cluster"] = config.model_dump(mode="json")["cluster"]
        earlier = _keep_answers({**outputs, "baseline": run.outputs / "baseline.json"})
        _write_baseline(run.outputs / "baseline.json", evaluation)
        try:
            with run.step("answers", inputs, config=made_with) as results:
                stats = generate_answers(
                    config.model,
                    systems,
                    evaluation.prompts,
                    template,
                    options.generation,
                    run.outputs,
                    config.cluster,
                    rendering,
                )
                for name, path in outputs.items():
                    results[name] = stats[name].record() | {"sha256": sha256_of(path)}
        except InstructError as error:
            if record is None:
                raise
            run.record("answers", record)  # what was finished stays so
            warn(f"answers: failed requests are not asked again: {error}")
        else:
            _drop_unchanged(earlier, run.outputs)

    def _continue(self, run: RunDirectory, prefixes: PrefixSet | None) -> dict[str, Path]:
        """Every system of the run, and each one's control, continues the config's prefixes; one engine serves all.

        Args:
            prefixes: those of the config; None: they are read.

        Returns:
            The file of each one's continuations, see `read_continuations`.

        Raises:
            InputError: a system that is not trained yet, a prefix that does not fit the context.
        """
        config, options, model = self.config, self.config.continuations, self.config.model
        assert options
        engine, temperature = options.generation.engine, options.generation.temperature
        folders = system_folders(config.systems, run)
        systems = {name: (folder, temperature) for name, folder in folders.items()}
        for name, control in match_temperatures(config, run, predictors(config, run)).items():
            systems[name] = folders[control.mle], control.temperature
        prefixes = prefixes or config_prefixes(model, options)
        paths = {name: run.continuations / f"{name}.json" for name in systems}
        inputs: dict[str, dict[str, Any]] = {}
        pending = {}
        for name, (folder, at) in systems.items():
            inputs[name] = {
                "options": config.continued_with(),
                "weights": weights_identity(model, run, folder, engine),
                "temperature": at,
                "prefixes": prefixes.sha256,
            }
            if not (run.is_done(f"continuations/{name}", inputs[name]) and paths[name].is_file()):
                pending[name] = folder, at
        made_with = {
            **options.model_dump(mode="json"),
            "corpus": prefixes.name,
            "prefixes": len(prefixes.prefixes),
            "counts": prefixes.counts,
            "cut": prefixes.cut.model_dump(mode="json"),
            "model": model.model_dump(mode="json"),
        }
        stats: dict[str, ReplyStats] = {}
        for name, (_, at) in pending.items():
            with run.step(f"continuations/{name}", inputs[name], config=made_with) as result:
                if not stats:  # all are asked together, which takes the time of the first step
                    stats = continue_texts(model, pending, prefixes, options, run.continuations, config.cluster)
                result |= {**stats[name].record(), "temperature": at, "sha256": sha256_of(paths[name])}
        for name, counts in stats.items():
            if counts.empty:
                say(f"note      {name}: {counts.empty:,} of {counts.n:,} continuations are empty")
        return paths


def _check_judged(run: RunDirectory, inputs: Mapping[str, Any]) -> None:
    """Refuse answers to other prompts, or made with other options, in place of those that verdicts are about."""
    steps = run.manifest()["steps"]
    before = steps.get("answers", {"status": "started"})
    if before["status"] != "done" or all(before["inputs"].get(part) == inputs[part] for part in ("options", "prompts")):
        return
    if verdicts := [name for name in steps if name.startswith("judge/")]:
        changed = "other prompts" if before["inputs"].get("prompts") != inputs["prompts"] else "other options"
        raise InputError(
            f"{run.outputs}: answers with {changed} would replace those that {one_line(verdicts[0], 80)} is about; "
            "answer in another run, or replace them and judge again: `redo` answers"
        )


def _write_baseline(path: Path, evaluation: EvalSet) -> None:
    """Write the evaluation set's own answers, in place of those to earlier prompts."""
    path.unlink(missing_ok=True)
    if evaluation.baseline:
        write_atomically(path, json.dumps(evaluation.baseline, indent=1, ensure_ascii=False) + "\n")


def _made_with(options: AnswerOptions, evaluation: EvalSet, template: Template) -> dict[str, Any]:
    """What the step's record says of how answers are made."""
    made_with = {
        **options.model_dump(mode="json"),
        "eval_set": evaluation.name,
        "prompts": len(evaluation.prompts),
        "baseline": evaluation.baseline_name,
        "template": template,
    }
    named = sampled_at(evaluation.prompts, options.generation)
    at = {prompt.dataset: value for prompt, value in zip(evaluation.prompts, named, strict=True) if value is not None}
    if at:
        made_with["temperatures"] = at
    return made_with


def _rendering(rendering: Rendering, trained: Collection[str], run: RunDirectory) -> Rendering:
    """How chats are asked: as in training, and with thinking on or off as for most trained answers, if that is known.

    What the config says of thinking wins.
    """
    if any(mode in rendering.arguments for mode in MODES):
        return rendering
    for name in trained:  # all systems are trained on the same rows
        answers = run.manifest()["steps"].get(f"train/{name}", {}).get("results", {}).get("answers", {})
        empty = answers.get("empty", 0)
        on, off = answers.get("thinking", 0) + empty, answers.get("without", 0) - empty
        if on or off:
            return replace(rendering, thinks=on >= off)
    return rendering


def _keep_answers(outputs: dict[str, Path]) -> dict[str, Path]:
    """Copies of the answers that exist, as outputs/earlier/NAME-HASH.json: others are about to replace them."""
    kept = {}
    for name, path in outputs.items():
        if path.is_file():
            kept[name] = path.parent / "earlier" / f"{name}-{sha256_of(path)[:8]}.json"
            write_atomically(kept[name], path.read_bytes())
    return kept


def _drop_unchanged(earlier: dict[str, Path], outputs: Path) -> None:
    """Remove the copies of answers that were generated as before, and say which others are kept."""
    for name, kept in earlier.items():
        path = outputs / f"{name}.json"
        if path.is_file() and sha256_of(kept) == sha256_of(path):
            kept.unlink()
        else:
            say(f"kept      {kept}: the earlier answers of {name}")
    with contextlib.suppress(OSError):  # it is not empty, or not there
        (outputs / "earlier").rmdir()


def trained_template(data: DataOptions) -> Template:
    """The template that the systems are trained with, which prompts have, too.

    Raises:
        InputError: a mixture has several.
    """
    templates = dict.fromkeys(template_of(source) for source in data.parts)
    if len(templates) > 1:
        raise InputError(
            f"data.mixture: its data sets have different templates ({', '.join(templates)}); set answers.template"
        )
    return next(iter(templates))


def _check_engine(section: str, generation: EngineConfig, model: ModelOptions, dora: bool) -> None:
    """Refuse an engine that does not serve what is trained; `section`: the config's that names it."""
    if dora and generation.engine != "transformers":
        raise InputError(f"{section}.generation.engine: vLLM does not support DoRA adapters; set it to transformers")
    if model.quantization and generation.engine == "vllm":
        raise InputError(
            f"{section}.generation.engine: vLLM cannot load a {model.quantization} model; set it to transformers or "
            "auto"
        )


def _check_comparison(pair: tuple[str, str], prompts: EvalSet | None, folder: Path) -> None:
    """Refuse a file that does not answer the prompts, and `baseline` for prompts without answers of their own."""
    shown = " against ".join(pair)
    files = [name for name in pair if name.endswith(".json")]
    for name in files:
        rows = load_answers(name)
        if prompts and len(files) == 1:
            asked = [row for prompt in prompts.prompts for row in prompt.answered([""] * (1 + len(prompt.later)), "")]
            raw = [RawRow(prompts.name, number, row) for number, row in enumerate(asked, start=1)]
            joined(Answers(name, rows), Answers(f"of {prompts.name}", answers_of(raw, "")))
    kept = (folder / "outputs" / "baseline.json").is_file()
    if "baseline" in pair and prompts and prompts.baseline is None and not kept:
        raise InputError(
            f"comparisons: {shown}: {prompts.name} has no answers of its own; give its rows an output, or compare with "
            "a system or a file of answers"
        )
