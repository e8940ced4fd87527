from __future__ import annotations

import tomllib
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import ConfigError
from antiphon.host.checks.policy_rules import Rule
from antiphon.host.config import config_paths, load_config
from antiphon.host.config.settings import Caps, ServerBudget
from antiphon.host.config.toml_files import MAX_CONFIG, Lines, parse_document
from antiphon.host.model_catalogue import ModelPrice
from antiphon.identity import identity_of

TWO = "[models.a]\nprovider='echo'\nmodel='echo'\n[models.b]\nprovider='openai'\nmodel='gpt-5-mini'\n"


class Place:
    """A user's folder and a project's, with their files."""

    def __init__(self, root: Path) -> None:
        self.environ = {"XDG_CONFIG_HOME": str(root / "home")}
        self.project = root / "project"
        (root / "home" / "antiphon").mkdir(parents=True)
        self.project.mkdir()

    def write(self, *, user: str | None = None, project: str | None = None) -> None:
        for path, text in zip(config_paths(self.environ, self.project), (user, project), strict=True):
            if text is not None:
                path.write_text(text, encoding="utf-8")

    def load(self, **environ: str):
        return load_config({**self.environ, **environ}, folder=self.project)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Make both folders, without files."""
    return Place(tmp_path)


def test_no_file_is_fine(place: Place):
    """There is one model: that of the key in the environment, or one that lacks its key."""
    assert [model.provider for model in place.load().models] == ["anthropic"]
    assert [model.provider for model in place.load(OPENAI_API_KEY="k").models] == ["openai"]
    assert place.load().files == ()


def test_the_users_file_says_everything(place: Place):
    """What is public is filled in; the order is that of the file."""
    place.write(user=TWO)
    config = place.load()
    assert [model.name for model in config.catalogue()] == ["a", "b"]
    assert config.catalogue().get("b").context == 400_000
    assert config.files == (config_paths(place.environ, place.project)[0],)


def test_a_project_chooses_among_the_users_models(place: Place):
    """And makes things stricter."""
    place.write(user=TWO + "[defaults]\nmodel='a'", project="[defaults]\nmodel='b'\n[defaults.caps]\nmax_tokens=5")
    config = place.load()
    assert (config.default, config.for_server("x").caps.max_tokens) == ("b", 5)


@pytest.mark.parametrize(
    ("text", "section"),
    [
        (
            "\n[models.evil]\nprovider='openai'\nmodel='x'\nbase_url='http://evil.example'\nkey='OPENAI_API_KEY'",
            "models",
        ),
        ("\n[policy]\ndefault='allow'", "policy"),
        ("\n[review]\nundo=0", "review"),
        ("\n[[notify.targets]]\nurl='json://evil.example/'", "notify"),
        ("\n[auth]\nissuers=['https://evil.example']\naudience='x'", "auth"),
        ("\n[defaults]\nattempts = 99", "attempts"),
        ("\n[defaults]\nstore = 'theirs.db'", "store"),
        ("\n[defaults]\nkeep_content = true", "keep_content"),
    ],
)
def test_a_project_from_a_stranger_takes_nothing(place: Place, text: str, section: str):
    """Neither the key, by an address of its own, nor the review."""
    place.write(user=TWO, project=text)
    with pytest.raises(ConfigError, match=f"line 2: {section}: a project's file may not say this"):
        place.load()


def test_a_project_cannot_switch_the_review_off(place: Place):
    """However it says it."""
    place.write(project="[defaults]\nreview='never'\n[servers.s]\nidentity='x'\nreview='never'")
    assert place.load().for_server("x").review == "ask"


def test_a_named_file_is_the_only_one(place: Place, tmp_path: Path):
    """And may say everything."""
    place.write(user="nonsense", project="nonsense")
    own = tmp_path / "own.toml"
    own.write_text(TWO + "[policy]\ndefault='allow'", encoding="utf-8")
    config = load_config(place.environ, file=own, folder=place.project)
    assert (len(config.models), config.files) == (2, (own,))
    assert config.policy
    assert config.policy.default == "allow"


def test_a_file_that_cannot_be_read(place: Place, tmp_path: Path):
    """Is named."""
    with pytest.raises(ConfigError, match=r"none\.toml: No such file"):
        load_config({}, file=tmp_path / "none.toml")
    (tmp_path / "large.toml").write_bytes(b"#" * (MAX_CONFIG + 1))
    with pytest.raises(ConfigError, match="larger than"):
        load_config({}, file=tmp_path / "large.toml")
    (tmp_path / "latin.toml").write_bytes(b"# \xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_config({}, file=tmp_path / "latin.toml")


def test_a_project_that_names_no_model_of_the_users(place: Place):
    """Is told what there is."""
    place.write(user=TWO, project="[defaults]\nmodel='c'")
    with pytest.raises(ConfigError, match="no model 'c'; there are: a, b"):
        place.load()


def test_where_files_are_looked_for():
    """The user's by the XDG specification, for which a relative path is none; the project's in its folder."""
    user, project = config_paths({"HOME": "/home-of-me", "XDG_CONFIG_HOME": "relative"}, Path("here"))
    assert (str(user), str(project)) == ("/home-of-me/.config/antiphon/antiphon.toml", "here/antiphon.toml")


@pytest.mark.parametrize(
    ("said", "where"),
    [
        ("host.db", "{home}/antiphon/host.db"),
        ("/var/host.db", "/var/host.db"),
        ("memory", "memory"),
        ("default", "default"),
        ("postgresql://me@host/name", "postgresql://me@host/name"),
    ],
)
def test_a_store_is_the_same_from_every_folder(place: Place, said: str, where: str):
    """A file without a folder is beside the configuration."""
    place.write(user=f'[defaults]\nstore = "{said}"')
    assert place.load().store == where.format(home=place.environ["XDG_CONFIG_HOME"])


def test_a_store_in_the_home_of_an_unknown_user_is_named(place: Place):
    """A spelling mistake, and no fault of ours."""
    place.write(user='[defaults]\nstore = "~nobody-of-that-name/host.db"')
    with pytest.raises(ConfigError, match=r"~nobody-of-that-name/host\.db: there is no such user"):
        place.load()


def test_notices_go_where_the_user_says(place: Place):
    """The bell rings unless it is silenced; nobody is told unless a service is named."""
    assert (place.load().notify.bell, place.load().notify.targets) == (True, ())
    place.write(user="[notify]\nbell = false\n[[notify.targets]]\nurl = 'ntfy://hooks.example/x'")
    assert (place.load().notify.bell, place.load().notify.targets[0].url) == (False, "ntfy://hooks.example/x")
    place.write(user="[[notify.targets]]\nurl = 'hooks.example'")
    with pytest.raises(ConfigError, match="url is an address"):
        place.load()


AUTH = "[auth]\nissuers = ['https://id.example']\naudience = 'https://mcp.example/mcp'\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[auth]\naudience = 'x'", "needs issuers"),
        ("[auth]\nissuers = ['https://id.example']", "needs audience"),
        (f"{AUTH}introspection_client = 'gateway'", "belong together"),
        (f"{AUTH}introspection_client = 'gateway'\nintrospection_secret = 'p4ss-word'", "not the secret itself"),
        (f"{AUTH}secret = 'x'", "stay in the environment"),
        (f"{AUTH}issuer = 'x'", "did you mean 'issuers'"),
    ],
)
def test_who_may_connect_is_said_whole(place: Place, text: str, message: str):
    """Half of it would let in nobody, or everybody."""
    assert place.load().auth is None
    place.write(user=AUTH)
    assert place.load().auth.issuers == ("https://id.example",)
    place.write(user=text)
    with pytest.raises(ConfigError, match=message) as caught:
        place.load()
    assert "p4ss" not in str(caught.value)


def test_without_a_word_there_is_no_store(place: Place):
    """Nothing outlives the process."""
    assert place.load().store is None


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("kind", ["folder", "broken link", "locked"])
def test_a_file_that_cannot_be_read_does_not_pass_for_nothing(
    place: Place, own: bool, kind: str, monkeypatch: pytest.MonkeyPatch
):
    """Its rules would not hold, and nobody would be told."""
    path = config_paths(place.environ, place.project)[0 if own else 1]
    if kind == "folder":
        path.mkdir()
    elif kind == "broken link":
        path.symlink_to("nowhere")
    else:
        path.touch()

        def locked(self: Path) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "lstat", locked)
    with pytest.raises(ConfigError, match=r"antiphon\.toml: (cannot be read as a file|Permission denied)"):
        place.load()


def test_a_relative_target_is_one_of_the_files_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Wherever the program runs: another folder's file of the same name is another server."""
    for name in ("mine", "other"):
        (tmp_path / name).mkdir()
    file = tmp_path / "mine" / "antiphon.toml"
    file.write_text('[servers.a]\ntarget = ["python", "shop.py"]\n[servers.b]\ntarget = "shop.py"\ncwd = "sub"\n')
    monkeypatch.chdir(tmp_path / "other")
    first, second = load_config({}, file=file).servers
    assert first.find_identity == identity_of(["python", "shop.py"], cwd=str(tmp_path / "mine"))
    assert second.find_identity == identity_of(str(tmp_path / "mine" / "sub" / "shop.py"))


