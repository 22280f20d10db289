// For each fault of src/quorum that no judge of the simulator shows: the unit test that notices it. Without a fault all
// of them pass.

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
