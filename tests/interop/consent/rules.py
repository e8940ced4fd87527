"""Checks of rules over calls: ``R``, the policy that both lists want (gridctl's is in its #1149)."""

from __future__ import annotations

from tests.interop.consent.world import Case, check

RULES = """
[policy]
default = "ask"
[[policy.rules]]
effect = "allow"
when = 'tool == "refund" && args.amount <= 10'
[[policy.rules]]
effect = "deny"
when = 'tool == "refund" && args.amount > 1000'
[[policy.rules]]
effect = "allow"
when = 'annotations.readOnlyHint'
[[policy.rules]]
effect = "allow"
name = "cou*"
[[policy.rules]]
effect = "allow"
when = 'tool == "order" && principal.contains("sub:carol-") && server.target.contains("shop.py")'
[[policy.rules]]
effect = "deny"
when = 'tool == "order" && principal.contains("sub:dave-") && time.hour >= 0 && time.weekday <= 7'
[[policy.rules]]
effect = "allow"
when = 'tool == "order" && principal.contains("sub:erin-") && (!("order" in calls) || calls.order < 2)'
[[policy.rules]]
effect = "allow"
when = 'tool == "pay" || tool == "linger"'
[[policy.rules]]
effect = "ask"
name = "linger"
[[policy.rules]]
effect = "deny"
name = "pay"
"""


@check("R1", policy=RULES)
async def decide_by_arguments(case: Case) -> None:
    """A condition over arguments allows, denies, or has a person asked."""
    assert "refund ran" in (await case.call("refund", amount=10)).text
    assert "refused" in (await case.call("refund", amount=1001)).text
    assert (await case.call("refund", amount=100)).waits is not None
    assert len(case.ran()) == 1


@check("R2", policy=RULES)
async def ask_where_an_argument_is_absent(case: Case) -> None:
    """A rule that cannot be applied because an argument is absent has a person asked."""
    assert (await case.call("refund")).waits is not None
    assert case.ran() == []


@check("R3", callers="PT", policy=RULES)
async def ask_where_a_type_is_wrong(case: Case) -> None:
    """So does one whose argument has a type that cannot be compared."""
    assert (await case.call("refund", amount="5")).waits is not None
    assert case.ran() == []


@check("R4", policy=RULES)
async def ask_where_an_argument_is_too_large(case: Case) -> None:
    """So does a call whose arguments are larger than a rule may look at."""
    left = await case.call("refund", amount=1, to="x" * 70_000)
    assert left.waits is not None
    assert case.ran() == []


@check("R5", policy=RULES)
async def decide_by_annotations(case: Case) -> None:
    """What only reads runs, what destroys is asked about, and the page says that it destroys."""
    assert "look ran" in (await case.call("look")).text
    assert (await case.call("delete")).waits is not None
    question = await case.question()
    assert "destructive" in {risk.kind for risk in question.item.risks}


@check("R6", policy=RULES)
async def decide_by_name(case: Case) -> None:
    """A glob over the tool's name allows."""
    assert (await case.call("count")).result["structuredContent"] == {"count": 1}


@check("R7", others=("bob", "carol"), policy=RULES)
async def decide_by_principal_and_server(case: Case) -> None:
    """One principal may what others are asked about, at one server."""
    assert "order ran" in (await case.call("order", who="carol")).text
    assert (await case.call("order", who="bob")).waits is not None
    assert len(case.ran()) == 1


@check("R8", others=("dave",), policy=RULES)
async def decide_by_time(case: Case) -> None:
    """A condition over hour and weekday denies."""
    assert "refused" in (await case.call("order", who="dave")).text
    assert case.ran() == []


@check("R9", others=("erin",), policy=RULES)
async def decide_by_history(case: Case) -> None:
    """What was called before counts: two calls run, the third is asked about."""
    said = [await case.call("order", who="erin", amount=amount) for amount in (1, 2, 3)]
    assert [each.waits is not None for each in said] == [False, False, True]
    assert len(case.ran()) == 2


@check("R10", policy=RULES)
async def let_the_strictest_rule_win(case: Case) -> None:
    """Deny outranks ask, and ask outranks allow, in whatever order the rules stand."""
    assert "refused" in (await case.call("pay", amount=1)).text
    assert (await case.call("linger")).waits is not None
    assert case.ran() == []


@check("R11", policy=RULES)
async def hold_the_rules_against_an_edit(case: Case) -> None:
    """An edit by a person cannot pass what a rule denies."""
    await case.call("refund", amount=50)
    await case.edit(amount=5000)
    assert (await case.call("refund", amount=50)).is_error
    assert case.ran() == []


