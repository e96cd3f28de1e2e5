"""What a test author holds as `kafka.faults`."""

from collections.abc import Callable

from embedkafka.faults.disk import Disk
from embedkafka.faults.request_faults import RequestFaults


class Faults:
    """Requests that go wrong, see `requests`, and `disk(broker_id)`, see `disk`.

    Brokers and the network fail through `kafka.broker(id)` and `kafka.partition(...)`.
    """

    def __init__(self, requests: RequestFaults, disk: Callable[[int], Disk]) -> None:
        self.error = requests.error
        self.delay = requests.delay
        self.drop_reply = requests.drop_reply
        self.disconnect = requests.disconnect
        self.clear = requests.clear
        self.disk = disk