def test_how_people_review_is_said_by_the_user(place):
    """Five seconds to undo a permission, unless something else is said; what cannot be meant is refused."""
    assert (place.load().review.undo, place.load().review.reasons) == (5.0, ())
    place.write(user="[review]\nundo = 0\nreasons = ['Not ours']")
    assert (place.load().review.undo, place.load().review.reasons) == (0, ("Not ours",))
    for wrong in ("undo = 61", "undo = -1", f"reasons = {['x'] * 21}", "redo = 1"):
        place.write(user=f"[review]\n{wrong}")
        with pytest.raises(ConfigError):
            place.load()


EVERYTHING = """
[defaults]
model = "fast"
order = ["fast", "home"]
models = ["*"]
review = "ask"
review_response = "flagged"
review_timeout = 120
generate_timeout = 30.5
attempts = 2

[defaults.caps]
max_tokens = 1000
per_minute = 10
concurrent = 2
per_call = 5

[defaults.budget]
call = 0.1
server = 1
day = 2
total = 20.50

[models.fast]
provider = "openai"
model = "gpt-5-mini"
key = "WORK_KEY"
aliases = ["quick"]
family = "gpt-mini"
context = 100000
max_output = 4000
inputs = ["text", "image"]
tools = true
speed = 4
intelligence = 3
fallback = "home"

[models.fast.price]
input = 0.25
output = 2

[[models.fast.price.steps]]
above = 100000
input = 0.5
output = 3

[models.home]
provider = "openai-compatible"
model = "qwen3"
base_url = "http://127.0.0.1:11434/v1"
price = { input = 0, output = 0 }

[servers.shop]
target = ["python", "shop.py"]
models = ["home"]
review = "never"
review_response = "never"

[servers.shop.caps]
max_tokens = 300

[servers.far]
target = "https://example.com/mcp"

[servers.known]
identity = "command:abc"

[policy]
default = "ask"
headless = "deny"

[[policy.rules]]
effect = "deny"
over_tokens = 5000
"""

