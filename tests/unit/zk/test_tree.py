"""The tree's rules under random transactions: all or nothing, and watches fire once."""

from hypothesis import given
from hypothesis import strategies as st

from embedkafka.zk.store import CheckOp, CreateOp, DeleteOp, Op, SetOp, WatchEvent, ZkError
from embedkafka.zk.tree import Applied, Tree

_PATHS = st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/a/x/z", "/b/x"])
_VERSIONS = st.sampled_from([-1, -1, 0, 1])
_OPS = st.one_of(
    st.builds(CreateOp, _PATHS, st.binary(max_size=2), st.booleans(), st.booleans()),
    st.builds(SetOp, _PATHS, st.binary(max_size=2), _VERSIONS),
    st.builds(DeleteOp, _PATHS, _VERSIONS),
    st.builds(CheckOp, _PATHS, _VERSIONS),
)


def snapshot(tree: Tree) -> list[tuple[object, ...]]:
    nodes = [(path, tree.require(path)) for path in tree.paths()]
    return [
        (path, node.data, node.stat(), sorted(node.children), node.creates) for path, node in nodes
    ] + [tuple(sorted(tree.ephemerals(session))) for session in (1, 2)]


def attempt(tree: Tree, ops: list[Op], session_id: int) -> Applied | ZkError:
    try:
        return tree.apply(ops, session_id=session_id, now_ms=5)
    except ZkError as error:
        return error


@given(st.lists(st.tuples(st.integers(1, 2), st.lists(_OPS, min_size=1, max_size=6)), max_size=12))
def test_a_failed_transaction_leaves_no_trace(
    transactions: list[tuple[int, list[Op]]],
) -> None:
    tree = Tree()
    for session_id, ops in transactions:
        before, zxid = snapshot(tree), tree.zxid
        applied = attempt(tree, ops, session_id)
        if isinstance(applied, ZkError):
            assert snapshot(tree) == before
            assert tree.zxid == zxid
            assert 0 <= applied.op_index < len(ops)
        else:
            assert len(applied.results) == len(ops)
            assert tree.zxid == zxid + 1
        for path in tree.paths():
            parent = path.rpartition("/")[0] or "/"
            assert path == "/" or tree.require(parent).children.keys() >= {path.rpartition("/")[2]}
    for session_id in (1, 2):
        tree.end_session(session_id, now_ms=6)
    assert not any(tree.require(path).owner for path in tree.paths())


@given(st.lists(_OPS, max_size=25))
def test_a_watch_fires_at_most_once(ops: list[Op]) -> None:
    tree = Tree()

    def watch(event: WatchEvent) -> None:
        raise AssertionError("the tree must not call watches")

    for path in ("/a", "/b", "/a/x"):
        tree.watch_data(path, (1, watch))
    fired: list[str] = []
    for op in ops:
        try:
            applied = tree.apply([op], session_id=2, now_ms=0)
        except ZkError:
            continue
        fired += [item.event.path for item in applied.fired]
    assert len(fired) == len(set(fired))
