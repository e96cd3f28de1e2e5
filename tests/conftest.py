from hypothesis import HealthCheck, settings

from embedkafka.runtime.locks import check_lock_ranks

check_lock_ranks(True)

# A busy machine is not a fault of the code: how long an example takes says nothing here. And our
# fixtures that last for a test hand out something fresh for each example.
settings.register_profile(
    "unhurried",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("unhurried")
