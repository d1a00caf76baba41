"""Who lends which checkpoint to whom, as an inventory has it."""

from pathlib import Path

import pytest

from sparkwright.fleet.file import load_fleet
from sparkwright.recipe.loader import load_recipe
from sparkwright.recipe.recipe import Checkpoint, Recipe
from sparkwright.release.lending import Lending, Loan, lan_addresses, lending_of, loans

MODEL = Checkpoint(repo="lab/model", folder="model")
OTHER = Checkpoint(repo="lab/other", folder="other")
DRAFT = Checkpoint(repo="lab/draft", folder="draft")
BASE = load_recipe("lab-tiny")


def recipe(**checkpoints: Checkpoint) -> Recipe:
    return BASE.model_copy(update={"checkpoints": checkpoints})


RECIPES = {
    "plain": recipe(model=MODEL),
    "moved": recipe(model=MODEL.model_copy(update={"folder": "elsewhere"})),
    "newer": recipe(model=MODEL.model_copy(update={"revision": "v2"})),
    "fast": recipe(model=MODEL, draft=DRAFT),
    "faster": recipe(model=OTHER, draft=DRAFT),
}


def site(tmp_path: Path, replicas: str, sparks: str = "abcd", more: str = "") -> dict[str, Loan]:
    """Return the loans of a fleet whose Spark a is at 10.0.0.1, b at 10.0.0.2, and so on."""
    path = tmp_path / "sparks.yaml"
    lines = [f"  {name}: {{ssh_hostname: 10.0.0.{n}}}" for n, name in enumerate(sparks, 1)]
    path.write_text("\n".join(["sparks:", *lines, more, f"replicas: {{{replicas}}}\n"]))
    return loans(load_fleet(path, RECIPES), RECIPES)


ONE = "r1: {recipe: plain, sparks: [a]}"
TWO = f"{ONE}, r2: {{recipe: plain, sparks: [b]}}"


def test_one_replica_lends_nothing(tmp_path: Path) -> None:
    assert site(tmp_path, ONE) == {}
    assert not lending_of("a", {}).takes_part
    assert site(tmp_path, "r1: {recipe: fast, sparks: [a, b]}") == {}


def test_the_first_replica_lends_to_all_others(tmp_path: Path) -> None:
    found = site(tmp_path, f"{TWO}, r3: {{recipe: plain, sparks: [c]}}")
    loan = Loan("a", "10.0.0.1", MODEL, {"b": "10.0.0.2", "c": "10.0.0.3"})
    assert found == {"lab/model@main": loan}
    assert lending_of("a", found) == Lending("10.0.0.1", (MODEL,), ("10.0.0.2", "10.0.0.3"))
    assert lending_of("b", found) == Lending(borrowed=found)
    assert lending_of("d", found) == Lending()


def test_the_inventorys_order_decides(tmp_path: Path) -> None:
    found = site(tmp_path, f"r2: {{recipe: plain, sparks: [b]}}, {ONE}")
    assert found["lab/model@main"].lender == "b"


def test_a_folder_of_another_name_is_the_lenders(tmp_path: Path) -> None:
    found = site(tmp_path, f"{ONE}, r2: {{recipe: moved, sparks: [b]}}")
    assert found["lab/model@main"].checkpoint.folder == "model"
    assert list(lending_of("b", found).borrowed) == ["lab/model@main"]


def test_another_revision_is_another_checkpoint(tmp_path: Path) -> None:
    assert site(tmp_path, f"{ONE}, r2: {{recipe: newer, sparks: [b]}}") == {}


def test_recipes_that_share_a_drafter(tmp_path: Path) -> None:
    """Each checkpoint has a lender of its own: one head may lend one, and borrow another."""
    fast, faster = "{recipe: fast, sparks: [a]}", "{recipe: faster, sparks: [b]}"
    found = site(tmp_path, f"r1: {fast}, r2: {faster}, r3: {{recipe: faster, sparks: [c]}}")
    assert {key: (loan.lender, [*loan.borrowers]) for key, loan in found.items()} == {
        "lab/draft@main": ("a", ["b", "c"]),
        "lab/other@main": ("b", ["c"]),
    }
    second = lending_of("b", found)
    assert (second.address, second.lent, second.clients) == ("10.0.0.2", (OTHER,), ("10.0.0.3",))
    assert list(second.borrowed) == ["lab/draft@main"]


def test_of_a_pair_the_head_takes_part(tmp_path: Path) -> None:
    found = site(tmp_path, "r1: {recipe: plain, sparks: [b, a]}, r2: {recipe: plain, sparks: [c]}")
    assert found == {"lab/model@main": Loan("b", "10.0.0.2", MODEL, {"c": "10.0.0.3"})}
    assert lending_of("a", found) == Lending()


def test_a_spark_whose_address_others_do_not_know_fetches_by_itself(tmp_path: Path) -> None:
    named = "  n: {ssh_hostname: spark.example.org}"
    replicas = "r0: {recipe: plain, sparks: [n]}"
    assert site(tmp_path, f"{replicas}, {ONE}", more=named) == {}
    assert site(tmp_path, f"{replicas}, {TWO}", more=named)["lab/model@main"].lender == "a"


@pytest.mark.parametrize(
    "spark",
    [
        "{}",
        "{local: true}",
        "{ssh_hostname: spark.local}",
        "{ssh_hostname: 127.0.0.1}",
        "{ssh_hostname: '::1'}",
        "{ssh_hostname: 'fe80::1'}",
        "{ssh_hostname: 169.254.0.7}",
        "{ssh_hostname: 0.0.0.0}",
        "{ssh_hostname: 224.0.0.5}",
        "{ssh_hostname: 8.8.8.8}",
        "{ssh_hostname: '2606:4700::1'}",
        "{ssh_hostname: 10.0.0.1, ssh_port: 2222}",
    ],
)
def test_what_is_no_address_of_the_site(tmp_path: Path, spark: str) -> None:
    path = tmp_path / "sparks.yaml"
    path.write_text(f"sparks: {{a: {{ssh_hostname: 10.0.0.1}}, x: {spark}}}\n")
    assert "x" not in lan_addresses(load_fleet(path, []))


def test_addresses_are_written_one_way(tmp_path: Path) -> None:
    """As the share sees its clients."""
    path = tmp_path / "sparks.yaml"
    path.write_text("sparks: {a: {ssh_hostname: 'FD00:0::1'}, b: {ssh_hostname: 100.64.0.9}}\n")
    assert lan_addresses(load_fleet(path, [])) == {"a": "fd00::1", "b": "100.64.0.9"}
