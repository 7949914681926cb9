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
from instruct.base.output import say, warn
from instruct.config import ExperimentConfig
from instruct.data.cards import Template
from instruct.data.evaluation import EvalSet, answers_of, load_answers
from instruct.data.options import template_of
from instruct.data.prefixes import PrefixSet
from instruct.data.sources import RawRow
from instruct.data.templates import MODES, Rendering
from instruct.generation.answers import evaluation_set
from instruct.generation.continuations import config_prefixes, lengths, prefixes_text
from instruct.generation.kept import forgive
from instruct.generation.written import ReplyStats
from instruct.judging.presentations import Answers, joined
from instruct.phases.steps import Step
from instruct.phases.systems import check_elsewhere, system_folders, warn_of_changed_files, weights_identity
from instruct.run.directory import RunDirectory
from instruct.run.lock import only_process, outputs_of

Sampled = Mapping[str, tuple[Path | None, float]]
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
                _check_engine(config)
        if {"answer", "evaluate"} & {*phases}:
            with problems.collected():
                check_elsewhere(config)
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
        generate(self.config, run, self.mode.retry_failed, *read)


def generate(
    config: ExperimentConfig,
    run: RunDirectory,
    retry_failed: bool = False,
    prompts: EvalSet | None = None,
    prefixes: PrefixSet | None = None,
) -> dict[str, Path]:
    """Every system of the run answers prompts, continues prefixes, or both, as the config says.

    Prefixes are also continued by the controls: MLE at the temperatures that match the other systems' entropies.

    Args:
        retry_failed: send all failed requests again, also those that were refused or have been sent again twice.
        prompts, prefixes: what the config names; None: it is read.

    Returns:
        The file of each system's answers, or of its continuations; both if the config asks for both.

    Raises:
        InputError: a system is not trained yet, the prompts or prefixes cannot be read, or another process writes the
            outputs of a system.
    """
    files: dict[str, Path] = {}
    with contextlib.ExitStack() as locks:
        for name in config.systems:
            locks.enter_context(only_process(run, outputs_of(name)))
        folders = (run.outputs, *run.outputs.glob("turn_*"), run.continuations) if retry_failed else ()
        again = [forgive(folder, name) for folder in folders for name in config.systems]
        if config.answers:
            answer_prompts(config, run, any(again), prompts)
            files |= {name: run.outputs / f"{name}.json" for name in config.systems}
        if config.continuations:
            from instruct.phases.evaluate import with_controls

            paths = continue_prefixes(config, run, with_controls(config, run), prefixes)
            files |= {f"{name} (continuations)" if config.answers else name: path for name, path in paths.items()}
    warn_of_changed_files(run)
    return files


def answer_prompts(
    config: ExperimentConfig, run: RunDirectory, again: bool = False, evaluation: EvalSet | None = None
) -> None:
    """Every system of the run answers the evaluation set, if the config has one; one engine serves all adapters.

    Args:
        again: also if all is answered, because failed requests are to be sent again.
        evaluation: the evaluation set; None: it is read.

    Raises:
        InputError: a system is not trained yet, or verdicts were made on the answers to other prompts, or with other
            options.
    """
    options = config.answers
    if options is None:
        return
    systems = system_folders(config, run)
    engine = options.generation.engine
    weights = {name: weights_identity(config, run, folder, engine) for name, folder in systems.items()}
    evaluation = evaluation or evaluation_set(options)
    template = answer_template(config)
    inputs: dict[str, Any] = {
        "options": config.answered_with(),
        "weights": weights,
        "prompts": evaluation.sha256,
        "template": template,
    }
    if chat := _rendering(config, run).identity():
        inputs["chat"] = chat
    outputs = {name: run.outputs / f"{name}.json" for name in systems}
    record = None
    if run.is_done("answers", inputs) and all(path.is_file() for path in outputs.values()):
        record = run.manifest()["steps"]["answers"]
        if not again and not any(made.get("again") for made in record["results"].values()):
            return
    _check_judged(run, inputs)
    try:
        _answer(config, run, inputs, evaluation, systems, outputs)
    except InstructError as error:
        if record is None:
            raise
        run.record("answers", record)  # what was finished stays so
        warn(f"answers: failed requests are not asked again: {error}")


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


def _answer(
    config: ExperimentConfig,
    run: RunDirectory,
    inputs: dict[str, Any],
    evaluation: EvalSet,
    systems: dict[str, Path | None],
    outputs: dict[str, Path],
) -> None:
    """Ask what is missing, and record the step."""
    from instruct.generation.answers import generate_answers, sampled_at

    options = config.answers
    assert options
    baseline = run.outputs / "baseline.json"
    earlier = _keep_answers({**outputs, "baseline": baseline})
    baseline.unlink(missing_ok=True)  # it answers the earlier prompts
    if evaluation.baseline:
        text = json.dumps(evaluation.baseline, indent=1, ensure_ascii=False)
        write_atomically(baseline, text + "\n")
    ran_with = {
        **options.model_dump(mode="json"),
        "eval_set": evaluation.name,
        "prompts": len(evaluation.prompts),
        "baseline": evaluation.baseline_name,
        "template": inputs["template"],
        "model": config.model.model_dump(mode="json"),
    }
    named = sampled_at(evaluation.prompts, options.generation)
    at = {prompt.dataset: value for prompt, value in zip(evaluation.prompts, named, strict=True) if value is not None}
    if at:
        ran_with["temperatures"] = at
    ran_with |= {key: value for key, value in config.model_dump(mode="json", include={"cluster"}).items() if value}
    with run.step("answers", inputs, config=ran_with) as results:
        stats = generate_answers(
            config.model,
            systems,
            evaluation.prompts,
            inputs["template"],
            options.generation,
            run.outputs,
            config.cluster,
            _rendering(config, run),
        )
        for name, path in outputs.items():
            results[name] = stats[name].record() | {"sha256": sha256_of(path)}
    _drop_unchanged(earlier, run.outputs)


