#include "sim/mutants/mutants.hpp"

#include <array>

namespace conch::sim {

namespace {

constexpr mutant mutants_of_several[] = {
    {"multi-in-given-order", "locks are waited for in the order in which they were named", "P4",
     engine_mutant::multi_in_given_order},
    {"multi-keeps-what-comes-behind", "what comes behind a busy lock is kept while it is waited for", "P4",
     engine_mutant::multi_keeps_what_comes_behind},
    {"multi-waits-for-ever", "the time for all of them is forgotten", "P4", engine_mutant::multi_waits_for_ever},
    {"multi-loss-unnoticed", "one that was lost while others were waited for is taken for held", "P9",
     engine_mutant::multi_loss_unnoticed},
    {"multi-cancel-ignored", "a cancellation during the tries is forgotten", "P4", engine_mutant::multi_cancel_ignored},
    {"multi-try-fails", "one attempt at several locks that finds one busy is an error", "P11",
     engine_mutant::multi_try_fails},
    {"tries-dealt-backwards", "the answer to several tries is dealt out from the end", "P3",
     engine_mutant::tries_dealt_backwards},
    {"one-more-taken", "the first that was busy counts as taken", "P3", engine_mutant::one_more_taken},
    {"tries-not-written", "what was tried with others and failed is not cleaned up", "P6",
     engine_mutant::tries_not_written},
    {"tries-never-too-late", "when the server refuses several tries is not remembered", "P6",
     engine_mutant::tries_never_too_late},
    {"rest-of-tries-forgotten", "what does not fit into the first script of a multi_lock is not tried", "P4",
     engine_mutant::rest_of_tries_forgotten},
    {"tries-take-what-is-held", "several tries take what somebody has", "P1", engine_mutant::none, "gathered",
     "'EXISTS', unpack(KEYS, 1, 2 * asked)", "'EXISTS', unpack(KEYS, asked + 1, 2 * asked)"},
    {"tries-overtake", "several tries take what others wait for", "P5", engine_mutant::none, "gathered",
     "'EXISTS', unpack(KEYS, 1, 2 * asked)", "'EXISTS', unpack(KEYS, 1, asked)"},
    {"tries-go-on-behind", "several tries go on behind the one that is busy", "P6", engine_mutant::none, "gathered",
     "return stopped and {2, 0, now} or nil", "return nil"},
    {"tries-raise-no-fence", "several tries do not write the fence down", "P2", engine_mutant::none, "gathered",
     "local fence, digits = next_fence(floor, found)\nown(id, digits, state_of_mine, lease)",
     "local fence, digits = clock, text(clock)\nown(id, digits, state_of_mine, lease)"},
    {"tries-fail-together", "an error in the middle of several tries hides what was taken before", "P6",
     engine_mutant::none, "gathered", "local fine, answer = pcall(work, argument)",
     "local fine, answer = true, work(argument)"},
    {"tries-carried-out-late", "several tries are carried out after their not-after", "P6", engine_mutant::none,
     "gathered", "if not_after ~= '0' and now > tonumber(not_after) then", "if false then"},
};

}  // namespace

std::span<mutant const> multi_mutants() { return mutants_of_several; }

}  // namespace conch::sim
