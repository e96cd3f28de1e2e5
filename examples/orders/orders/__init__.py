"""Orders meet prices: a Structured Streaming job, and nothing in it knows of embedkafka."""
