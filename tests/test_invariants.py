"""Which tests fail when an invariant of ARCHITECTURE §13 is broken. What is not built yet has no row:
snapshots, history, feed, Spark, the cluster (6, and parts of 1, 5, 7, 9).
"""

from __future__ import annotations

import importlib

import pytest

INVARIANTS: dict[str, dict[str, list[str]]] = {
    "1 acknowledged is readable after a crash, a checkpoint, a flush": {
        "engine.test_replay": [
            "test_a_crash_before_any_checkpoint_replays_to_the_same_state",
            "test_a_checkpoint_that_was_not_flushed_is_replayed_from_the_journal",
            "test_a_flushed_checkpoint_and_the_journal_behind_it_give_the_same_state",
            "test_a_random_history_is_the_same_after_a_crash_at_every_tenth_step",
        ],
        "engine.test_checkpoints": [
            "test_the_journal_is_trimmed_after_a_flush_and_not_before",
            "test_what_became_durable_during_a_flush_is_not_trimmed",
            "test_a_flush_that_fails_trims_nothing",
            "test_a_checkpoint_that_fails_once_loses_nothing",
        ],
        "engine.test_parts": [
            "test_a_checkpoint_between_the_parts_and_their_append_keeps_them_in_the_journal"
        ],
        "engine.test_expiry": ["test_a_crash_never_shortens_a_window_and_lengthens_it_by_an_eighth_at_most"],
        "contracts.test_journal": [
            "test_what_was_committed_is_read_in_order_now_and_after_a_restart",
            "test_trimming_takes_nothing_that_is_still_needed",
        ],
        "contracts.test_segment_failures": ["test_success_is_told_after_the_sync"],
        "contracts.test_store": ["test_a_checkpoint_that_failed_can_be_repeated_and_loses_nothing"],
        "contracts.test_store_durability": [
            "test_every_kind_of_key_survives_a_reopening_of_rocksdb_after_a_flush"
        ],
    },
    "2 nobody sees what a crash could undo": {
        "engine.test_visibility": [
            "test_appended_bytes_are_not_read_before_they_are_durable",
            "test_waiters_are_woken_once_per_commit_and_see_what_is_durable",
            "test_a_duplicate_of_an_append_in_flight_waits_for_it_and_fails_with_it",
            "test_refusals_drawn_from_speculative_state_wait_and_fail_with_it",
            "test_a_deletion_in_flight_is_not_seen_and_what_rests_on_it_waits",
        ],
        "engine.test_failed_commits": ["test_a_failed_commit_leaves_the_durable_state_as_it_was"],
        "engine.test_checkpoints": ["test_a_checkpoint_never_contains_speculative_state"],
        "engine.test_parts": ["test_a_body_of_3_mib_is_never_visible_in_part"],
        "contracts.test_journal": ["test_tail_and_read_do_not_pass_a_commit_in_flight"],
        "contracts.test_segment_failures": [
            "test_a_frame_that_was_written_and_not_synced_is_never_found",
            "test_a_crash_at_any_file_operation_of_a_start_does_not_bring_back_what_was_refused",
        ],
    },
    "3 bytes at an offset never change": {
        "engine.test_names_again": [
            "test_every_stream_of_a_name_has_an_incarnation_of_its_own_though_the_clock_stands_still",
            "test_an_incarnation_is_not_used_again_after_a_crash_with_a_clock_that_went_back",
            "test_an_offset_of_the_old_stream_is_refused_by_the_new",
            "test_the_new_streams_readers_get_its_own_bytes_and_not_the_old_ones",
        ],
        "engine.test_forks": ["test_a_fork_inherits_across_shards_and_goes_its_own_way"],
        "unit.test_offsets": ["test_any_other_pair_belongs_to_another_stream"],
        "contracts.test_store": ["test_runs_of_small_blocks_are_merged"],
    },
    "4 one order per stream; a producer's sequence commits at most once": {
        "engine.test_visibility": ["test_answers_of_one_commit_name_the_end_of_each_append"],
        "engine.test_failed_commits": [
            "test_after_a_failed_commit_appends_work_and_a_producer_goes_on",
            "test_an_unknown_outcome_that_is_found_gives_normal_answers",
            "test_past_the_deadline_the_outcome_is_told_as_unknown",
        ],
        "engine.test_replay": ["test_a_producers_memory_survives_replay_and_checkpoint"],
        "engine.test_admission": ["test_parked_requests_keep_their_order"],
        "unit.test_appends": ["test_producers", "test_conflicts_are_told_in_their_order"],
    },
    "5 message boundaries are the same in memory and store": {
        "engine.test_parts": ["test_message_ends_travel_with_the_parts"],
        "engine.test_forks": ["test_message_ends_below_a_fork_point_are_the_same_in_memory_and_in_the_store"],
        "engine.test_memory": ["test_many_small_appends_become_few_chunks_at_a_checkpoint"],
        "unit.test_bytes": ["test_regroup_keeps_bytes_and_ends_in_few_chunks_below_the_limit"],
        "contracts.test_store": ["test_message_ends_are_the_same_however_blocks_were_cut_and_merged"],
    },
    "7 memory is bounded by configuration": {
        "engine.test_memory": [
            "test_streams_with_bytes_leave_memory_too",
            "test_streams_that_were_only_read_leave_memory_too",
            "test_saved_bytes_stay_within_the_memory_budget_and_are_read_from_blocks",
            "test_a_long_read_is_handed_out_in_pieces",
        ],
        "engine.test_admission": ["test_the_bound_counts_every_record_that_waits_for_the_disk"],
        "engine.test_parts": ["test_no_record_is_larger_than_1_mib_however_many_messages"],
    },
    "8 corruption is detected and never served": {
        "contracts.test_store": [
            "test_a_damaged_block_is_detected_and_named",
            "test_a_missing_block_is_detected",
        ],
        "contracts.test_store_durability": [
            "test_damage_in_rocksdbs_files_is_detected_on_read_and_never_served"
        ],
        "contracts.test_segment_files": [
            "test_a_damaged_frame_before_an_intact_one_refuses_with_the_place",
            "test_a_damaged_frame_in_an_older_segment_refuses_though_nothing_follows_in_it",
            "test_a_damaged_header_refuses_when_frames_stand_behind_it",
        ],
        "engine.test_checkpoints": ["test_a_journal_whose_middle_is_missing_refuses_the_start"],
        "unit.test_records": ["test_any_flipped_bit_of_a_block_is_noticed"],
    },
    "9 a deletion is complete": {
        "engine.test_names_again": [
            "test_a_deletion_leaves_nothing_in_the_store",
            "test_a_reader_of_a_deleted_stream_is_told_that_it_vanished",
        ],
        "engine.test_forks": ["test_the_last_fork_takes_its_deleted_ancestors_with_it"],
        "contracts.test_store": ["test_a_removal_is_complete_and_touches_nobody_else"],
    },
}


@pytest.mark.parametrize("invariant", INVARIANTS)
def test_every_test_that_guards_an_invariant_exists(invariant: str) -> None:
    for module, names in INVARIANTS[invariant].items():
        found = vars(importlib.import_module(f"tests.{module}"))
        assert [name for name in names if name not in found] == [], module
