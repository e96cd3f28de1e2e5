"""A real multi-broker Kafka cluster inside the test process."""
