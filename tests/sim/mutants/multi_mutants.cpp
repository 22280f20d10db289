#include "sim/mutants/mutants.hpp"

#include <array>

namespace conch::sim {

namespace {

constexpr mutant mutants[] = {
    {"multi-in-given-order", "locks are waited for in the order in which they were named", "P4", engine_mutant::multi_in_given_order},
    {"multi-keeps-what-comes-behind", "what comes behind a busy lock is kept while it is waited for", "P4",
     engine_mutant::multi_keeps_what_comes_behind},
    {"multi-waits-for-ever", "the time for all of them is forgotten", "P4", engine_mutant::multi_waits_for_ever},
    {"multi-loss-unnoticed", "one that was lost while others were waited for is taken for held", "P9", engine_mutant::multi_loss_unnoticed},
    {"multi-cancel-ignored", "a cancellation during the tries is forgotten", "P4", engine_mutant::multi_cancel_ignored},
    {"multi-try-fails", "one attempt at several locks that finds one busy is an error", "P11", engine_mutant::multi_try_fails},
    {"tries-dealt-backwards", "the answer to several tries is dealt out from the end", "P3", engine_mutant::tries_dealt_backwards},
    {"one-more-taken", "the first that was busy counts as taken", "P3", engine_mutant::one_more_taken},
    {"tries-not-written", "what was tried with others and failed is not cleaned up", "P6", engine_mutant::tries_not_written},
    {"tries-never-too-late", "when the server refuses several tries is not remembered", "P6", engine_mutant::tries_never_too_late},
    {"rest-of-tries-forgotten", "what does not fit into the first script of a multi_lock is not tried", "P4", engine_mutant::rest_of_tries_forgotten},
    {"tries-take-what-is-held", "several tries take what somebody has", "P1", engine_mutant::none, "acquire_all",
     "redis.call('EXISTS', lock_key, queue_key) == 0", "redis.call('EXISTS', queue_key) == 0"},
    {"tries-overtake", "several tries take what others wait for", "P5", engine_mutant::none, "acquire_all",
     "redis.call('EXISTS', lock_key, queue_key) == 0", "redis.call('EXISTS', lock_key) == 0"},
    {"tries-go-on-behind", "several tries go on behind the one that is busy", "P6", engine_mutant::none, "acquire_all",
     "if not done or not fence then\nbreak\nend\nanswer[i + 1] = fence", "if done and fence and #answer == i then\nanswer[i + 1] = fence\nend"},
    {"tries-close-up", "the fences of several tries are not told for whom they are", "P3", engine_mutant::none, "acquire_all",
     "if not done or not fence then\nbreak\nend\nanswer[i + 1] = fence", "if done and fence then\nanswer[#answer + 1] = fence\nend"},
    {"tries-raise-no-fence", "several tries do not write the fence down", "P2", engine_mutant::none, "acquire_all",
     "local fence, digits = next_fence(0)", "local fence, digits = clock, text(clock)"},
    {"tries-fail-together", "an error in the middle of several tries hides what was taken before", "P6", engine_mutant::none, "acquire_all",
     "local done, fence = pcall(take, ARGV[2 * i + 1], ARGV[2 * i + 2])", "local done, fence = true, take(ARGV[2 * i + 1], ARGV[2 * i + 2])"},
    {"tries-carried-out-late", "several tries are carried out after their not-after", "P6", engine_mutant::none, "acquire_all",
     "if not_after ~= '0' and now > tonumber(not_after) then", "if false then"},
};

}  // namespace

std::span<mutant const> multi_mutants() { return mutants; }

}  // namespace conch::sim
