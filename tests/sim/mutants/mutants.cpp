#include "sim/mutants/mutants.hpp"

#include "base/turns.hpp"
#include "servers/redis/scripts.hpp"
#include "sim/model/sha1.hpp"

#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

constinit thread_local std::size_t conch::in_one_turn = 1'000;

namespace conch::sim {

constinit thread_local engine_mutant active_engine_mutant = engine_mutant::none;

namespace {

struct variant_of_script {
  redis::script const* original = nullptr;
  std::string source, sha1;
};

thread_local mutant const* active = nullptr;
thread_local bool steps_are_small = false;
thread_local std::vector<variant_of_script> variants_of[2];  // of the active mutant; the second with small steps
thread_local bool made[2] = {true, false};

std::vector<variant_of_script>& variants_now();

/// What is wrong in the script of one lock is so in that for several, too, whose bodies are the same.
bool concerns(mutant const& m, std::string_view script) {
  return m.script.empty() || m.script == script ||
         (script == "gathered" && (m.script == "acquire" || m.script == "release"));
}

std::string with_substitution(redis::script const& s, mutant const& m, bool& matched) {
  std::string text{s.source};
  if (concerns(m, s.name)) {
    for (auto at = text.find(m.from); at != std::string::npos; at = text.find(m.from, at + m.to.size())) {
      matched = true;
      text.replace(at, m.from.size(), m.to);
    }
  }
  return text;
}

std::vector<variant_of_script>& variants_now() {
  std::size_t const which = steps_are_small ? 1 : 0;
  std::vector<variant_of_script>& variants = variants_of[which];
  if (std::exchange(made[which], true)) return variants;
  variants.clear();
  bool const mutates = active != nullptr && !active->from.empty();
  bool matched = !mutates;
  for (auto const& s : redis::all_scripts()) {
    std::string text = mutates ? with_substitution(s, *active, matched) : std::string{s.source};
    if (steps_are_small) {
      std::pair<std::string, std::int64_t> const bounds[] = {{"local most_steps = ", small_steps},
                                                             {"local few_owners = ", small_few_owners}};
      for (auto const& [line, number] : bounds) {
        if (auto const at = text.find(line); at != std::string::npos)
          text.replace(at, text.find_first_of(" \n", at + line.size()) - at, line + std::to_string(number));
      }
    }
    std::string sha1 = sha1_hex(text);
    variants.push_back({&s, std::move(text), std::move(sha1)});
  }
  if (!matched) throw std::logic_error{"mutant " + std::string{active->name} + ": its text is in no script any more"};
  return variants;
}

redis::script const* script_of(std::string_view sha1_or_source) {
  for (auto const& s : redis::all_scripts()) {
    if (s.sha1 == sha1_or_source || s.source == sha1_or_source) return &s;
  }
  for (auto const& v : variants_now()) {
    if (v.sha1 == sha1_or_source || v.source == sha1_or_source) return v.original;
  }
  return nullptr;
}

variant_of_script const* variant(std::string_view sha1_or_source) {
  for (auto const& v : variants_now()) {
    if (v.original->sha1 == sha1_or_source || v.original->source == sha1_or_source) return &v;
  }
  return nullptr;
}

// The rule: a section of the design, with its mark where it has one, or a promise.
constexpr mutant mutants[] = {
    {"rest-of-a-connection-forgotten", "what a new connection does not ask again in its first turn it never does", "†4",
     engine_mutant::rest_of_a_connection_forgotten},
    {"source-never-again", "a script that a server forgets twice is not sent to it again", "P4",
     engine_mutant::source_never_again},
    {"old-connections-live-on", "a new connection does not end the old one", "†4",
     engine_mutant::old_connections_live_on},
    {"ended-looked-for", "another server is asked about a hold whose end has passed, under the same id", "P6",
     engine_mutant::ended_looked_for},
    {"leave-timed-anew", "a leave has a command time-out anew for each connection that loses its answer", "P4",
     engine_mutant::leave_timed_anew},
    {"cleanups-not-repeated", "a release without an answer is not repeated after a reconnect", "P6",
     engine_mutant::cleanups_not_repeated},
    {"not-asked-again", "a new connection does not ask again for what is queued", "†4", engine_mutant::not_asked_again},
    {"failure-not-cleaned-up", "an acquire that failed is not cleaned up", "P6", engine_mutant::failure_not_cleaned_up},
    {"no-not-after", "without CLIENT KILL an acquire carries no not-after", "†4", engine_mutant::no_not_after},
    {"sample-kept", "a sample of the server's clock is kept over a reconnect, though another server may answer there",
     "†4", engine_mutant::sample_kept},
    {"subscribed-last", "a new connection asks again before it can hear of a grant", "†4",
     engine_mutant::subscribed_last},
    {"no-command-timeout", "a server that does not answer is waited for without end", "4",
     engine_mutant::no_command_timeout},
    {"ticket-forgotten", "an acquire that is repeated does not show its ticket", "4", engine_mutant::ticket_forgotten},
    {"any-answer-counts", "an answer for an older id grants", "†4", engine_mutant::any_answer_counts},
    {"deadline-from-answer", "the deadline counts from the answer, not from the request", "6",
     engine_mutant::deadline_from_answer},
    {"no-time-is-no-attempt", "an acquire with no time to wait ends before the server can answer", "P11",
     engine_mutant::no_time_is_no_attempt},
    {"try-refused-by-a-leave", "a try is busy while a place that nobody here wants is being left", "P11",
     engine_mutant::try_refused_by_a_leave},
    {"no-drift", "the deadline allows for no drift", "6", engine_mutant::no_drift},
    {"no-safety-check", "a waiter never asks again", "4", engine_mutant::no_safety_check},
    {"polls", "a waiter asks every 20 ms", "P10", engine_mutant::polls},
    {"stray-grant-kept", "a pushed grant that nobody wants is not released", "†4", engine_mutant::stray_grant_kept},
    {"claim-from-arrival", "the deadline of a pushed grant counts from its arrival", "†4",
     engine_mutant::claim_from_arrival},
    {"claim-of-receiver", "a claim is taken to last as long as the receiver would have made it", "†4",
     engine_mutant::claim_of_receiver},
    {"usual-lease-shorter", "an acquire that says nothing but its id has a shorter lease than its client counts with",
     "P3", engine_mutant::none, "acquire", "ARGV[3] or '30000'", "ARGV[3] or '3000'"},
    {"claim-is-lease", "a claim is taken for a whole lease", "†4", engine_mutant::claim_is_lease},
    {"late-grant-used", "a pushed grant is used that may be over", "†4", engine_mutant::late_grant_used},
    {"grant-missed-in-leave", "a leave that found itself owner counts as having left", "8",
     engine_mutant::grant_missed_in_leave},
    {"no-leave", "a client that gives up does not leave the queue", "8", engine_mutant::no_leave},
    {"id-used-again", "the id of a released hold is queued again", "†4", engine_mutant::id_used_again},
    {"lost-is-renewed", "a hold that is lost is still renewed", "6", engine_mutant::lost_is_renewed},
    {"repeated-release-fails", "a repeated release that finds itself no owner is reported as a loss", "4",
     engine_mutant::repeated_release_fails},
    {"cleanup-not-once-more", "without CLIENT KILL a clean-up is not repeated after the not-after", "†4",
     engine_mutant::cleanup_not_once_more},
    {"cleanup-lapses",
     "a clean-up is forgotten when the lease should be over, though its request may still be under way", "P6",
     engine_mutant::cleanup_lapses},
    {"late-cleanup-not-extended",
     "a clean-up is given up after one refusal, though what it ends was carried out just before", "P6",
     engine_mutant::late_cleanup_not_extended},
    {"owed-by-the-next", "what a lost hold leaves to be given back is kept as long as the next in its place needs",
     "P6", engine_mutant::owed_by_the_next},
    {"refused-cleanup-dropped", "a release that the server refused is not repeated", "P6",
     engine_mutant::refused_cleanup_dropped},
    {"no-kick", "a releaser does not check on the next owner", "†4", engine_mutant::no_kick},
    {"kick-not-followed", "a client that passed the lock on to a dead one does not check on the next one", "P4",
     engine_mutant::kick_not_followed},
    {"asker-does-not-look",
     "a client that passes on what others were granted does not check on it, when it no longer waits", "P4",
     engine_mutant::asker_does_not_look},
    {"kick-without-drift", "a client that passed the lock on checks too early where the server's clock is slow", "P4",
     engine_mutant::kick_without_drift},
    {"kick-not-exact",
     "a client that takes the lock from an unsubscribed one mistakes a tool that listens to all channels for the next",
     "P4", engine_mutant::none, "release", "exact = patient or was_owner == 0", "exact = patient"},
    {"watcher-counts",
     "a client that finds the lock free mistakes a tool that listens to all channels for the next in the queue", "P4",
     engine_mutant::none, "acquire", "exact = true", "exact = false"},
    {"fence-of-long-hold-forgotten", "a hold that lasts longer than its fence is kept does not keep it", "P2",
     engine_mutant::fence_of_long_hold_forgotten},
    {"fence-of-long-hold-not-kept", "the renewal of a hold that lasts long keeps nothing", "P2", engine_mutant::none,
     "renew", "if retention and answer[i + 1] == 1 then", "if false then"},
    {"bad-fence-drops-connection", "a fence of which no token can be made ends the connection", "P11",
     engine_mutant::bad_fence_drops_connection},
    {"release-fails-with-its-fence",
     "a release that cannot pass on, because the key of the fence is of another type, keeps the lock", "P6",
     engine_mutant::none, "release", "if gives_back and string.find", "if false and string.find"},
    {"second-batch-forgotten", "what does not fit into one script of renewals is not renewed", "P10",
     engine_mutant::second_batch_forgotten},
    {"other-type-passes", "a renewal takes a key of another type for trouble that passes", "P9", engine_mutant::none,
     "renew", "find(value.err, 'WRONGTYPE', 1, true) and 0 or -1", "-1"},
    {"no-timeout", "the time-out of a wait does nothing", "P4", engine_mutant::no_timeout},
    {"cancel-ignored", "a waiting acquire cannot be cancelled", "8", engine_mutant::cancel_ignored},
    {"wake-up-swallowed", "a grant for a cancelled acquire stays with the client", "5",
     engine_mutant::wake_up_swallowed},
    {"slice-ignored", "a hold is handed on locally past the slice", "5", engine_mutant::slice_ignored},
    {"fixed-handed-off", "the rest of a lease is handed to one who asked for a fixed lease", "5",
     engine_mutant::fixed_handed_off},
    {"fixed-is-renewed", "a fixed lease is renewed without end", "6", engine_mutant::fixed_is_renewed},
    {"no-max-hold", "max_hold does nothing", "6", engine_mutant::no_max_hold},
    {"loss-told-late", "a loss is told after the deadline", "6", engine_mutant::loss_told_late},
    {"margin-above-claim", "the stop margin of a claim is that of a whole lease", "4",
     engine_mutant::margin_above_claim},
    {"claim-not-confirmed", "a claim is not confirmed", "4", engine_mutant::claim_not_confirmed},
    {"index-starts-anew", "a renewal resets the index of the fencing token", "4", engine_mutant::index_starts_anew},
    {"loss-not-released", "a loss does not end in a release", "†6", engine_mutant::loss_not_released},
    {"lost-hold-prolonged", "a lost hold whose body goes on is given back when its late renewal is over", "P4",
     engine_mutant::lost_hold_prolonged},
    {"loss-not-told", "the answer \"not yours\" to a renewal is not told", "P9", engine_mutant::loss_not_told},
    {"lease-of-the-next", "an answer counts with the lease that the next coroutine wants", "6",
     engine_mutant::lease_of_the_next},
    {"requeued-after-leave", "a release that was sent again is queued after the leave", "P6",
     engine_mutant::requeued_after_leave},
    {"renewal-storm", "a lease shorter than the one before is renewed without pause", "P10",
     engine_mutant::renewal_storm},
    {"release-by-anybody", "anybody's release gives the lock away", "P7", engine_mutant::none, "release",
     "if owner == id then", "if true then"},
    {"usual-release-by-anybody", "anybody's release of a lock that nobody waits for gives it away", "P7",
     engine_mutant::none, "release", "string.find(value, id .. ' ', 1, true) == 1", "true"},
    {"usual-release-forgets-line", "the owner's release does not look at the line", "P4", engine_mutant::none,
     "release", "local line = plain and redis.call('ZCARD', queue_key)", "local line = plain and 0"},
    {"nobody-told-of-a-lease", "a waiter is not told when the lease of the next owner ends", "P4", engine_mutant::none,
     "renew", "if was_claim then", "if false then"},
    {"release-refused-at-full-memory", "a lock is not passed on while the memory of the server is full", "P6",
     engine_mutant::none, "release", "elseif gives_back and string.find(answer.err, 'OOM', 1, true) then",
     "elseif false then"},
    {"undeclared-key", "where scripts may touch declared keys only no lock is given back", "P6", engine_mutant::none,
     "release", "if not freed and redis.call('DEL', lock_key) == 1 then", "if false then"},
    {"usual-release-leaves-lock", "the owner's release leaves the lock to its lease", "P4", engine_mutant::none,
     "release", "local deleted = redis.pcall('DEL', lock_key, lock_key .. ':a')", "local deleted = 1"},
    {"newcomer-takes-what-is-held", "a new client takes the lock from its owner", "P1", engine_mutant::none, "acquire",
     "redis.call('EXISTS', lock_key, queue_key) == 0", "redis.call('EXISTS', queue_key) == 0"},
    {"release-says-mine", "a release tells everybody that it was the owner", "P7", engine_mutant::none, "release",
     "local was_owner, floor = 0, ", "local was_owner, floor = 1, "},
    {"leave-keeps-place", "a client that leaves stays in the queue", "P6", engine_mutant::none, "release",
     "redis.call('ZREM', queue_key, id)\n", "\n"},
    {"release-forgets-line", "a release does not pass on", "P4", engine_mutant::none, "release",
     "line = line or redis.call('ZCARD', queue_key)\nif line == 0 then", "if true then"},
    {"leave-passes-nothing-on", "a leave that finds the lock free does not pass on", "4", engine_mutant::none,
     "release", "redis.call('ZREM', queue_key, id)\nif value then", "redis.call('ZREM', queue_key, id)\nif true then"},
    {"keep-ignored", "a time-out gives back what was granted meanwhile", "8", engine_mutant::none, "release",
     "if keep then", "if false then"},
    {"push-count-ignored", "a grant that nobody heard counts", "†4", engine_mutant::none, "", "return heard > 0",
     "return heard >= 0"},
    {"owner-before-push", "the owner is written before it is told", "†4", engine_mutant::none, "",
     "if not string.find(id, ' ', 1, true) and reach(id, grant)", "own(id, digits, 'c', claim)\nif reach(id, grant)"},
    {"claim-lasts-a-lease", "a claim lasts a whole lease", "4", engine_mutant::none, "", "own(id, digits, 'c', claim)",
     "own(id, digits, 'c', my_lease)"},
    {"last-in-first-out", "the last in line is served first", "P5", engine_mutant::none, "", "'ZPOPMIN'", "'ZPOPMAX'"},
    // With the time only out of the maximum the fence would be kept for less than no time, which Redis refuses: the
    // next.
    {"fence-counts-only", "a fence is a counter without the time", "P2", engine_mutant::none, "",
     "local clock = now - 1577836800000000", "local clock = 0"},
    {"fence-refused", "a fence is kept for a time that Redis refuses: nobody is granted anything", "P4",
     engine_mutant::none, "", "math.max(clock, floor + 1)", "floor + 1"},
    {"fence-time-only", "a fence is the time, without the last one", "P2", engine_mutant::none, "",
     "if before and before >= fence then", "if false then"},
    {"fence-loses-digits", "a fence is written with 14 digits", "P2", engine_mutant::none, "",
     "return string.format('%.0f', number)", "return tostring(number)"},
    {"fence-kept-short", "the fence is not kept for the retention", "†4", engine_mutant::none, "",
     "return fence == clock and retention or", "return fence == clock and '1' or"},
    {"fence-ends-before-its-time", "the fence is not kept until the clock has passed it", "†4", engine_mutant::none, "",
     "return fence == clock and retention or text(retention + math.ceil((fence - clock) / 1000))", "return retention"},
    {"fence-not-kept", "the fence is not kept at all when it is above the last one", "P2", engine_mutant::none, "",
     "answer = redis.pcall('SET', fence_key, digits, 'PX', kept(fence), 'GET')",
     "answer = redis.pcall('GET', fence_key)"},
    {"usual-fence-time-only",
     "a client that takes a lock without waiters has the time for a fence, without regard to the last one", "P2",
     engine_mutant::none, "acquire",
     "local taken = not before or type(before) == 'string' and #before == #digits and before < digits",
     "local taken = true"},
    {"usual-fence-forgotten",
     "a script that took the time for a fence, and finds that the last one is higher, has forgotten it by then", "P2",
     engine_mutant::none, "acquire", "next_fence(floor, found)", "next_fence(floor)"},
    {"usual-fence-below-zero", "a clock from before all fences is a fence", "P2", engine_mutant::none, "acquire",
     "and clock > 0 then", "then"},
    {"usual-fence-kept-short", "the fence of who takes what nobody wants is not kept for the retention", "†4",
     engine_mutant::none, "acquire", "digits, 'PX', retention, 'GET')", "digits, 'PX', '1', 'GET')"},
    {"usual-fence-not-kept", "the fence of who takes what nobody wants is not kept", "P2", engine_mutant::none,
     "acquire", "local before = redis.pcall('SET', fence_key, digits, 'PX', retention, 'GET')",
     "local before = redis.pcall('GET', fence_key)"},
    {"refused-fence-forgotten", "a fence that could be written only at the second try forgets the last one", "P2",
     engine_mutant::none, "acquire",
     "before = tonumber(redis.call('SET', fence_key, digits, 'PX', kept(fence), 'GET') or 0)",
     "redis.call('SET', fence_key, digits, 'PX', kept(fence), 'GET')"},
    {"renewal-shortens", "a renewal may shorten a lease", "4", engine_mutant::none, "renew", "lease, 'GT')", "lease)"},
    {"renewal-by-anybody", "anybody renews", "P7", engine_mutant::none, "renew",
     "if not value or string.sub(value, 1, #id + 1) ~= id .. ' ' then return 0 end", "if not value then return 0 end"},
    {"usual-renewal-by-anybody", "anybody renews what is held", "P7", engine_mutant::none, "renew",
     "find(value, id, 1, true) == 1 and byte(value, #id + 1) == 32 and ", ""},
    {"usual-renewal-of-claims", "a claim is taken for a hold when it is renewed", "4", engine_mutant::none, "renew",
     " and byte(value, -1) == 104", ""},
    {"renewal-revives", "a renewal makes a lock that is gone", "7", engine_mutant::none, "renew", "then return 0 end",
     "then redis.call('SET', key, id .. ' 1 h', 'PX', lease) return 1 end"},
    {"renewal-fails-together", "one bad key fails the renewal of all", "†4", engine_mutant::none, "renew",
     "pcall('GET', key)", "redis.call('GET', key)"},
    // No client can tell: the state of a hold says only whether a renewal must write it. But operators read it.
    {"renewal-leaves-claim", "a renewal leaves a claim a claim", "4", engine_mutant::none, "renew",
     "if string.sub(value, -1) == 'c' then", "if false then"},
    {"renewal-extends-no-claim", "a renewal makes a claim a hold, but extends nothing", "4", engine_mutant::none,
     "renew", "'PX', math.max(left, lease)", "'PX', left"},
    {"renewal-shortens-claim", "a renewal may shorten a claim", "4", engine_mutant::none, "renew",
     "'PX', math.max(left, lease)", "'PX', lease"},
    {"repeated-acquire-shortens", "an acquire repeated by the owner may shorten the lease", "†4", engine_mutant::none,
     "acquire", "elseif left < lease then", "elseif true then"},
    {"repeated-acquire-extends-nothing", "an acquire repeated by the owner extends nothing", "†4", engine_mutant::none,
     "acquire", "if extend(lock_key, id, fence, proposal and 'h' or state, lease) then", "if false then"},
    {"owner-queues-again", "an acquire repeated by the owner is queued behind itself", "P8", engine_mutant::none,
     "acquire", "if owner == id then", "if false then"},
    {"newcomer-overtakes", "a new client takes a free lock that has waiters", "4", engine_mutant::none, "acquire",
     "redis.call('EXISTS', lock_key, queue_key) == 0", "redis.call('EXISTS', lock_key) == 0"},
    {"try-stands-in-line", "a try is queued", "4", engine_mutant::none, "acquire", "if not wait then", "if false then"},
    {"late-request-carried-out", "a request is carried out after its not-after", "†4", engine_mutant::none, "acquire",
     "if not_after ~= '0' and now > tonumber(not_after) then", "if false then"},
    {"line-ends-with-lock", "the line lives no longer than the lease of its last waiter", "†4", engine_mutant::none, "",
     "local lives = lock_left + lease", "local lives = lease"},
    {"line-never-ends", "the line has no end", "P6", engine_mutant::none, "",
     "if empty or redis.call('PTTL', queue_key) < lives then", "if false then"},
    {"ticket-not-accepted", "a ticket that is shown does not count", "P5", engine_mutant::none, "",
     "if ticket == 0 then", "if true then"},
    {"ticket-is-time-only", "a ticket is the time, even if the last in the queue has the same", "4",
     engine_mutant::none, "", "if last[2] and last[2] + 1 > ticket then", "if false then"},
    {"push-time-wrong", "a push tells a later time than that of the grant", "†4", engine_mutant::none, "",
     "text(now) .. ' ' .. claim", "text(now + 1000000) .. ' ' .. claim"},
    {"force-tells-nobody", "an owner that loses its lock by force is not told", "P9", engine_mutant::none, "force",
     "tell(owner)\nlocal _, taken", "local _, taken"},
    {"force-tells-too-late", "an owner that loses its lock by force is told after the next owner", "P9",
     engine_mutant::none, "force",
     "tell(owner)\nlocal _, taken, unfinished = nil, false, false\nif redis.call('EXISTS', queue_key) == 1 then\n_, "
     "taken, unfinished = pass_on(nil, "
     "0, tonumber(fence))",
     "local _, taken, unfinished = nil, false, false\nif redis.call('EXISTS', queue_key) == 1 then\n_, taken, "
     "unfinished = pass_on(nil, 0, "
     "tonumber(fence))\ntell(owner)"},
    {"force-leaves-it", "what was taken away is still its owner's", "P7", engine_mutant::none, "force",
     "redis.call('DEL', lock_key)", ""},
    {"force-not-passed-on", "what was taken away goes to nobody", "P4", engine_mutant::none, "force",
     "if redis.call('EXISTS', queue_key) == 1 then", "if false then"},
    {"grant-replicated", "a grant is heard at a replica, too, where nobody counts who hears it", "P1",
     engine_mutant::none, "", "set_repl(redis.REPL_NONE)", "set_repl(redis.REPL_ALL)"},
    {"replication-stays-off", "what follows a grant in its script is not replicated", "P1", engine_mutant::none, "",
     "set_repl(redis.REPL_ALL)", "set_repl(redis.REPL_NONE)"},
    {"missed-turn-untold", "a waiter whose turn reached no subscriber is not told of it", "P4", engine_mutant::none, "",
     "if heard == 0 then", "if false then"},
    {"missed-turn-ignored", "a waiter that is told that its turn came at another server goes on waiting", "P4",
     engine_mutant::missed_turn_ignored},
    {"replica-not-left", "a client that is told that it asks a replica does not look for the master", "P4",
     engine_mutant::replica_not_left},
    {"renewed-at-a-replica", "a renewal at a replica fails for each lock, and not as a whole", "P10",
     engine_mutant::none, "renew", "return readonly and redis.error_reply", "return false and redis.error_reply"},
    {"nobody-awaited", "a release passes over waiters that have not reconnected yet after a restart or a role change",
     "P5", engine_mutant::nobody_awaited},
    {"awaited-at-first-only",
     "a hold from before a role change is passed on, long after it, without a check for waiters that are still at the "
     "replica",
     "P5", engine_mutant::awaited_at_first_only},
    {"awaited-by-connection",
     "the first question about a lock does not await those at the replica, if its client has been connected for a "
     "while",
     "P5", engine_mutant::awaited_by_connection},
    {"awaited-by-question-only",
     "a wait that is given up passes the lock over those whom its question has just told to come", "P5",
     engine_mutant::awaited_by_question_only},
    {"only-the-first-is-told", "those behind the first in the queue are not told to come", "P5", engine_mutant::none,
     "", "if id ~= me and not reach(id, '') and place <= room then",
     "if place <= room and id ~= me and not reach(id, '') then"},
    {"release-awaits-nobody", "a patient release does not look whether the first in line is there", "P5",
     engine_mutant::none, "release", "if patient and awaited(nil, 1) then", "if false then"},
    {"acquire-awaits-nobody", "a patient question does not look whether the first in line is there", "P5",
     engine_mutant::none, "acquire", "local absent = patient and awaited(id, 1)", "local absent = false"},
    {"ids-can-be-guessed", "the ids of a client's requests count from 1, and say nothing else", "P3",
     engine_mutant::ids_can_be_guessed},
    {"pushed-claim-believed", "a claim that is pushed counts for as long as it says", "P1",
     engine_mutant::pushed_claim_believed},
    {"pushed-fence-believed", "a fence that is pushed counts whatever it is", "P2",
     engine_mutant::pushed_fence_believed},
    {"push-not-verified", "with verify_pushes a grant that is pushed is believed all the same", "P1",
     engine_mutant::push_not_verified},
    {"more-not-told", "a script that has passed over as many as it may says nothing of those behind", "P4",
     engine_mutant::none, "", "return nil, false, redis.call('EXISTS', queue_key) == 1", "return nil, false, false"},
    {"left-over-taken", "a new client takes what a script has left to pass on to waiters", "P5", engine_mutant::none,
     "acquire", "if unfinished then", "if false then"},
    {"all-silent-after-one", "behind one that is not subscribed nobody is told", "P4", engine_mutant::none, "",
     "if subscribers ~= 0 and not (silent and silent[channel]) then", "if subscribers ~= 0 and not silent then"},
    {"left-over-forgotten", "a client that is told that a script has left something does not see to it", "P4",
     engine_mutant::unfinished_forgotten},
    {"revocation-ignored", "a client does not tell its holder that its lock was taken away", "P9",
     engine_mutant::revocation_ignored},
};

}  // namespace

std::span<mutant const> all_mutants() {
  static std::vector<mutant> const all = [] {
    std::vector<mutant> joined(std::begin(mutants), std::end(mutants));
    joined.insert(joined.end(), hold_mutants().begin(), hold_mutants().end());
    joined.insert(joined.end(), connection_mutants().begin(), connection_mutants().end());
    return joined;
  }();
  return all;
}

mutant const* find_mutant(std::string_view name) {
  for (mutant const& m : all_mutants()) {
    if (m.name == name) return &m;
  }
  for (auto const& some : {zookeeper_mutants(), zookeeper_kinds_mutants(), zookeeper_interval_mutants()}) {
    for (mutant const& m : some) {
      if (m.name == name) return &m;
    }
  }
  for (mutant const& m : quorum_mutants()) {
    if (m.name == name) return &m;
  }
  for (mutant const& m : permits_mutants()) {
    if (m.name == name) return &m;
  }
  for (mutant const& m : delays_mutants()) {
    if (m.name == name) return &m;
  }
  for (auto const& some : {multi_mutants(), chains_mutants()}) {
    for (mutant const& m : some) {
      if (m.name == name) return &m;
    }
  }
  for (mutant const& m : replicas_mutants()) {
    if (m.name == name) return &m;
  }
  for (auto const& some : {synced_mutants(), synced_permits_mutants()}) {
    for (mutant const& m : some) {
      if (m.name == name) return &m;
    }
  }
  for (mutant const& m : cluster_mutants()) {
    if (m.name == name) return &m;
  }
  return nullptr;
}

void activate(mutant const* m) {
  if (m == active) return;
  active = m;
  active_engine_mutant = m == nullptr ? engine_mutant::none : m->point;
  bool const mutates = m != nullptr && !m->from.empty();
  variants_of[0].clear();
  made[0] = !mutates;
  made[1] = false;
  variants_now();
}

void use_small_steps(bool yes) {
  steps_are_small = yes;
  variants_now();
}

std::string_view mutated_script(std::string_view sha1_or_source) {
  if (variants_now().empty()) return sha1_or_source;
  auto const* const v = variant(sha1_or_source);
  if (v == nullptr) return sha1_or_source;
  return sha1_or_source.size() == 40 ? std::string_view{v->sha1} : std::string_view{v->source};
}

std::string_view mutated_source(std::string_view name) { return mutated_script(redis::find_script(name).source); }

std::string_view script_name(std::string_view sha1_or_source) {
  auto const* const s = script_of(sha1_or_source);
  return s == nullptr ? std::string_view{"?"} : s->name;
}

}  // namespace conch::sim
