// For each fault that no judge of the simulator shows: the unit test that notices it. Without a fault all of them pass.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine_mutants.hpp"  // made by conch-overlay

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>

namespace {

using conch::sim::engine_mutant;

struct noticed_fault {
  engine_mutant fault;
  char const* words;  // what is wrong
  char const* test;
};

constexpr noticed_fault all[] = {
    {engine_mutant::equal_tickets_tie, "of equal tickets none is first",
     "QuorumDetails.OfEqualTicketsTheLesserClientIsFirst"},
    {engine_mutant::tickets_of_a_client_together, "votes for two tickets of a client are a majority",
     "QuorumDetails.VotesOfOneClientForTwoOfItsTicketsAreNoMajority"},
    {engine_mutant::own_earlier_attempt_is_a_rival, "a vote is given back for an earlier attempt of the same client",
     "QuorumDetails.AVoteIsNotGivenBackForAnEarlierAttemptOfTheSameClient"},
    {engine_mutant::push_not_counted, "a grant by a push counts as one by an answer",
     "QuorumDetails.AGrantByAPushIsCountedAsOne"},
    {engine_mutant::agreement_begins_with_the_wait, "the time for an agreement counts from the begin of the wait",
     "QuorumDetails.P4AFenceHasAClaimToBeAgreedOnHoweverLongTheWaitWas"},
    {engine_mutant::agreement_goes_on, "a fence that was not agreed on is asked for again with the next votes",
     "QuorumDetails.P4AFenceThatIsNotAgreedOnIsGivenUpAndTheNextVotesAreCountedAnew"},
    {engine_mutant::patience_begins_with_the_try, "the time for answers begins before the servers are asked",
     "QuorumDetails.ATryThatHasWaitedForConnectionsGivesEachServerItsTime"},
    {engine_mutant::patience_begins_before_the_majority, "the time for answers begins before a majority is connected",
     "QuorumDetails.ATryWhoseMajorityIsBackGivesThoseServersTheirTime"},
    {engine_mutant::ticket_of_one_clock, "a ticket is what one server's clock shows",
     "QuorumDetails.NobodyIsAskedBeforeAMajorityHasToldTheTime"},
    {engine_mutant::fence_without_slack, "a proposed fence is what the latest clock shows",
     "QuorumDetails.TheProposedFenceIsAheadOfTheServersClocksSoThatAllGiveTheSame"},
    {engine_mutant::next_fence_not_ahead, "a release does not say what the next fence should be above",
     "QuorumDetails.AReleaseSaysWhatTheNextFenceShouldBeAboveSoThatAllGiveTheSame"},
    {engine_mutant::trouble_stays_in_line, "an error counts although the client has got its place in line since",
     "QuorumDetails.AnErrorOfAServerWhereItStandsInLineByNowFailsNoWait"},
    {engine_mutant::refusal_is_as_old_as_the_vote, "renewals from before a refusal count as later ones",
     "QuorumDetails.AServerThatRefusedAfterTheOthersWereAskedIsAskedWhenTheyHaveRenewedSince"},
    {engine_mutant::lease_of_the_grant, "a server is given a hold again for the lease that it began with",
     "QuorumDetails.AServerIsGivenAHoldAgainForTheLeaseOfItsLastRenewal"},
    {engine_mutant::late_vote_confirms_all, "with a late vote all others are confirmed again",
     "QuorumDetails.P10ALateVoteIsConfirmedAlone"},
    {engine_mutant::answers_wake_nobody, "answers make no room for the locks that wait for it",
     "QuorumDetails.LocksThatWaitForRoomAreAskedForWhenOthersHaveTheirAnswers"},
    {engine_mutant::refused_by_a_majority_waits, "a wait goes on although a majority refuses the client",
     "QuorumDetails.P4AWaitEndsWhenAMajorityOfServersRefusesTheClient"},
    {engine_mutant::patience_begins_with_the_wait, "the time to leave a line counts from the begin of the wait",
     "QuorumDetails.P6WhoLeavesAfterALongWaitGivesEachServerItsTimeToSayThatItLetGo"},
    {engine_mutant::settled_with_a_minority, "all is settled although a majority is away",
     "QuorumDetails.P6NothingIsSettledWhileAMajorityThatIsAwayHasTheLockStill"},
    {engine_mutant::own_server_not_asked, "a name that has moved to a server of its own is not asked",
     "QuorumDoubles.ANameThatMovesToAServerOfItsOwnIsAskedByThoseWhoWaitAlready"},
    {engine_mutant::only_slow_servers_missing, "a try gives up when too many servers are slow or have no vote",
     "Quorum.P11ATryOfAFreeLockWaitsForASlowServerWhereOthersHaveNoVote"},
    {engine_mutant::told_in_line_for_ever, "an observer sees only the first wait of a lock being queued",
     "QuorumDetails.AnAcquireTakesTheSameCourseWhateverTheOneBeforeItHasMet"},
    {engine_mutant::refusal_outlives_connection, "a server that has refused once counts as one that refuses",
     "QuorumDetails.WhatAServerHasSaidBeforeItsPresentConnectionDoesNotCount"},
    {engine_mutant::half_may_refuse, "of an even number of servers half may refuse, and waits go on",
     "QuorumDetails.P4AWaitEndsWhenSoManyServersRefuseTheClientThatTooFewAreLeft"},
    {engine_mutant::any_trouble_is_the_reason, "a time-out names the error of one server, though the others had none",
     "QuorumDetails.AWaitThatHasTimedOutNamesAnErrorOnlyWhereTooFewServersHaveNone"},
    {engine_mutant::slowest_server_waited_for, "an acquire without time left waits for the slowest server",
     "QuorumDetails.P4WhoseTimeIsOverWaitsForAsManyServersAsAreNeededAndForNoSlowerOne"},
    {engine_mutant::release_waits_for_one_more, "a release waits for the answer of a server that is not needed",
     "QuorumDetails.AReleaseWaitsForNoServerThatIsNotNeeded"},
    {engine_mutant::settled_lock_stays, "a lock stays in memory if its last clean-up ends late",
     "QuorumDetails.NothingIsKeptOfALockThatNobodyUsesAnyMore"},
    {engine_mutant::progress_of_the_last_server, "a close takes only the answers of the last server for progress",
     "QuorumDetails.WhatAnyServerAnswersIsProgress"},
    {engine_mutant::connects_for_disconnects, "the statistics of a server show one number for another",
     "QuorumDetails.TheStatisticsOfAServerAreItsOwn"},
    {engine_mutant::failed_try_ends_its_followers, "a try that fails ends the wait that has joined it",
     "QuorumDetails.ATryThatFailsAfterItsCallerHasGoneEndsNoWaitThatHasJoinedIt"},
    {engine_mutant::votes_released_after_a_loss, "votes of a lost hold are given back within the delay",
     "Quorum.ALostHoldStaysAtAllServersForTheDelay"},
    {engine_mutant::lost_node_removed_at_once, "the node of a lost hold is removed within the delay",
     "ZookeeperDelay.ALostNodeStaysUntilTheDelayHasPassedAndNoReleaseWaitsForIt"},
    {engine_mutant::session_closed_within_delay, "the end of a client ends the session within the delay",
     "ZookeeperDelay.TheEndOfTheClientLeavesTheSessionToItselfAfterALoss"},
    {engine_mutant::interval_of_a_refusal, "a grant does not wait for the node that keeps the lock to be made",
     "ZookeeperInterval.ARefusalToMakeItsNodeIsTold"},
    {engine_mutant::interval_of_an_earlier_attempt, "the interval begins with the node of an earlier attempt",
     "ZookeeperInterval.ANodeWhoseCreationWasNotAnsweredIsMadeAnew"},
    {engine_mutant::keep_keeps_itself_out, "a grant waits for the end of its own interval",
     "ZookeeperInterval.ANodeWhoseCreationWasNotAnsweredIsMadeAnew"},
    {engine_mutant::interval_not_measured, "a waiter takes the whole interval for what is left of it",
     "ZookeeperInterval.AWaiterMeasuresWhatIsLeftByTheLeadersClockAndRemovesTheNode"},
    {engine_mutant::keep_of_a_leaver_left, "the interval of a grant that never came keeps the lock",
     "ZookeeperInterval.OneThatIsGivenUpBeforeTheGrantKeepsNothing"},
    {engine_mutant::interval_of_an_earlier_question, "a grant is delivered that was asked for with a shorter interval",
     "EngineInterval.AGrantThatIsKeptForTooShortIsAskedForAnew"},
    {engine_mutant::interval_without_drift, "the minimum interval takes the clocks of client and server for one",
     "EngineInterval.AReleaseWithinItLeavesTheRestAndSucceedsAtOnce"},
    {engine_mutant::extension_lifts_max_hold, "max_hold is over after an extension",
     "EngineExtend.LeavesMaxHoldToTheWatchdogAsItWas"},
    {engine_mutant::silence_from_the_request, "what is queued behind other requests is taken for silence",
     "EngineLoad.WhatIsQueuedBehindOthersOfThisClientIsNotTakenForSilence"},
    {engine_mutant::refusal_outlives_renewal, "a loss names what an earlier renewal was refused with",
     "EngineWatchdog.WhatARenewalWasRefusedWithIsForgottenWhenOneSucceeds"},
    {engine_mutant::request_before_the_grant_dropped, "a request to let go is dropped before replicas have the hold",
     "SyncedServer.ARequestToLetGoThatComesBeforeTheReplicasHaveItIsToldWithTheGrant"},
    {engine_mutant::last_seen_of_old_servers, "servers that were built anew must know what those before them knew",
     "ZookeeperSession.WhatItHasSeenOfServersThatAreGoneItDoesNotDemandOfTheNext"},
    {engine_mutant::refused_since_ever, "a refusal of long ago shortens the time of the next one",
     "ZookeeperRefusals.WhatTheServerCouldNotDoOnceDoesNotShortenItsTimeToDoWhatIsAskedLater"},
    {engine_mutant::turn_outlives_connection, "a turn that was not proved counts on the next connection",
     "ZookeeperQueue.ATurnThatWasNotProvedBeforeTheConnectionEndedIsLookedForOnTheNext"},
    {engine_mutant::part_of_a_look_up_moves, "a part of a name's addresses ends the connection to another of them",
     "ConnectionFsm.LooksUpItsNameAgainWhileItIsConnectedAndGoesWhereItPointsTo"},
    {engine_mutant::fences_not_compared_between_looks,
     "a circle counts though a lock has been granted anew since the first look",
     "WaitWalk.ACircleThatIsAnotherEachTimeIsNoDeadlock"},
    {engine_mutant::places_not_compared_between_looks,
     "a circle counts though a task has waited anew since the first look",
     "WaitWalk.ACircleThatIsAnotherEachTimeIsNoDeadlock"},
    {engine_mutant::tasks_not_compared_between_looks,
     "a circle counts though another task has the hold since the first look",
     "WaitWalk.ACircleThatIsAnotherEachTimeIsNoDeadlock"},
    {engine_mutant::slots_gathered_together, "commands of several slots are one script",
     "ConnectionFsmCluster.OnlyWhatIsOfOneSlotIsOneScript"},
};

/// In a process of its own: a fault may end it.
bool passes(engine_mutant fault, std::string const& tests) {
  std::fflush(nullptr);
  pid_t const child = fork();
  if (child == 0) {
    if (fault != engine_mutant::none && std::freopen("/dev/null", "w", stdout) == nullptr) _exit(2);
    conch::sim::active_engine_mutant = fault;
    testing::GTEST_FLAG(filter) = tests;
    int const failed = RUN_ALL_TESTS();
    std::fflush(nullptr);
    _exit(failed != 0 || testing::UnitTest::GetInstance()->test_to_run_count() == 0 ? 1 : 0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) {
    std::perror("a process for the tests");
    std::exit(2);
  }
  return status == 0;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int wrong = 0;
  for (noticed_fault const& one : all) {
    if (!passes(engine_mutant::none, one.test)) {
      ++wrong;
      std::printf("%s: fails without a fault, or there is no such test\n", one.test);
    } else if (passes(one.fault, one.test)) {
      ++wrong;
      std::printf("%s: does not notice that %s\n", one.test, one.words);
    }
  }
  std::printf("%zu faults, %d not noticed\n", std::size(all), wrong);
  return wrong == 0 ? 0 : 1;
}
