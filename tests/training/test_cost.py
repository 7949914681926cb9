"""The transport cost in training: which table it is, what it costs in memory, and that a resumed run keeps it."""

from __future__ import annotations

import pytest
import torch
from dense_reference import reference_token_loss
from peft import LoraConfig
from safetensors import safe_open
from safetensors.torch import save_file
from tiny import VOCABULARY, make_trainer, tiny_model
from transformers import AutoModelForCausalLM, TrainerCallback

from instruct.base.errors import InputError
from instruct.objectives import EMO
from instruct.training.frozen import make_cost, original_table
from instruct.training.head import attach_objective, output_head


def lora(**arguments) -> LoraConfig:
    return LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM", **arguments)


WAYS = {
    "full": (True, None),
    "full-untied": (False, None),
    "lora": (True, lora()),
    "head": (False, lora(modules_to_save=["lm_head"])),
    "tokens": (True, lora(trainable_token_indices=[3, 5, 9])),
    "tokens-untied": (False, lora(trainable_token_indices={"embed_tokens": [3, 5], "lm_head": [5, 9]})),
}


def unwrapped(trainer):
    return trainer.model.get_base_model() if hasattr(trainer.model, "get_base_model") else trainer.model


@pytest.mark.parametrize("way", list(WAYS))
def test_a_table_is_copied_only_where_the_head_itself_trains(tmp_path, way):
    tied, peft_config = WAYS[way]
    trainer = make_trainer(tmp_path, tiny_model(tied=tied), peft_config=peft_config)
    table = original_table(output_head(unwrapped(trainer)))
    shared = {parameter.data_ptr() for parameter in trainer.model.parameters()}
    assert (table.data_ptr() in shared) == (not way.startswith("full"))
    trained = {parameter.data_ptr() for parameter in trainer.model.parameters() if parameter.requires_grad}
    assert table.data_ptr() not in trained
    assert torch.equal(table, tiny_model(tied=tied).lm_head.weight)


def test_a_copy_is_no_wider_than_what_autocast_computes_in():
    head = tiny_model().lm_head
    assert make_cost("fixed", head, narrow=torch.bfloat16).table.dtype == torch.bfloat16
    head.requires_grad_(False)
    assert make_cost("fixed", head).table.data_ptr() == head.weight.data_ptr()
    # Autocast narrows it for each forward: that is the table, and nothing of it stays between steps.
    assert make_cost("fixed", head, narrow=torch.bfloat16) is None


@pytest.mark.parametrize("way", ["head", "tokens", "tokens-untied"])
def test_a_head_that_peft_wraps_is_the_trained_one_and_its_cost_the_original(tmp_path, way):
    """Loss and gradients of everything trained, against the dense reference over PEFT's own weights."""
    tied, peft_config = WAYS[way]
    trainer = make_trainer(tmp_path, tiny_model(tied=tied), peft_config=peft_config)
    model, base = trainer.model, unwrapped(trainer)
    with torch.no_grad():  # an adapter that has been trained a while
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    batch = next(iter(trainer.get_train_dataloader()))
    labels = batch.pop("labels")
    responses = labels[:, 1:] != -100

    head = base.get_output_embeddings()
    states = base.base_model(**batch).last_hidden_state[:, :-1][responses]
    assert torch.allclose(head(states), model(**batch).logits[:, :-1][responses], atol=1e-4)  # PEFT's own forward
    table = tiny_model(tied=tied).lm_head.weight
    expected = reference_token_loss(
        states, head.weight, labels[:, 1:][responses], EMO(), cost_table=table.detach().clone()
    ).mean()
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    wanted = torch.autograd.grad(expected, list(trained.values()))

    loss = model(**batch, labels=labels, objective_loss=True).loss
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    found = torch.autograd.grad(loss, list(trained.values()))
    for name, ours, theirs in zip(trained, found, wanted, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5 * float(theirs.abs().max())), name
    assert any("lm_head" in name or "token_adapter" in name for name in trained)