TEXT = '''\
# a comment = 1
[defaults]
model = "a"
order = [
  "a",  # [not.a.table]
  "b",
]

[models."my model"]
price = { input = 1, output = 2 }
note = """
x = 1
[y]
"""
last = 'it''s' # "

[servers.shop.caps]
max_tokens = 1

[[policy.rules]]
effect = "ask"
[[policy.rules]]
effect = "deny"
a.b = 1
'''


def test_everything_can_be_said():
    """And is read as it is meant."""
    document = parse_document(EVERYTHING, "antiphon.toml")
    fast, home = document.models
    assert (fast.name, fast.key, fast.aliases, fast.fallback) == ("fast", "WORK_KEY", ("quick",), "home")
    assert fast.price
    assert fast.price.cost(200_000, 0) == Decimal("0.1")
    assert home.price == ModelPrice(input=Decimal(0), output=Decimal(0))
    assert document.defaults.order == ("fast", "home")
    assert document.defaults.generate_timeout == 30.5
    assert document.defaults.budget == ServerBudget(
        call=Decimal("0.1"), server=Decimal(1), day=Decimal(2), total=Decimal("20.50")
    )
    shop, far, known = document.servers
    assert (shop.caps, shop.models, shop.review) == (Caps(max_tokens=300), ("home",), "never")
    assert far.find_identity.startswith("url:")
    assert known.find_identity == "command:abc"
    assert document.policy
    assert document.policy.rules == (Rule(effect="deny", over_tokens=5000),)


