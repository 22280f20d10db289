// What an implementation may do otherwise than src/rules, and how a comparison with them speaks of commands and
// answers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "servers/redis/codec.hpp"
#include "sim/differential/compared.hpp"
#include "support/messages.hpp"

namespace conch::sim {

/// The names that a command is about.
inline std::vector<std::string> names_of(protocol::command const& c) {
  std::vector<std::string> all;
  std::visit(
      [&](auto const& one) {
        if constexpr (requires { one.items; }) {
          for (auto const& item : one.items) all.emplace_back(item.name);
        } else if constexpr (requires { one.name; }) {
          all.emplace_back(one.name);
        }
      },
      c);
  return all;
}

/// The name of a command about one lock; a view into the command.
inline std::string_view name_of(protocol::command const& c) {
  return std::visit(
      [](auto const& one) -> std::string_view {
        if constexpr (requires { one.name; }) {
          return one.name;
        } else {
          return {};
        }
      },
      c);
}

inline std::string key_of(std::string const& name) {
  std::string bytes;
  redis::encode(protocol::command{protocol::inspect_command{name}}, "c", bytes);
  return test::only_command(bytes)[3];
}

inline bool is_of_shares(protocol::command const& c) {
  if (auto const* const acquire = std::get_if<protocol::acquire_command>(&c)) return acquire->permit != nullptr;
  if (auto const* const release = std::get_if<protocol::release_command>(&c)) return release->permit != nullptr;
  return false;
}

/// For shares, the scripts and the SQL may answer too early a time for the end of the first lease (FIRST_END in
/// lua/lib/permits.lua), but look if that is sooner than half a claim; and they tell those in line of it for that
/// reason. A release in the short way does not tell the time.
inline void allow(protocol::command const& c, any_reply const& got, any_reply& expected) {
  auto const* const acquired = std::get_if<protocol::acquire_reply>(&got);
  if (auto* const a = std::get_if<protocol::acquire_reply>(&expected);
      a != nullptr && acquired != nullptr && is_of_shares(c)) {
    bool const has_looked = 2 * acquired->left_ms < std::get<protocol::acquire_command>(c).claim.count();
    if (acquired->left_ms < a->left_ms && !has_looked) a->left_ms = acquired->left_ms;
  }
  auto const* const released = std::get_if<protocol::release_reply>(&got);
  if (auto* const r = std::get_if<protocol::release_reply>(&expected);
      r != nullptr && released != nullptr && released->server_us == 0)
    r->server_us = 0;
}

/// Returns what is wrong with those pushes that may differ, and removes them. Empty: nothing.
inline std::string allow(protocol::command const& c, seen_grants& got, seen_grants& expected) {
  if (!std::holds_alternative<protocol::release_command>(c) || !is_of_shares(c)) return {};
  std::string wrong;
  for (seen_grant const& e : expected) {
    if (e.fence != end_mark) continue;
    bool const is_told = std::any_of(got.begin(), got.end(), [&](seen_grant const& g) {
      return g.fence == end_mark && g.client == e.client && g.id == e.id && g.claim_ms <= e.claim_ms;
    });
    if (!is_told) wrong = "not told of the end of a lease: " + testing::PrintToString(e);
  }
  for (seen_grants* const all : {&got, &expected})
    std::erase_if(*all, [](seen_grant const& g) { return g.fence == end_mark; });
  return wrong;
}

/// What was answered. A generator that never gets into a state proves nothing about it.
inline std::string kind_of(any_reply const& r) {
  if (auto const* const a = std::get_if<protocol::acquire_reply>(&r)) {
    using kind = protocol::acquire_reply::kind;
    return a->what == kind::granted  ? "granted"
           : a->what == kind::queued ? "queued"
           : a->what == kind::busy   ? "busy"
                                     : "too late";
  }
  if (auto const* const a = std::get_if<protocol::release_reply>(&r)) {
    using kind = protocol::release_reply::kind;
    if (a->what == kind::not_done) return "not done";
    return a->what == kind::still_owned ? "still owned" : a->was_mine ? "released" : "left";
  }
  if (auto const* const a = std::get_if<protocol::renew_reply>(&r)) {
    return a->locks[0].what == protocol::renew_reply::kind::renewed ? "renewed" : "not renewed";
  }
  if (auto const* const a = std::get_if<protocol::order_reply>(&r))
    return a->count == 0 ? "order about nobody" : "order";
  if (auto const* const a = std::get_if<protocol::watch_reply>(&r)) return a->is_free ? "free" : "not free";
  if (auto const* const a = std::get_if<engine::lock_report>(&r)) return a->held == 0 ? "report of nobody" : "report";
  return r.index() == 0 ? "wrong type" : "other";
}

}  // namespace conch::sim
