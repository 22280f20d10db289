// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace conch::simulated {

/// A command on its way: with all that it only refers to.
class stored_command {
 public:
  explicit stored_command(protocol::command const& c) : command_{c} {
    std::visit([this](auto& one) { own_all_of(one); }, command_);
  }
  stored_command(stored_command const&) = delete;
  stored_command& operator=(stored_command const&) = delete;

  protocol::command const& get() const noexcept { return command_; }

 private:
  void own(std::string_view& text) { text = texts_.emplace_back(text); }

  template <class Item>
  void own(std::span<Item const>& items, std::vector<Item>& into) {
    into.assign(items.begin(), items.end());
    for (Item& one : into) own(one.name);
    items = into;
  }

  template <class Command>
  void own_all_of(Command& c) {
    if constexpr (requires { c.name; }) own(c.name);
    if constexpr (requires { c.origin; }) own(c.origin);
    if constexpr (requires { c.address; }) own(c.address);
    if constexpr (requires { c.text; }) own(c.text);
    if constexpr (std::is_same_v<Command, protocol::acquire_all_command>) own(c.items, attempts_);
    else if constexpr (requires { c.items; }) own(c.items, renewals_);
    if constexpr (requires { c.permit; }) {
      if (c.permit != nullptr) c.permit = &permit_.emplace(*c.permit);
    }
  }

  protocol::command command_;
  std::deque<std::string> texts_;
  std::vector<protocol::attempt> attempts_;
  std::vector<protocol::renewal> renewals_;
  std::optional<engine::permit> permit_;
};

}  // namespace conch::simulated