def test_nothing_need_be_said():
    """An empty file is a file."""
    assert parse_document("", "x").models == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = [", "f: not TOML: "),
        ("[default]\nmodel = 'a'", "f, line 1: default: there is no such key; did you mean 'defaults'?"),
        ("[defaults]\n\nmodle = 'a'", "f, line 3: defaults.modle: there is no such key; did you mean 'model'?"),
        ("[defaults.caps]\nmax_token = 5", "f, line 2: defaults.caps.max_token: there is no such key; did you mean"),
        ("[defaults.caps]\nzzz = 5", "zzz: there is no such key; there are: max_tokens, "),
        ("[defaults.caps]\nmax_tokens = 'many'", "f, line 2: defaults.caps.max_tokens: Expected `int"),
        ("[defaults.caps]\nmax_tokens = -1", "f, line 1: defaults.caps: max_tokens is 0 or more"),
        ("[defaults.budget]\nday = nan", "day is 0 or more"),
        ("[defaults]\nreview = 'maybe'", "f, line 2: defaults.review: Invalid enum value 'maybe'"),
        ("[defaults]\nattempts = 0", "attempts is above 0"),
        ("models = 3", "f, line 1: models: is a table: write [models.NAME]"),
        ("[[models]]\nname = 'a'", "f, line 1: models: is a table: write [models.NAME]"),
        ("policy = 'deny'", "f, line 1: policy: is a table: write [policy]"),
        ("[models]\na = 3", "f, line 2: models.a: is a table: write [models.a]"),
        ("[models.a]\nmodel = 'x'", "f, line 1: models.a: Object missing required field `provider`"),
        ("[models.a]\nname = 'x'", "f, line 2: models.a.name: the name is in the heading: [models.a]"),
        ("[models.a]\nprovider='openai'\nmodel='x'\nspeed = 6", "f, line 4: models.a.speed: Invalid enum value 6"),
        ("[models.a]\nprovider='openai'\nmodel='x'\nprice = {input = 1}", "f, line 4: models.a.price: Object missing"),
        (
            "[models.a]\nprovider='openai'\nmodel='x'\n[models.a.price]\ninput=1\noutput=-1",
            "f, line 4: models.a.price: a price is",
        ),
        (
            "[models.a]\nprovider='openai'\nmodel='x'\n[models.a.price]\ninput=1\noutput=1\n[[models.a.price.steps]]\nabov=2",
            "f, line 8: models.a.price.steps[0].abov: there is no such key",
        ),
        (
            "[models.a]\nprovider='openai'\nmodel='x'\nfallback='b'",
            "f, line 4: models.a.fallback: there is no model 'b'",
        ),
        (
            "[defaults]\nmodel='b'\n[models.a]\nprovider='openai'\nmodel='x'",
            "f, line 2: defaults.model: there is no model 'b'; there are: a",
        ),
        ("[servers.s]\nreview='ask'", "f, line 1: servers.s: needs either target or identity"),
        ("[servers.s]\ntarget='python x.py'", "as a list of words"),
        (
            "[models.a]\nprovider='opnai'\nmodel='x'",
            "f, line 2: models.a.provider: there is no provider 'opnai'; did you",
        ),
        ("[models.a]\nprovider='ollama'\nmodel='x'", 'what speaks as OpenAI does is "openai-compatible"'),
        (
            "[models.a]\nprovider='openai-compatible'\nmodel='x'",
            "f, line 1: models.a: openai-compatible needs a base_url",
        ),
        ("[[policy.rules]]\neffect='ask'\n[[policy.rules]]\nefect='ask'", "f, line 4: policy.rules[1].efect: "),
    ],
    ids=range(28),
)
def test_a_mistake_is_told_with_its_line(text: str, message: str):
    """And the remedy."""
    with pytest.raises(ConfigError) as error:
        parse_document(text, "f")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[models.a]\nprice = {input = 0,25}", "not TOML: .*line 2.*; a number is written with a point, as in 0.25"),
        ("[defaults.budget]\nday = 1,50", "line 2.*; a number is written with a point"),
        ("[defaults]\nreview = ask", 'line 2.*; a text stands in quotes, as in "ask"'),
        ("[defaults]\nreview = 'ask'\nreview = 'never'\n", "line 3.*; the same key stands there twice"),
        ("[defaults]\nattempts = '3'", "line 2: defaults.attempts: .*; write a whole number, without quotes"),
        ("[defaults]\nreview_timeout = '10m'", "line 2: .*; write a number, without quotes"),
        ("[gateway]\ntools = '!x'", r'line 2: gateway.tools: .*; write a list, as in \["..."\]'),
        ("[gateway]\nservers = ['a']", r"line 2: .*; write a table: \[gateway.servers\]"),
        ("[policy.rules]\neffect = 'deny'", r"line 1: policy.rules: .*; write \[\[policy.rules\]\]"),
        ("[[policy.rules]]\neffect = 'deny'\ntool = 'pay'", "line 3: .*tool: .*; a rule gives the tool's name as name"),
        ("[servers.s]\ncommand = 'npx'", "line 2: servers.s.command: .*; a server is named as target"),
        ("[[rules]]\neffect = 'deny'", r"line 1: rules: .*; rules are written \[\[policy.rules\]\]"),
        ("[budget]\nday = 5", r"line 1: budget: .*; for all servers it is \[defaults.budget\]"),
        ("review_timeout = 5", r"line 1: review_timeout: .*; it stands below \[defaults\]"),
        ("[review.sign_in]\nurl = 'x'\n[review.sign_in.roles]\nboss = ['*']", "line 3: review.sign_in.roles: .*'boss'"),
        ("[review.sign_in]\nurl = 'x'\n[review.sign_in.roles]\nadmin = 'a'", r"line 3: review.sign_in.roles: .*a list"),
    ],
)
def test_a_mistake_is_told_with_what_to_write(text: str, message: str):
    """An operator need not know what a parser calls it."""
    with pytest.raises(ConfigError, match=message):
        parse_document(text, "f")


