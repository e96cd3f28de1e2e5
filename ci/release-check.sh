#!/usr/bin/env bash
# Builds the files of a release and uses them as a stranger would: installed into an empty
# environment, outside this checkout. `ci/release-check.sh v0.2.0` also compares the tag with the
# version. The tested files stay in dist/.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$PWD/.venv/bin/python
elsewhere=$(mktemp -d)
trap 'rm -rf "$elsewhere"' EXIT

say() { printf '\n== %s\n' "$*"; }

install() { # <environment> <requirement>...
    "$python" -m venv "$elsewhere/$1"
    "$elsewhere/$1/bin/python" -m pip install --quiet --disable-pip-version-check "${@:2}"
    "$elsewhere/$1/bin/python" -m pip check
}

say "build"
rm -rf dist build/lib
rm -rf pytest_plugin/build
"$python" -m build --outdir dist .
"$python" -m build --outdir dist pytest_plugin
"$python" -m twine check --strict dist/*
"$python" ci/release_contents.py dist ${1+"$1"}
wheel=$(echo "$PWD"/dist/embedkafka-*.whl)
sdist=$(echo "$PWD"/dist/embedkafka-*.tar.gz)
plugin_wheel=$(echo "$PWD"/dist/pytest_embedkafka-*.whl)
plugin_sdist=$(echo "$PWD"/dist/pytest_embedkafka-*.tar.gz)

# A user's first test: fixtures, cluster and client all come from the package.
cat > "$elsewhere/test_installed.py" <<'TEST'
def test_a_record_arrives(kafka_topic):
    kafka_topic.send("hello")
    assert [message.text for message in kafka_topic.read()] == ["hello"]
TEST
cp -R examples/orders "$elsewhere/orders"
cd "$elsewhere"

say "install the sdists"
install from-sdist "$sdist[pytest]" "$plugin_sdist"
from-sdist/bin/python -m pytest -q -p no:cacheprovider test_installed.py
from-sdist/bin/embedkafka up -- true

say "install the wheels"
install from-wheel "$wheel[pytest,spark]" "$plugin_wheel" pyspark==4.0.0 # the release that the tests run with
from-wheel/bin/python -m pytest -q -p no:cacheprovider test_installed.py
from-wheel/bin/embedkafka up -- true

say "run the demo with the wheels"
from-wheel/bin/python orders/demo.py
