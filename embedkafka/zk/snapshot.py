"""A tree of znodes as bytes, from which a cluster can restart."""

import base64
import json
from typing import Any, Final

from embedkafka.zk.tree import Tree, Znode

_VERSION: Final = 1
_NUMBERS: Final = ("czxid", "mzxid", "pzxid", "ctime", "mtime", "version", "creates")


class BadSnapshot(Exception):
    """The bytes are no snapshot, or one of an unknown version."""


def encode_tree(tree: Tree, *, ephemerals: bool = False) -> bytes:
    """All znodes, with their versions and transaction ids.

    Without `ephemerals`, only znodes that outlive the sessions, for the next cluster.
    """
    nodes = [
        {
            "path": path,
            "data": base64.b64encode(node.data).decode(),
            **{name: getattr(node, name) for name in _NUMBERS},
            **({"owner": node.owner} if node.owner else {}),
        }
        for path, node in tree.znodes()
        if ephemerals or not node.owner
    ]
    return json.dumps({"version": _VERSION, "zxid": tree.zxid, "nodes": nodes}).encode()


def decode_tree(data: bytes) -> Tree:
    """Reverses `encode_tree`."""
    try:
        content = json.loads(data)
        if content["version"] != _VERSION:
            raise BadSnapshot(f"version {content['version']} instead of {_VERSION}")
        tree = Tree()
        tree.zxid = content["zxid"]
        for fields in content["nodes"]:
            tree.put_back(fields["path"], _node(fields))
    except (ValueError, KeyError, TypeError) as error:
        raise BadSnapshot(f"{error!r}") from error
    return tree


def _node(fields: dict[str, Any]) -> Znode:  # Any: JSON values have no common type
    node = Znode(
        base64.b64decode(fields["data"]),
        zxid=fields["czxid"],
        now_ms=fields["ctime"],
        owner=fields.get("owner", 0),
    )
    for name in _NUMBERS:
        setattr(node, name, int(fields[name]))
    return node
