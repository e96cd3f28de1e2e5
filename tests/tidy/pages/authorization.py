"""docs/reference/authorization.md: the rights that each API needs, from the rows of the APIs."""

from embedkafka.broker.api_table import SERVED, load_api
from embedkafka.broker.authorization.needs import permissions
from tests.tidy.pages.compatibility import api_name
from tests.tidy.pages.tables import table

HEAD = """# Authorization

`make docs` writes this page from the rows of the APIs, in `embedkafka/broker/apis`, by which
the broker itself checks requests. The wire tests compare it with Apache Kafka 4.x.

With `authorizer.class.name` set, a client may do what [ACLs](../how-to/acls.md) allow. The API's
answer has an error for what they do not allow, TOPIC_AUTHORIZATION_FAILED for instance; lists leave
it out. READ, WRITE, DELETE and ALTER include DESCRIBE; ALTER_CONFIGS includes DESCRIBE_CONFIGS.

"""

TAIL = """
Everyone may send {free}.
"""


def render() -> str:
    listed = [
        (api_name(api), operation.name, resource.name, remark)
        for api in sorted(SERVED)
        for need in load_api(api).needs
        for operation, resource, remark in permissions(need)
    ]
    rows = list(dict.fromkeys(listed))
    free = ", ".join(api_name(api) for api in sorted(SERVED) if not load_api(api).needs)
    return HEAD + table(("API", "operation", "resource", "when"), rows) + TAIL.format(free=free)