@check("R12", callers="PT", policy=RULES)
async def compare_letter_by_letter(case: Case) -> None:
    """A tool's name in another case, or with a letter that looks like it, is not the tool that a rule allows."""
    for name in ("REFUND", "r\u0435fund"):
        assert (await case.call(name, amount=1)).is_error
    assert case.ran() == []


@check("R13", callers="PT", policy=RULES)
async def record_the_rule(case: Case) -> None:
    """The record of a refusal names the condition that decided."""
    await case.call("refund", amount=2000)
    code, said = await case.world.antiphon(
        "audit", "list", "--json", "-n", "0", "--step", "policy", "--store", case.world.store_file
    )
    assert code == 0
    assert "args.amount > 1000" in said


@check("R14", policy=RULES, more=("--review", "terminal"))
async def deny_without_a_person(case: Case) -> None:
    """Where nobody is to be asked, what a rule allows runs and all else is refused, what is unclear as well."""
    told = await case.call("refund", amount=10)
    assert "refund ran" in told.text, told
    # A host does not send what has another type than the tool declares.
    for arguments in ({"amount": 100}, {}, *(() if case.column.is_host else ({"amount": "5"},))):
        told = await case.call("refund", **arguments)
        assert (told.is_error, told.waits) == (True, None)
    assert len(case.ran()) == 1
    assert not await case.waiting()


@check("R15", policy=RULES, more=("--yes",))
async def deny_even_where_all_is_approved(case: Case) -> None:
    """Where all that would be asked about is approved, what a rule denies does not run."""
    assert "refund ran" in (await case.call("refund", amount=100)).text
    assert "refused" in (await case.call("refund", amount=2000)).text
    assert len(case.ran()) == 1


@check("R16", callers="PT")
async def refuse_to_start_with_a_broken_rule(case: Case) -> None:
    """A gateway whose policy has a condition that cannot be read does not start, and names the line."""
    policy = "[[policy.rules]]\neffect = \"deny\"\nwhen = 'args.amount >'\n"
    code, said = await case.world.antiphon(*case.world.command(policy=policy)[3:], "--http", "127.0.0.1:0")
    assert code != 0
    assert "when" in said


@check("R17", callers="PT")
async def say_beforehand_what_a_rule_decides(case: Case) -> None:
    """The command that explains a policy decides as the gateway does, and sends nothing."""
    settings = case.world.write(RULES, ".toml")
    for amount, verdict in ((10, "allow"), (100, "ask"), (2000, "deny")):
        call = case.world.write(f'{{"tool": "refund", "arguments": {{"amount": {amount}}}}}', ".json")
        code, said = await case.world.antiphon("policy", "explain", call, "--config", settings)
        assert code == (1 if verdict == "deny" else 0), said
        assert f"=> {verdict}" in said


@check("R18", policy='[gateway.servers.shop]\ntools = ["*", "!delete*"]\n')
async def hide_a_filtered_tool(case: Case) -> None:
    """A tool that a filter denies is neither listed nor callable."""
    names = [each["name"] for each in (await case.send("tools")).result["tools"]]
    assert "order" in names
    assert "delete" not in names
    assert (await case.call("delete")).is_error
    assert case.ran() == []


@check("R19", own=True, per_minute=3, shops=("limited",))
async def keep_the_rate(case: Case) -> None:
    """More calls of one server in a minute than it may have are refused, and nobody is asked."""
    told = [await case.call("order", amount=amount) for amount in range(4)]
    assert [each.waits is not None for each in told] == [True, True, True, False]
    assert told[3].is_error
    assert len(await case.waiting()) == 3
    for _ in range(3):
        await case.reject()
    assert case.ran() == []


@check("R20", policy=RULES, shops=("blocked",), alone=True)
async def obey_a_block(case: Case) -> None:
    """A blocked server runs nothing, not even what a rule allows; what waits from it is withdrawn."""
    await case.call("delete")
    question = await case.question()
    settle = await (await case.world.person()).decide(question.id, "deny", {"reach": ["server"]})
    assert settle.status_code == 200
    assert "refused" in (await case.call("look")).text
    assert await case.world.store.unblock(question.identity)
    assert "look ran" in (await case.call("look")).text
    assert [tool for tool, _ in case.ran()] == ["look"]


MODEL = """
[models.parrot]
provider = "echo"
model = "echo"
price = { input = 1000, output = 100000 }
[defaults.budget]
call = 0.01
[[policy.rules]]
effect = "allow"
"""


@check("R21", policy=MODEL, defaults='model = "parrot"', shops=("costly",))
async def keep_the_budget(case: Case) -> None:
    """A tool whose server asks the model for more than the budget of a call is refused that, whatever a rule allows."""
    told = await case.call("describe")
    assert told.is_error
    assert ("refused", "budget") in await case.steps()
