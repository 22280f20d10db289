#include "sim/mutants/mutants.hpp"

// Faults of the state machine of a connection, src/servers/redis/connection_fsm.
namespace conch::sim {

std::span<mutant const> connection_mutants() {
  static mutant const all[] = {
      {"half-message-kept", "a new connection begins with what was left of the one before", "P10",
       engine_mutant::half_message_kept},
      {"unwritten-commands-kept", "what was not written when a connection ended is written on the next", "P8",
       engine_mutant::unwritten_commands_kept},
      {"flush-claimed-for-ever", "what was to be written when a connection ended is waited for on the next", "P4",
       engine_mutant::flush_claimed_for_ever},
      {"write-not-awaited", "the bytes of a write change before the stream has taken them", "P10",
       engine_mutant::write_not_awaited},
      {"missed-flush-forgotten", "what is sent while a write is under way waits for the next command", "P4",
       engine_mutant::missed_flush_forgotten},
      {"rest-not-written", "of what a stream takes in parts the rest is not written", "P10",
       engine_mutant::rest_not_written},
      {"rest-begins-anew", "of what a stream takes in parts the beginning is written again", "P10",
       engine_mutant::rest_begins_anew},
      {"no-connect-timeout", "an attempt to connect has no end", "P4", engine_mutant::no_connect_timeout},
      {"first-address-only", "of a host with several addresses only the first is tried", "P4",
       engine_mutant::first_address_only},
      {"back-off-does-not-grow", "the pauses between attempts to connect do not grow", "P10",
       engine_mutant::back_off_does_not_grow},
      {"back-off-not-reset", "after a connection that lasted the next is not made at once", "P4",
       engine_mutant::back_off_not_reset},
      {"drop-ignored", "a connection that is to be dropped is kept", "P4", engine_mutant::drop_ignored},
      {"drop-outlives-connection", "the connection after one that was dropped hears nothing", "P4",
       engine_mutant::drop_outlives_connection},
      {"rest-of-turn-forgotten", "what a turn has left of what came in waits for what comes next", "P4",
       engine_mutant::rest_of_turn_forgotten},
      {"subscription-unanswered", "the answer to a subscription is taken for a push", "P10",
       engine_mutant::subscription_unanswered},
      {"asked-when-answered", "the server's time in a greeting is that of its arrival", "†4",
       engine_mutant::asked_when_answered},
      {"lost-connection-untold", "the protocol is not told that a connection has ended", "P4",
       engine_mutant::lost_connection_untold},
      {"refusal-is-for-now", "a server that refuses its user is asked again, and nobody is told", "P11",
       engine_mutant::refusal_is_for_now},
      {"answers-dealt-backwards", "the answers of a script for several locks go to the wrong ones", "P3",
       engine_mutant::answers_dealt_backwards},
      {"gathered-cleanup-of-another", "a clean-up in a script for several locks names the id of another lock", "P6",
       engine_mutant::gathered_cleanup_of_another},
      {"gathered-error-hides", "an error of one lock in a script for several hides what was taken before it", "P6",
       engine_mutant::none, "gathered", "local fine, answer = pcall(work, argument)",
       "local fine, answer = true, work(argument)"},
      {"gathered-release-passes-nothing-on", "a release in a script for several locks forgets its waiters", "P4",
       engine_mutant::none, "gathered",
       "all_plain = all_plain and redis.pcall('EXISTS', unpack(KEYS, first_key + returned + 1, first_key + 2 * "
       "returned)) == 0",
       ""},
  };
  return all;
}

}  // namespace conch::sim
