#include "sim/mutants.hpp"

#include <array>

namespace conch::sim {

namespace {

constexpr std::array<mutant, 5> mutants{{
    {"multi-in-given-order", "locks are waited for in the order in which they were named", "P4", engine_mutant::multi_in_given_order},
    {"multi-keeps-what-comes-behind", "what comes behind a busy lock is kept while it is waited for", "P4",
     engine_mutant::multi_keeps_what_comes_behind},
    {"multi-waits-for-ever", "the time for all of them is forgotten", "P4", engine_mutant::multi_waits_for_ever},
    {"multi-loss-unnoticed", "one that was lost while others were waited for is taken for held", "P9",
     engine_mutant::multi_loss_unnoticed},
    {"multi-cancel-ignored", "a cancellation during the tries is forgotten", "P4", engine_mutant::multi_cancel_ignored},
}};

}  // namespace

std::span<mutant const> multi_mutants() { return mutants; }

}  // namespace conch::sim
