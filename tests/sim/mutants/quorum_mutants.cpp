// Deliberate faults of a lock over several servers.
#include "sim/mutants/mutants.hpp"

namespace conch::sim {

namespace {

constexpr mutant mutants[] = {
    {"quorum-of-less", "one vote less than a majority is enough", "P1", engine_mutant::quorum_of_less},
    {"validity-of-the-best", "a hold is valid as long as the longest of its votes", "7", engine_mutant::validity_of_the_best},
    {"claim-taken-for-lease", "votes that are claims count for the whole lease", "7", engine_mutant::claim_taken_for_lease},
    {"renewed-by-one", "one renewed vote prolongs the hold", "P9", engine_mutant::renewed_by_one},
    {"loss-of-the-majority-ignored", "a hold that a majority has forgotten goes on", "P9", engine_mutant::loss_of_the_majority_ignored},
    {"unanswered-not-released", "a server that has not answered is not released", "7", engine_mutant::unanswered_not_released},
    {"votes-kept-on-loss", "a loss does not release the votes that are left", "P6", engine_mutant::votes_kept_on_loss},
    {"id-of-vote-used-again", "all attempts at a server with one ticket have one id", "†7", engine_mutant::id_of_vote_used_again},
    {"winner-not-seen", "a minority is kept although another has the lock", "7", engine_mutant::winner_not_seen},
    {"earlier-not-seen", "a minority is kept although another's turn is before", "7", engine_mutant::earlier_not_seen},
    {"others-not-asked", "who has a minority does not ask the other servers", "7", engine_mutant::others_not_asked},
    {"expired-votes-kept", "votes that are too few are kept past their end", "P4", engine_mutant::expired_votes_kept},
    {"fence-of-the-least", "the fence is the least of the votes", "7", engine_mutant::fence_of_the_least},
    {"no-floor", "releases and confirmations carry no floor", "7", engine_mutant::no_floor},
    {"usual-release-forgets-floor", "a vote that is given back with nobody in line raises no fence", "7", engine_mutant::none, "release",
     "(tonumber(redis.call('GET', fence_key) or 0) or 0) >= vote_floor", "true"},
    {"second-round-skipped", "strict fences are not agreed on", "7", engine_mutant::second_round_skipped},
    {"fresh-server-votes", "a server that has just started votes", "7", engine_mutant::fresh_server_votes},
    {"ticket-of-own-clock", "the ticket is what the client's own clock shows", "7", engine_mutant::ticket_of_own_clock},
    {"vote-deadline-from-answer", "the deadline of a vote counts from the answer", "6", engine_mutant::deadline_from_answer},
    {"vote-stray-grant-kept", "a pushed vote that nobody wants is not released", "†4", engine_mutant::stray_grant_kept},
    {"majority-not-seen", "a majority of votes of one rival, none confirmed, is not seen", "7", engine_mutant::majority_not_seen},
    {"returned-vote-not-rested", "a vote that comes back is asked for again at once", "7", engine_mutant::returned_vote_not_rested},
    {"slow-servers-are-away", "a try gives up when too many servers are slow", "P11", engine_mutant::slow_servers_are_away},
    {"margin-of-old-votes", "a grant of votes that are almost over is told lost at once", "P9", engine_mutant::margin_of_old_votes},
    {"lost-with-bare-majority", "a hold is lost when no vote is to spare", "4", engine_mutant::lost_with_a_bare_majority},
    {"lost-with-connection", "a hold is lost with the connection of one server", "7", engine_mutant::lost_with_a_connection},
    {"vote-margin-ignored", "a loss is told at the deadline", "P9", engine_mutant::vote_margin_ignored},
    {"vote-extended-at-once", "an extension is reported before a majority has renewed the hold", "P3", engine_mutant::extended_at_once},
    {"vote-extension-not-sent", "an extension waits for the next renewal", "P4", engine_mutant::extension_not_sent},
    {"released-by-one", "a release was in time if one server had the hold", "P7", engine_mutant::released_by_one},
    {"released-by-all", "a release was in time only if all servers had the hold", "P8", engine_mutant::released_by_all},
    {"ticket-of-each-attempt", "who gives a vote back takes a new ticket", "P5", engine_mutant::ticket_of_each_attempt},
    {"no-ticket-shown-again", "who asks again in line shows no ticket", "P5", engine_mutant::no_ticket_shown_again},
    {"uptime-taken-at-its-word", "a server that says it is 1 s old is believed to be", "P1", engine_mutant::uptime_taken_at_its_word},
    {"attempt-runs-into-ticket", "the thousandth attempt changes the ticket in the id", "P5", engine_mutant::attempt_runs_into_ticket},
    {"failed-vote-asked-at-once", "a server that answers with an error is asked again without a pause", "P10",
     engine_mutant::failed_vote_asked_at_once},
    {"error-fails-acquire", "an error of one server fails an acquire", "P4", engine_mutant::error_fails_acquire},
    {"server-not-mended", "a server that lacks a lock that is held is not given it again", "4", engine_mutant::server_not_mended},
    {"late-votes-unconfirmed", "a vote that comes after the grant is never confirmed", "P6", engine_mutant::late_votes_unconfirmed},
    {"fresh-line-not-left", "who stands in line at a server that has just started stays there", "P1", engine_mutant::fresh_line_not_left},
    {"majority-renewed-only", "no more votes are renewed than are needed", "P6", engine_mutant::majority_renewed_only},
    {"late-vote-not-counted", "a vote that comes after the grant is neither counted nor confirmed until the next renewal", "P9",
     engine_mutant::late_vote_not_counted},
    {"only-slow-servers-missing", "a try gives up when too many servers are slow or have no vote", "P11", engine_mutant::only_slow_servers_missing},
    {"confirmation-stays-claim", "a confirmation leaves a vote a claim", "7", engine_mutant::none, "confirm", "string.sub(value, 1, -2) .. 'h'",
     "value"},
    {"every-rival-confirmed", "whoever has one vote is said to have the lock", "7", engine_mutant::none, "acquire",
     "answer[7] = state == 'h' and 1 or 0", "answer[7] = 1"},
    {"ticket-of-rival-too-long", "a rival's ticket is read with a digit of its attempt", "7", engine_mutant::none, "acquire", "(%d+)%d%d%d'",
     "(%d+)%d%d'"},
    {"confirmation-revives", "a confirmation makes a vote that is gone", "7", engine_mutant::none, "confirm",
     "result = before > floor and 2 or 1\nend",
     "result = before > floor and 2 or 1\nelse\nredis.call('SET', key, id .. ' 1 h', 'PX', lease)\nresult = 1\nend"},
    {"confirmation-by-anybody", "a confirmation extends whatever is there", "P7", engine_mutant::none, "confirm",
     "if value and string.sub(value, 1, #id + 1) == id .. ' ' then", "if value then"},
    {"proposal-taken-for-fence", "a vote says that its fence is the one proposed, and it is greater", "P2", engine_mutant::none, "acquire",
     "elseif fence == proposal then", "elseif proposal then"},
    {"confirmation-extends-nothing", "a confirmation does not extend", "7", engine_mutant::none, "confirm", "math.max(left, lease)", "left"},
};

}  // namespace

std::span<mutant const> quorum_mutants() { return mutants; }

}  // namespace conch::sim
