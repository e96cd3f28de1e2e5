"""docs/reference/settings.md: every setting of brokers, topics and groups, from the key tables."""

from collections.abc import Iterable, Iterator, Mapping

from embedkafka.broker.settings.broker_keys import BROKER_KEYS
from embedkafka.broker.settings.definition import MAX_DOUBLE, ConfigKey, Update
from embedkafka.broker.settings.group import GROUP_KEYS, broker_key
from embedkafka.broker.settings.ignored_keys import IGNORED_KEYS, INERT_TOPIC, UNLISTED_DOCS
from embedkafka.broker.settings.listener_keys import find_inert
from embedkafka.broker.settings.topic_keys import SYNONYMS, TOPIC_KEYS
from embedkafka.broker.settings.view import documentation
from embedkafka.cluster.config import DECIDED_HERE, REMOTE_DEFAULTS, TEST_DEFAULTS
from embedkafka.wire.protocol.wire_types import MAX_INT, MAX_LONG
from tests.presence import present
from tests.tidy.pages.tables import table

HEAD = """# Settings

`make docs` writes this page from the tables that the broker itself reads its settings with. The
tests check that it is current.

Every setting has Kafka's name, type, limits and default, unless a table below says otherwise. Names
and defaults are those of Kafka 3.9, the last release with ZooKeeper, and the newer defaults of 4.x
where both releases have the setting.

| settings of | are given by |
|---|---|
| brokers | `EmbeddedKafka(config={...})`; pytest's `--kafka-config`; `embedkafka serve --config` |
| topics | `kafka.topic(name, config={...})`, `TopicSpec(config={...})` |
| groups | any admin client, at run time |

Any admin client can change them at run time too, where Kafka allows it.

- Unknown names and invalid values raise one `ConfigError`, whose message names all of them.
- A setting [without effect](#settings-without-effect) produces a `ConfigWarning` with the reason.
- One marked *refused* raises `ConfigError`: if it were ignored, a test could pass that should fail.

`broker.id` is the id of the first broker; the others count up from it. So do the fixed ports in
`listeners` and `advertised.listeners`. Port 0 in `listeners` takes a free port, and clients learn
that one. The cluster's `host` and `port` take the place of what `listeners` says; a listener
without a host is on `127.0.0.1`. A listener on `0.0.0.0` or `::` gives clients this machine's own
address, unless `advertised.listeners` or the cluster's `advertise` names another.
"""

TUNED_HEAD = """
## Defaults tuned for tests

Kafka's defaults suit clusters that run for years; these suit clusters that live for seconds. They
are ordinary static broker settings: DescribeConfigs shows them, and `config={...}` sets them back.
`EmbeddedKafka(defaults="kafka")` and `embedkafka serve --kafka-defaults` set all of them back.
Kafka has no setting for one of them, `internal.isr.change.linger.ms`: its value is in Kafka's code.

"""

TUNED: Mapping[str, str] = {
    "add.partitions.to.txn.retry.backoff.ms": "the next transaction begins sooner",
    "controlled.shutdown.retry.backoff.ms": "the retries outlast a controller's session",
    "group.consumer.heartbeat.interval.ms": "a member hears of its partitions this soon",
    "group.consumer.min.heartbeat.interval.ms": "allows the interval above",
    "group.initial.rebalance.delay.ms": "a group does not wait for members that never come",
    "group.min.session.timeout.ms": "tests may ask for short sessions",
    "internal.isr.change.linger.ms": "metadata show a changed ISR sooner",
    "leader.imbalance.check.interval.seconds": "leaders return to preferred replicas sooner",
    "log.initial.task.delay.ms": "retention spares old timestamps that a test writes on purpose",
    "num.io.threads": "network threads run requests themselves: no hand-over between threads",
    "num.network.threads": "one is enough for a test",
    "offsets.topic.num.partitions": "the first group starts sooner",
    "replica.fetch.backoff.ms": "a follower tries again sooner",
    "replica.lag.time.max.ms": "a slow follower leaves the in-sync replicas sooner",
    "socket.listen.backlog.size": "all clients of a test connect at once",
    "transaction.state.log.num.partitions": "the first transaction starts sooner",
    "zookeeper.session.timeout.ms": "a killed broker is missed after this long",
}
"""Why each default differs. A default without a reason here fails the rendering."""

TUNED_FOOT = """
`offsets.topic.replication.factor` and `transaction.state.log.replication.factor` are 3, or the
number of brokers if there are fewer. `transaction.state.log.min.isr` is 2, or 1 with one broker.

`auto.create.topics.enable` is `true`, as in Kafka. Topics that the end of a test has removed stay
away from [clients that outlive the test](../how-to/isolation.md#clients-that-outlive-a-test).

On a real ZooKeeper (`zookeeper=`), these apply instead, because its sessions live in real time:

"""

