#!/usr/bin/env bash
# Builds the files of a release and uses the wheel as a stranger would: installed into an empty
# environment, outside this checkout. `ci/release-check.sh v0.2.0` also compares the tag with the
# version. The tested files stay in dist/.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$PWD/.venv/bin/python
elsewhere=$(mktemp -d)
trap 'rm -rf "$elsewhere"' EXIT

say() { printf '\n== %s\n' "$*"; }

say "build"
rm -rf dist build/lib
"$python" -m build --outdir dist .
"$python" -m twine check --strict dist/*
wheel=$(echo "$PWD"/dist/embedkafka-*.whl)
if (($#)) && [[ $wheel != */embedkafka-"${1#v}"-* ]]; then
    echo "the tag is $1, the wheel ${wheel##*/}" >&2
    exit 1
fi

say "install the wheel with Spark"
pyspark=$(grep -o 'pyspark==[0-9.]*' pyproject.toml) # the release that the tests run with
cp -R examples/orders "$elsewhere/orders"
cd "$elsewhere"
"$python" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check "$wheel[pytest,spark]" "$pyspark"
venv/bin/python -m pip check

say "run the demo, and a test with both fixtures"
venv/bin/python orders/demo.py
cat > test_installed.py <<'TEST'
def test_a_row_arrives(kafka_topic, spark):
    kafka_topic.write(spark.createDataFrame([("hello",)], "value string"))
    assert [message.text for message in kafka_topic.read()] == ["hello"]
TEST
venv/bin/python -m pytest -q -p no:cacheprovider test_installed.py
