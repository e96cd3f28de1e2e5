from hypothesis import HealthCheck, settings

from embedkafka.runtime.locks import check_lock_ranks

check_lock_ranks(True)

# Timing on a busy machine says nothing about the code, so examples have no deadline. Our
# function-scoped fixtures hand out something fresh for each example.
settings.register_profile(
    "unhurried",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("unhurried")
