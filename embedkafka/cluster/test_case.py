"""`EmbeddedKafkaTestCase`: a cluster for the test classes of `unittest`.

Owner: the class holds its cluster from `setUpClass` to its class cleanups.
Not here: pytest's fixtures, which are a distribution of their own.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Final
from unittest import TestCase, TestResult

from embedkafka.cluster.embedded import EmbeddedKafka

_KEPT_OPEN: Final = (
    "`self.kafka` is the cluster of the class and ends with it. To close a cluster in a test, make "
    "one there, `with EmbeddedKafka() as own:`; to stop a broker, `self.kafka.broker(1).stop()`"
)


class EmbeddedKafkaTestCase(TestCase):
    """A test class with a cluster. No test sees what another did to it.

        class OrdersTest(EmbeddedKafkaTestCase):
            kafka_settings = {"brokers": 3, "topics": {"orders": 6}}

            def test_a_record_arrives(self):
                self.kafka.existing_topic("orders").send("hello")

    What `setUpClass` does to the cluster stays for all tests of the class; call
    `super().setUpClass()` first.
    """

    kafka_settings: ClassVar[Mapping[str, Any]] = {}  # Any: the arguments of EmbeddedKafka
    """The arguments of `EmbeddedKafka`."""
    kafka: ClassVar[EmbeddedKafka]
    """The cluster of the class."""
    _isolated: ClassVar[AbstractContextManager[object]]

    @classmethod
    def setUpClass(cls) -> None:
        """Starts the cluster."""
        super().setUpClass()
        cls.kafka = cls.enterClassContext(EmbeddedKafka(**cls.kafka_settings))
        cls.kafka._kept_open = _KEPT_OPEN
        cls._isolated = cls.kafka.isolated()

    def run(self, result: TestResult | None = None) -> TestResult | None:
        """Runs the test with its `setUp` and `tearDown`, and puts the cluster right after them.

        Args:
            result: collects the outcome, as `unittest` has it.
        """
        self.addCleanup(self.kafka.check)
        with self._isolated:
            return super().run(result)
