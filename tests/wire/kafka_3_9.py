"""The wire tests that fail on Apache Kafka 3.9 because they show what Kafka 4 changed.

3.9 is the oracle for the requests and record formats that 4.0 dropped (KIP-896), and for everything
both lines have in common. The tests listed here must fail on 3.9: one that passes fails the run.
"""

from collections.abc import Mapping, Sequence
from typing import Final

EVERY_TEST: Final = ("test_",)

#: Reason -> module, in whichever room -> prefixes of test names, with parameters where they matter.
DIFFERENCES: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "KIP-848: the consumer protocol is a preview in 3.9, and switched off": {
        "test_consumer_group_topics.py": EVERY_TEST,
        "test_consumer_groups.py": EVERY_TEST,
        "test_group_command.py": EVERY_TEST,
        "test_group_migration.py": EVERY_TEST,
        "test_api_versions.py": (
            "test_versions_that_stock_clients_send_are_supported[apache-CONSUMER_GROUP_DESCRIBE]",
            "test_versions_that_stock_clients_send_are_supported[apache-CONSUMER_GROUP_HEARTBEAT]",
        ),
        "test_consumers.py": (
            "test_a_group_goes_on_where_it_committed[apache-consumer]",
            "test_the_one_that_stays_takes_over[apache-consumer]",
            "test_two_members_share_the_partitions[apache-consumer]",
        ),
        "test_java_clients.py": (
            "test_a_group_shares_reads_commits_and_goes_on[java-3.9-apache-consumer]",
            "test_a_group_shares_reads_commits_and_goes_on[java-4-apache-consumer]",
        ),
    },
    "KIP-848: groups have settings since 4.0": {
        "test_group_configs.py": (
            "test_a_group_shows_the_brokers_settings_until_it_has_its_own",
            "test_a_group_has_every_setting_of_kafka_for_consumer_groups",
            "test_altering_replaces_all_settings_of_a_group",
            "test_every_broker_hears_of_a_groups_settings",
            "test_groups_have_names_and_their_settings_are_no_lists",
            "test_members_obey_their_groups_settings",
            "test_settings_that_cannot_be_are_refused[apache-settings0-",
            "test_settings_that_cannot_be_are_refused[apache-settings1-",
            "test_settings_that_cannot_be_are_refused[apache-settings2-",
            "test_settings_that_cannot_be_are_refused[apache-settings3-",
            "test_settings_that_cannot_be_are_refused[apache-settings4-",
            "test_settings_that_cannot_be_are_refused[apache-settings6-",
            "test_settings_that_cannot_be_are_refused[apache-settings7-",
        ),
    },
    "`internal.segment.bytes` came with 4.1": {
        "test_odd_requests.py": (
            "test_a_refused_batch_starts_a_segment_too",
            "test_a_time_is_looked_for_in_one_segment_only",
        ),
    },
    "4.x answers odd requests otherwise": {
        "test_odd_requests.py": (
            "test_a_batch_that_waits_for_its_coordinator_keeps_later_ones_out",
            "test_members_show_their_assignments_during_a_rebalance",
        ),
    },
    "KIP-890: transactions of version 2 came with 4.0": {
        "test_api_versions.py": (
            "test_versions_that_stock_clients_send_are_supported[apache-END_TXN]",
            "test_versions_that_stock_clients_send_are_supported[apache-TXN_OFFSET_COMMIT]",
        ),
        "test_transactions_v2.py": (
            "test_a_batch_sent_twice_is_written_once",
            "test_a_batch_that_came_before_the_first_one_is_taken_after_it",
            "test_a_java_producer_whose_transaction_timed_out_learns_of_it[java-4-apache]",
            "test_a_new_producer_with_the_same_id_fences_the_old",
            "test_a_transaction_begins_with_sequence_0",
            "test_a_transaction_that_takes_too_long_is_aborted",
            "test_an_end_that_is_asked_for_twice_answers_the_same",
            "test_an_unused_producer_has_no_former_epoch_to_end",
            "test_batches_of_an_ended_transaction_are_refused",
            "test_both_versions_may_take_turns",
            "test_committing_offsets_adds_their_partition",
            "test_every_end_gives_the_next_epoch",
            "test_leaders_add_partitions_to_the_transaction",
            "test_nothing_can_be_aborted_but_not_committed",
            "test_offsets_of_an_aborted_transaction_are_forgotten",
            "test_the_broker_says_that_it_has_version_2",
            "test_the_coordinator_may_be_another_broker",
            "test_the_end_of_a_strangers_epoch_is_refused",
            "test_version_3_of_api_versions_cannot_tell_of_features_from_0_on",
            "test_writing_adds_the_partition",
        ),
    },
    "KIP-1030: records from the future are invalid by default since 4.0": {
        "test_broken_records.py": ("test_a_header_cannot_hide_a_time_that_is_too_late",),
        "test_configs.py": ("test_a_topic_has_every_config_of_kafka_with_its_default_and_type",),
        "test_produce.py": ("test_the_future_is_invalid_by_default_and_the_past_is_not",),
    },
    "KIP-848: the group coordinator of 3.9 forgets empty groups and knows other errors": {
        "test_java_clients.py": ("test_the_admin_manages_groups",),
    },
    "these tests send request versions that came with 4.0 or later": {
        "test_configs.py": (
            "test_client_metrics_are_subscribed_listed_and_forgotten",
            "test_the_first_version_lists_client_metrics_only",
            "test_what_has_settings_is_listed_by_type",
        ),
        "test_quorum.py": ("test_controllers_describe_controllers_and_brokers_brokers",),
        "test_produce.py": ("test_one_bad_partition_does_not_stop_the_others",),
        "test_transaction_admin.py": (
            "test_a_state_that_is_not_known_is_told_of",
            "test_transactions_are_listed_by_a_pattern_for_the_whole_id",
            "test_transactions_are_listed_by_how_long_they_run",
            "test_transactions_are_listed_by_state_and_producer",
            "test_whoever_starts_with_an_id_ends_its_open_transaction",
        ),
    },
    "3.9 lets advertised.listeners change while the broker runs": {
        "test_configs.py": ("test_what_clients_are_told_cannot_change_while_a_broker_runs",),
    },
    "3.9 prints the names of refused settings as a set of Scala": {
        "test_listener_settings.py": (
            "test_a_listener_is_one_brokers",
            "test_settings_of_all_listeners_that_do_not_change",
        ),
    },
    "3.9 has other settings, of other types and with other checks": {
        "test_config_refusals.py": (
            "test_a_test_may_have_segments_of_any_size",
            "test_listeners_and_directories_are_lists",
        ),
        "test_configs.py": ("test_a_broker_describes_all_keys_of_kafka_with_type_and_default",),
    },
    "4.x answers otherwise": {
        "test_failed_logins.py": (
            "test_a_client_that_breaks_the_protocol_is_not_held[apache-with_nonsense]",
            "test_a_client_that_breaks_the_protocol_is_not_held[apache-without_a_handshake]",
        ),
        "test_quorum.py": ("test_a_broker_that_never_was_cannot_be_unregistered",),
        "test_moves_and_elections.py": (
            "test_a_move_may_keep_the_number_of_replicas",  # KIP-860
        ),
    },
    "the tools of 4.x print what a broker of 3.9 does not say": {
        "test_quorum_tools.py": (
            "test_cluster_cannot_unregister_a_broker_that_never_was",
            "test_cluster_shows_its_id_and_where_its_nodes_answer",
            "test_features_lists_the_metadata_version",
        ),
    },
}


def find_difference(module: str, test: str) -> str | None:
    """Why this test, named with its parameters, must fail on 3.9; None if it must pass."""
    for why, modules in DIFFERENCES.items():
        if test.startswith(tuple(modules.get(module, ()))):
            return why
    return None
