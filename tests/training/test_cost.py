"""The transport cost in training: which table it is, what it costs in memory, and that a resumed run keeps it."""

from __future__ import annotations

import pytest
import torch
from dense_reference import reference_token_loss
from peft import LoraConfig
from safetensors.torch import save_file
from tiny import VOCABULARY, make_trainer, tiny_model
from transformers import AutoModelForCausalLM

from instruct.base.errors import InputError
from instruct.objectives import EMO


def lora(**arguments) -> LoraConfig:
    return LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM", **arguments)


WAYS = {
    "head": (False, lora(modules_to_save=["lm_head"])),
    "tokens-untied": (False, lora(trainable_token_indices={"embed_tokens": [3, 5], "lm_head": [5, 9]})),
}


def unwrapped(trainer):
    return trainer.model.get_base_model() if hasattr(trainer.model, "get_base_model") else trainer.model


@pytest.mark.parametrize("way", WAYS)
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


def test_a_run_resumed_from_a_checkpoints_own_head_is_refused(tmp_path):
    """Its fixed cost would be another one, without a sign of it."""
    arguments = {"max_steps": 4, "learning_rate": 5e-2, "save_strategy": "steps", "save_steps": 2}
    make_trainer(tmp_path, **arguments).train()
    checkpoint = str(tmp_path / "checkpoint-2")
    trained = AutoModelForCausalLM.from_pretrained(checkpoint)
    with pytest.raises(InputError, match="checkpoint-2: trained with a different transport cost; construct"):
        make_trainer(tmp_path, trained, **arguments).train(resume_from_checkpoint=checkpoint)


def test_an_external_table_is_used_as_the_cost(tmp_path):
    """A file of any width: what is trained on is the cosine of its rows."""
    table = torch.randn(VOCABULARY, 7, generator=torch.Generator().manual_seed(3))
    save_file({"table": table}, tmp_path / "table.safetensors")
    trainer = make_trainer(tmp_path / "out", transport_cost=str(tmp_path / "table.safetensors"))
    trainer.train()
    alone, batch = tiny_model(), next(iter(trainer.get_train_dataloader()))
    responses = batch["labels"][:, 1:] != -100
    logits = alone(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits[:, :-1][responses]
    unit = torch.nn.functional.normalize(table)
    transport = 1 - unit[batch["labels"][:, 1:][responses]] @ unit.T
    expected = (torch.softmax(logits, dim=-1) * transport).sum(dim=-1).mean().item()
    assert trainer.state.log_history[0]["cost"] == pytest.approx(expected, rel=1e-5)
