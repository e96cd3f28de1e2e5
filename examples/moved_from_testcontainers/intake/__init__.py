"""A service that takes in orders, exactly once; it knows nothing of embedkafka."""
