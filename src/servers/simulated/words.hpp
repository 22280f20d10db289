// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/replies.hpp"
#include "protocol/wire.hpp"

#include <optional>
#include <string>

// What a trace says of commands, answers and pushes. Empty: nothing that its reader wants to know.
namespace conch::simulated {

std::string words_of(protocol::command const& c);
std::string words_of(protocol::push const& p);
std::string words_of(protocol::acquire_reply const& r);
std::string words_of(protocol::release_reply const& r);
std::string words_of(protocol::renew_reply const& r);
std::string words_of(protocol::tries_reply const& r);

template <class Reply>
std::string words_of(Reply const&) {
  return {};
}

}  // namespace conch::simulated
