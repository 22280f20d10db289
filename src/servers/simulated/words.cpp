// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/simulated/words.hpp"

#include "base/overloaded.hpp"
#include "engine/backend.hpp"

#include <algorithm>

namespace conch::simulated {

namespace {

std::string named(std::string_view verb, std::string_view lock) {
  return std::string{verb}.append(" \"").append(lock).append("\"");
}

template <class Items>
std::string named(std::string_view verb, Items const& items) {
  std::string words{verb};
  for (auto const& one : items) words.append(" \"").append(one.name).append("\"");
  return words;
}

std::string token(std::int64_t fence) { return "fence " + std::to_string(fence * engine::hand_offs_per_grant); }

}  // namespace

std::string words_of(protocol::command const& c) {
  using namespace protocol;
  return std::visit(overloaded{[](acquire_command const& one) { return named(one.wait ? "acquire" : "try", one.name); },
                               [](acquire_all_command const& all) { return named("try all of", all.items); },
                               [](release_command const& one) { return named("release", one.name); },
                               [](renew_command const& all) { return named("renew", all.items); },
                               [](confirm_command const& all) { return named("confirm", all.items); },
                               [](force_command const& one) { return named("force", one.name); },
                               [](request_command const& one) { return named("request", one.name); },
                               [](auto const&) { return std::string{}; }},
                    c);
}

std::string words_of(protocol::push const& p) {
  using namespace protocol;
  return std::visit(overloaded{[](pushed_grant const& g) { return named("granted", g.name) + ", " + token(g.fence); },
                               [](revocation const& r) { return named("taken away by force:", r.name); },
                               [](request_to_let_go const& r) { return named("asked to let go of", r.name); },
                               [](auto const&) { return std::string{}; }},
                    p);
}

std::string words_of(protocol::acquire_reply const& r) {
  using kind = protocol::acquire_reply::kind;
  switch (r.what) {
    case kind::granted: return "granted, " + token(r.fence);
    case kind::queued: return "in line";
    case kind::busy: return "busy";
    case kind::too_late: return "too late";
    case kind::unfinished: return "unfinished";
    case kind::malformed: break;
  }
  return {};
}

std::string words_of(protocol::release_reply const& r) { return r.was_mine ? "released" : "was not the owner"; }

std::string words_of(protocol::renew_reply const& r) {
  using kind = protocol::renew_reply::kind;
  auto const lost =
      std::count_if(r.locks.begin(), r.locks.end(), [](auto const& one) { return one.what == kind::not_mine; });
  return lost == 0 ? "renewed" : "not renewed: not the owner any more";
}

std::string words_of(protocol::tries_reply const& r) { return std::to_string(r.fences.size()) + " granted"; }

}  // namespace conch::simulated