class _Kill(TrainerCallback):
    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == 3:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    "way", ["full", "head", *(pytest.param(w, marks=pytest.mark.slow) for w in ("full-untied", "tokens"))]
)
def test_a_resumed_run_equals_an_undisturbed_one_step_for_step(tmp_path, way):
    tied, peft_config = WAYS[way]
    arguments = {
        "max_steps": 6, "learning_rate": 5e-2, "save_strategy": "steps", "save_steps": 2,
        "per_device_train_batch_size": 2, "peft_config": peft_config,
    }  # fmt: skip

    def history(trainer):
        names = ("loss", "ce", "cost", "ratio", "grad_norm")
        return [tuple(entry[name] for name in names) for entry in trainer.state.log_history if "ce" in entry]

    undisturbed = make_trainer(tmp_path / "undisturbed", tiny_model(tied=tied), **arguments)
    undisturbed.train()
    killed = make_trainer(tmp_path / "killed", tiny_model(tied=tied), **arguments)
    killed.add_callback(_Kill())
    with pytest.raises(KeyboardInterrupt):
        killed.train()

    checkpoint = tmp_path / "killed" / "checkpoint-2"
    resumed = make_trainer(tmp_path / "killed", tiny_model(tied=tied), **arguments)
    resumed.train(resume_from_checkpoint=str(checkpoint))
    assert history(resumed)[-4:] == history(undisturbed)[-4:]
    pairs = zip(resumed.model.named_parameters(), undisturbed.model.parameters(), strict=True)
    assert all(torch.equal(ours, theirs) for (_, ours), theirs in pairs)

    (weights,) = checkpoint.glob("*.safetensors")
    with safe_open(weights, "pt") as tensors:
        rows = [name for name in tensors.keys() if tensors.get_slice(name).get_shape()[:1] == [VOCABULARY]]  # noqa: SIM118
    assert len(rows) == {"full": 1, "full-untied": 2, "head": 1, "tokens": 0}[way]  # no copy of the table


def test_a_run_resumed_from_a_checkpoints_own_head_is_refused(tmp_path):
    """Its fixed cost would be another one, without a sign of it."""
    arguments = {"max_steps": 4, "learning_rate": 5e-2, "save_strategy": "steps", "save_steps": 2}
    make_trainer(tmp_path, **arguments).train()
    checkpoint = str(tmp_path / "checkpoint-2")
    trained = AutoModelForCausalLM.from_pretrained(checkpoint)
    with pytest.raises(InputError, match="checkpoint-2: trained with a different transport cost; construct"):
        make_trainer(tmp_path, trained, **arguments).train(resume_from_checkpoint=checkpoint)


def test_a_trained_models_folder_has_its_own_head_as_the_fixed_cost(tmp_path):
    first = make_trainer(tmp_path / "first", learning_rate=5e-2)
    first.train()
    first.save_model(tmp_path / "trained")
    second = make_trainer(tmp_path / "second", AutoModelForCausalLM.from_pretrained(tmp_path / "trained"))
    table = original_table(output_head(second.model))
    assert torch.equal(table, first.model.lm_head.weight)
    assert not torch.equal(table, tiny_model().lm_head.weight)


def test_an_external_table_is_used_as_the_cost(tmp_path):
    """A file of any width, and another model's folder: what is trained on is the cosine of their rows."""
    table = torch.randn(VOCABULARY, 7, generator=torch.Generator().manual_seed(3))
    save_file({"table": table}, tmp_path / "table.safetensors")
    other = tiny_model("qwen", tied=False)
    other.save_pretrained(tmp_path / "other")
    costs = {}
    for name, path, expected in [
        ("file", tmp_path / "table.safetensors", table),
        ("folder", tmp_path / "other", other.lm_head.weight.detach()),
    ]:
        trainer = make_trainer(tmp_path / name, transport_cost=str(path))
        trainer.train()
        costs[name] = trainer.state.log_history[0]["cost"]
        alone = tiny_model()
        attach_objective(alone, EMO(), make_cost(str(path), output_head(alone)))
        batch = next(iter(trainer.get_train_dataloader()))
        responses = batch["labels"][:, 1:] != -100
        states = alone.base_model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
        q = torch.softmax(alone.lm_head(states.last_hidden_state[:, :-1][responses]), dim=-1)
        unit = torch.nn.functional.normalize(expected)
        transport = 1 - unit[batch["labels"][:, 1:][responses]] @ unit.T
        assert costs[name] == pytest.approx((q * transport).sum(dim=-1).mean().item(), rel=1e-5)
    assert costs["file"] != pytest.approx(costs["folder"], rel=1e-2)
