"""An objective of the user's own through a config and through EMOConfig."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from tiny import make_trainer
from train_configs import tiny_config, train, write_rows

from instruct import EMOConfig
from instruct.base.errors import InputError
from instruct.objectives.objective import TokenStatistics, Weighting
from instruct.training.objective_names import OPTIONS

CODE = """\
import torch
from instruct.objectives.objective import Weighting

class Scaled:
    needs = ()

    def __init__(self, factor=1.0):
        self.factor = factor

    def weigh(self, token):
        a = torch.full_like(token.ce, self.factor)
        return Weighting(a=a, value=a * token.ce)
"""


class Halved:
    needs = ()

    def weigh(self, token: TokenStatistics) -> Weighting:
        a = torch.full_like(token.ce, 0.5)
        return Weighting(a=a, value=a * token.ce)


@pytest.fixture
def own(tmp_path, tiny_model_folder):
    (tmp_path / "scaled.py").write_text(CODE)
    system = {"objective": f"{tmp_path / 'scaled.py'}:Scaled", "objective_args": {"factor": 2.0}}
    systems = {"ours": system, "mle": {"objective": "mle"}}
    config = tiny_config(tiny_model_folder, write_rows(tmp_path / "rows.jsonl"), systems=systems)
    config.train |= {"max_steps": 1, "save_steps": 1}
    return config


def test_an_own_objective_trains_from_a_config_and_its_code_is_kept(tmp_path, own):
    run = train(tmp_path / "run", own, "ours")
    train(tmp_path / "run", own, "mle")
    steps = run.manifest()["steps"]
    ours, mle = (steps[f"train/{name}"]["results"]["first"] for name in ("ours", "mle"))
    assert ours["ce"] == pytest.approx(mle["ce"])
    assert ours["loss"] == pytest.approx(2 * mle["loss"], rel=1e-4)
    adapter = run.adapters / "ours"
    assert (adapter / "objective.py").read_text() == CODE
    assert (
        "scaled.py:Scaled** (factor 2.0), an objective whose code is in objective.py"
        in (adapter / "README.md").read_text()
    )
    assert len(steps["train/ours"]["inputs"]["objective"]) == 64


def test_a_run_is_not_continued_with_changed_code(tmp_path, own):
    train(tmp_path / "run", own, "ours")
    (tmp_path / "scaled.py").write_text(CODE + "\n# changed\n")
    with pytest.raises(
        InputError, match=r"has changed since .* began to train with it; restore it, or start a run with"
    ):
        train(tmp_path / "run", own, "ours")
    assert (tmp_path / "run" / "adapters" / "ours" / "adapter_model.safetensors").is_file()


def test_an_object_is_an_objective_for_emo_config(tmp_path):
    trainer = make_trainer(tmp_path, objective=Halved())
    trainer.train()
    first = trainer.state.log_history[0]
    assert first["loss"] == pytest.approx(first["ce"] / 2, rel=1e-4)
    assert "Halved" in trainer.args.to_json_string()


def test_a_config_with_an_object_is_copied_and_pickled(tmp_path):
    class Local(Halved):
        pass

    config = EMOConfig(output_dir=str(tmp_path), objective=Local())
    assert isinstance(copy.deepcopy(config).make_objective(), Local)
    assert pickle.loads(pickle.dumps(config)).objective.endswith("Local")


@pytest.mark.parametrize(
    ("objective", "arguments", "message"),
    [
        ("mle", {"gamma": 1}, "objective mle: .*; correct objective_args"),
        ("focal", {"beta": 1}, "objective focal: .*'beta'; correct objective_args"),
        ("power", {"k": 0}, "k is 0; it must be above 0"),
        ("power", {"threshold": 2.0}, "threshold is 2.0; it must be a probability"),
        ("eaft", {"alpha": -1}, "alpha is -1; it must be a number of at least 0"),
        ("label_smoothing", {"epsilon": 1.5}, "epsilon is 1.5; it must lie between 0 and 1"),
    ],
)
def test_wrong_arguments_of_an_objective_are_refused(tmp_path, objective, arguments, message):
    with pytest.raises(ValueError, match=message):
        EMOConfig(output_dir=str(tmp_path), objective=objective, objective_args=arguments)


def test_an_argument_is_named_once(tmp_path):
    with pytest.raises(ValueError, match=r"gamma is 0\.3, but objective_args\.gamma is 0\.5; give one of them"):
        EMOConfig(output_dir=str(tmp_path), objective="mixce", gamma=0.3, objective_args={"gamma": 0.5})
    EMOConfig(output_dir=str(tmp_path), objective="mixce", gamma=0.5, objective_args={"gamma": 0.5})


@pytest.mark.slow
def test_an_own_objective_is_named_on_the_command_line(instruct, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, stderr = instruct("run", "demo", "--objective", "absent.py:Mine", "--name", "x")
    assert (code, stderr.splitlines()[-1]) == (
        2,
        "instruct: objective absent.py:Mine: absent.py: no such file; give the path of a Python file",
    )


OTHER_VALUES = {
    "emo_variant": "paper",
    "emo_emphasis": "emo",
    "energy_weight": 3.0,
    "energy_dim": 64,
    "gamma": 0.3,
    "tailr_variant": "official",
    "ent_threshold": 1.1,
}


@pytest.mark.parametrize("option", OTHER_VALUES)
def test_an_option_of_another_objective_is_refused(tmp_path, option):
    assert {*OTHER_VALUES} == {name for options in OPTIONS.values() for name in options.values()}
    for objective, options in OPTIONS.items():
        config = EMOConfig(str(tmp_path), objective=objective, report_to=[], use_cpu=True, bf16=False)
        setattr(config, option, OTHER_VALUES[option])
        if option in options.values():
            config.make_objective()
        else:
            with pytest.raises(ValueError, match=f"{option} is an option of .*, not of {objective}; remove it"):
                config.make_objective()
