"""What Apache Kafka's DumpLogSegments says of log files."""

import re
import zipfile

# The tool counts from offset -1 in each file, so it prints "-1 is followed by" for every segment
# but the first, in Kafka's own logs too.
COMPLAINTS = re.compile(
    r"mismatch|isvalid: false|corrupt|(?<!-)\b\d+ is followed by|not found|out of order"
    r"|invalid bytes|exception",
    re.IGNORECASE,
)


def main_class(classpath: str) -> str:
    """The tool's main class, which has moved from the broker's jar to the tools' jar."""
    moved = "org/apache/kafka/tools/DumpLogSegments.class"
    for jar in classpath.split(":"):
        if "kafka-tools" in jar and moved in zipfile.ZipFile(jar).namelist():
            return "org.apache.kafka.tools.DumpLogSegments"
    return "kafka.tools.DumpLogSegments"


def complaints_in(text: str) -> list[str]:
    return [line for line in text.splitlines() if COMPLAINTS.search(line)]