@pytest.mark.parametrize(
    "line",
    ["key = 'sk-proj-abcdef0123456789'", "api_key = 'sk-proj-abcdef0123456789'", "token = 'sk-proj-abcdef0123456789'"],
)
def test_a_key_in_the_file_is_refused_and_not_repeated(line: str):
    """It belongs into the environment."""
    with pytest.raises(ConfigError, match=r"line 4.*environment") as error:
        parse_document(f"[models.a]\nprovider='openai'\nmodel='x'\n{line}", "f")
    assert "abcdef" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[servers.x]\nreview = "sometimes"', "line 2: servers.x.review: .*'sometimes'; there are: never, ask, refuse"),
        ('[[policy.rules]]\neffect = "maybe"', r"line 2: policy.rules\[0\].effect: .*; there are: deny, ask, allow"),
        ('[models.a]\nprovider = "echo"\nmodel = "e"\ninputs = ["smell"]', "line 4: .*; there are: text, image, audio"),
    ],
)
def test_a_word_that_is_none_is_told_with_those_there_are(text: str, told: str):
    """So that nobody need look them up."""
    with pytest.raises(ConfigError, match=told):
        parse_document(text, "f")


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (("defaults",), 2),
        (("defaults", "model"), 3),
        (("defaults", "order"), 4),
        (("defaults", "order", 1), 4),
        (("models",), 9),
        (("models", "my model"), 9),
        (("models", "my model", "price", "input"), 10),
        (("models", "my model", "note"), 11),
        (("models", "my model", "x"), 9),
        (("models", "my model", "last"), 15),
        (("servers", "shop"), 17),
        (("servers", "shop", "caps", "max_tokens"), 18),
        (("policy", "rules", 0, "effect"), 21),
        (("policy", "rules", 1, "effect"), 23),
        (("policy", "rules", 1, "a", "b"), 24),
        (("nowhere",), 1),
        ((), 1),
    ],
)
def test_a_place_has_a_line(place, line: int):
    """Or that of the nearest thing around it."""
    assert Lines(TEXT).of(place) == line


words = st.text("ab", min_size=1, max_size=2)


@given(
    st.lists(st.tuples(words, st.lists(words, unique=True)), unique_by=lambda table: table[0]),
    st.text("\n #", max_size=3),
)
def test_every_key_is_found_where_it_is(tables, between: str):
    """Whatever stands between."""
    blank = "".join(f"{part}\n" for part in between.split("\n") if not part.strip(" ") or part.lstrip().startswith("#"))
    written: list[str] = []
    expected = {}
    for table, keys in tables:
        written += [*blank.splitlines(), f"[{table}]"]
        expected[table,] = len(written)
        for key in keys:
            written.append(f"  {key} = 'x'")
            expected[table, key] = len(written)
    text = "\n".join(written)
    tomllib.loads(text)
    lines = Lines(text)
    assert {place: lines.of(place) for place in expected} == expected
