#include "sim/mutants/mutants.hpp"

#include <array>

// How a hold ends, what callers are told, and what only wider draws show. For mutexes; those of several owners are in
// permits_mutants.cpp.
namespace conch::sim {

namespace {

constexpr std::array mutants{
    // ---- how a hold ends
    mutant{"holds-lost-on-reconnect", "each reconnect costs all holds", "P9", engine_mutant::holds_lost_on_reconnect},
    mutant{"not-renewed-on-reconnect", "a new connection leaves renewals to the watchdog", "P9",
           engine_mutant::not_renewed_on_reconnect},
    mutant{"renewing-for-ever", "a renewal whose connection was lost counts as under way forever", "P9",
           engine_mutant::renewing_for_ever},
    mutant{"failed-renewal-is-a-loss", "a renewal that met an error ends the hold", "P9",
           engine_mutant::failed_renewal_is_a_loss},
    mutant{"failed-renewal-not-repeated", "a renewal that met an error is not tried again before the lease is over",
           "P9", engine_mutant::failed_renewal_not_repeated},
    mutant{"lease-of-another-kept", "a fixed lease lasts as long as the one that another coroutine had asked for", "P4",
           engine_mutant::lease_of_another_kept},
    mutant{"extended-at-once", "an extension is reported before the server has renewed the hold", "P3",
           engine_mutant::extended_at_once},
    mutant{"extension-not-sent", "an extension waits for the next renewal", "P4", engine_mutant::extension_not_sent},
    mutant{"request-not-told", "a holder is not told that another client asks for its lock", "P4",
           engine_mutant::request_not_told},
    mutant{"request-imagined", "the answer that nobody asks for the lock is read as its opposite", "P11",
           engine_mutant::request_imagined},
    mutant{"handed-on-unproved",
           "a lock is handed on in memory by an old word of the server, which has lost its data since", "P2",
           engine_mutant::handed_on_unproved},
    mutant{"handed-on-though-asked", "a lock that another client asks for is handed on in memory", "P5",
           engine_mutant::handed_on_though_asked},
    mutant{"watcher-never-checks", "a watcher does not notice the end of a lease", "P4",
           engine_mutant::watcher_never_checks},
    mutant{"push-to-watcher-ignored", "a watcher learns of a free lock only by its next question", "P4",
           engine_mutant::push_to_watcher_ignored},
    mutant{"watchers-not-told", "a lock that is given back tells no watcher", "P4", engine_mutant::none, "release",
           "redis.pcall('DEL', lock_key, lock_key .. ':a')", "redis.pcall('DEL', lock_key)"},
    mutant{"watchers-told-of-a-hand-over", "a watcher is told when the lock goes to the next in the queue", "P11",
           engine_mutant::none, "release", "elseif not taken then", "elseif taken then tell_freed() else"},
    mutant{"watchers-told-once", "of many watchers only the first are told", "P4", engine_mutant::none, "",
           "redis.pcall('SET', alert_key, '', 'PX', left)", ""},
    mutant{"watch-sees-no-owner", "a lock is called free though it has an owner", "P11", engine_mutant::none, "watch",
           "owners.held == 0", "owners.held <= 1"},
    mutant{"detached-still-released", "a hold that has left its client is released all the same", "P6",
           engine_mutant::detached_still_released},
    mutant{"detached-at-once", "a hold leaves its client before the server has renewed it", "P3",
           engine_mutant::detached_at_once},
    mutant{"detached-is-handed-on", "a hold that leaves its client is handed on in memory as well", "P6",
           engine_mutant::detached_is_handed_on},
    mutant{"adopted-index-anew", "an adopter begins with the first token of its grant", "P2",
           engine_mutant::adopted_index_anew},
    mutant{"adopted-and-left-there", "a hold that was taken over stays that of who let it go", "P3",
           engine_mutant::none, "adopt", "own(id, fence, 'h', lease)", "redis.call('PEXPIRE', lock_key, lease)"},
    mutant{"adoption-refused-by-a-replica", "a replica, which knows less, says that a hold that was let go is gone",
           "P11", engine_mutant::none, "adopt", "redis.call('ZREM', queue_key, '')", ""},
    mutant{"adopted-by-all", "a detached hold can be adopted from its new owner", "P1", engine_mutant::none, "adopt",
           "owner .. ' ' .. fence == origin", "fence == string.match(origin, '%d+$')"},
    mutant{"adopted-with-what-is-left", "an adopter has the rest of the lease", "P3", engine_mutant::none, "adopt",
           "own(id, fence, 'h', lease)", "own(id, fence, 'h', redis.call('PTTL', lock_key))"},
    mutant{"guard-opens-to-all", "a guarded write is carried out for a former owner", "P1", engine_mutant::none,
           "guarded", "return string.sub(value, 1, #grant + 1) == grant .. ' '", "return true"},
    mutant{"guard-wants-a-hold", "a guarded write of a claim is refused", "P11", engine_mutant::none, "guarded",
           "return string.sub(value, 1, #grant + 1) == grant .. ' '", "return value == grant .. ' h'"},
    mutant{"margin-ignored", "a loss is told at the deadline, not stop_margin before it", "P9",
           engine_mutant::margin_ignored},
    mutant{"margin-of-claims-ignored", "the loss of a claim is told at its deadline", "P9",
           engine_mutant::margin_of_claims_ignored},
    mutant{"index-past-its-limit", "the index of the local hand-off runs into the server part of the fence", "P2",
           engine_mutant::index_past_its_limit},
    mutant{"release-says-held", "a release always says that it ended a hold", "P11", engine_mutant::release_says_held},
    // ---- what is told, and when
    mutant{"timed-out-is-unreachable", "a time-out is called an absent server", "P11",
           engine_mutant::timed_out_is_unreachable},
    mutant{"busy-while-cleaning-up", "a try is busy because an earlier request is still being cleaned up", "P11",
           engine_mutant::busy_while_cleaning_up},
    mutant{"one-bad-key-fails-all", "a key of another type fails the acquires of all locks", "P11",
           engine_mutant::one_bad_key_fails_all},
    mutant{"place-lost-on-reconnect", "a new connection asks without the ticket", "P5",
           engine_mutant::place_lost_on_reconnect},
    mutant{"second-cancellation-ignored", "a second cancellation of one wait, of a stronger type, does nothing", "P4",
           engine_mutant::second_cancellation_ignored},
    mutant{"refused-greeting-fails-nobody", "a waiter is not told that the server refuses this user", "P11",
           engine_mutant::refused_greeting_fails_nobody},
    mutant{"denied-for-ever", "a user who was denied something once stays denied", "P11",
           engine_mutant::denied_for_ever},
    mutant{"denial-ignored", "a client that may not subscribe is queued all the same", "P4",
           engine_mutant::denial_ignored},
    // ---- questions and orders
    mutant{"force-repeated", "an order to take the lock from its holder is repeated after a reconnect", "P8",
           engine_mutant::force_repeated},
    mutant{"inquiries-not-repeated", "a new connection does not ask again what was not answered", "P4",
           engine_mutant::admin_not_repeated},
    mutant{"any-inquiry-answered", "an answer goes to the last question, not to its own", "P11",
           engine_mutant::any_admin_answered},
    mutant{"inquiry-without-end", "a question to an absent server never ends", "P4", engine_mutant::admin_without_end},
    mutant{"force-tells-at-a-replica", "an order tells the owners before it knows whether it is carried out", "P9",
           engine_mutant::none, "force", "redis.call('ZREM', queue_key, '')", ""},
    // ---- ids that begin like one another
    mutant{"release-of-a-longer-id", "C.1 gives back what C.12 has", "P7", engine_mutant::none, "release",
           "string.find(value, id .. ' ', 1, true) == 1", "string.find(value, id, 1, true) == 1"},
    mutant{"renewal-of-a-longer-id", "C.1 renews what C.12 has", "P7", engine_mutant::none, "renew",
           "find(value, id, 1, true) == 1 and byte(value, #id + 1) == 32 and ", "find(value, id, 1, true) == 1 and "},
    // ---- places
    mutant{"ticket-moves-back", "a late request without a ticket takes the place away", "P5", engine_mutant::none, "",
           "'ZADD', queue_key, 'LT', text(ticket), id", "'ZADD', queue_key, text(ticket), id"},
};

}  // namespace

std::span<mutant const> hold_mutants() { return mutants; }

}  // namespace conch::sim