def _rendering(config: ExperimentConfig, run: RunDirectory) -> Rendering:
    """How chats are asked: as in training, and with thinking on or off as for most trained answers, if that is known.

    What the config says of thinking wins.
    """
    rendering = config.data.rendering(run.day)
    if any(mode in rendering.arguments for mode in MODES):
        return rendering
    for name in config.trained:  # all systems are trained on the same rows
        trained = run.manifest()["steps"].get(f"train/{name}", {}).get("results", {}).get("answers", {})
        empty = trained.get("empty", 0)
        on, off = trained.get("thinking", 0) + empty, trained.get("without", 0) - empty
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


def answer_template(config: ExperimentConfig) -> Template:
    """The template of the prompts: the one that the systems were trained with, unless the config names another."""
    if config.answers and config.answers.template:
        return config.answers.template
    templates = dict.fromkeys(template_of(source) for source in config.data.parts)
    if len(templates) > 1:
        raise InputError(
            f"data.mixture: its data sets have different templates ({', '.join(templates)}); set answers.template"
        )
    return next(iter(templates))


def continue_prefixes(
    config: ExperimentConfig, run: RunDirectory, systems: Sampled | None = None, prefixes: PrefixSet | None = None
) -> dict[str, Path]:
    """Continue the prefixes of `config.continuations`; one engine serves the base and all adapters.

    Args:
        systems: the folder (None: the base) and the temperature of each; None: all of the config's systems, at its
            temperature.
        prefixes: those of the config; None: they are read.

    Returns:
        The file of each system's continuations, see `read_continuations`.

    Raises:
        InputError: no prefixes, a system that is not trained yet, a prefix that does not fit the context.
    """
    from instruct.generation.continuations import continue_texts

    options = config.continuations
    if options is None:
        raise InputError(f"{run.folder / 'config.yaml'}: has no continuations; set continuations.card or .files")
    if systems is None:
        folders = system_folders(config, run)
        systems = {name: (folder, options.generation.temperature) for name, folder in folders.items()}
    prefixes = prefixes or config_prefixes(config.model, options)
    paths = {name: run.continuations / f"{name}.json" for name in systems}
    inputs = {name: _continuing_inputs(config, run, prefixes, *system) for name, system in systems.items()}
    pending = {
        name: system
        for name, system in systems.items()
        if not (run.is_done(_step(name), inputs[name]) and paths[name].is_file())
    }
    if not pending:
        return paths
    ran_with = {
        **options.model_dump(mode="json"),
        "corpus": prefixes.name,
        "prefixes": len(prefixes.prefixes),
        "counts": prefixes.counts,
        "cut": prefixes.cut.model_dump(mode="json"),
        "model": config.model.model_dump(mode="json"),
    }
    stats: dict[str, ReplyStats] = {}
    for name, system in pending.items():
        with run.step(_step(name), inputs[name], config=ran_with) as result:
            if not stats:  # all are asked together, which takes the time of the first step
                stats = continue_texts(config.model, pending, prefixes, options, run.continuations, config.cluster)
            result |= {**stats[name].record(), "temperature": system[1], "sha256": sha256_of(paths[name])}
    for name, counts in stats.items():
        if counts.empty:
            say(f"note      {name}: {counts.empty:,} of {counts.n:,} continuations are empty")
    return paths


def _step(name: str) -> str:
    return f"continuations/{name}"


def _continuing_inputs(
    config: ExperimentConfig, run: RunDirectory, prefixes: PrefixSet, folder: Path | None, temperature: float
) -> dict[str, Any]:
    assert config.continuations
    return {
        "options": config.continued_with(),
        "weights": weights_identity(config, run, folder, config.continuations.generation.engine),
        "temperature": temperature,
        "prefixes": prefixes.sha256,
    }


def _check_engine(config: ExperimentConfig) -> None:
    for section, asked in (("answers", config.answers), ("continuations", config.continuations)):
        if asked is None:
            continue
        engine = asked.generation.engine
        if config.lora and config.lora.use_dora and engine != "transformers":
            raise InputError(
                f"config {config.name}: vLLM does not support DoRA adapters; set {section}.generation.engine to "
                "transformers"
            )
        if config.model.quantization and engine == "vllm":
            raise InputError(
                f"config {config.name}: vLLM cannot load a {config.model.quantization} model; set "
                f"{section}.generation.engine to transformers or auto"
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