BROKER_HEAD = """
## Broker settings

These work as in Kafka. *Changes* says whether an admin client can change the setting while brokers
run: for all of them, for each broker, or not at all.

"""

TOPIC_HEAD = """
## Topic settings

A topic that does not set one of these uses the broker setting in the third column.

"""

GROUP_HEAD = """
## Group settings

A group that does not set one of these uses the broker setting in the third column.

"""

INERT_HEAD = """
## Settings without effect

Every other setting of Kafka works, including changes at run time. These do not:

- Setting one produces a `ConfigWarning` (the command prints a line on stderr), unless the value is
  the default.
- Setting one marked *refused* raises `ConfigError`.
- Changing one at run time answers INVALID_REQUEST with the reason. Those of Kerberos may change on
  a broker without SASL, where Kafka would not use them either.

A name that ends in a dot stands for all names that begin with it.

"""

DECIDED_HEAD = """
A cluster in one process decides these itself:

"""

INERT_TOPIC_HEAD = """
Topics accept these, as Kafka does:

"""

CHANGES = {Update.READ_ONLY: "no", Update.PER_BROKER: "per broker", Update.CLUSTER_WIDE: "all"}


def render() -> str:
    return "".join(
        (
            HEAD,
            TUNED_HEAD,
            table(["setting", "Kafka", "here", "why"], _tuned()),
            TUNED_FOOT,
            table(["setting", "Kafka", "here"], _remote()),
            BROKER_HEAD,
            table(["setting", "default", "changes", "meaning"], _broker()),
            TOPIC_HEAD,
            table(["setting", "default", "broker setting", "meaning"], _topic()),
            GROUP_HEAD,
            table(["setting", "default", "broker setting", "meaning"], _group()),
            INERT_HEAD,
            table(["broker setting", "what it would do", "why it does not"], _inert()),
            DECIDED_HEAD,
            table(["broker setting", "why it has no effect"], _plain(DECIDED_HERE.items())),
            INERT_TOPIC_HEAD,
            table(
                ["topic setting", "what it would do", "why it does not"],
                ((f"`{name}`", TOPIC_KEYS[name].doc, i.reason) for name, i in INERT_TOPIC.items()),
            ),
        )
    )


def _tuned() -> Iterator[tuple[str, ...]]:
    for name, here in sorted(TEST_DEFAULTS.items()):
        yield f"`{name}`", _default(BROKER_KEYS[name]), f"`{here}`", TUNED[name]


def _remote() -> Iterator[tuple[str, ...]]:
    for name, here in sorted(REMOTE_DEFAULTS.items()):
        yield f"`{name}`", _default(BROKER_KEYS[name]), f"`{here}`"


def _broker() -> Iterator[tuple[str, ...]]:
    for name, key in sorted(BROKER_KEYS.items()):
        if find_inert(name) is None and name not in DECIDED_HERE:
            yield (
                f"`{name}`",
                _default_here(name, key),
                CHANGES[key.update],
                present(documentation(name)),
            )


def _topic() -> Iterator[tuple[str, ...]]:
    for name, key in sorted(TOPIC_KEYS.items()):
        if name not in INERT_TOPIC:
            synonyms = ", ".join(f"`{synonym.name}`" for synonym in SYNONYMS.get(name, ()))
            yield f"`{name}`", _default(key), synonyms or "none", present(documentation(name))


def _group() -> Iterator[tuple[str, ...]]:
    for name, key in sorted(GROUP_KEYS.items()):
        broker = broker_key(name)
        yield f"`{name}`", _default_here(broker, key), f"`{broker}`", present(documentation(name))


def _inert() -> Iterator[tuple[str, ...]]:
    for name, what in sorted(
        [*((key.name, key.doc) for key in IGNORED_KEYS), *UNLISTED_DOCS.items()]
    ):
        inert = find_inert(name)
        if inert is not None:
            yield f"`{name}`{' *refused*' if inert.refused else ''}", what, inert.reason


def _plain(rows: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    return ((f"`{name}`", reason) for name, reason in sorted(rows))


def _default_here(name: str, key: ConfigKey) -> str:
    return f"`{TEST_DEFAULTS[name]}`" if name in TEST_DEFAULTS else _default(key)


def _default(key: ConfigKey) -> str:
    match key.default:
        case None | () | "":
            return "none"
        case bool() as value:
            return f"`{str(value).lower()}`"
        case value if value in (MAX_INT, MAX_LONG, MAX_DOUBLE):
            return "no limit"
        case tuple() as values:
            return f"`{','.join(values)}`"
        case value:
            return f"`{value}`"
